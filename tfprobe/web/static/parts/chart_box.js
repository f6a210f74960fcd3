// What all charts share: they are drawn when their box has a size and is in the document, redrawn
// when the size or the colours change, and removed with the box. Pages need not do anything.
import { onColours } from "./colours.js";
import { make } from "./elements.js";
import { table } from "./table.js";
import { hideTip } from "./tip.js";

/**
 * Keep a drawing in a box of `height` pixels. `begin(box)` draws, and returns
 * `{ resize(), end() }`.
 * Returns `{ box, redraw(), destroy() }`.
 */
export function chartBox(place, { label, height, className = "" }, begin) {
  const box = make("div", {
    class: `chart-box ${className}`.trim(),
    role: "group",
    "aria-label": label,
    style: height ? { height: `${height}px` } : {},
  });
  place.append(box);
  let alive = null;
  let forget = null;
  let width = 0;

  const observer = new ResizeObserver(() => {
    const now = box.isConnected ? box.clientWidth : 0;
    if (now === width && alive) return;
    width = now;
    if (!width) end();
    else if (alive) alive.resize();
    else start();
  });
  observer.observe(box);

  function start() {
    alive = begin(box);
    forget ??= onColours(redraw);
  }

  function end() {
    hideTip();
    alive?.end();
    alive = null;
    forget?.();
    forget = null;
  }

  function redraw() {
    if (!alive) return;
    alive.end();
    alive = begin(box);
  }

  function destroy() {
    observer.disconnect();
    end();
    box.remove();
  }

  return { box, redraw, destroy };
}

/**
 * The data of a chart as a table, made when it is opened: for keyboards, copying and screen
 * readers.
 */
export function dataOf(place, caption, { columns, rows, csvName }) {
  const details = make("details", { class: "chart-data" }, make("summary", {}, "As a table"));
  details.addEventListener("toggle", () => {
    const had = details.querySelector(".table");
    if (!details.open) return had?.remove();
    if (!had) details.append(table({ columns: columns(), rows: rows(), caption, csvName }));
  });
  place.append(details);
  return { element: details, refresh: () => details.querySelector(".table")?.update(rows()) };
}
