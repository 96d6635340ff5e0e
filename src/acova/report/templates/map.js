// --- the map: where points are, how they are coloured, what is under the pointer ----------------
const canvas = byId("map-canvas");
const tip = byId("tip");
const mapped = Boolean(canvas && columns.x);
const SVG = byId("m0").namespaceURI;
const MISSING = "var(--line)";
// From dark to light in the order of lightness, so that it reads in grey too (after viridis).
const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function scaled(part) {
  const place = Math.min(Math.max(part, 0), 1) * (SCALE.length - 1);
  const low = Math.min(Math.floor(place), SCALE.length - 2);
  const mix = SCALE[low].map((value, c) => Math.round(value + (SCALE[low + 1][c] - value) * (place - low)));
  return `rgb(${mix.join(",")})`;
}

// A colouring: its legend (items, or the ends of a scale), and the colour and the text of each sample.
function categorical(title, names, values) {
  const used = names.map((name, number) => ({ name, colour: `var(--c${number % PALETTE})`, shape: number % SHAPES }));
  return {
    title, items: used,
    colour: (i) => (values[i] === null ? MISSING : used[values[i]].colour),
    shape: (i) => (values[i] === null ? 0 : used[values[i]].shape),
    text: (i) => (values[i] === null ? "not known" : names[values[i]]),
  };
}

function continuous(title, low, high, part) {
  const value = (i) => low + part(i) * (high - low);
  return {
    title, ends: [low, high],
    colour: (i) => (part(i) === null ? MISSING : scaled(part(i))),
    shape: () => 0,
    text: (i) => (part(i) === null ? "not known" : shortNumber(value(i))),
  };
}

function patternColouring() {
  const counts = new Map();
  for (const pattern of columns.pattern) counts.set(pattern, (counts.get(pattern) || 0) + 1);
  const frequent = [...counts].sort((a, b) => b[1] - a[1]).map(([pattern]) => pattern).slice(0, PALETTE - 1);
  const names = frequent.map((pattern) => {
    const lacking = [...patterns[pattern]].map((seen, v) => (seen === "1" ? null : views[v])).filter((n) => n !== null);
    return lacking.length ? `lacks ${lacking.join(", ")}` : "has all views";
  });
  if (counts.size > frequent.length) names.push("other combinations");
  const values = columns.pattern.map((pattern) => {
    const place = frequent.indexOf(pattern);
    return place < 0 ? names.length - 1 : place;
  });
  return categorical("missing views", names, values);
}

const colourings = new Map();
if (mapped) {
  const names = Array.from({ length: clusters }, (_, cluster) => String(cluster));
  colourings.set("cluster", categorical("cluster", names, columns.label));
  for (const [key, title] of [["confidence", "confidence"], ["agreement", "agreement of the runs"]]) {
    if (columns[key]) colourings.set(key, continuous(title, 0, 1, (i) => columns[key][i] / 1000));
  }
  if (columns.pattern && patterns.length > 1) colourings.set("pattern", patternColouring());
  covariates.forEach((one, number) => {
    const colouring = one.categories ? categorical(one.name, one.categories, one.values)
      : continuous(one.name, one.low, one.high, (i) => (one.values[i] === null ? null : one.values[i] / 1000));
    colourings.set(`covariate ${number}`, colouring);
  });
}

const shapes = Array.from({ length: SHAPES }, (_, number) => {
  const path = new Path2D();
  if (number === 0) path.arc(0, 0, 4, 0, 2 * Math.PI);
  else if (number === 1) path.rect(-3.6, -3.6, 7.2, 7.2);
  else path.addPath(new Path2D(byId(`m${number}`).getAttribute("d")));
  return path;
});

// Returns where each point lies in a box of the given size.
function placing(width, height) {
  const right = Math.max(...columns.x) || 1;
  const top = Math.max(...columns.y) || 1;
  const scale = Math.min((width - 24) / right, (height - 24) / top);
  return (i) => [
    (width - right * scale) / 2 + columns.x[i] * scale, (height + top * scale) / 2 - columns.y[i] * scale,
  ];
}

const pointSize = () => Math.min(1.3, Math.max(0.45, 14 / Math.sqrt(total)));

// Returns the points in the order in which they are drawn, each with its opacity.
function drawn() {
  const order = [...columns.label.keys()].sort((a, b) =>
    (columns.label[a] === state.cluster) - (columns.label[b] === state.cluster));
  return order.map((i) => {
    if (state.cluster !== null && columns.label[i] !== state.cluster) return [i, 0.06];
    if (state.colour !== "cluster") return [i, 0.85];
    const sure = columns.confidence ? columns.confidence[i] / 1000 : 1;
    return [i, 0.2 + 0.7 * sure * sure];
  });
}

function resolver() {
  const style = getComputedStyle(document.documentElement);
  const known = new Map();
  return (colour) => {
    if (!colour.startsWith("var(")) return colour;
    if (!known.has(colour)) known.set(colour, style.getPropertyValue(colour.slice(4, -1)).trim());
    return known.get(colour);
  };
}

// Returns the clusters whose numbers fit on the map, with their places. The largest are named first.
function numbersOn(place) {
  const taken = [];
  middles.forEach((sample, cluster) => {
    if (sample < 0 || (state.cluster !== null && cluster !== state.cluster)) return;
    const [x, y] = place(sample);
    if (taken.some((other) => Math.abs(other.x - x) < 18 && Math.abs(other.y - y) < 14)) return;
    taken.push({ cluster, x, y });
  });
  return taken;
}

let place = (i) => [0, 0, i];

function drawMap() {
  if (!mapped || !canvas.clientWidth) return;
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  const size = pointSize();
  const colouring = colourings.get(state.colour);
  const resolved = resolver();
  place = placing(width, height);
  for (const [i, opacity] of drawn()) {
    const [x, y] = place(i);
    pen.setTransform(ratio * size, 0, 0, ratio * size, ratio * x, ratio * y);
    pen.globalAlpha = opacity;
    pen.fillStyle = resolved(colouring.colour(i));
    pen.fill(shapes[colouring.shape(i)]);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.globalAlpha = 1;
  pen.font = "bold 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.lineWidth = 3;
  pen.strokeStyle = resolved("var(--card)");
  pen.fillStyle = resolved("var(--ink)");
  for (const { cluster, x, y } of numbersOn(place)) {
    pen.strokeText(String(cluster), x, y);
    pen.fillText(String(cluster), x, y);
  }
  if (state.hover < 0) return;
  const [x, y] = place(state.hover);
  pen.strokeStyle = resolved("var(--ink)");
  pen.lineWidth = 2;
  pen.beginPath();
  pen.arc(x, y, 7, 0, 2 * Math.PI);
  pen.stroke();
}

// --- legend -----------------------------------------------------------------------------------
function mark(item) {
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("class", "swatch");
  picture.setAttribute("viewBox", "-6 -6 12 12");
  picture.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#m${item.shape}`);
  use.setAttribute("fill", item.colour);
  picture.append(use);
  return picture;
}

function fillLegend() {
  const colouring = colourings.get(state.colour);
  const legend = byId("legend");
  legend.replaceChildren(made("span", colouring.title, "legend-title"));
  if (colouring.ends) {
    const ramp = made("span", undefined, "ramp");
    ramp.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(scaled).join(",")})`;
    legend.append(made("span", shortNumber(colouring.ends[0])), ramp, made("span", shortNumber(colouring.ends[1])));
    return;
  }
  const own = colouring.title === "cluster" && state.colour === "cluster";
  colouring.items.forEach((item, number) => {
    if (own && middles[number] < 0) return;
    const entry = made("span", undefined, "key");
    entry.append(mark(item), item.name);
    legend.append(entry);
  });
}

// --- pointer and keyboard ---------------------------------------------------------------------
function nearest(event) {
  const box = canvas.getBoundingClientRect();
  let best = -1;
  let least = 14 * 14;
  for (let i = 0; i < total; i += 1) {
    if (state.cluster !== null && columns.label[i] !== state.cluster) continue;
    const [x, y] = place(i);
    const distance = (x - event.clientX + box.left) ** 2 + (y - event.clientY + box.top) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best;
}

function described(i) {
  const parts = [`${columns.name[i]}: cluster ${columns.label[i]}`];
  if (columns.confidence) parts[0] += ` (${probability(i)})`;
  if (columns.second) parts.push(`then cluster ${columns.second[i]}`);
  if (columns.agreement) parts.push(`${Math.round(columns.agreement[i] / 10)}% of the runs agree`);
  if (columns.pattern) parts.push(`has ${observedViews(i).join(", ")}`);
  const colouring = colourings.get(state.colour);
  if (state.colour.startsWith("covariate")) parts.push(`${colouring.title}: ${colouring.text(i)}`);
  return parts.join("; ");
}

function point(sample) {
  if (sample === state.hover) return;
  state.hover = sample;
  showPath(sample < 0 ? state.cluster : columns.label[sample]);
  drawMap();
  tip.hidden = sample < 0;
  if (sample < 0) return;
  tip.textContent = described(sample);
  const [x, y] = place(sample);
  tip.style.left = `${Math.min(x + 12, Math.max(canvas.clientWidth - tip.offsetWidth, 0))}px`;
  tip.style.top = `${y + 14 + tip.offsetHeight > canvas.clientHeight ? Math.max(y - tip.offsetHeight - 10, 0) : y + 14}px`;
}

// The nearest sample in a direction: within 45 degrees of it, the closest one.
function towards([dx, dy]) {
  const shown = (i) => state.cluster === null || columns.label[i] === state.cluster;
  if (state.hover < 0 || !shown(state.hover)) {
    const first = state.cluster ?? middles.findIndex((sample) => sample >= 0);
    return middles[first] ?? 0;
  }
  const [x, y] = place(state.hover);
  let [best, least] = [state.hover, Infinity];
  for (let i = 0; i < total; i += 1) {
    if (!shown(i)) continue;
    const [a, b] = place(i);
    const along = (a - x) * dx + (b - y) * dy;
    const across = Math.abs((a - x) * dy - (b - y) * dx);
    if (along <= 0 || across > along) continue;
    if (along + across < least) [best, least] = [i, along + across];
  }
  return best;
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function startMap() {
  canvas.addEventListener("mousemove", (event) => point(nearest(event)));
  canvas.addEventListener("mouseleave", () => point(-1));
  canvas.addEventListener("blur", () => point(-1));
  canvas.addEventListener("click", (event) => {
    const sample = nearest(event);
    choose(sample < 0 ? null : columns.label[sample]);
  });
  canvas.addEventListener("keydown", (event) => {
    if (ARROWS[event.key]) point(towards(ARROWS[event.key]));
    else if (event.key === "Enter" && state.hover >= 0) choose(columns.label[state.hover]);
    else return;
    event.preventDefault();
  });
  const select = byId("colour");
  for (const [key, colouring] of colourings) {
    const option = made("option", colouring.title);
    option.value = key;
    select.append(option);
  }
  select.addEventListener("change", () => {
    state.colour = select.value;
    fillLegend();
    drawMap();
  });
  byId("map-controls").hidden = false;
  fillLegend();
  new ResizeObserver(drawMap).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMap);
}
