// What the page holds, unpacked once. Nothing of it is ever put into the page but as text.
const byId = (id) => document.getElementById(id);
const all = (selector) => Array.from(document.querySelectorAll(selector));

function unpacked(array) {
  if (!array) return null;
  const text = atob(array.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const types = { Float32Array, Uint32Array, Uint16Array, Uint8Array };
  return new types[array.type](bytes.buffer);
}

const LEFT = 0, KEPT = 1, SCREENED = 2;
const data = JSON.parse(byId("map-data").textContent);
const points = { kind: unpacked(data.class), row: unpacked(data.row) };
const maps = data.maps.map((map) => ({ ...map, x: unpacked(map.x), y: unpacked(map.y) }));
const count = points.kind.length;

// number[i]: the pick that put point i on the map, from 1; 0 where it was never picked.
const panels = data.panels.map((panel) => {
  const number = new Uint32Array(count), state = new Uint8Array(count);
  const screened = unpacked(panel.screened), reason = unpacked(panel.reason), looks = unpacked(panel.looks);
  const suspicion = unpacked(panel.suspicion), why = new Map();
  if (screened) screened.forEach((at, i) => {
    state[at] = SCREENED;
    why.set(at, { reason: panel.reasons[reason[i]], looks: looks[i] ? data.classes[looks[i] - 1] : "", suspicion: suspicion[i] });
  });
  const picks = unpacked(panel.picks), numbers = unpacked(panel.numbers);
  picks.forEach((at, i) => { number[at] = numbers[i]; state[at] = KEPT; });
  return { title: panel.title, k: panel.k, picks, number, state, why };
});

const rowOf = (at) => (points.row ? points.row[at] : at);
const nameOf = (at) => {
  const id = data.ids ? (Array.isArray(data.ids) ? data.ids[at] : data.ids[String(at)]) : null;
  return id === null || id === undefined ? `row ${rowOf(at)}` : id;
};
const labelOf = (at) => (data.classes.length ? data.classes[points.kind[at]] : "");
const written = (value) => value.toLocaleString("en-US");
