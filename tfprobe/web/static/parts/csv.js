// Write tables as CSV (RFC 4180), with raw numbers and their units in the heading.
import { make } from "./elements.js";

const CSV_UNITS = { time: "ns", bytes: "B", ratio: "ratio", clock: "unix ns" };
// What a spreadsheet treats as a formula; names of ops and files may begin like one.
const CSV_FORMULA = /^[=+\-@\t\r]/;

/**
 * One line for the heading, one for each row: `csvOf(columns, rows)` with the columns of a table.
 */
export function csvOf(columns, rows) {
  const heading = columns.map(({ title, kind, unit }) => {
    const unitName = unit ?? CSV_UNITS[kind];
    return unitName ? `${title} (${unitName})` : title;
  });
  const lines = rows.map((row) => columns.map((column) => column.value(row)));
  return [heading, ...lines].map((cells) => `${cells.map(csvCell).join(",")}\r\n`).join("");
}

/** Let the browser save a text as a file. */
export function keepAs(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = Array.isArray(value) ? value.join("; ") : String(value);
  const safe = CSV_FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
