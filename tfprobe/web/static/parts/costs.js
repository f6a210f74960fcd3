// What the pages of costs share: the choice of a metric, its columns, trees of places.
import { here } from "./address.js";
import { count, large, percent, plainNumber, written } from "./amounts.js";
import { choose, missing, nameOf, tabs, workChooser } from "./controls.js";
import { ApiError } from "./data.js";
import { fill, make } from "./elements.js";
import { flame } from "./flame.js";
import { isUnknown } from "./session.js";
import { table } from "./table.js";

/** The metrics that a tree can be drawn by: column, format and title. */
export const METRICS = {
  time: { column: "time_ns", kind: "time", title: "Time" },
  bytes: { column: "bytes", kind: "bytes", title: "Bytes" },
  float_ops: { column: "float_ops", kind: "large", title: "FLOPs" },
  params: { column: "params", kind: "large", title: "Parameters" },
};

/** The choice of the metric, of those in the recording. */
export function metricChooser(found, onChange) {
  const known = Object.entries(METRICS).filter(
    ([name, { column }]) => !(column in found.missing) || name === found.metric,
  );
  return choose({
    label: "By",
    options: known.map(([name, { title }]) => [name, title]),
    value: found.metric,
    onChange,
  });
}

/** The metrics that are unknown for all ops, in one line with the reasons; nothing if none is. */
export function unknownCosts(found) {
  const reasons = new Map();
  for (const [name, reason] of Object.entries(found.missing)) {
    const title = COLUMN_TITLES[name] ?? name;
    reasons.set(reason, [...(reasons.get(reason) ?? []), title.toLowerCase()]);
  }
  if (!reasons.size) return null;
  const unknown = [...reasons]
    .map(([reason, names]) => `${names.join(" and ")}: ${reason}`)
    .join("; ");
  return make("p", { class: "soft small" }, `Not shown are ${unknown}.`);
}

const COLUMN_TITLES = {
  accessed_bytes: "Accessed",
  bytes: "Bytes",
  float_ops: "FLOPs",
  params: "Parameters",
};

/** The cost columns of tables; shares are relative to `whole_ns`. */
export function costColumns(
  found,
  { whole_ns, own = true, accelerator = true, total = false } = {},
) {
  const partly = "unknown: the shapes of some ops, or how they compute, are unknown";
  const columns = [
    {
      key: "time_ns",
      title: "Time",
      kind: "time",
      bar: true,
      colour: "on",
      hint: "of a mean traced step, on all devices and threads together",
    },
    {
      key: "share",
      title: "Share",
      kind: "ratio",
      value: (row) => (whole_ns ? row.time_ns / whole_ns : null),
      hint: "of the time of all ops",
    },
    own
      ? { key: "own_time_ns", title: "Own", kind: "time", hint: "excluding what is below it" }
      : null,
    accelerator
      ? {
          key: "accelerator_ns",
          title: "Accelerator",
          kind: "time",
          hint: "time of kernels and copies",
        }
      : null,
    accelerator
      ? {
          key: "cpu_ns",
          title: "CPU",
          kind: "time",
          hint: "time on threads of the host; for an op of an accelerator its scheduling",
        }
      : null,
    {
      key: "runs",
      title: "Runs",
      kind: "number",
      hint: "executions in a mean traced step",
      cell: (row) => plainNumber(row.runs),
    },
    {
      key: "bytes",
      title: "Bytes",
      kind: "bytes",
      hint: "what ops requested from their allocators",
    },
    typeof (found.total ?? found.whole)?.accessed_bytes === "number"
      ? {
          key: "accessed_bytes",
          title: "Accessed",
          kind: "bytes",
          hint: "what instructions of compiled programs read and write",
        }
      : null,
    {
      key: "float_ops",
      title: "FLOPs",
      kind: "large",
      hint: "floating-point operations of the ops for which they are known",
      missing: () => partly,
    },
    total
      ? {
          key: "float_ops_per_s",
          title: "FLOP/s",
          kind: "large",
          hint: "floating-point operations per second of its time",
          cell: (row) =>
            row.float_ops_per_s === null ? missing(partly) : large(row.float_ops_per_s, "FLOP/s"),
        }
      : null,
    { key: "params", title: "Params", kind: "large", hint: "numbers in variables" },
    total
      ? {
          key: "total_ns",
          title: "All steps",
          kind: "time",
          hint: "time in all traced steps together",
        }
      : null,
  ];
  const unknown = { ...found.missing, float_ops_per_s: found.missing.float_ops };
  return columns.filter((column) => column && !unknown[column.key]);
}

/**
 * Build the tree that a document holds in columns; `describe(index, parent)` returns what the page
 * needs for each place.
 */
export function placesTree(places, metric, describe) {
  const { column } = METRICS[metric];
  const nodes = [];
  for (let at = 0; at < places.name.length; at += 1) {
    const parent = nodes[places.parent[at]] ?? null;
    const node = {
      index: at,
      label: places.name[at],
      name: places.name[at],
      value: places[column][at] ?? 0,
      children: [],
      ...describe(at, parent),
    };
    nodes.push(node);
    parent?.children.push(node);
  }
  for (const node of nodes) {
    const smaller = places.smaller[node.index];
    const cost = places.smaller_cost[node.index];
    if (smaller && cost)
      node.children.push({
        name: `${count(smaller)} smaller`,
        value: cost,
        children: [],
        within: node,
      });
  }
  return nodes[0];
}

/** One row for each place directly below the top of a tree, for a table of costs. */
export function rowsBelow(places, top) {
  const keys = [
    "time_ns",
    "own_time_ns",
    "accelerator_ns",
    "cpu_ns",
    "runs",
    "bytes",
    "accessed_bytes",
    "float_ops",
    "params",
  ];
  return top.children
    .filter((node) => !node.within)
    .map((node) => ({
      ...node,
      ...Object.fromEntries(keys.map((key) => [key, places[key]?.[node.index]])),
    }));
}

/**
 * Draw a tree of costs as a flame graph or an icicle.
 * `root` is from `placesTree`; `onOpen(node)` is called to zoom to a place, `onWhole()` to go back.
 */
export function costFlame(place, root, { label, metric, args, go, onOpen, onWhole, tip, colour }) {
  const { kind } = METRICS[metric];
  const shapes = [
    ["icicle", "Icicle"],
    ["flame", "Flame graph"],
  ];
  place.append(
    tabs({
      label: "Shape of the drawing",
      options: shapes,
      value: args.shape ?? "icicle",
      onChange: (shape) => go({ shape: shape === "icicle" ? "" : shape }, { keep: true }),
      show: (shape, panel) => {
        if (!root.value)
          return fill(
            panel,
            make(
              "p",
              { class: "empty" },
              `No ${METRICS[metric].title.toLowerCase()} is known for anything here.`,
            ),
          );
        return flame(panel, root, {
          label,
          kind,
          inverted: shape === "icicle",
          search: args.find ?? "",
          onSearch: (find) => go({ find }, { keep: true }),
          onOpen: (node) => onOpen(node.within ?? node),
          onWhole,
          tip,
          colour: (node) => (node.within ? "other" : colour?.(node)),
        });
      },
    }),
  );
}

/** A table of the places directly below a place. */
export function costTable({
  found,
  rows,
  caption,
  csvName,
  args,
  go,
  onOpen,
  href,
  first,
  top,
  more = [],
}) {
  const whole_ns = found.whole?.time_ns ?? found.total?.time_ns;
  const folded = top ? foldedText(top, found) : "";
  const shown = table({
    caption,
    csvName,
    rows,
    sort: args.sort ?? "-time_ns",
    onSort: (sort) => go({ sort: sort === "-time_ns" ? "" : sort }, { keep: true }),
    onOpen,
    href,
    columns: [
      first,
      ...costColumns(found, { whole_ns, accelerator: Boolean(found.whole?.accelerator_ns) }),
      ...more,
    ],
    none: "Nothing is below it.",
  });
  return [shown, folded ? make("p", { class: "soft" }, folded) : null];
}

function foldedText(top, found) {
  const small = top.children.find((node) => node.within);
  return small
    ? `And ${small.name}, ${written(small.value, METRICS[found.metric].kind)} together.`
    : "";
}

/** The path from the whole to a place: `[[text, args], …]`, the last being the current place. */
export function breadcrumbs(steps, link) {
  return make(
    "nav",
    { class: "crumbs", "aria-label": "Breadcrumbs" },
    make(
      "ol",
      {},
      steps.map(([text, address], at) => {
        const isHere = at === steps.length - 1;
        const name = nameOf(text);
        return make(
          "li",
          {},
          isHere
            ? make("span", { "aria-current": "location" }, name)
            : make("a", { href: link(address) }, name),
        );
      }),
    ),
  );
}

/** An amount with its share of the whole: "1.20 ms, 34.0 % of all ops". */
export function costOfWhole(value, whole, kind = "time") {
  return whole
    ? `${written(value, kind)}, ${percent(value / whole)} of all ops`
    : written(value, kind);
}

/**
 * The object that a page of costs returns. `title` is its heading if nothing is recorded;
 * `question` selects the arguments of the request from those of the address, `load` sends it,
 * `draw(found, args, go, { isNew })` shows the answer in `place`, `seen()` is called when it is in
 * the document. Of several concurrent turns only the last is shown; a request without an answer
 * says so in its place.
 */
export async function showing(place, context, { title, question, load, draw, seen }) {
  let args = context.args;
  let turns = 0;
  let known = { key: null, found: null };
  await turn(args);
  return { shown: seen, turn };

  async function turn(next) {
    args = next;
    turns += 1;
    const mine = turns;
    const key = JSON.stringify(question(args));
    const isNew = key !== known.key;
    try {
      const found = isNew ? await load(args) : known.found;
      if (mine !== turns) return;
      known = { key, found };
      const document = found.found ?? found;
      if (document.nothing)
        fill(
          place,
          make(
            "div",
            { class: "row" },
            make("h1", {}, title),
            workChooser(context, document.works, document.work),
          ),
          make("p", { class: "empty" }, document.nothing),
        );
      else await draw(found, args, go, { isNew });
      seen?.();
    } catch (error) {
      if (error.name === "AbortError" || mine !== turns) return;
      known = { key: null, found: null };
      if (!(error instanceof ApiError) || isUnknown(error)) throw error;
      fill(place, make("p", { class: "trouble", role: "alert" }, error.message), anew());
    }
  }

  function anew() {
    return Object.keys(args).length
      ? make("p", {}, make("a", { href: context.link(here().page) }, "Show this page as it opens"))
      : null;
  }

  function go(changes, { keep = false } = {}) {
    const next = { ...args, ...changes };
    if (keep) args = next;
    context.go(next, { keep });
  }
}
