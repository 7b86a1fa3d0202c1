// Says in an element of the parent what is shown, and what is wrong with the layout of the
// page, as JSON.
const shown = e => e.getClientRects().length > 0;
const figures = [...document.querySelectorAll("svg.figure")].filter(shown);
const page = document.documentElement;
const wrong = [];
const title = figure => figure.querySelector("title").textContent;
const overlap = (p, q) => [Math.min(p.right, q.right) - Math.max(p.left, q.left), Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top)];
if (page.scrollWidth > innerWidth) wrong.push(`the page is ${page.scrollWidth} px wide`);
for (const e of document.querySelectorAll("h1, h2, h3, p, li, dt, dd, code")) {
  const box = e.getBoundingClientRect();
  if (shown(e) && (e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 || box.left < 0 || box.right > innerWidth + 0.5))
    wrong.push(`"${e.textContent}" is cut`);
}
// A table may be scrolled where there is no room for it, but hardly on a desk: only sweeps
// of many paths have so many columns.
for (const e of document.querySelectorAll(".scroll"))
  if (innerWidth > 1000 && shown(e) && e.scrollWidth > e.clientWidth + 1 && e.querySelectorAll("th").length <= 16)
    wrong.push(`the table of ${[...e.querySelectorAll("th")].map(h => h.textContent).join(", ")} is cut`);
for (const r of performance.getEntriesByType("resource")) wrong.push(`${r.name} is fetched`);
for (const figure of figures) {
  const name = title(figure);
  const frame = figure.getBoundingClientRect();
  if (frame.left < -0.5 || frame.right > innerWidth + 0.5) wrong.push(`${name}: the figure is cut`);
  const texts = [...figure.querySelectorAll("text")].filter(t => t.textContent !== "");
  const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, b] of boxes) {
    if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
      wrong.push(`${name}: "${text}" is cut`);
  }
  for (let i = 0; i < boxes.length; i++)
    for (let j = 0; j < i; j++) {
      const [wide, high] = overlap(boxes[i][1], boxes[j][1]);
      if (wide > 1 && high > 3) wrong.push(`${name}: "${boxes[i][0]}" lies over "${boxes[j][0]}"`);
    }
  for (const mark of figure.querySelectorAll(".part, .mark, .cell, .interval, .point")) {
    const box = mark.getBoundingClientRect();
    for (const [text, b] of boxes) {
      const [wide, high] = overlap(box, b);
      if (wide > 1 && high > 3) wrong.push(`${name}: a mark lies over "${text}"`);
    }
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      wrong.push(`${name}: a mark is cut`);
  }
  const style = getComputedStyle(figure.querySelector("text"));
  if (style.fill === getComputedStyle(document.body).backgroundColor) wrong.push(`${name}: text in the colour of the ground`);
}
frameElement.height = page.scrollHeight;
const pre = parent.document.createElement("pre");
pre.className = "layout";
pre.textContent = JSON.stringify({
  Width: innerWidth, Dark: matchMedia("(prefers-color-scheme: dark)").matches, Height: page.scrollHeight, Figures: figures.map(title), Wrong: wrong,
});
parent.document.body.append(pre);
