// Parts of one script: they share these names. Texts from the data go into the page as text, never as HTML.
const { columns, patterns, views, middles, covariates, clusters } =
  JSON.parse(document.getElementById("samples-data").textContent);
const byId = (id) => document.getElementById(id);
const total = columns.name.length;
const state = { cluster: null, query: "", sort: null, up: true, page: 0, hover: -1, colour: "cluster" };
const PALETTE = 12;
const SHAPES = 7;

function made(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

function shortNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
  return text.replaceAll("-", "−");
}

const observedViews = (i) => [...patterns[columns.pattern[i]]]
  .map((seen, v) => (seen === "1" ? views[v] : null)).filter((name) => name !== null);
const probability = (i) => (columns.confidence[i] / 1000).toFixed(2);

// A cluster's way through the tree, and its curve; none: all of them.
function showPath(cluster) {
  for (const part of document.querySelectorAll("[data-clusters]")) {
    const own = cluster !== null && part.dataset.clusters.split(" ").map(Number).includes(cluster);
    part.classList.toggle("on-path", own);
    part.classList.toggle("off-path", cluster !== null && !own);
  }
}

// --- choosing a cluster -----------------------------------------------------------------------
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
  for (const card of document.querySelectorAll(".profile")) {
    card.hidden = state.cluster !== null && Number(card.dataset.cluster) !== state.cluster;
  }
  showPath(state.cluster);
  byId("state").textContent = state.cluster === null ? ""
    : `Cluster ${state.cluster} only: map, card and table of samples. Escape shows all.`;
  drawMap();
  fillTable();
}
