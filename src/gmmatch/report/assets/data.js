// What the map holds, unpacked once. Nothing of it is ever put into the page but as text.
function unpacked(array) {
  if (!array) return null;
  const text = atob(array.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const types = { Float32Array, Uint32Array, Uint16Array, Uint8Array };
  return new types[array.type](bytes.buffer);
}

const REST = 0, PICKED = 1, DOUBTFUL = 2, WRONG = 3;
const STATES = ["rest", "picked", "doubtful", "wrong"];
const points = { kind: unpacked(data.class), row: unpacked(data.row) };
const maps = data.maps.map((map) => ({ ...map, x: unpacked(map.x), y: unpacked(map.y) }));
const count = points.kind.length;

// What the screening says of the rows that it doubts, by point.
const judged = new Uint8Array(count), why = new Map();
if (data.verdicts) {
  const { reasons } = data.verdicts, [at, state, reason, looks, chance] = ["at", "state", "reason", "looks", "chance"].map((name) => unpacked(data.verdicts[name]));
  at.forEach((point, i) => {
    judged[point] = state[i];
    why.set(point, { verdict: STATES[state[i]], reason: reasons[reason[i]], looks: looks[i] ? data.classes[looks[i] - 1] : "", chance: chance[i] });
  });
}

// number[i]: the pick that put point i on the map, from 1; 0 where it was never picked.
const packed = data.panels.length ? data.panels : [{ title: "", k: 0, picks: null, numbers: null }];
const panels = packed.map((panel) => {
  const number = new Uint32Array(count), state = Uint8Array.from(judged);
  const picks = unpacked(panel.picks) || new Uint8Array(0), numbers = unpacked(panel.numbers);
  picks.forEach((at, i) => { number[at] = numbers[i]; state[at] = PICKED; });
  return { title: panel.title, k: panel.k, picks, number, state };
});

const rowOf = (at) => (points.row ? points.row[at] : at);
const nameOf = (at) => {
  const id = data.ids ? (Array.isArray(data.ids) ? data.ids[at] : data.ids[String(at)]) : null;
  return id === null || id === undefined ? `row ${rowOf(at)}` : id;
};
const labelOf = (at) => (data.classes.length ? data.classes[points.kind[at]] : "");
const written = (value) => value.toLocaleString("en-US");
