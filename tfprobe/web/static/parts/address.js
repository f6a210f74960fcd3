// The address holds the state: `#/run/ID/ops?work=3&sort=-total_ns`. Opened elsewhere, it shows
// the same.
import { fileRun } from "./data.js";

/**
 * Parse an address: the run ("" for pages of the whole directory, which no file has), the page and
 * its arguments. `#/` is the list of runs, `#/trials` another page of the directory.
 */
export function here() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [, kind = "", run = "", page = ""] = path.split("/").map(decoded);
  const isOfRun = kind === "run";
  return {
    run: isOfRun ? run : fileRun,
    page: isOfRun ? page : kind,
    args: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** The address of a page, for links: `href: addressOf(run, "ops", { sort: "-total_ns" })`. */
export function addressOf(run, page, args = {}) {
  const kept = Object.entries(args).filter(
    ([, value]) => value !== "" && value !== null && value !== undefined,
  );
  const query = new URLSearchParams(kept).toString();
  const ofDirectory = page === "runs" ? "" : page;
  const path = run ? `#/run/${encodeURIComponent(run)}/${page}` : `#/${ofDirectory}`;
  return query ? `${path}?${query}` : path;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
