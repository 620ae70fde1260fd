// One row at a time. A server saves each answer at once; without one they stay in this browser, and go to a file.
const items = new Map(data.items.map((item) => [item.row, item]));
const memoryKey = `gmmatch-review ${data.name}`;
const columns = ["row", "id", "given", "answer", "label", "keep", "sample"];
const words = { right: "right", wrong: "wrong", duplicate: "copy", drop: "drop", unsure: "cannot tell" };
let order = data.order || data.items.map((item) => item.row);
let answers = new Map(data.answers.map((answer) => [answer.row, answer])); // in the order in which they were given
let current = -1;
let trail = []; // rows that were shown before
let skipped = new Set();
let saved = true;

const keyOf = (item) => item.id || String(item.row);
function answerOf(item) {
  const mine = answers.get(item.row);
  if (mine || !item.partner) return mine;
  const other = answers.get(item.partner.row);
  return other && other.answer === "duplicate" && other.keep === keyOf(item) ? other : undefined;
}
const isWanted = (item) => (!byId("by-class").value || item.given === byId("by-class").value)
  && (!byId("by-reason").value || item.reason === byId("by-reason").value);
const open = () => order.filter((row) => !answerOf(items.get(row)) && isWanted(items.get(row)));

function say(text, isBad) { byId("message").textContent = text; byId("message").classList.toggle("wrong", Boolean(isBad)); }

// Content comes with the page, or from the server when it is needed.
const contents = new Map();
function contentFor(item) {
  if (item.content) return Promise.resolve(item.content);
  if (!data.served) return Promise.resolve({ kind: "", value: "" });
  if (!contents.has(item.row)) contents.set(item.row, fetch(`content/${item.row}`).then((answer) => answer.json()).catch(() => {
    contents.delete(item.row);
    return { kind: "broken", value: "the server does not answer" };
  }));
  return contents.get(item.row);
}

function card(item, title) {
  const made = element("article");
  const box = element("div", undefined, "content");
  contentFor(item).then((content) => box.replaceChildren(contentOf(content.kind, content.value, content.small)));
  const label = element("p", title, "question");
  if (item.given) label.append(" ", element("b", item.label));
  made.append(box, label);
  if (item.suggested) {
    const chance = item.chance === null ? "" : `, ${item.chance}% likely to be wrong`;
    const hint = element("p", "looks like ", "hint");
    hint.append(element("b", item.suggested), chance);
    made.append(hint);
  }
  const name = element("p", item.name, "hint");
  name.dir = "auto";
  made.append(name);
  return made;
}

function questionOf(item) {
  if (!item) return "Nothing is left to decide";
  if (item.partner) return item.given === item.partner.given ? "Are these copies of each other?" : "Copies with different labels: which stays?";
  return item.given ? "Is the label right?" : "Should this row stay?";
}

function show() {
  const item = items.get(current);
  const given = item && answerOf(item);
  byId("question").textContent = questionOf(item);
  const cards = !item ? [] : item.partner ? [card(item, "A: labeled"), card(item.partner, "B: labeled")] : [card(item, item.given ? "Labeled" : "")];
  byId("item").replaceChildren(...cards);
  byId("item").className = item && item.partner ? "pair" : "";
  closePicker();
  for (const button of all("[data-answer]")) {
    const name = button.dataset.answer;
    const isOfPair = ["first", "second"].includes(name);
    button.hidden = !item || (["first", "second", "wrong", "other"].includes(name) && isOfPair !== Boolean(item.partner))
      || (name === "other" && !item.suggested);
    button.setAttribute("aria-pressed", String(Boolean(given) && pressed(item, given) === name));
  }
  if (item) for (const [name, text] of Object.entries(wordsOf(item))) {
    const button = document.querySelector(`[data-answer=${name}]`);
    if (button) button.firstChild.textContent = `${text} `;
  }
  const left = open();
  const wrong = Array.from(answers.values()).filter((answer) => answer.answer === "wrong").length;
  byId("progress").max = Math.max(1, answers.size + left.length);
  byId("progress").value = answers.size;
  const now = given ? `This row: ${words[given.answer]}${given.label ? ` → ${given.label}` : ""}. ` : "";
  const reason = item && item.reason ? `${item.reason}. ` : "";
  byId("progress-text").textContent = `${reason}${now}${answers.size} answered, ${wrong} wrong; ${left.length} left`;
  for (const row of left.slice(0, 3)) { contentFor(items.get(row)); if (items.get(row).partner) contentFor(items.get(row).partner); }
}

function wordsOf(item) {
  if (item.partner) return { right: "Both stay", drop: "Drop A" };
  const known = { right: item.given ? "Right" : "Stays", drop: "Drop" };
  return data.labels.length ? { ...known, wrong: item.suggested ? `Wrong: ${item.suggested}` : "Wrong" } : known;
}

function pressed(item, answer) {
  if (answer.answer === "duplicate") return answer.row === item.row ? "second" : "first";
  return answer.answer === "wrong" && data.labels.length && answer.label !== item.suggested ? "other" : answer.answer;
}

function go(row) {
  if (current >= 0 && current !== row) trail.push(current);
  current = row;
  show();
}

function nextOpen() {
  const left = open();
  let row = left.find((one) => !skipped.has(one));
  if (row === undefined && left.length) { skipped = new Set(); row = left[0]; }
  go(row === undefined ? -1 : row);
  if (row === undefined) say(data.served ? "All are answered and saved. Press Done, or end the command." : "All are answered. Save the answers to a file.");
}

// Answers wait for each other, so that a fast typist's next key is about the next row. After a failure those that
// wait are dropped: they were meant for rows that were never shown.
let queue = Promise.resolve();
let failures = 0;
function enqueue(action) {
  const before = failures;
  queue = queue.then(() => (before === failures ? action() : undefined)).catch((error) => {
    failures++;
    say(error.message.startsWith("Not saved") ? error.message : `Not saved: the server does not answer. Run the command again: it resumes from the file.`, true);
  });
  return queue;
}

async function send(decision) {
  const reply = await fetch("answers", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(decision) });
  const state = await reply.json();
  if (!reply.ok) throw new Error(`Not saved: ${state.error}`);
  take(state);
}

function take(state) {
  answers = new Map(state.answers.map((answer) => [answer.row, answer]));
  for (const item of state.items || []) items.set(item.row, item);
  if (state.order) order = state.order;
  teach(state);
}

function teach(state) {
  byId("learned").textContent = state.learned || "";
  const lines = state.classes || [];
  byId("classes").hidden = !lines.length;
  byId("classes").querySelector("tbody").replaceChildren(...lines.map((line) => {
    const made = element("tr");
    made.append(element("th", line[0]), ...line.slice(1).map((cell) => element("td", cell, "n")));
    return made;
  }));
}

async function record(item, answer, label = "", keep = "") {
  const decision = { row: item.row, id: item.id, given: item.given, answer, label, keep, sample: data.sample };
  if (data.served) await send(decision);
  else {
    answers.delete(item.row);
    if (answer) answers.set(item.row, decision);
    saved = false;
    const kept = memory.set(memoryKey, JSON.stringify(Array.from(answers.values())));
    say(kept ? "" : "This browser keeps nothing: save the answers to a file.");
  }
}

async function act(name) {
  const item = items.get(current);
  const button = document.querySelector(`[data-answer=${name}]`);
  if (!item || !button || button.hidden) return;
  if (name === "other" || (name === "wrong" && data.labels.length && !item.suggested)) { openPicker(); return; }
  if (name === "first") await record(item.partner, "duplicate", "", keyOf(item));
  else if (name === "second") await record(item, "duplicate", "", keyOf(item.partner));
  else await record(item, name, name === "wrong" ? item.suggested : "");
  if (data.served) say("");
  nextOpen();
}

async function undo() {
  const last = Array.from(answers.values()).pop();
  if (!last) { say("There is nothing to undo."); return; }
  const item = items.get(last.row) || Array.from(items.values()).find((one) => one.partner && one.partner.row === last.row);
  await record({ ...last }, "");
  if (item) go(item.row); else show();
  say(`Undone: ${words[last.answer]}, ${last.id || `row ${last.row}`}.`);
}

function openPicker() { byId("picker").hidden = false; byId("label").value = ""; byId("label").focus(); }
function closePicker() { byId("picker").hidden = true; byId("label").blur(); }
byId("picker").addEventListener("submit", (event) => {
  event.preventDefault();
  const label = byId("label").value.trim();
  const item = items.get(current);
  if (!data.labels.includes(label)) { say(`“${label}” is no label of these rows.`, true); return; }
  enqueue(async () => {
    await record(item, label === item.given ? "right" : "wrong", label === item.given ? "" : label);
    nextOpen();
  });
});
byId("cancel").addEventListener("click", closePicker);

// A file of answers, as the decisions of other commands.
function save() {
  const quote = (cell) => (String(cell).startsWith("'") ? `'${cell}` : cell);
  const given = data.sample ? data.items.map((item) => answers.get(item.row) || { row: item.row, id: item.id, given: item.given, answer: "", label: "", keep: "", sample: data.sample }) : Array.from(answers.values());
  download(data.file, columns, given.map((answer) => columns.map((name) => quote(answer[name]))));
  saved = true;
  say(`Saved ${data.file}${data.sample && open().length ? `; ${open().length} are still open` : ""}.`);
}

function parse(text) {
  const lines = [[""]];
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const line = lines[lines.length - 1];
    if (text[i] === '"') { if (quoted && text[i + 1] === '"') { line[line.length - 1] += '"'; i++; } else quoted = !quoted; }
    else if (text[i] === "," && !quoted) line.push("");
    else if (text[i] === "\n" && !quoted) lines.push([""]);
    else if (text[i] !== "\r" || quoted) line[line.length - 1] += text[i];
  }
  const [names, ...rest] = lines.filter((line) => line.length > 1);
  return (rest || []).map((line) => Object.fromEntries(names.map((name, i) => [name.replace(/^\ufeff/, ""), /^'[=+\-@\t\r']/.test(line[i]) ? line[i].slice(1) : line[i]])));
}

async function load(file) {
  const lines = parse(await file.text()).filter((line) => line.answer in words && (line.sample || "") === data.sample);
  const byKey = new Map(Array.from(items.values()).flatMap((item) => [item, item.partner]).filter(Boolean).map((item) => [keyOf(item), item]));
  let taken = 0;
  for (const line of lines) {
    const item = byKey.get(line.id || line.row);
    if (item) { await record(item, line.answer, line.label || "", line.keep || ""); taken++; }
  }
  show();
  say(taken ? `${taken} answers were loaded from ${file.name}.` : `${file.name} has no answers about these rows; nothing was changed.`);
}

function on(id, action) { if (byId(id)) byId(id).addEventListener("click", action); }
for (const button of all("[data-answer]")) button.addEventListener("click", () => enqueue(() => act(button.dataset.answer)));
const steps = {
  arrowleft: () => { const row = trail.pop(); if (row !== undefined) { current = row; show(); } },
  arrowright: () => { if (current >= 0) skipped.add(current); say(""); nextOpen(); },
  z: undo,
};
on("back", () => enqueue(steps.arrowleft));
on("next", () => enqueue(steps.arrowright));
on("undo", () => enqueue(undo));
on("save", save);
on("done", () => enqueue(async () => {
  await fetch("done", { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  document.querySelector("main").replaceChildren(element("h1", "Done"), element("p", `${answers.size} decisions are in ${data.file}. This page can be closed.`, "lead"));
}));
if (byId("load")) byId("load").addEventListener("change", (event) => { if (event.target.files.length) load(event.target.files[0]); });
const keys = Object.fromEntries(all("[data-answer]").map((button) => [button.querySelector("kbd").textContent.toLowerCase(), button.dataset.answer]));
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { closePicker(); return; }
  if (["INPUT", "SELECT", "SUMMARY"].includes(event.target.tagName)) return;
  const key = event.key.toLowerCase();
  if (keys[key]) { event.preventDefault(); enqueue(() => act(keys[key])); }
  else if (steps[key]) { event.preventDefault(); enqueue(steps[key]); }
  else if (key === "s" && byId("save")) { event.preventDefault(); save(); }
});
window.addEventListener("beforeunload", (event) => { if (!data.served && !saved && !memory.set(memoryKey, JSON.stringify(Array.from(answers.values())))) event.preventDefault(); });
// Another tab may have answered meanwhile.
if (data.served) window.addEventListener("focus", () => enqueue(async () => {
  const before = answers.size;
  take(await (await fetch("state")).json());
  if (answers.size !== before) { const item = items.get(current); if (item && answerOf(item)) nextOpen(); else show(); }
}));

for (const [id, name] of [["by-class", "given"], ["by-reason", "reason"]]) {
  for (const value of Array.from(new Set(data.items.map((item) => item[name]))).filter(Boolean).sort()) byId(id).append(new Option(value, value));
  byId(id).addEventListener("change", () => { byId(id).blur(); skipped = new Set(); nextOpen(); });
}
for (const label of data.labels) byId("labels").append(new Option(label, label));
if (!data.served) {
  try { for (const answer of JSON.parse(memory.get(memoryKey) || "[]")) answers.set(answer.row, answer); } catch { /* not ours */ }
}
teach(data);
nextOpen();
