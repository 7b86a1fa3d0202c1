// Says in an element what is wrong with the layout of a page: "THEME WIDTH FIGURES",
// then a line for each fault.
const shown = e => e.getClientRects().length > 0;
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const figures = [...document.querySelectorAll("svg.figure")].filter(shown);
const lines = [`${dark ? "dark" : "light"} ${innerWidth} ${figures.length}`];
const page = document.documentElement;
if (figures.length === 0) lines.push("no figure is shown");
if (page.scrollWidth > innerWidth) lines.push(`the page is ${page.scrollWidth} px wide`);
for (const figure of figures) {
  const name = figure.querySelector("title").textContent;
  const frame = figure.getBoundingClientRect();
  if (frame.left < -0.5 || frame.right > innerWidth + 0.5) lines.push(`${name}: the figure is cut`);
  const texts = [...figure.querySelectorAll("text")].filter(t => t.textContent !== "");
  const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
  for (const [text, b] of boxes) {
    if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.top < frame.top - 1 || b.bottom > frame.bottom + 1)
      lines.push(`${name}: "${text}" is cut`);
  }
  for (let i = 0; i < boxes.length; i++)
    for (let j = 0; j < i; j++) {
      const [a, p] = boxes[i], [b, q] = boxes[j];
      const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (wide > 1 && high > 3) lines.push(`${name}: "${a}" lies over "${b}"`);
    }
  const style = getComputedStyle(figure.querySelector("text"));
  if (style.fill === getComputedStyle(document.body).backgroundColor) lines.push(`${name}: text in the colour of the ground`);
}
const pre = parent.document.createElement("pre");
pre.id = "layout";
pre.textContent = lines.join("\n");
parent.document.body.append(pre);
