// One row at a time; the answers stay in this browser, and go to a file.
const items = data.items;
const key = `gmmatch-check ${data.sample}`;
const words = ["right", "wrong", "unsure"];
let answers = {};
let place = 0;
let saved = true;
try { answers = JSON.parse(memory.get(key) || "{}"); } catch { /* not ours */ }

function count() { return items.filter((item) => answers[item.row]).length; }

function keep() {
  saved = false;
  if (!memory.set(key, JSON.stringify(answers))) say("This browser keeps nothing: save the answers to a file.");
}

function say(text) { byId("message").textContent = text; }

function show() {
  const item = items[place];
  byId("content").replaceChildren(contentOf(item.kind, item.value, item.small));
  byId("label").textContent = item.label;
  byId("name").textContent = item.name;
  for (const button of document.querySelectorAll("[data-answer]"))
    button.setAttribute("aria-pressed", String(answers[item.row] === button.dataset.answer));
  const done = count();
  const wrong = items.filter((one) => answers[one.row] === "wrong").length;
  byId("progress").value = done;
  byId("progress-text").textContent = `${place + 1} of ${items.length}; ${done} answered, ${wrong} wrong`;
}

function go(to) { place = Math.max(0, Math.min(items.length - 1, to)); show(); }

function nextOpen() {
  for (let step = 1; step <= items.length; step++) {
    const to = (place + step) % items.length;
    if (!answers[items[to].row]) return go(to);
  }
  show();
  say("All are answered. Save the answers to a file.");
}

function answer(word) {
  answers[items[place].row] = word;
  keep();
  say("");
  if (place + 1 < items.length && !answers[items[place + 1].row]) go(place + 1); else nextOpen();
}

function table() {
  return items.map((item) => [data.sample, item.row, item.id, item.given, answers[item.row] || ""]);
}

function save() {
  download("answers.csv", ["sample", "row", "id", "label", "answer"], table());
  saved = true;
  const open = items.length - count();
  say(open ? `Saved answers.csv; ${open} are still open.` : "Saved answers.csv.");
}

async function load(file) {
  const text = await file.text();
  let taken = 0;
  if (!text.includes(data.sample)) return say(`${file.name} is about another sample; nothing was changed.`);
  for (const line of text.split(/\r?\n/)) {
    const row = /^[^,]*,(\d+),/.exec(line);
    const word = line.slice(line.lastIndexOf(",") + 1).trim();
    if (row && words.includes(word) && items.some((item) => item.row === Number(row[1]))) { answers[row[1]] = word; taken++; }
  }
  keep();
  show();
  say(`${taken} answers were loaded from ${file.name}.`);
}

for (const button of document.querySelectorAll("[data-answer]"))
  button.addEventListener("click", () => answer(button.dataset.answer));
byId("back").addEventListener("click", () => go(place - 1));
byId("next").addEventListener("click", () => go(place + 1));
byId("open").addEventListener("click", nextOpen);
byId("save").addEventListener("click", save);
byId("load").addEventListener("change", (event) => { if (event.target.files.length) load(event.target.files[0]); });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const actions = {
    r: () => answer("right"), w: () => answer("wrong"), u: () => answer("unsure"), n: nextOpen, s: save,
    arrowleft: () => go(place - 1), arrowright: () => go(place + 1),
  };
  const action = actions[event.key.toLowerCase()];
  if (action) { event.preventDefault(); action(); }
});
window.addEventListener("beforeunload", (event) => { if (!saved && !memory.set(key, JSON.stringify(answers))) event.preventDefault(); });
const first = items.findIndex((item) => !answers[item.row]);
go(first < 0 ? 0 : first);
