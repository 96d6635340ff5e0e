// --- start ------------------------------------------------------------------------------------
byId("filter").hidden = false;
for (const button of document.querySelectorAll(".chips button")) {
  button.addEventListener("click", () => choose(button.dataset.cluster === "" ? null : Number(button.dataset.cluster)));
}
for (const row of document.querySelectorAll("#clusters-table tr[data-cluster]")) {
  row.style.cursor = "pointer";
  row.addEventListener("click", () => choose(Number(row.dataset.cluster)));
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && state.cluster !== null) choose(null);
});
// A link to a card must find it, whatever cluster was chosen.
for (const link of document.querySelectorAll('a[href^="#cluster-"]')) {
  link.addEventListener("click", () => { if (state.cluster !== null) choose(null); });
}

// --- light, dark, paper -------------------------------------------------------------------------
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

startTable();
startExports();
if (mapped) startMap();
drawMap();
fillTable();
