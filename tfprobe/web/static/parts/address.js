// The address holds the state: `#/run/ID/ops?work=3&sort=-total_ns`. Opened elsewhere, it shows
// the same.
import { fileRun } from "./data.js";

/**
 * Parse an address: the run ("" for the list of runs, which no file has), the page and its
 * arguments.
 */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [, kind = "", run = "", page = ""] = path.split("/").map(decoded);
  return {
    run: kind === "run" ? run : fileRun,
    page,
    args: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** The address of a page, for links: `href: addressOf(run, "ops", { sort: "-total_ns" })`. */
export function addressOf(run, page, args = {}) {
  const kept = Object.entries(args).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined,
  );
  const query = new URLSearchParams(kept).toString();
  const path = run ? `#/run/${encodeURIComponent(run)}/${page}` : "#/";
  return query ? `${path}?${query}` : path;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
