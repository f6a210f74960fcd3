// Changes in runs, as the server reports them: none in a single file, and none while the page is
// hidden.
import { isFile } from "./data.js";
import { fill, make } from "./elements.js";

// A browser reconnects by itself after a lost connection, but not after a refusal.
const AGAIN_MS = 5000;
const LIVE_STATES = new Set(["running", "stopped"]);

/**
 * Listen for changes in all runs. `onNews(news)` receives a Map from run to `{ word, changed }`:
 * its current facts (`state`, `steps`, `captures`, `processes`; null if it is gone), and the names of
 * those that changed. `onLink(isThere)` is called when the server is lost and when it is back.
 */
export function listenForNews(onNews, onLink) {
  if (isFile) return;
  const known = new Map();
  let source = null;
  let again = null;

  function open() {
    source = new EventSource("/api/events");
    source.addEventListener("open", () => onLink(true));
    source.addEventListener("all", (event) => received(JSON.parse(event.data), true));
    source.addEventListener("news", (event) => received(JSON.parse(event.data), false));
    source.addEventListener("error", () => {
      onLink(false);
      if (source?.readyState === EventSource.CLOSED) again = setTimeout(open, AGAIN_MS);
    });
  }

  function close() {
    clearTimeout(again);
    source?.close();
    source = null;
  }

  function received(words, isAll) {
    const isFirst = known.size === 0 && isAll;
    const gone = isAll
      ? [...known.keys()].filter((run) => !Object.hasOwn(words, run)).map((run) => [run, null])
      : [];
    const news = new Map();
    for (const [run, word] of [...Object.entries(words), ...gone]) {
      // The first message is the state that the page was opened with, except for what a running
      // job has done since.
      const changed = isFirst && !isLive(word.state) ? [] : liveChanges(known.get(run), word);
      if (word) known.set(run, word);
      else known.delete(run);
      if (changed.length || isFirst) news.set(run, { word, changed });
    }
    if (news.size) onNews(news);
  }

  // A browser opens at most six connections to a server for all of its tabs; this is one of them.
  document.addEventListener("visibilitychange", () =>
    document.hidden ? close() : (source ?? open()),
  );
  if (!document.hidden) open();
}

/** Whether a run in this state may still grow. */
export function isLive(state) {
  return LIVE_STATES.has(state);
}

/**
 * The mark in the frame that says how recent a page is: an element with `state(state)`, `updated()`
 * and `link(isThere)`. Screen readers announce only what matters, not each second.
 */
export function liveMark() {
  const text = make("span", { class: "live-text", "aria-hidden": "true" });
  const said = make("span", { class: "hidden-text", role: "status" });
  const element = make(
    "span",
    { class: "live", hidden: isFile },
    make("i", { class: "live-dot" }),
    text,
    said,
  );
  let state = "";
  let updated_ms = Date.now();
  let isThere = true;

  function tell() {
    const mode = !isThere ? "lost" : isLive(state) ? "live" : "still";
    element.dataset.mode = mode;
    const ago_s = Math.max(0, Math.round((Date.now() - updated_ms) / 1000));
    const mood = {
      lost: "the server is gone",
      live: `${state === "stopped" ? "stopped" : "live"}, updated ${agoText(ago_s)}`,
      still: "",
    }[mode];
    text.textContent = mood;
    const words = {
      lost: "The server is gone. The page is no longer updated.",
      live: "Live: the page follows the run.",
      still: "",
    }[mode];
    if (said.textContent !== words) fill(said, words);
    element.hidden = isFile || mode === "still";
  }

  if (!isFile) setInterval(tell, 1000);
  return {
    element,
    state(now) {
      state = now;
      tell();
    },
    updated() {
      updated_ms = Date.now();
      tell();
    },
    link(now) {
      isThere = now;
      tell();
    },
  };
}

function agoText(seconds) {
  if (seconds < 2) return "now";
  if (seconds < 120) return `${seconds} s ago`;
  return `${Math.round(seconds / 60)} min ago`;
}

function liveChanges(before, word) {
  if (!word || !before) return word || before ? ["state", "captures", "steps"] : [];
  return Object.keys(word).filter((key) => word[key] !== before[key]);
}
