// Tables that sort, filter, download, and stay fast with many rows.
import { count, written } from "./amounts.js";
import { called, freshId, missing, nameOf } from "./controls.js";
import { csvOf, keepAs } from "./csv.js";
import { fill, make } from "./elements.js";

// Up to this number all rows are in the document, so that the browser's own search finds them;
// beyond it, only visible ones.
const ALL_ROWS = 500;
const ROW_PX = 28;
const ROWS_BEYOND = 20;
const NUMERIC = new Set(["time", "bytes", "count", "large", "ratio", "number"]);

/**
 * Make a table of rows, each any object. Returns the element, which has `update(rows)`.
 *
 * `columns`: `{ key, title, kind, hint, value, cell, bar, unit, missing, colour, wide }`
 *   kind: "time" (ns), "bytes", "count", "large", "ratio", "number", "clock"; text by default
 *   value(row): what is sorted, filtered and downloaded; `row[key]` by default
 *   cell(row): what is shown instead of the formatted value: an element or a text
 *   bar: true draws a bar next to the number: ratios against 1, others against the column's maximum
 *   missing(row): why there is no value, for the dash
 * `sort`: "-total_ns" or "name"; `filter`: the text searched for; `onSort(sort)`, `onFilter(text)`
 *   receive the user's choice, for the address.
 * `caption`: the heading; `csvName`: the file name, without which there is no download;
 * `key(row)`: identifies a row; `chosen`: the key of the row that is highlighted;
 * `onOpen(row)` or `href(row)`: the first column opens the row, `onOpen` if it has a value;
 * `of`: how many rows the recording has, if the document has only the most expensive;
 * `tools`: elements for the line above the table; `none`: the text if there is no row.
 */
export function table({
  columns,
  rows,
  sort = "",
  filter = "",
  onSort,
  onFilter,
  caption,
  csvName,
  key,
  chosen,
  onOpen,
  href,
  of,
  tools = [],
  none = "There are none.",
  search = true,
}) {
  const shownColumns = columns.map((column) => ({
    ...column,
    value: column.value ?? ((row) => row[column.key]),
  }));
  const state = { rows, sort, filter, found: [], texts: null, most: new Map() };
  const captionId = freshId("caption");
  const headings = shownColumns.map(tableHeading);
  const body = make("tbody");
  const grid = make(
    "table",
    { "aria-labelledby": captionId },
    make("thead", {}, make("tr", {}, headings)),
    body,
  );
  const place = make(
    "div",
    { class: "table-place", role: "region", tabindex: "0", "aria-labelledby": captionId },
    grid,
  );
  const counted = make("span", { class: "count", role: "status" });
  const box = make("input", {
    type: "search",
    value: filter,
    placeholder: "Search",
    "aria-label": `Search ${caption}`,
    onfocus: searched,
    oninput: () => filtered(box.value),
  });
  const element = make(
    "section",
    { class: "table", "aria-labelledby": captionId },
    make(
      "div",
      { class: "table-tools" },
      make("h3", { id: captionId }, caption),
      search ? box : null,
      counted,
      tools,
      csvName
        ? make(
            "div",
            { class: "end" },
            make("button", { type: "button", onclick: download }, "CSV"),
          )
        : null,
    ),
    place,
  );
  let drawnFrom = -1;
  place.addEventListener("scroll", () => state.found.length > ALL_ROWS && drawWindow(false), {
    passive: true,
  });

  element.update = (newRows, { of: newOf = of } = {}) => {
    of = newOf;
    Object.assign(state, { rows: newRows, texts: null });
    state.most.clear();
    arrange();
  };
  arrange();
  return element;

  function tableHeading(column) {
    const label = make(
      "button",
      { type: "button", title: column.hint, onclick: () => sorted(column) },
      column.title,
    );
    return make("th", { scope: "col", class: tableClass(column), "data-key": column.key }, label);
  }

  function sorted(column) {
    const first = NUMERIC.has(column.kind) ? "-" : "";
    const other = first ? "" : "-";
    state.sort = state.sort === first + column.key ? other + column.key : first + column.key;
    place.scrollTop = 0;
    arrange();
    onSort?.(state.sort);
  }

  function filtered(text) {
    state.filter = text;
    place.scrollTop = 0;
    arrange();
    onFilter?.(text);
  }

  function arrange() {
    state.found = orderedRows(shownColumns, matchingRows());
    for (const heading of headings) {
      const isIt = state.sort.replace(/^-/, "") === heading.dataset.key;
      if (isIt)
        heading.setAttribute("aria-sort", state.sort.startsWith("-") ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
    fill(counted, tableCount(state.found.length, state.rows.length, of));
    draw();
  }

  function matchingRows() {
    const wanted = state.filter.trim().toLowerCase();
    if (!wanted) return state.rows;
    const texts = searched();
    return state.rows.filter((_, at) => texts[at].includes(wanted));
  }

  function searched() {
    state.texts ??= state.rows.map((row) => searchedText(shownColumns, row));
    return state.texts;
  }

  function orderedRows(all, found) {
    const name = state.sort.replace(/^-/, "");
    const column = all.find((each) => each.key === name);
    if (!column) return found;
    const turned = state.sort.startsWith("-") ? -1 : 1;
    const keyed = found.map((row, at) => [column.value(row), at, row]);
    keyed.sort(([one, before], [other, after]) => compared(one, other, turned) || before - after);
    return keyed.map(([, , row]) => row);
  }

  function draw() {
    drawnFrom = -1;
    grid.setAttribute("aria-rowcount", String(state.found.length + 1));
    if (state.found.length === 0) {
      const why = state.rows.length ? "No row contains that text." : none;
      fill(
        body,
        make("tr", {}, make("td", { class: "no-rows", colspan: String(shownColumns.length) }, why)),
      );
    } else if (state.found.length <= ALL_ROWS)
      fill(
        body,
        state.found.map((row, at) => tableRow(row, at)),
      );
    else drawWindow(true);
  }

  function drawWindow(anyway) {
    const seen = Math.ceil((place.clientHeight || 900) / ROW_PX);
    const first = Math.max(0, Math.floor(place.scrollTop / ROW_PX) - ROWS_BEYOND);
    const from = first - (first % 10);
    if (from === drawnFrom && !anyway) return;
    drawnFrom = from;
    const to = Math.min(state.found.length, from + seen + 2 * ROWS_BEYOND + 10);
    const rowsNow = state.found.slice(from, to).map((row, at) => tableRow(row, from + at));
    fill(body, filler(from), rowsNow, filler(state.found.length - to));
  }

  function filler(hidden) {
    const cell = make("td", {
      colspan: String(shownColumns.length),
      style: { height: `${hidden * ROW_PX}px` },
    });
    return make("tr", { class: "filler", "aria-hidden": "true" }, cell);
  }

  function tableRow(row, at) {
    const cells = shownColumns.map((column, number) => tableCell(column, row, number === 0));
    const is =
      chosen !== undefined && chosen !== null && key && String(key(row)) === String(chosen);
    return make(
      "tr",
      { "aria-rowindex": String(at + 2), "data-chosen": is, "aria-current": is ? "true" : null },
      cells,
    );
  }

  function tableCell(column, row, isFirst) {
    const value = column.value(row);
    const shown = column.cell ? column.cell(row) : plainCell(column, row, value);
    const opened = isFirst ? openable(row, shown, value) : shown;
    const content = column.bar && Number.isFinite(value) ? withBar(column, value, opened) : opened;
    return make("td", { class: tableClass(column) }, content);
  }

  function plainCell(column, row, value) {
    if (value === null || value === undefined) return missing(column.missing?.(row));
    return NUMERIC.has(column.kind) || column.kind === "clock"
      ? written(value, column.kind)
      : nameOf(value);
  }

  function openable(row, content, value) {
    const text = content?.textContent ?? content;
    const shown = called(text) === text ? content : called(text);
    if (href) return make("a", { href: href(row), class: "cut" }, shown);
    // What has no value names nothing that could be opened.
    return onOpen && value !== null && value !== undefined
      ? make(
          "button",
          {
            type: "button",
            class: "open",
            onclick: () => onOpen(row),
            title: String(value ?? "").slice(0, 2000),
          },
          shown,
        )
      : shown;
  }

  function withBar(column, value, shown) {
    const share = column.kind === "ratio" ? value : value / mostOf(column);
    const line = make("i", {
      style: {
        width: `${100 * Math.min(Math.max(share || 0, 0), 1)}%`,
        background: column.colour ? `var(--${column.colour})` : null,
      },
    });
    return make(
      "span",
      { class: "with-bar" },
      make("span", {}, shown),
      make("span", { class: "bar", "aria-hidden": "true" }, line),
    );
  }

  function mostOf(column) {
    if (!state.most.has(column.key)) {
      let most = 0;
      for (const row of state.rows) most = Math.max(most, column.value(row) ?? 0);
      state.most.set(column.key, most || 1);
    }
    return state.most.get(column.key);
  }

  function download() {
    keepAs(`${csvName}.csv`, csvOf(shownColumns, state.found), "text/csv;charset=utf-8");
  }
}

function tableClass(column) {
  return NUMERIC.has(column.kind) ? "numeric" : column.kind ? null : "name";
}

function tableCount(found, all, of) {
  const shown = found === all ? `${count(all)}` : `${count(found)} of ${count(all)}`;
  return of && of > all ? `${shown}, the first of ${count(of)}` : shown;
}

function searchedText(columns, row) {
  let text = "";
  for (const column of columns) {
    if (column.kind) continue;
    const value = column.value(row);
    if (value !== null && value !== undefined) text += `${value}\n`;
  }
  return text.toLowerCase();
}

/** Unknown values come last, in either sort order. */
function compared(one, other, turned) {
  const lacks = (one === null || one === undefined) - (other === null || other === undefined);
  if (lacks || one === null || one === undefined) return lacks;
  if (typeof one === "number" && typeof other === "number") return turned * (one - other);
  return turned * (String(one) < String(other) ? -1 : String(one) > String(other) ? 1 : 0);
}
