// The rest of the report: colors, galleries, the download.
onTheme.push(() => {
  hideTip();
  colors = palette();
  if (!classLegend.hidden) fillLegend();
  plots.forEach((plot) => plot.draw(view, look, colors));
});

all(".find").forEach((button) => button.addEventListener("click", () => {
  const at = Number(button.dataset.at), plot = plots[0];
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

window.addEventListener("scroll", () => { if (!tip.hidden && document.activeElement !== plots[0].canvas) hideTip(); }, { passive: true });
new ResizeObserver(() => { if (plots.map((plot) => plot.fit()).some(Boolean)) { hideTip(); plots.forEach((plot) => plot.draw(view, look, colors)); } }).observe(byId("maps"));
setUpto(most);
useTheme();
