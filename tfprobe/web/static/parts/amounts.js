// Write amounts for people: with units, three digits, never "NaN". `null` and `undefined` are "–".

export const NOTHING = "–";

const TIMES = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const SIZES = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];
const COUNTS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

/** Three digits of a number that is not in exponent form: 1.23, 12.3, 123, 1,234. */
export function digits(number) {
  const size = Math.abs(number);
  if (size >= 999.5) return Math.round(number).toLocaleString("en");
  return number.toFixed(size >= 99.95 || size === 0 ? 0 : size >= 9.995 ? 1 : 2);
}

export function time(ns) {
  return scaled(ns, TIMES);
}

/** A time in as many digits as tell it from one that is `apart_ns` away: 8.1307 ms. */
export function exactTime(ns, apart_ns) {
  if (isNothing(ns)) return NOTHING;
  const [size, unit] = TIMES.find(([least]) => Math.abs(ns) >= least * 0.9995) ?? TIMES.at(-1);
  const decimals = Math.ceil(Math.log10(size / Math.max(apart_ns, 1)) - 1e-9);
  return ns === 0 ? "0" : `${(ns / size).toFixed(Math.min(Math.max(decimals, 0), 9))} ${unit}`;
}

export function bytes(count) {
  return scaled(count, SIZES);
}

export function large(count, unit = "") {
  if (isNothing(count)) return NOTHING;
  const text = scaled(count, COUNTS);
  // "1.20 GFLOP", but "120 FLOP".
  return `${text}${unit && /\d$/.test(text) ? " " : ""}${unit}`;
}

/** A count of things, in full. */
export function count(number) {
  return isNothing(number) ? NOTHING : Math.round(number).toLocaleString("en");
}

/** A place in an order: 1st, 2nd, 1,003rd, 11th. */
export function ordinal(number) {
  const isTeen = [11, 12, 13].includes(number % 100);
  return `${count(number)}${(!isTeen && ["", "st", "nd", "rd"][number % 10]) || "th"}`;
}

/** A ratio of 1 as per cent. */
export function percent(ratio) {
  if (isNothing(ratio)) return NOTHING;
  return ratio > 0 && ratio < 0.0005 ? "<0.1 %" : `${(100 * ratio).toFixed(1)} %`;
}

const WRITERS = { time, bytes, large, count, ratio: percent, clock };

/**
 * Write a value of a kind: "time" (ns), "bytes", "count", "large", "ratio" (of 1), "clock" (unix
 * ns); others as text.
 */
export function written(value, kind) {
  if (value === null || value === undefined) return NOTHING;
  return WRITERS[kind] ? WRITERS[kind](value) : String(value);
}

/** A moment (unix ns) as people here write it. */
export function clock(unix_ns) {
  return isNothing(unix_ns) ? NOTHING : new Date(unix_ns / 1e6).toLocaleString();
}

function scaled(value, units) {
  if (isNothing(value)) return NOTHING;
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least * 0.9995) ?? units.at(-1);
  return `${digits(value / size)} ${unit}`.trim();
}

function isNothing(value) {
  return value === null || value === undefined || !Number.isFinite(value);
}
