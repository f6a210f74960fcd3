// Format numbers for people: with units, in three significant digits. A missing value, or one that
// is not a number, is "–". The rules are data shared with tfprobe/report/format/numbers.py, so that
// a number reads the same on a page and in a terminal.
import NUMBER_RULES from "../../../report/format/number_rules.json" with { type: "json" };

export const NOTHING = NUMBER_RULES.nothing;

export function time(ns) {
  const { minutes_from_ns, time_units } = NUMBER_RULES;
  if (isNothing(ns) || Math.abs(ns) < minutes_from_ns) return scaled(ns, time_units);
  const [second_ns] = time_units[0];
  const seconds = rounded(Math.abs(ns) / second_ns);
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minus(ns)}${minutes} min ${seconds % 60} s`
    : `${minus(ns)}${count(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** A time with enough digits to distinguish it from one that is `apart_ns` away: 8.1307 ms. */
export function exactTime(ns, apart_ns) {
  if (isNothing(ns)) return NOTHING;
  if (ns === 0) return "0";
  const [factor, unit] = unitOf(ns, NUMBER_RULES.time_units);
  const decimals = Math.ceil(Math.log10(factor / Math.max(apart_ns, 1)) - 1e-9);
  return `${fixed(ns / factor, Math.min(Math.max(decimals, 0), 9))} ${unit}`;
}

export function bytes(amount) {
  return scaled(amount, NUMBER_RULES.byte_units);
}

/** Bytes per second, in the decimal units of buses and networks. */
export function byteRate(bytes_per_s) {
  return large(bytes_per_s, "B/s");
}

/** An amount with a decimal prefix: 1.23 M, 1.23 GFLOP. */
export function large(amount, unit = "") {
  return scaled(amount, NUMBER_RULES.decimal_prefixes, unit);
}

/** A count of things, in full. */
export function count(number) {
  return isNothing(number) ? NOTHING : fixed(number, 0);
}

/** An ordinal: 1st, 2nd, 1,003rd, 11th. */
export function ordinal(number) {
  const isTeen = [11, 12, 13].includes(number % 100);
  return `${count(number)}${(!isTeen && ["", "st", "nd", "rd"][number % 10]) || "th"}`;
}

/** Three digits of a number, for a column of numbers: 0.20, 2.00, 12.3, 1,234. */
export function digits(number) {
  if (isNothing(number)) return NOTHING;
  const size = Math.abs(number);
  if (0 < size && size < NUMBER_RULES.least / 2) return below(number, `${NUMBER_RULES.least}`);
  if (size === 0) return "0";
  return fixed(number, decimalsOf(size, NUMBER_RULES.decimals_from));
}

/** Three digits of a number without trailing zeros, for a sentence: 0.2, 2, 12.3. */
export function plainNumber(number) {
  const text = digits(number);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A ratio (0..1) as a percentage. */
export function percent(ratio) {
  if (isNothing(ratio)) return NOTHING;
  const { least_percent, percent_decimals_from } = NUMBER_RULES;
  const size = Math.abs(100 * ratio);
  if (0 < size && size < least_percent) return below(ratio, `${least_percent} %`);
  return `${fixed(100 * ratio, decimalsOf(size, percent_decimals_from))} %`;
}

/** A change with its sign: +1.2 %, −0.3 %. */
export function signedPercent(ratio) {
  if (isNothing(ratio)) return NOTHING;
  const decimals = decimalsOf(Math.abs(100 * ratio), NUMBER_RULES.percent_decimals_from);
  return `${ratio < 0 ? "" : "+"}${fixed(100 * ratio, decimals)} %`;
}

const WRITERS = { time, bytes, large, count, ratio: percent, clock };

/**
 * Format a value of a kind: "time" (ns), "bytes", "count", "large", "ratio" (0..1), "clock" (unix
 * ns); others as text.
 */
export function written(value, kind) {
  if (value === null || value === undefined) return NOTHING;
  return WRITERS[kind] ? WRITERS[kind](value) : String(value);
}

/** A time of day (unix ns) in the browser's locale. */
export function clock(unix_ns) {
  return isNothing(unix_ns) ? NOTHING : new Date(unix_ns / 1e6).toLocaleString();
}

function scaled(value, units, of = "") {
  if (isNothing(value)) return NOTHING;
  const [factor, unit] = unitOf(value, units);
  // A whole number of the smallest unit is exact, and needs no decimals.
  const isExact = factor === 1 && Number.isInteger(value);
  return `${isExact ? count(value) : digits(value / factor)} ${unit}${of}`.trimEnd();
}

function unitOf(value, units) {
  const { unit_from } = NUMBER_RULES;
  return units.find(([factor]) => Math.abs(value) >= factor * unit_from) ?? units.at(-1);
}

function decimalsOf(size, decimals_from) {
  return decimals_from.find(([least]) => size >= least)[1];
}

function fixed(value, decimals) {
  const factor = 10 ** decimals;
  const all = rounded(Math.abs(value) * factor);
  const whole = String(Math.floor(all / factor)).replace(
    /\B(?=(?:\d{3})+$)/g,
    NUMBER_RULES.thousands,
  );
  const fraction = decimals ? `.${String(all % factor).padStart(decimals, "0")}` : "";
  return `${minus(value)}${whole}${fraction}`;
}

/** Round half up: `toFixed` and Python's formats differ in what they do with a half. */
function rounded(size) {
  return Math.floor(size + 0.5);
}

function minus(value) {
  return value < 0 ? NUMBER_RULES.minus : "";
}

function below(value, least) {
  return value > 0 ? `<${least}` : `>${NUMBER_RULES.minus}${least}`;
}

function isNothing(value) {
  return value === null || value === undefined || !Number.isFinite(value);
}
