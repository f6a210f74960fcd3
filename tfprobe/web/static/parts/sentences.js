// Sentences and names that several pages write the same way.
import { bytes, count } from "./amounts.js";
import { make } from "./elements.js";

/** Turn a reason into a sentence: "no step was traced" becomes "No step was traced." */
export function sentence(reason) {
  const text = String(reason ?? "");
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** Make a text in which code stands between backquotes. */
export function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));
}

/** The placeholder for missing content, with the reason. */
export function absent(reason) {
  return make("p", { class: "soft" }, withCode(sentence(reason)));
}

/**
 * The one-line name of a process: its rank, its host, its program if there are several, and its
 * number there.
 */
export function processName(each) {
  const number = each.pid ? `pid ${each.pid}` : null;
  const where = [
    each.host,
    each.program && number ? `${each.program} (${number})` : (each.program ?? number),
  ]
    .filter(Boolean)
    .join(" ");
  if (each.rank === null || each.rank === undefined) return where || `process ${each.process + 1}`;
  return where ? `rank ${each.rank} · ${where}` : `rank ${each.rank}`;
}

/** The same in one or two words, for axes. */
export function processWord(each) {
  if (each.rank !== null && each.rank !== undefined) return `rank ${each.rank}`;
  if (each.program) return each.pid ? `${each.program} (${each.pid})` : each.program;
  return each.pid ? `${each.host} ${each.pid}` : `process ${each.process + 1}`;
}

/** The line below all rows of a document: "and 1,234 more". */
export function andMore(number, what = "more") {
  return number > 0 ? make("p", { class: "soft small" }, `and ${count(number)} ${what}.`) : null;
}

/** How memory grows with steps, as a word and a sentence. */
export function growthText(growth) {
  if (!growth?.verdict) return sentence(growth?.missing ?? "growth is unknown");
  const slope = `${bytes(Math.abs(growth.bytes_per_step))} a step`;
  const over = `in steps ${count(growth.first_step)} to ${count(growth.last_step)}`;
  if (growth.verdict === "growing")
    return `It grows by ${slope} ${over} and does not stop: a leak.`;
  if (growth.verdict === "warming_up") return `It grew during warm-up and stopped ${over}.`;
  return `It is steady ${over}.`;
}
