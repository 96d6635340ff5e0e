// --- the table of samples: searched, sorted, in pages -------------------------------------------
const PAGE = 50;
const natural = new Intl.Collator(undefined, { numeric: true });
const thousandths = (key) => (i) => (columns[key][i] / 1000).toFixed(3);
const dots = (pattern) => [...patterns[pattern]].map((seen) => (seen === "1" ? "●" : "○")).join("");
const fields = [
  { key: "name", title: "sample", text: (i) => columns.name[i] },
  { key: "label", title: "cluster", text: (i) => String(columns.label[i]), number: true },
  { key: "confidence", title: "confidence", text: thousandths("confidence"), number: true },
  { key: "second", title: "next cluster", text: (i) => String(columns.second[i]), number: true },
  { key: "agreement", title: "runs agree", text: thousandths("agreement"), number: true },
  { key: "pattern", title: "views", text: (i) => dots(columns.pattern[i]), views: true },
].filter((field) => columns[field.key]);

function rows() {
  const query = state.query.toLowerCase();
  const shown = [];
  for (let i = 0; i < total; i += 1) {
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
      if (field.views) {
        cell.className = "dots";
        cell.title = observedViews(i).join(", ");
        cell.setAttribute("aria-label", cell.title);
      }
    }
    row.addEventListener("mouseenter", () => mapped && point(i));
    row.addEventListener("mouseleave", () => mapped && point(-1));
  }
  byId("table").tBodies[0].replaceWith(body);
  byId("count").textContent = `${shown.length.toLocaleString("en")} sample${shown.length === 1 ? "" : "s"}`;
  byId("page").textContent = `page ${state.page + 1} of ${pages}`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page === pages - 1;
}

function sortBy(field, cell, head) {
  state.up = state.sort === field.key ? !state.up : true;
  state.sort = field.key;
  state.page = 0;
  for (const other of head.cells) other.removeAttribute("aria-sort");
  cell.setAttribute("aria-sort", state.up ? "ascending" : "descending");
  fillTable();
}

function startTable() {
  const head = byId("table").tHead.rows[0];
  for (const field of fields) {
    const cell = made("th", undefined, field.number ? "num" : "");
    cell.scope = "col";
    const button = made("button", field.title);
    button.type = "button";
    button.addEventListener("click", () => sortBy(field, cell, head));
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
}
