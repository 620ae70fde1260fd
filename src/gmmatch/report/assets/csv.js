// A table as a file that the browser saves; nothing is sent anywhere.
function download(name, header, lines) {
  const cell = (value) => {
    // As gmmatch.files.plain_cell: a spreadsheet would run a text that begins like this.
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
