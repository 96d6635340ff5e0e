"use strict";
// Reads the samples from the page, draws the map, and lets a cluster be chosen. Texts go in as text, never as HTML.
(() => {
  const { columns, patterns, views } = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const count = columns.name.length;
  const PAGE = 50;
  const state = { cluster: null, query: "", sort: null, up: true, page: 0, hover: -1 };

  // --- choosing a cluster ---------------------------------------------------------------------
  function choose(cluster) {
    state.cluster = cluster === state.cluster ? null : cluster;
    state.page = 0;
    for (const button of document.querySelectorAll(".chips button")) {
      const own = button.dataset.cluster === "" ? null : Number(button.dataset.cluster);
      button.setAttribute("aria-pressed", String(own === state.cluster));
    }
    for (const row of document.querySelectorAll("tr[data-cluster]")) {
      const own = Number(row.dataset.cluster) === state.cluster;
      row.classList.toggle("chosen", own);
      row.classList.toggle("dimmed", state.cluster !== null && !own);
    }
    for (const profile of document.querySelectorAll(".profile")) {
      const own = Number(profile.dataset.cluster) === state.cluster;
      profile.hidden = state.cluster !== null && !own;
      profile.open = own;
    }
    byId("state").textContent = state.cluster === null ? ""
      : `Cluster ${state.cluster} only: map, profile and table below. Escape shows all.`;
    drawMap();
    fillTable();
  }

  byId("filter").hidden = false;
  for (const button of document.querySelectorAll(".chips button")) {
    button.addEventListener("click", () => choose(button.dataset.cluster === "" ? null : Number(button.dataset.cluster)));
  }
  for (const row of document.querySelectorAll("#clusters tr[data-cluster]")) {
    row.style.cursor = "pointer";
    row.addEventListener("click", () => choose(Number(row.dataset.cluster)));
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.cluster !== null) choose(null);
  });

  // --- map --------------------------------------------------------------------------------------
  const canvas = byId("map");
  const tip = byId("tip");
  const shapes = [0, 1, 2, 3, 4, 5, 6].map((number) => {
    const path = new Path2D();
    if (number === 0) path.arc(0, 0, 4, 0, 2 * Math.PI);
    else if (number === 1) path.rect(-3.6, -3.6, 7.2, 7.2);
    else path.addPath(new Path2D(byId(`m${number}`).getAttribute("d")));
    return path;
  });
  let place = (i) => [0, 0, i];

  function drawMap() {
    if (!canvas || !columns.x) return;
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const style = getComputedStyle(document.documentElement);
    const colours = Array.from({ length: 12 }, (_, c) => style.getPropertyValue(`--c${c}`).trim());
    const pen = canvas.getContext("2d");
    const right = Math.max(...columns.x) || 1;
    const top = Math.max(...columns.y) || 1;
    const scale = Math.min((width - 24) / right, (height - 24) / top);
    place = (i) => [
      (width - right * scale) / 2 + columns.x[i] * scale, (height + top * scale) / 2 - columns.y[i] * scale,
    ];
    const size = Math.min(1.3, Math.max(0.45, 14 / Math.sqrt(count)));
    const order = [...columns.label.keys()].sort((a, b) =>
      (columns.label[a] === state.cluster) - (columns.label[b] === state.cluster));
    for (const i of order) {
      const [x, y] = place(i);
      const cluster = columns.label[i];
      const faint = state.cluster !== null && cluster !== state.cluster;
      const sure = columns.confidence ? columns.confidence[i] / 1000 : 1;
      pen.setTransform(ratio * size, 0, 0, ratio * size, ratio * x, ratio * y);
      pen.globalAlpha = faint ? 0.06 : 0.2 + 0.7 * sure * sure;
      pen.fillStyle = colours[cluster % 12];
      pen.fill(shapes[cluster % 7]);
    }
    writeNumbers(pen, ratio, style);
    if (state.hover >= 0) {
      const [x, y] = place(state.hover);
      pen.setTransform(ratio, 0, 0, ratio, ratio * x, ratio * y);
      pen.globalAlpha = 1;
      pen.strokeStyle = style.getPropertyValue("--ink");
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(0, 0, 7, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  // The sample in the middle of each cluster, where its number goes.
  const middles = new Map();
  if (columns.x) {
    const members = new Map();
    columns.label.forEach((cluster, i) => {
      if (!members.has(cluster)) members.set(cluster, []);
      members.get(cluster).push(i);
    });
    for (const [cluster, own] of members) {
      const middle = (values) => own.map((i) => values[i]).sort((a, b) => a - b)[own.length >> 1];
      const [x, y] = [middle(columns.x), middle(columns.y)];
      const far = (i) => (columns.x[i] - x) ** 2 + (columns.y[i] - y) ** 2;
      middles.set(cluster, own.reduce((a, b) => (far(b) < far(a) ? b : a)));
    }
  }

  function writeNumbers(pen, ratio, style) {
    const taken = [];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.globalAlpha = 1;
    pen.font = "bold 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineWidth = 3;
    pen.strokeStyle = style.getPropertyValue("--card");
    pen.fillStyle = style.getPropertyValue("--ink");
    // The largest cluster, which has the lowest number, is named first where numbers would cover each other.
    for (const [cluster, sample] of [...middles].sort((a, b) => a[0] - b[0])) {
      const [x, y] = place(sample);
      const covered = taken.some(([a, b]) => Math.abs(a - x) < 18 && Math.abs(b - y) < 14);
      if (covered || (state.cluster !== null && cluster !== state.cluster)) continue;
      taken.push([x, y]);
      pen.strokeText(String(cluster), x, y);
      pen.fillText(String(cluster), x, y);
    }
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    let best = -1;
    let least = 14 * 14;
    for (let i = 0; i < count; i += 1) {
      if (state.cluster !== null && columns.label[i] !== state.cluster) continue;
      const [x, y] = place(i);
      const distance = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  function point(sample) {
    if (sample === state.hover) return;
    state.hover = sample;
    drawMap();
    tip.hidden = sample < 0;
    if (sample < 0) return;
    const sure = columns.confidence ? `, ${(columns.confidence[sample] / 1000).toFixed(2)}` : "";
    tip.textContent = `${columns.name[sample]}: cluster ${columns.label[sample]}${sure}`;
    const [x, y] = place(sample);
    tip.style.left = `${Math.min(x + 12, Math.max(canvas.clientWidth - tip.offsetWidth, 0))}px`;
    tip.style.top = `${Math.max(y - 32, 0)}px`;
  }

  if (canvas && columns.x) {
    canvas.addEventListener("mousemove", (event) => point(nearest(event)));
    canvas.addEventListener("mouseleave", () => point(-1));
    canvas.addEventListener("click", (event) => {
      const sample = nearest(event);
      choose(sample < 0 ? null : columns.label[sample]);
    });
    new ResizeObserver(drawMap).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMap);
  }

  // --- table ------------------------------------------------------------------------------------
  const natural = new Intl.Collator(undefined, { numeric: true });
  const thousandths = (key) => (i) => (columns[key][i] / 1000).toFixed(3);
  const fields = [
    { key: "name", title: "sample", text: (i) => columns.name[i] },
    { key: "label", title: "cluster", text: (i) => String(columns.label[i]), number: true },
    { key: "confidence", title: "confidence", text: thousandths("confidence"), number: true },
    { key: "second", title: "next cluster", text: (i) => String(columns.second[i]), number: true },
    { key: "agreement", title: "runs agree", text: thousandths("agreement"), number: true },
    { key: "pattern", title: "views", text: (i) => held(columns.pattern[i]), held: true },
  ].filter((field) => columns[field.key]);

  const held = (pattern) => [...patterns[pattern]].map((seen) => (seen === "1" ? "●" : "○")).join("");
  const heldWords = (pattern) => [...patterns[pattern]].map((seen, v) => (seen === "1" ? views[v] : null))
    .filter((name) => name !== null).join(", ");

  function rows() {
    const query = state.query.toLowerCase();
    const shown = [];
    for (let i = 0; i < count; i += 1) {
      if (state.cluster !== null && columns.label[i] !== state.cluster) continue;
      if (query && !columns.name[i].toLowerCase().includes(query)) continue;
      shown.push(i);
    }
    if (state.sort) {
      const values = columns[state.sort];
      const compare = state.sort === "name" ? natural.compare : (a, b) => a - b;
      const turn = state.up ? 1 : -1;
      shown.sort((a, b) => turn * compare(values[a], values[b]) || a - b);
    }
    return shown;
  }

  function fillTable() {
    const shown = rows();
    const pages = Math.max(Math.ceil(shown.length / PAGE), 1);
    state.page = Math.min(state.page, pages - 1);
    const body = document.createElement("tbody");
    for (const i of shown.slice(state.page * PAGE, (state.page + 1) * PAGE)) {
      const row = body.insertRow();
      for (const field of fields) {
        const cell = row.insertCell();
        cell.textContent = field.text(i);
        if (field.number) cell.className = "num";
        if (field.held) {
          cell.className = "held";
          cell.title = heldWords(columns.pattern[i]);
          cell.setAttribute("aria-label", cell.title);
        }
      }
      row.addEventListener("mouseenter", () => columns.x && point(i));
      row.addEventListener("mouseleave", () => columns.x && point(-1));
    }
    byId("table").tBodies[0].replaceWith(body);
    byId("count").textContent = `${shown.length.toLocaleString("en")} samples`;
    byId("page").textContent = `page ${state.page + 1} of ${pages}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === pages - 1;
  }

  const head = byId("table").tHead.rows[0];
  for (const field of fields) {
    const cell = document.createElement("th");
    cell.scope = "col";
    if (field.number) cell.className = "num";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = field.title;
    button.addEventListener("click", () => {
      state.up = state.sort === field.key ? !state.up : true;
      state.sort = field.key;
      state.page = 0;
      for (const other of head.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", state.up ? "ascending" : "descending");
      fillTable();
    });
    cell.append(button);
    head.append(cell);
  }
  byId("table-card").hidden = false;
  byId("search").addEventListener("input", (event) => {
    state.query = event.target.value.trim();
    state.page = 0;
    fillTable();
  });
  byId("previous").addEventListener("click", () => { state.page -= 1; fillTable(); });
  byId("next").addEventListener("click", () => { state.page += 1; fillTable(); });

  // --- light, dark, paper -----------------------------------------------------------------------
  const themes = ["auto", "light", "dark"];
  const theme = byId("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme || "auto";
    const next = themes[(themes.indexOf(now) + 1) % themes.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    theme.textContent = `Theme: ${next}`;
    drawMap();
  });
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")].filter((detail) => !detail.hidden);
    for (const detail of closed) detail.open = true;
    drawMap();
  });
  window.addEventListener("afterprint", () => {
    for (const detail of closed) detail.open = false;
    drawMap();
  });

  drawMap();
  fillTable();
})();
