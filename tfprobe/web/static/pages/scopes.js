// The cost of name scopes, or of layers, which include their gradients.

import { plainNumber, time } from "../parts/amounts.js";
import { choose, nameOf, workChooser } from "../parts/controls.js";
import {
  breadcrumbs,
  costFlame,
  costOfWhole,
  costTable,
  METRICS,
  metricChooser,
  placesTree,
  rowsBelow,
  showing,
  unknownCosts,
} from "../parts/costs.js";
import { ApiError, isFile } from "../parts/data.js";
import { fill, make } from "../parts/elements.js";

export const scopesPage = {
  name: "scopes",
  title: "Scopes and layers",
  show(place, context) {
    return showing(place, context, {
      title: "Scopes",
      question: scopesQuestion,
      load: (args) => askScopes(context, args),
      draw: (found, args, go) => showScopes(place, found, context, args, go),
    });
  },
};

function scopesQuestion({ work, by, metric, at = "" }) {
  return { work, by: by === "layer" ? by : "", metric: metric === "time" ? "" : metric, at };
}

/** The document from a scope down, and its tree. */
async function askScopes(context, args) {
  const query = scopesQuestion(args);
  const { at } = query;
  try {
    const found = await context.ask("scopes", query);
    return { found, root: found.nothing ? null : scopesTree(found, at), at };
  } catch (error) {
    if (!isFile || !at || !(error instanceof ApiError)) throw error;
    // The single file has the whole tree, and the part only as far as that goes.
    const found = await context.ask("scopes", { ...query, at: "" });
    const part = scopeWithin(scopesTree(found, ""), at);
    if (!part) throw error;
    return { found, root: part, at };
  }
}

function scopesTree(found, at) {
  const { places } = found;
  return placesTree(places, found.metric, (index, parent) => ({
    name: index === 0 && !at ? "all ops" : places.name[index],
    type: places.type[index],
    path:
      parent === null
        ? at
        : scopePath(parent.path, places.name[index], places.is_whole[index], parent),
  }));
}

function scopePath(above, name, isWhole, parent) {
  if (above === null || !isWhole) return null;
  return parent.index === 0 && above === "" ? name : `${above}/${name}`;
}

function scopeWithin(root, path) {
  const left = [root];
  while (left.length) {
    const node = left.pop();
    if (node.path === path) return node;
    left.push(
      ...node.children.filter(
        (each) => each.path && (path === each.path || path.startsWith(`${each.path}/`)),
      ),
    );
  }
  return null;
}

function showScopes(place, { found, root, at }, context, args, go) {
  const { places } = found;
  const metric = METRICS[found.metric];
  const whole = found.whole[metric.column];
  const open = (node) => node.path !== null && node.path !== at && go({ at: node.path, find: "" });
  const costs = (node) =>
    node.within
      ? []
      : [
          ["type", node.type ?? "scope"],
          ["own time", time(places.own_time_ns[node.index])],
          ["runs", plainNumber(places.runs[node.index])],
        ];
  const drawing = make("section", { class: "card" });
  const below = rowsBelow(places, root);
  const { work, by } = args;
  fill(
    place,
    make(
      "div",
      { class: "row" },
      make("h1", {}, found.by === "layer" ? "Layers" : "Scopes"),
      workChooser(context, found.works, found.work),
      choose({
        label: "Show",
        options: [
          ["scope", "scopes"],
          ["layer", "layers, with their gradients"],
        ],
        value: found.by,
        onChange: (chosen) => go({ by: chosen === "scope" ? "" : chosen, at: "" }),
      }),
      metricChooser(found, (chosen) => go({ metric: chosen === "time" ? "" : chosen })),
    ),
    make(
      "div",
      { class: "row" },
      breadcrumbs(scopeSteps(at, args), (to) => context.link("scopes", to)),
      make("span", { class: "soft number" }, costOfWhole(root.value, whole, metric.kind)),
      make("span", { class: "end row" }, scopeWays(context, found, root, at, { work })),
    ),
    drawing,
    costTable({
      found,
      rows: below,
      caption: at ? "Directly below" : "Outermost",
      csvName: "scopes",
      args,
      go,
      top: root,
      first: {
        key: "name",
        title: found.by === "layer" ? "Layer" : "Scope",
        cell: (row) => scopeName(row, context, args),
      },
      more: [{ key: "type", title: "Type", value: (row) => row.type ?? "scope" }],
    }),
    unknownCosts(found),
  );
  costFlame(drawing, root, {
    label: `${metric.title} of ${by === "layer" ? "layers" : "scopes"}`,
    metric: found.metric,
    args,
    go,
    onOpen: open,
    onWhole: () => at && go({ at: "" }),
    tip: costs,
    colour: (node) => (node.type ? null : undefined),
  });
}

function scopeName(row, context, args) {
  if (row.path === null) return nameOf(row.name, { title: "its name is too long to be requested" });
  return make(
    "a",
    { class: "cut", href: context.link("scopes", { ...args, at: row.path, find: "" }) },
    nameOf(row.name),
  );
}

function scopeSteps(at, args) {
  const steps = [["all ops", { ...args, at: "" }]];
  // The first part may be empty, as in "/loss".
  for (let end = at.indexOf("/", 1); end > 0; end = at.indexOf("/", end + 1))
    steps.push([scopeLast(at.slice(0, end), steps), { ...args, at: at.slice(0, end) }]);
  if (at) steps.push([scopeLast(at, steps), { ...args, at }]);
  return steps;
}

function scopeLast(path, steps) {
  const above = steps.at(-1)[1].at;
  return above ? path.slice(above.length + 1) : path;
}

function scopeWays(context, found, root, at, { work }) {
  // Layers have names of their own, which are not in the graph.
  if (found.by === "layer" || !found.has_graph) return null;
  // The graph cannot be opened at a single op: it is shown in its scope.
  const isOp = root.type && !root.children.length;
  const place = isOp ? { at: at.slice(0, Math.max(at.lastIndexOf("/"), 0)), pick: at } : { at };
  return make(
    "a",
    { href: context.link("graph", { work, ...place }) },
    at ? "Its graph" : "The graph",
  );
}
