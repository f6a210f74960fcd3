// Update a page in place: less often the longer an update takes, and without the user losing their
// place.

// A page that takes a second to draw is drawn every tenth second at most: jobs run on the same
// machine.
const REST_RATIO = 9;
const LEAST_MS = 1000;

/**
 * Return a function that requests an update: `update` is called soon, never concurrently, and not
 * again before a pause. Requests made meanwhile are joined into one.
 */
export function throttled(update) {
  let waiting = null;
  let isAtIt = false;

  async function go() {
    if (isAtIt || waiting === null) return;
    isAtIt = true;
    const changed = waiting;
    waiting = null;
    const began_ms = performance.now();
    try {
      await update(changed);
    } finally {
      const took_ms = performance.now() - began_ms;
      setTimeout(
        () => {
          isAtIt = false;
          go();
        },
        Math.max(LEAST_MS, REST_RATIO * took_ms),
      );
    }
  }

  return (changed) => {
    waiting = new Set([...(waiting ?? []), ...changed]);
    go();
  };
}

/** Whether the user is in the middle of something that an update would interrupt. */
export function isBusyIn(place) {
  const now = document.activeElement;
  if (document.querySelector("dialog[open]") || String(getSelection())) return true;
  return place.contains(now) && now.matches("input, select, textarea");
}

/**
 * Replace the old content by new content; scroll positions and the focus are preserved.
 */
export function replaceInPlace(place, content) {
  const old = place.firstElementChild;
  const focused = old ? domPath(old, document.activeElement) : null;
  const scrolls = old
    ? [...old.querySelectorAll("*")]
        .filter((each) => each.scrollTop || each.scrollLeft)
        .map((each) => [domPath(old, each), each.scrollTop, each.scrollLeft])
    : [];
  const opened = old
    ? [...old.querySelectorAll("details[open]")].map((each) => domPath(old, each))
    : [];
  const { scrollX, scrollY } = window;
  place.replaceChildren(content);
  for (const path of opened) elementAt(content, path)?.setAttribute("open", "");
  return () => {
    for (const [path, top, left] of scrolls) elementAt(content, path)?.scrollTo(left, top);
    scrollTo(scrollX, scrollY);
    if (focused) elementAt(content, focused)?.focus({ preventScroll: true });
  };
}

/**
 * The path from an element to a descendant, as indices of children; null if it is not inside.
 */
function domPath(root, element) {
  if (!root.contains(element) || root === element) return null;
  const path = [];
  for (let each = element; each !== root; each = each.parentElement)
    path.unshift([...each.parentElement.children].indexOf(each));
  return { path, tag: element.tagName };
}

function elementAt(root, { path, tag }) {
  const found = path.reduce((element, place) => element?.children[place], root);
  return found?.tagName === tag ? found : null;
}
