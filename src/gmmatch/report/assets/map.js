// The map: what is shown, from where, and the controls that change it.
const plots = all("#maps canvas").map((canvas, i) => new Plot(canvas, panels[i]));
let home;
function useMap(number) {
  const { x, y, text, view: [west, east, south, north] } = maps[number];
  [points.x, points.y] = [x, y];
  home = { x: (west + east) / 2, y: (south + north) / 2, width: Math.max(1e-6, east - west), height: Math.max(1e-6, north - south), zoom: 1 };
  byId("map-text").textContent = text;
}
useMap(0);
const placed = (at) => points.x[at] === points.x[at]; // a map of a sample has no number for the others
function chooseMap(number) {
  all("input[name=map]")[number].checked = true;
  hideTip();
  useMap(number);
  showAll();
}
const most = Math.max(...panels.map((panel) => panel.k));
let view = { ...home };
let colors = palette();
const look = { color: "state", only: -1, upto: most, chosen: -1, shown: Object.fromEntries(STATES.map((name) => [name, true])) };

let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    plots.forEach((plot) => plot.draw(view, look, colors));
  });
}

function zoomBy(factor, plot, left, top) {
  const before = plot.scaleOf(view);
  const dx = (left * plot.ratio - plot.canvas.width / 2), dy = (plot.canvas.height / 2 - top * plot.ratio);
  view.zoom = Math.min(2000, Math.max(0.0005, view.zoom * factor));
  const after = plot.scaleOf(view);
  view.x += dx / before - dx / after;
  view.y += dy / before - dy / after;
  redraw();
}
const zoomMiddle = (factor) => zoomBy(factor, plots[0], plots[0].canvas.clientWidth / 2, plots[0].canvas.clientHeight / 2);
function showAll() { view = { ...home }; redraw(); }
function move(plot, right, down) {
  const scale = plot.scaleOf(view) / plot.ratio;
  view.x -= right / scale;
  view.y += down / scale;
  redraw();
}

function sentence(at, panel) {
  const doubt = why.get(at), pick = panel.number[at] ? `pick ${written(panel.number[at])} of ${written(panel.k)}` : "";
  const verdict = doubt ? `${doubt.verdict}: ${doubt.reason}${doubt.chance ? `, ${doubt.chance > 99 ? ">99" : doubt.chance}%` : ""}` : "";
  return [pick, verdict].filter(Boolean).join("; ") || (panel.k ? "not picked" : data.rest);
}

const tip = byId("tip");
function hideTip() {
  tip.hidden = true;
  if (look.chosen >= 0) { look.chosen = -1; redraw(); }
}
function showTip(at, plot, aloud) {
  if (at < 0) return hideTip();
  tip.replaceChildren();
  if (data.contents[String(at)]) tip.append(contentOf(...data.contents[String(at)]));
  const named = (text, kind, ...more) => {
    const line = element("p", undefined, kind);
    line.append(...more, element("bdi", text));
    tip.append(line);
  };
  named(nameOf(at), "id");
  if (labelOf(at)) named(labelOf(at), "", "class ");
  const said = panels.map((panel) => (panels.length > 1 ? `${panel.title}: ` : "") + sentence(at, panel));
  said.forEach((text) => tip.append(element("p", text, why.has(at) ? "why" : "soft")));
  if (why.has(at) && why.get(at).looks) named(why.get(at).looks, "why", "looks like ");
  look.chosen = at;
  redraw();
  const box = plot.canvas.getBoundingClientRect(), [x, y] = plot.placeOf(view, at).map((value) => value / plot.ratio);
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const right = box.left + x + 16, left = box.left + x - 16 - width;
  tip.style.left = `${Math.max(8, right + width < window.innerWidth - 8 ? right : left)}px`;
  tip.style.top = `${Math.max(8, Math.min(window.innerHeight - height - 8, box.top + y - height / 2))}px`;
  if (aloud) byId("aloud").textContent = [nameOf(at), labelOf(at) && `class ${labelOf(at)}`, ...said].filter(Boolean).join(", ");
}

// Bring a row into view and show it.
function find(at, plot, aloud) {
  const [x, y] = plot.placeOf(view, at), { width, height } = plot.canvas;
  if (x < 0.1 * width || x > 0.9 * width || y < 0.1 * height || y > 0.9 * height) {
    view.x = points.x[at];
    view.y = points.y[at];
  }
  showTip(at, plot, aloud);
}

function step(plot, by) {
  const { number } = plot.panel, picks = plot.panel.picks.filter(placed), now = look.chosen;
  let position = by > 0 ? -1 : picks.length;
  if (now >= 0 && number[now]) position = picks.indexOf(now);
  position = Math.min(picks.length - 1, Math.max(0, position + by));
  if (picks.length) {
    if (number[picks[position]] > look.upto) setUpto(number[picks[position]]);
    find(picks[position], plot, true);
  }
}

const keys = {
  ArrowLeft: (plot) => move(plot, 40, 0), ArrowRight: (plot) => move(plot, -40, 0),
  ArrowUp: (plot) => move(plot, 0, 40), ArrowDown: (plot) => move(plot, 0, -40),
  "+": () => zoomMiddle(1.4), "=": () => zoomMiddle(1.4), "-": () => zoomMiddle(1 / 1.4), "0": showAll,
  n: (plot) => step(plot, 1), p: (plot) => step(plot, -1), Escape: hideTip,
};

plots.forEach((plot) => {
  const { canvas } = plot, held = new Map();
  let moved = 0;
  const under = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, under(event));
    moved = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = under(event), before = held.get(event.pointerId);
    if (!before) return showTip(plot.nearest(view, look, ...now), plot);
    const others = [...held].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    held.set(event.pointerId, now);
    moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (moved < 4) return;
    hideTip();
    canvas.classList.add("dragged");
    if (others.length) {
      const [other] = others, gap = (place) => Math.max(8, Math.hypot(place[0] - other[0], place[1] - other[1]));
      zoomBy(gap(now) / gap(before), plot, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else move(plot, now[0] - before[0], now[1] - before[1]);
  });
  const release = (event) => {
    if (held.has(event.pointerId) && moved < 4 && event.type === "pointerup") showTip(plot.nearest(view, look, ...under(event)), plot, true);
    held.delete(event.pointerId);
    canvas.classList.remove("dragged");
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") hideTip(); });
  canvas.addEventListener("dblclick", (event) => zoomBy(event.shiftKey ? 0.5 : 2, plot, ...under(event)));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * 0.004), plot, ...under(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key] || keys[event.key.toLowerCase()];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act(plot);
  });
  canvas.addEventListener("blur", hideTip);
});

all("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
  ({ in: () => zoomMiddle(1.5), out: () => zoomMiddle(1 / 1.5), all: showAll })[button.dataset.zoom]();
}));

// What is shown, and in which colors.
all("input.state").forEach((box) => box.addEventListener("change", () => { look.shown[box.value] = box.checked; hideTip(); redraw(); }));
const chooser = byId("only"), classLegend = byId("class-legend");
function single(out) {
  look.only = out;
  if (chooser) chooser.value = String(out);
  all("#class-legend button").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.value) === out)));
  hideTip();
  redraw();
}
function fillLegend() {
  if (look.color === "chance") return classLegend.replaceChildren(element("li", "The stronger a mark, the likelier something is wrong with the row.", "hint"));
  const shown = Math.min(data.classes.length, colors.classes.length);
  classLegend.replaceChildren(...data.classes.slice(0, shown).map((name, i) => {
    const line = element("li"), button = element("button"), dot = element("i");
    button.type = "button";
    button.value = String(i);
    button.setAttribute("aria-pressed", String(look.only === i));
    dot.style.background = `rgb(${colors.classes[i].join(" ")})`;
    button.append(dot, element("bdi", name));
    button.addEventListener("click", () => single(look.only === i ? -1 : i));
    line.append(button);
    return line;
  }));
  if (shown < data.classes.length) {
    classLegend.append(element("li", `and ${written(data.classes.length - shown)} more, in the same colors again`, "hint"));
  }
}
all("input[name=map]").forEach((choice) => choice.addEventListener("change", () => chooseMap(Number(choice.value))));
if (chooser) chooser.addEventListener("change", () => single(Number(chooser.value)));
all("input[name=color]").forEach((choice) => choice.addEventListener("change", () => {
  look.color = choice.value;
  classLegend.hidden = choice.value === "state";
  if (!classLegend.hidden) fillLegend();
  redraw();
}));

// The replay; a page without picks has none.
const slider = byId("upto"), play = byId("play");
function setUpto(value) {
  look.upto = Math.round(value);
  redraw();
  if (!slider) return;
  slider.value = String(look.upto);
  const text = look.upto >= most ? `all ${written(most)} picks` : `the first ${written(look.upto)} of ${written(most)}`;
  byId("upto-text").textContent = text;
  slider.setAttribute("aria-valuetext", text);
}
let playing = 0, runs = 0;
function stop() {
  playing = 0;
  play.setAttribute("aria-pressed", "false");
  play.textContent = "Replay the picks";
}
function start() {
  hideTip();
  const from = look.upto >= most ? 0 : look.upto, began = performance.now(), run = ++runs;
  const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  playing = run;
  play.setAttribute("aria-pressed", "true");
  play.textContent = "Stop";
  const frame = (now) => {
    if (playing !== run) return;
    let share = Math.min(1, (now - began) / 8000);
    if (calm) share = Math.ceil(share * 10) / 10; // ten steps instead of a film
    setUpto(from + share * (most - from));
    if (share >= 1) stop(); else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
if (slider) {
  slider.max = String(most);
  play.addEventListener("click", () => (playing ? stop() : start()));
  slider.addEventListener("input", () => { stop(); setUpto(Number(slider.value)); });
}
