// What every page needs: the theme, and tables as files that the browser saves; nothing is sent anywhere.
const byId = (id) => document.getElementById(id);
const all = (selector) => Array.from(document.querySelectorAll(selector));
const data = JSON.parse(byId("page-data").textContent);

const root = document.documentElement;
root.classList.add("scripted");
const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkScheme.matches);
const memory = { // files opened from a disk may not be allowed to remember
  get: (key) => { try { return localStorage.getItem(key); } catch { return null; } },
  set: (key, value) => { try { localStorage.setItem(key, value); return true; } catch { return false; } },
};
const onTheme = []; // what else is drawn again in other colors
function useTheme() {
  byId("theme").textContent = isDark() ? "Light mode" : "Dark mode";
  onTheme.forEach((redraw) => redraw());
}
if (["dark", "light"].includes(memory.get("gmmatch-theme"))) root.dataset.theme = memory.get("gmmatch-theme");
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  memory.set("gmmatch-theme", root.dataset.theme);
  useTheme();
});
darkScheme.addEventListener("change", useTheme);
// Printed in the light colors, whatever the screen has.
let before;
window.addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; useTheme(); });
window.addEventListener("afterprint", () => {
  if (before === undefined) delete root.dataset.theme; else root.dataset.theme = before;
  useTheme();
});
useTheme();

// The content of a row as an element; all of it by textContent.
function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
function contentOf(kind, value, small) {
  if (kind === "image") {
    const image = element("img", undefined, small ? "small" : "");
    image.src = value;
    image.alt = "";
    return image;
  }
  if (kind === "text") {
    const quote = element("blockquote", value || "(empty)");
    quote.dir = "auto";
    return quote;
  }
  return element("p", value ? `cannot be shown: ${value}` : "no picture or text: look it up by its name", "soft");
}

function download(name, header, lines) {
  const cell = (value) => {
    // A spreadsheet would run a text that begins like this.
    const formula = typeof value === "string" && /^[=+\-@\t\r]/.test(value);
    const text = (formula ? "'" : "") + String(value ?? "");
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const text = [header, ...lines].map((line) => line.map(cell).join(",")).join("\n") + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
