// The rest of the page: theme, galleries, copying, printing.
const root = document.documentElement;
root.classList.add("scripted");
const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
const themeButton = byId("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkScheme.matches);
function recolor() {
  colors = palette();
  themeButton.textContent = isDark() ? "Light mode" : "Dark mode";
  if (!classLegend.hidden) fillLegend();
  plots.forEach((plot) => plot.draw(view, look, colors));
}
const memory = { // files opened from a disk may not be allowed to remember
  get: () => { try { return localStorage.getItem("gmmatch-theme"); } catch { return null; } },
  set: (value) => { try { localStorage.setItem("gmmatch-theme", value); } catch { /* then it is forgotten */ } },
};
if (memory.get() === "dark" || memory.get() === "light") root.dataset.theme = memory.get();
themeButton.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  memory.set(root.dataset.theme);
  recolor();
});
darkScheme.addEventListener("change", recolor);

// Printed in the light colours, whatever the screen has.
let before;
window.addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; hideTip(); recolor(); });
window.addEventListener("afterprint", () => {
  if (before === undefined) delete root.dataset.theme; else root.dataset.theme = before;
  recolor();
});

all(".find").forEach((button) => button.addEventListener("click", () => {
  const at = Number(button.dataset.place), plot = plots[0];
  if (look.only >= 0 && points.kind[at] !== look.only) single(-1);
  if (!placed(at)) chooseMap(maps.findIndex((map) => map.x[at] === map.x[at]));
  plot.canvas.scrollIntoView({ block: "center", behavior: "instant" });
  plot.canvas.focus({ preventScroll: true });
  view.x = points.x[at];
  view.y = points.y[at];
  view.zoom = Math.max(view.zoom, 3);
  showTip(at, plot, true);
}));

const downloadButton = byId("download");
if (downloadButton) downloadButton.addEventListener("click", () => {
  const columns = data.suspects, names = Object.keys(columns);
  download("suspects.csv", names, columns.row.map((_, i) => names.map((name) => columns[name][i])));
});

all(".copy").forEach((button) => button.addEventListener("click", async () => {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "Copied";
  } catch { // not allowed: leave it selected, one key away
    window.getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
}));

window.addEventListener("scroll", () => { if (!tip.hidden && document.activeElement !== plots[0].canvas) hideTip(); }, { passive: true });
new ResizeObserver(() => { if (plots.map((plot) => plot.fit()).some(Boolean)) { hideTip(); plots.forEach((plot) => plot.draw(view, look, colors)); } }).observe(byId("maps"));
setUpto(most);
recolor();
