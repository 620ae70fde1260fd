// Dots on a canvas, put into its pixels one by one: fifty thousand take a few milliseconds, without a graphics card.

function colorOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

// Seven colors that all can tell from each other; then six of them darker, then lighter.
function classColors() {
  const base = ["--picked", "--c1", "--c2", "--c3", "--c5", "--c4", "--c6"].map(colorOf);
  const mixed = (other, share) => base.slice(0, 6).map((one) => one.map((value, i) => Math.round(value * (1 - share) + other[i] * share)));
  return [...base, ...mixed(colorOf("--ink"), 0.5), ...mixed(colorOf("--surface"), 0.5)];
}

function palette() {
  return {
    paper: colorOf("--surface"), picked: colorOf("--picked"), rest: colorOf("--rest"), doubtful: colorOf("--doubtful"),
    wrong: colorOf("--wrong"), ink: colorOf("--ink"), classes: classColors(),
  };
}

// A shape as the opacity of its pixels, drawn by the browser once.
const stamps = new Map();
function stamp(shape, radius) {
  const size = Math.max(0.5, Math.round(radius * 4) / 4), key = `${shape}${size}`;
  if (stamps.has(key)) return stamps.get(key);
  const side = 2 * Math.ceil(size + 1) + 1, middle = side / 2;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  pen.lineWidth = shape === "ring" ? Math.max(1.5, size / 4) : Math.max(1.2, size * 0.5);
  pen.lineCap = "round";
  pen.beginPath();
  if (shape === "cross") {
    const reach = size * 0.75;
    pen.moveTo(middle - reach, middle - reach);
    pen.lineTo(middle + reach, middle + reach);
    pen.moveTo(middle + reach, middle - reach);
    pen.lineTo(middle - reach, middle + reach);
    pen.stroke();
  } else {
    pen.arc(middle, middle, size, 0, 7);
    if (shape === "disc") pen.fill(); else pen.stroke();
  }
  const rgba = pen.getImageData(0, 0, side, side).data;
  const alpha = new Uint8Array(side * side);
  for (let i = 0; i < alpha.length; i++) alpha[i] = rgba[4 * i + 3];
  const made = { side, half: (side - 1) / 2, alpha };
  stamps.set(key, made);
  return made;
}

class Plot {
  constructor(canvas, panel) {
    this.canvas = canvas;
    this.panel = panel;
    this.pen = canvas.getContext("2d", { alpha: false });
    this.fit();
  }

  // Match the pixels of the canvas to those of the screen; tell whether they changed.
  fit() {
    this.ratio = Math.min(3, window.devicePixelRatio || 1);
    const width = Math.max(1, Math.round(this.canvas.clientWidth * this.ratio));
    const height = Math.max(1, Math.round(this.canvas.clientHeight * this.ratio));
    if (this.image && this.canvas.width === width && this.canvas.height === height) return false;
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.pen.createImageData(width, height);
    this.words = new Uint32Array(this.image.data.buffer);
    return true;
  }

  // How many pixels one unit of the map is, and where its middle lies.
  scaleOf(view) {
    const margin = 0.92;
    return margin * view.zoom * Math.min(this.canvas.width / view.width, this.canvas.height / view.height);
  }

  placeOf(view, at) {
    const scale = this.scaleOf(view);
    return [this.canvas.width / 2 + (points.x[at] - view.x) * scale, this.canvas.height / 2 - (points.y[at] - view.y) * scale];
  }

  put(mark, x, y, color, opacity) {
    const { width, height } = this.canvas, { side, half, alpha } = mark, pixels = this.image.data;
    const left = Math.round(x) - half, top = Math.round(y) - half;
    if (left >= width || top >= height || left + side <= 0 || top + side <= 0) return;
    const firstColumn = Math.max(0, -left), lastColumn = Math.min(side, width - left);
    const firstLine = Math.max(0, -top), lastLine = Math.min(side, height - top);
    const [red, green, blue] = color;
    for (let line = firstLine; line < lastLine; line++) {
      let at = 4 * ((top + line) * width + left + firstColumn), from = line * side + firstColumn;
      for (let column = firstColumn; column < lastColumn; column++, at += 4, from++) {
        const share = alpha[from] * opacity / 255;
        if (share === 0) continue;
        pixels[at] += (red - pixels[at]) * share;
        pixels[at + 1] += (green - pixels[at + 1]) * share;
        pixels[at + 2] += (blue - pixels[at + 2]) * share;
      }
    }
  }

  draw(view, look, colors) {
    const { number, state } = this.panel, { x, y, kind } = points;
    const scale = this.scaleOf(view), middleX = this.canvas.width / 2, middleY = this.canvas.height / 2;
    const [red, green, blue] = colors.paper;
    this.words.fill(((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
    const crowd = Math.min(1.35, Math.max(0.62, Math.pow(6000 / Math.max(1, count), 0.2)));
    const size = this.ratio * crowd * Math.min(1.8, Math.pow(view.zoom, 0.2)) * (this.canvas.clientWidth < 480 ? 0.85 : 1);
    const byClass = look.color === "class", byChance = look.color === "chance";
    const faint = stamp("disc", 1.1 * size);
    // Before its pick in a replay, a row is what the screening says.
    const stateOf = (i) => (state[i] === PICKED && number[i] > look.upto ? judged[i] : state[i]);
    const layer = (wanted, mark, opacity, halo) => {
      if (!look.shown[STATES[wanted]]) return;
      const color = colors[STATES[wanted]], doubted = wanted === DOUBTFUL || wanted === WRONG;
      for (let i = 0; i < count; i++) {
        if (stateOf(i) !== wanted || x[i] !== x[i]) continue; // not a number: not on this map
        const px = middleX + (x[i] - view.x) * scale, py = middleY - (y[i] - view.y) * scale;
        if (look.only >= 0 && kind[i] !== look.only) {
          if (!doubted) this.put(faint, px, py, colors.rest, 0.22);
          continue;
        }
        if (halo) this.put(halo, px, py, colors.paper, 0.9);
        const strength = byChance && doubted ? 0.15 + 0.0085 * why.get(i).chance : opacity;
        this.put(mark, px, py, byClass ? colors.classes[kind[i] % colors.classes.length] : color, strength);
      }
    };
    const alone = !data.panels.length; // without picks, what is doubted is what the map is about
    layer(REST, stamp("disc", 1.9 * size), byClass ? 0.38 : 0.6);
    const doubted = () => {
      const [large, strong] = byChance ? [3.1, 1] : alone ? [2.8, 1] : [2.4, 0.4];
      layer(DOUBTFUL, stamp("open", large * 0.85 * size), strong);
      layer(WRONG, stamp("cross", large * size), strong);
    };
    const picks = () => layer(PICKED, stamp("disc", 2.9 * size), 0.95, stamp("disc", 3.7 * size));
    (byChance ? [picks, doubted] : [doubted, picks]).forEach((draw) => draw()); // what is highlighted lies on top
    if (look.chosen >= 0) {
      const [px, py] = this.placeOf(view, look.chosen);
      this.put(stamp("ring", 8 * this.ratio), px, py, colors.ink, 1);
    }
    this.pen.putImageData(this.image, 0, 0);
  }

  // The shown point nearest to a place on the canvas (in pixels of the page), or -1 if none is near.
  nearest(view, look, left, top) {
    const scale = this.scaleOf(view), { number, state } = this.panel;
    const x = (left * this.ratio - this.canvas.width / 2) / scale + view.x;
    const y = (this.canvas.height / 2 - top * this.ratio) / scale + view.y;
    let best = -1, least = Math.pow(14 * this.ratio / scale, 2);
    for (let i = 0; i < count; i++) {
      const kept = state[i] === PICKED && number[i] <= look.upto;
      if (!look.shown[STATES[kept ? PICKED : judged[i]]] || (look.only >= 0 && points.kind[i] !== look.only)) continue;
      const gap = (points.x[i] - x) ** 2 + (points.y[i] - y) ** 2;
      // Where dots lie on top of each other the pick is the one that is seen.
      if (gap < least * (kept ? 1 : 0.8)) { least = gap; best = i; }
    }
    return best;
  }
}
