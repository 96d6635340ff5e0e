// --- what can be saved: labels as csv, numbers as JSON, the map as svg --------------------------
function save(name, kind, text) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// A cell of a csv file. No spreadsheet runs it: an apostrophe stands before what may be a formula.
function csvCell(value) {
  let text = String(value);
  if (/^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text))) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function labelsCsv() {
  const titles = { name: "sample", label: "label", confidence: "confidence", second: "second", agreement: "agreement" };
  const keys = Object.keys(titles).filter((key) => columns[key]);
  const share = new Set(["confidence", "agreement"]);
  const lines = [keys.map((key) => titles[key]).join(",")];
  for (let i = 0; i < total; i += 1) {
    lines.push(keys.map((key) => csvCell(share.has(key) ? columns[key][i] / 1000 : columns[key][i])).join(","));
  }
  return `${lines.join("\n")}\n`;
}

const escaped = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;")
  // eslint-disable-next-line no-control-regex
  .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");

function legendSvg(colouring, resolved, height) {
  const text = (x, y, words) => `<text x="${x}" y="${y}" fill="${resolved("var(--ink)")}" font-size="12">${escaped(words)}</text>`;
  const lines = [text(640, 24, colouring.title)];
  if (colouring.ends) {
    for (let step = 0; step < 100; step += 1) {
      lines.push(`<rect x="${640 + step}" y="34" width="1.5" height="12" fill="${scaled(step / 99)}"/>`);
    }
    return [...lines, text(640, 62, shortNumber(colouring.ends[0])), text(724, 62, shortNumber(colouring.ends[1]))];
  }
  colouring.items.slice(0, Math.floor((height - 30) / 18)).forEach((item, row) => {
    const y = 42 + 18 * row;
    lines.push(`<use href="#s${item.shape}" transform="translate(646 ${y - 4})" fill="${resolved(item.colour)}"/>`);
    lines.push(text(658, y, item.name));
  });
  return lines;
}

function mapSvg() {
  const [width, height] = [620, 560];
  const resolved = resolver();
  const colouring = colourings.get(state.colour);
  const at = placing(width, height);
  const size = pointSize().toFixed(2);
  const round = (value) => value.toFixed(1);
  const symbols = Array.from({ length: SHAPES }, (_, number) => {
    const shape = byId(`m${number}`).cloneNode();
    shape.id = `s${number}`;
    return new XMLSerializer().serializeToString(shape);
  });
  const points = drawn().map(([i, opacity]) => {
    const [x, y] = at(i);
    const where = `transform="translate(${round(x)} ${round(y)}) scale(${size})"`;
    return `<use href="#s${colouring.shape(i)}" ${where} fill="${resolved(colouring.colour(i))}" opacity="${opacity.toFixed(2)}"/>`;
  });
  const numbers = numbersOn(at).map(({ cluster, x, y }) => `<text x="${round(x)}" y="${round(y + 4)}" font-size="13" `
    + `font-weight="bold" text-anchor="middle" paint-order="stroke" stroke="${resolved("var(--card)")}" `
    + `stroke-width="3" fill="${resolved("var(--ink)")}">${cluster}</text>`);
  return [
    `<svg xmlns="${SVG}" viewBox="0 0 860 ${height}" font-family="system-ui, sans-serif">`,
    `<title>${escaped(document.title)}</title>`,
    `<defs>${symbols.join("")}</defs>`,
    `<rect width="860" height="${height}" fill="${resolved("var(--card)")}"/>`,
    ...points, ...numbers, ...legendSvg(colouring, resolved, height), "</svg>",
  ].join("\n");
}

function startExports() {
  byId("save-labels").addEventListener("click", () => save("labels.csv", "text/csv", labelsCsv()));
  byId("save-numbers").addEventListener("click", () =>
    save("report.json", "application/json", byId("numbers-data").textContent));
  for (const id of ["save-labels", "save-numbers"]) byId(id).hidden = false;
  if (mapped) byId("save-map").addEventListener("click", () => save("map.svg", "image/svg+xml", mapSvg()));
}
