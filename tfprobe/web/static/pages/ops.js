// The cost of ops: by type or by node, as a table, as a treemap, and by device.
import { count, percent, plainNumber, time } from "../parts/amounts.js";
import { stack, treemap } from "../parts/charts.js";
import { nameColour } from "../parts/colours.js";
import { choose, figures, keyFigure, nameOf, tabs, workChooser } from "../parts/controls.js";
import { costColumns, showing, unknownCosts } from "../parts/costs.js";
import { fill, make } from "../parts/elements.js";
import { table } from "../parts/table.js";

export const opsPage = {
  name: "ops",
  title: "Ops",
  show(place, context) {
    return showing(place, context, {
      title: "Ops",
      question: opsQuestion,
      load: (args) => context.ask("ops", opsQuestion(args)),
      draw: (found, args, go) => showOps(place, found, context, args, go),
    });
  },
};

function opsQuestion({ work, by, type, device }) {
  return { work, by: by === "name" ? by : "", type: by === "name" ? type : "", device };
}

function showOps(place, found, context, args, go) {
  const byType = found.by === "type";
  const devices = found.devices.map((device, at) => [at, device.name]);
  fill(
    place,
    make(
      "div",
      { class: "row" },
      make(
        "h1",
        {},
        byType ? "Ops by type" : found.type ? ["Ops of type ", nameOf(found.type)] : "Ops by node",
      ),
      workChooser(context, found.works, found.work),
      choose({
        label: "Show",
        options: [
          ["type", "types"],
          ["name", "nodes"],
        ],
        value: found.by,
        onChange: (by) => go({ by: by === "type" ? "" : by, type: "", find: "", sort: "" }),
      }),
      devices.length > 1
        ? choose({
            label: "Device",
            options: [["", "all devices"], ...devices],
            value: found.device ?? "",
            onChange: (device) => go({ device }),
          })
        : null,
      found.type
        ? make(
            "a",
            { href: context.link("ops", { work: args.work, device: args.device }) },
            "All types",
          )
        : null,
    ),
    figures(
      keyFigure("Time of ops", time(found.total.time_ns), "in a mean step, on all threads"),
      keyFigure(byType ? "Types that ran" : "Nodes that ran", count(found.count)),
      keyFigure("Runs", plainNumber(found.total.runs), "in a mean step"),
      keyFigure("Sampled", count(found.steps), found.steps === 1 ? "step" : "steps"),
      keyFigure(
        "FLOPs known",
        percent(found.float_ops_coverage.float_ops_ratio),
        found.float_ops_coverage.unknown.length ? "about, of all FLOPs" : "of all ops",
      ),
    ),
    tabs({
      label: "Views",
      options: [
        ["table", "Table"],
        ["map", "Treemap"],
        ["devices", "Devices"],
      ],
      value: args.view ?? "table",
      onChange: (view) => go({ view: view === "table" ? "" : view }, { keep: true }),
      show: (view, panel) =>
        ({ table: opsTable, map: opsMap, devices: opsDevices })[view](
          panel,
          found,
          context,
          args,
          go,
        ),
    }),
  );
}

function opsTable(panel, found, context, args, go) {
  const byType = found.by === "type";
  const columns = costColumns(found, {
    whole_ns: found.total.time_ns,
    own: false,
    accelerator: found.has_accelerator,
    total: true,
  });
  const fused = found.rows.some((row) => row.in_graph.length);
  const inGraph = {
    key: "in_graph",
    title: "In the graph",
    value: (row) => row.in_graph.join(", ") || null,
    cell: (row) => nameOf(row.in_graph.join(", "), { class: "cut narrow" }),
    hint: "its name in the graph, before the optimizer fused or replaced it",
  };
  const typed = { work: args.work, device: args.device, by: "name" };
  panel.append(
    table({
      caption: byType ? "Types" : "Nodes",
      csvName: byType ? "op-types" : "ops",
      rows: found.rows,
      of: found.count,
      sort: args.sort ?? "-time_ns",
      filter: args.find ?? "",
      onSort: (sort) => go({ sort: sort === "-time_ns" ? "" : sort }, { keep: true }),
      onFilter: (find) => go({ find }, { keep: true }),
      href: byType ? (row) => context.link("ops", { ...typed, type: row.type }) : null,
      none: "No op ran.",
      columns: [
        byType
          ? { key: "type", title: "Type" }
          : { key: "name", title: "Node", cell: (row) => opsPlaces(row, found, context, args) },
        byType
          ? { key: "nodes", title: "Nodes", kind: "count", hint: "nodes of this type that ran" }
          : {
              key: "type",
              title: "Type",
              cell: (row) => nameOf(row.type, { class: "cut narrow" }),
            },
        fused ? inGraph : null,
        ...columns,
        byType ? null : { key: "device", title: "Device" },
      ].filter(Boolean),
    }),
  );
  if (fused)
    panel.append(
      make(
        "p",
        { class: "soft small" },
        "Types are those of the ops that ran, as in the overview and the findings. For ops that the optimizer fused or replaced, the name in the graph is shown as well, and a search finds both.",
      ),
    );
  if (found.left)
    panel.append(
      make(
        "p",
        { class: "soft" },
        `And ${count(found.left.rows)} more, together ${time(found.left.time_ns)} in a mean step.`,
      ),
    );
  const unknown = unknownCosts(found);
  if (unknown) panel.append(unknown);
  if (found.float_ops_coverage.unknown.length && !found.missing.float_ops)
    panel.append(opsUnknown(found));
}

/** A node with links to its places in the graph and in the code. */
function opsPlaces(row, found, context, { work }) {
  const graph =
    row.scope === null || !found.has_graph
      ? null
      : context.link("graph", { work, at: row.scope, pick: row.name });
  const code =
    row.file === null ? null : context.link("code", { work, file: row.file, line: row.line });
  return make(
    "span",
    { class: "op-name" },
    graph ? make("a", { href: graph, class: "cut" }, nameOf(row.name)) : nameOf(row.name),
    row.scope
      ? make(
          "a",
          {
            class: "small",
            href: context.link("scopes", { work, at: row.scope }),
            "aria-label": `Scope of ${row.name}`.slice(0, 300),
          },
          "scope",
        )
      : null,
    code
      ? make(
          "a",
          {
            class: "small",
            href: code,
            "aria-label": `Code of ${row.name}`.slice(0, 300),
            title: row.code,
          },
          "code",
        )
      : null,
  );
}

function opsUnknown(found) {
  const unknown = found.float_ops_coverage.unknown;
  return make(
    "details",
    { class: "small" },
    make(
      "summary",
      { class: "soft" },
      `Ops with unknown FLOPs, and why (${percent(1 - found.float_ops_coverage.time_ratio)} of the time)`,
    ),
    make(
      "ul",
      {},
      unknown.map((each) =>
        make("li", {}, make("bdi", {}, each.op), `, ${percent(each.time_ratio)}: ${each.reason}`),
      ),
    ),
  );
}

function opsMap(panel, found, _context, _args, go) {
  const children = found.treemap.map((type) => ({
    name: type.type,
    value: type.time_ns,
    children: [
      ...type.nodes.map((node) => ({
        name: node.name,
        value: node.time_ns,
        type: type.type,
        colour: nameColour(type.type),
      })),
      type.others_ns > 0
        ? {
            name: `${count(type.others)} others`,
            value: type.others_ns,
            type: type.type,
            colour: nameColour(type.type),
          }
        : null,
    ].filter((node) => node && node.value > 0),
  }));
  if (!children.length) return panel.append(make("p", { class: "empty" }, "No op ran."));
  treemap(panel, {
    label: "Time of ops by type and node",
    root: { name: "all ops", value: found.total.time_ns, children },
    height: 520,
    onOpen: (node) =>
      go({
        by: "name",
        type: node.type,
        view: "",
        find: node.name.endsWith(" others") ? "" : node.name,
      }),
    tip: (node) => (node.type ? [["type", node.type]] : []),
  });
}

function opsDevices(panel, found, context, args) {
  const rows = found.devices.map((device, at) => ({
    ...device,
    at,
    time_ns: device.cpu_ns + device.accelerator_ns,
  }));
  const named = {
    cpu_ns: ["on threads of the host", "part-host_compute"],
    accelerator_ns: ["kernels and copies", "part-device_compute_32bit"],
  };
  stack(panel, {
    label: "Time of ops by device",
    wholes: false,
    bars: rows.map((row) => ({
      name: row.name,
      parts: Object.entries(named).map(([key, [name, colour]]) => ({
        name,
        value: row[key],
        colour,
      })),
    })),
  });
  panel.append(
    table({
      caption: "Devices",
      csvName: "devices",
      rows,
      sort: "-time_ns",
      href: (row) => context.link("ops", { ...args, view: "", device: row.at }),
      columns: [
        { key: "name", title: "Device" },
        { key: "time_ns", title: "Time", kind: "time", bar: true, hint: "of a mean traced step" },
        { key: "accelerator_ns", title: "Accelerator", kind: "time" },
        { key: "cpu_ns", title: "CPU", kind: "time" },
        {
          key: "runs",
          title: "Executions",
          kind: "number",
          cell: (row) => plainNumber(row.runs),
          hint: "on the host, and kernels, in a mean traced step",
        },
      ],
    }),
  );
}
