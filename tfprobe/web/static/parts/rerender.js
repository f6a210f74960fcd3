// Pages that are redrawn when their arguments change, or while the run is in progress.
import { ApiError } from "./data.js";
import { isBusyIn, replaceInPlace } from "./dom_update.js";
import { fill, make } from "./elements.js";

/**
 * Draw a page, and give `main.js` what it needs to draw it again.
 * `asked(args)` are the arguments of the document `name`; `content(found, args)` returns elements.
 * If two requests are in flight, the older answer is discarded. With `everyMs` the page is redrawn
 * while the run is in progress, at most that often; without it, when steps were traced.
 */
export async function rerender(place, context, { name, query, content, everyMs = 0 }) {
  let args = context.args;
  let newest = 0;
  let drawnAt = 0;

  async function draw(put) {
    newest += 1;
    const mine = newest;
    const found = await context.ask(name, query(args));
    if (mine !== newest || context.signal.aborted) return;
    put(place, make("div", { class: "turned" }, content(found, args)));
    drawnAt = Date.now();
  }

  async function turn(changed) {
    args = changed;
    try {
      await draw(fill);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      fill(place, make("p", { class: "trouble", role: "alert" }, error.message));
    }
  }

  async function update(changed) {
    const isDue = changed.has("state") || Date.now() - drawnAt >= everyMs;
    if (isDue && !isBusyIn(place)) await draw((where, drawing) => replaceInPlace(where, drawing)());
  }

  await draw(fill);
  return everyMs ? { turn, update } : { turn };
}

/** The arguments of these names that are present. */
export function argsOf(args, ...names) {
  return Object.fromEntries(names.filter((name) => args[name]).map((name) => [name, args[name]]));
}
