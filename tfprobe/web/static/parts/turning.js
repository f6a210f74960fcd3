// Pages that are drawn anew when their arguments change or the run has something new.
import { Trouble } from "./data.js";
import { fill, make } from "./elements.js";

/**
 * Draw a page, and give `main.js` what it needs to draw it again.
 * `asked(args)` are the arguments of the document `name`; `content(found, args)` returns elements.
 * Of two answers under way at once the older is thrown away.
 */
export async function turning(place, context, name, asked, content) {
  let args = context.args;
  let newest = 0;

  async function drawn() {
    newest += 1;
    const mine = newest;
    const found = await context.ask(name, asked(args));
    if (mine === newest && !context.signal.aborted) fill(place, content(found, args));
  }

  async function again() {
    try {
      await drawn();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Trouble)) throw error;
      fill(place, make("p", { class: "trouble", role: "alert" }, error.message));
    }
  }

  await drawn();
  return {
    turn(changed) {
      args = changed;
      return again();
    },
    update: again,
  };
}

/** The arguments of these names, as far as they are given. */
export function argsOf(args, ...names) {
  return Object.fromEntries(names.filter((name) => args[name]).map((name) => [name, args[name]]));
}
