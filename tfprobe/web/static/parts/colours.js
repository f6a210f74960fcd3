// The colours of base.css as values, for canvases, and the choice between light and dark.

const SERIES = 10;
const HEATS = 5;
const THEME_KEY = "tfprobe.theme";

const colourPlace = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colourProbe = document.createElement("i");
const colourCache = new Map();
const colourWatchers = new Set();

/**
 * The value of a colour of base.css: `colour("accent")`, `colour("part-idle")` is "rgb(…)".
 * With `strength` it is mixed into the background of cards, pale enough for text on top:
 * `colour("on", 0.4)`.
 */
export function colour(name, strength = 1) {
  const key = `${name} ${strength}`;
  if (!colourCache.has(key)) colourCache.set(key, colourNow(name, strength));
  return colourCache.get(key);
}

/** The same, but translucent, for areas. */
export function veil(name, strength) {
  return colour(name).replace("rgb(", "rgba(").replace(")", `, ${strength})`);
}

/**
 * The name of the colour of a part of a step's cycle, as documents name it ("input_wait", "on").
 */
export function partColour(part) {
  return ["before", "on", "after", "other"].includes(part) ? part : `part-${part}`;
}

/** The name of the n-th colour for things that have none of their own. */
export function seriesColour(number) {
  return `series-${(number % SERIES) + 1}`;
}

/** The same colour for the same name, wherever it is shown: for types of ops, scopes. */
export function nameColour(name) {
  let hash = 0;
  for (const character of String(name).slice(0, 200))
    hash = (hash * 31 + character.codePointAt(0)) >>> 0;
  return seriesColour(hash);
}

/** The values of the colours from low to high, for scales. */
export function heatColours() {
  return Array.from({ length: HEATS }, (_, at) => colour(`heat-${at}`));
}

/** The value of a colour between low (0) and high (1). */
export function heat(ratio) {
  const scaled = Math.min(Math.max(ratio, 0), 1) * (HEATS - 1);
  const low = Math.min(Math.floor(scaled), HEATS - 2);
  return colourBetween(colour(`heat-${low}`), colour(`heat-${low + 1}`), scaled - low);
}

/** Call a function when light becomes dark or dark light; returns a function that stops this. */
export function onColours(watcher) {
  colourWatchers.add(watcher);
  return () => colourWatchers.delete(watcher);
}

/** "light", "dark", or "" for the system's setting. */
export function chosenTheme() {
  return document.documentElement.dataset.theme ?? "";
}

/** Select "light", "dark" or "", and store it if the browser allows. */
export function chooseTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    if (theme) localStorage.setItem(THEME_KEY, theme);
    else localStorage.removeItem(THEME_KEY);
  } catch {
    // A file cannot store anything, and a browser may forbid it: the choice then lasts as long as
    // the page.
  }
  coloursChanged();
}

/** Apply the theme that was selected last. */
export function recallTheme() {
  try {
    const kept = localStorage.getItem(THEME_KEY);
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // As above.
  }
}

/** Whether the page is dark now. */
export function isDark() {
  return chosenTheme()
    ? chosenTheme() === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Whether the user prefers reduced motion. */
export function isStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

function coloursChanged() {
  colourCache.clear();
  for (const watcher of [...colourWatchers]) watcher();
}

function colourNow(name, strength) {
  if (!colourProbe.isConnected) document.documentElement.append(colourProbe);
  colourProbe.hidden = true;
  colourProbe.style.color =
    strength === 1
      ? `var(--${name})`
      : `color-mix(in srgb, var(--${name}) ${100 * strength}%, var(--card))`;
  // Drawn and read back, because libraries understand fewer colour notations than the browser.
  colourPlace.fillStyle = getComputedStyle(colourProbe).color;
  colourPlace.fillRect(0, 0, 1, 1);
  const [red, green, blue] = colourPlace.getImageData(0, 0, 1, 1).data;
  return `rgb(${red}, ${green}, ${blue})`;
}

function colourBetween(one, other, ratio) {
  const [from, to] = [one, other].map((text) => text.match(/\d+/g).map(Number));
  return `rgb(${from.map((each, at) => Math.round(each + (to[at] - each) * ratio)).join(", ")})`;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", coloursChanged);
