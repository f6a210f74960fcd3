// The graph of ops, collapsed by scope: the flows between the parts of a scope, and their costs.
import { bytes, count, large, percent, plainNumber, time } from "../parts/amounts.js";
import { check, nameOf, workChooser } from "../parts/controls.js";
import { breadcrumbs, showing } from "../parts/costs.js";
import { fill, make } from "../parts/elements.js";
import { layered } from "../parts/layered.js";
import { codePath } from "./code.js";

const MOST_NEIGHBOURS = 12;

export const graphPage = {
  name: "graph",
  title: "Graph",
  show(place, context) {
    let drawn = null;
    return showing(place, context, {
      title: "Graph",
      question: graphQuestion,
      load: (args) => context.ask("graph", graphQuestion(args)),
      draw: (found, args, go, { isNew }) => {
        // Another selection in the same graph: keep its position.
        if (isNew) drawn = showGraph(place, found, context, args, go);
        drawn.pick(args);
      },
    });
  },
};

function graphQuestion({ work, at, idle }) {
  return { work, at, idle: idle === "show" ? idle : "" };
}

function showGraph(place, found, context, args, go) {
  const { groups, at } = found;
  const most_ns = Math.max(
    ...groups.filter((each) => each.kind !== "outside").map((each) => each.time_ns),
    1,
  );
  const most_bytes = Math.max(...found.edges.map((each) => each.bytes ?? 0), 1);
  const panel = make("section", { class: "card details", "aria-live": "polite" });
  const drawing = make("section", { class: "card" });
  const leave = () =>
    at && go({ at: at.includes("/") ? at.slice(0, at.lastIndexOf("/")) : "", pick: lastPart(at) });
  const enter = (number) => {
    const group = groups[number];
    if (group.path !== null && group.path !== at && (group.kind !== "op" || group.nodes > 1))
      go({ at: group.path, pick: "" });
  };
  const choose = (number) => {
    showDetails(panel, found, number, context, args, go);
    go({ pick: groups[number].name }, { keep: true });
  };
  fill(
    place,
    make(
      "div",
      { class: "row" },
      make("h1", {}, "Graph"),
      workChooser(context, found.works, found.work),
      found.idle_groups
        ? check({
            label: `Include ${count(found.idle_groups)} that never ran`,
            value: found.idle === "show",
            onChange: (is) => go({ idle: is ? "show" : "" }),
          })
        : null,
    ),
    make(
      "div",
      { class: "row" },
      breadcrumbs(graphSteps(at, args), (to) => context.link("graph", to)),
      make("span", { class: "soft" }, formatGraph(found)),
    ),
    make("div", { class: "graph-and-details" }, drawing, panel),
  );
  const shown = layered(drawing, {
    label: at ? `Graph of ${at.slice(0, 200)}` : "Graph of the outermost scopes",
    nodes: groups.map((group) => ({
      label: group.name,
      note: groupNote(group, found),
      kind: group.kind,
      heat: group.time_ns / most_ns,
      title: `${group.name}, ${groupKind(group)}, ${time(group.time_ns)} in a mean step`,
    })),
    edges: found.edges.map((edge) => ({
      from: edge.from,
      to: edge.to,
      width: edge.bytes ? Math.log1p(edge.bytes) / Math.log1p(most_bytes) : 0,
      dashed: !edge.tensors && !edge.is_bridge,
      title: formatEdge(edge, groups),
    })),
    onChoose: choose,
    onEnter: enter,
    onLeave: leave,
  });
  return {
    pick({ pick: name = "" }) {
      const number = groups.findIndex(
        (group) => group.name === name || (name && group.path === name),
      );
      if (number < 0) return showHint(panel, found);
      shown.choose(number);
      showDetails(panel, found, number, context, args, go);
    },
  };
}

function lastPart(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

function graphSteps(at, args) {
  const steps = [["whole graph", { ...args, at: "", pick: "" }]];
  if (!at) return steps;
  const parts = at.split("/");
  for (const [number, part] of parts.entries())
    steps.push([part || "/", { ...args, at: parts.slice(0, number + 1).join("/"), pick: "" }]);
  return steps;
}

function formatGraph(found) {
  const texts = [
    `${count(found.groups.filter((each) => each.kind !== "outside").length)} parts, ${count(found.edges.length)} flows`,
  ];
  if (found.left.groups)
    texts.push(
      `${count(found.left.groups)} cheaper parts are not drawn (${time(found.left.time_ns)})`,
    );
  if (found.left_edges) texts.push(`${count(found.left_edges)} smaller flows are not drawn`);
  return texts.join("; ");
}

function groupNote(group, found) {
  if (group.kind === "outside") return "outside";
  const share = found.whole.time_ns ? `, ${percent(group.time_ns / found.whole.time_ns)}` : "";
  return group.runs ? `${time(group.time_ns)}${share}` : "never ran";
}

function groupKind(group) {
  if (group.kind === "outside") return "outside this scope";
  return group.kind === "op" ? (group.op?.type ?? "op") : `scope of ${count(group.nodes)} ops`;
}

function formatEdge(edge, groups) {
  const parts = [];
  if (edge.tensors)
    parts.push(`${count(edge.tensors)} ${edge.tensors === 1 ? "tensor" : "tensors"}`);
  if (edge.bytes !== null)
    parts.push(
      `${bytes(edge.bytes)}${edge.unknown ? ` and ${count(edge.unknown)} of unknown size` : ""}`,
    );
  if (edge.shapes.length) parts.push(edge.shapes.join(", "));
  if (edge.is_bridge) parts.push("through ops that never ran");
  if (edge.waits) parts.push(`${count(edge.waits)} that only wait`);
  return `${groups[edge.from].name} → ${groups[edge.to].name}: ${parts.join("; ")}`;
}

function showHint(panel, found) {
  fill(
    panel,
    make("h2", {}, "Details"),
    make(
      "p",
      { class: "soft" },
      found.groups.length
        ? "Select a part of the graph. Enter or a double click opens a scope, Backspace leaves it."
        : "Nothing ran here: show what never ran.",
    ),
  );
}

function showDetails(panel, found, number, context, args, go) {
  const group = found.groups[number];
  const { work } = args;
  const into = found.edges.filter((edge) => edge.to === number);
  const from = found.edges.filter((edge) => edge.from === number);
  const canEnter =
    group.path !== null && group.path !== found.at && (group.kind !== "op" || group.nodes > 1);
  fill(
    panel,
    make("h2", {}, nameOf(group.name)),
    make("p", { class: "soft" }, groupKind(group)),
    make(
      "p",
      { class: "row" },
      canEnter
        ? make(
            "button",
            { type: "button", onclick: () => go({ at: group.path, pick: "" }) },
            "Go in",
          )
        : null,
      group.path !== null
        ? make("a", { href: context.link("scopes", { work, at: group.path }) }, "Scope")
        : null,
      group.op && group.op.file !== null
        ? make(
            "a",
            {
              href: context.link("code", { work, file: group.op.file, line: group.op.line }),
              title: group.op.code,
            },
            "Code",
          )
        : null,
      group.op
        ? make(
            "a",
            { href: context.link("ops", { work, by: "name", type: group.op.type }) },
            "Ops of this type",
          )
        : null,
    ),
    make(
      "dl",
      { class: "facts" },
      detailsOf(group, found).map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
    ),
    flowList(
      "From",
      into,
      (edge) => found.groups[edge.from],
      (edge) => pick(edge.from),
      found,
    ),
    flowList(
      "To",
      from,
      (edge) => found.groups[edge.to],
      (edge) => pick(edge.to),
      found,
    ),
  );

  function pick(other) {
    go({ pick: found.groups[other].name });
  }
}

function detailsOf(group, found) {
  const { op } = group;
  return [
    op ? ["op", nameOf(op.type)] : null,
    op?.device ? ["device", nameOf(op.device)] : null,
    op?.outputs.length
      ? [
          "outputs",
          op.outputs.map((each, at) =>
            make("div", { class: "mono" }, each ?? `output ${at}: unknown`),
          ),
        ]
      : null,
    group.kind === "outside" && !group.time_ns
      ? null
      : [
          "time",
          `${time(group.time_ns)}${found.whole.time_ns ? `, ${percent(group.time_ns / found.whole.time_ns)} of all` : ""}`,
        ],
    group.accelerator_ns ? ["accelerator", time(group.accelerator_ns)] : null,
    group.accelerator_ns ? ["cpu", time(group.cpu_ns)] : null,
    group.kind === "outside" ? null : ["runs", group.runs ? plainNumber(group.runs) : "never"],
    group.bytes ? ["bytes", bytes(group.bytes)] : null,
    group.float_ops ? ["FLOPs", large(group.float_ops)] : null,
    group.params ? ["parameters", large(group.params)] : null,
    group.kind !== "op" && group.types.length
      ? ["most are", group.types.map((each) => `${each.type} × ${count(each.nodes)}`).join(", ")]
      : null,
    op?.code ? ["code", codePath(op.code)] : null,
  ].filter(Boolean);
}

function flowList(title, edges, otherOf, onPick, found) {
  if (!edges.length) return null;
  const shown = edges.slice(0, MOST_NEIGHBOURS);
  return [
    make("h3", {}, title),
    make(
      "ul",
      { class: "flows" },
      shown.map((edge) =>
        make(
          "li",
          {},
          make(
            "button",
            { type: "button", class: "link", onclick: () => onPick(edge) },
            nameOf(otherOf(edge).name),
          ),
          make("span", { class: "soft small" }, flowText(edge)),
        ),
      ),
    ),
    edges.length > shown.length
      ? make(
          "p",
          { class: "soft small" },
          `and ${count(edges.length - shown.length)} more of ${count(found.edges.length)} flows`,
        )
      : null,
  ];
}

function flowText(edge) {
  if (edge.is_bridge) return "through ops that never ran";
  if (!edge.tensors) return "only waits";
  const size = edge.bytes === null ? "" : `, ${bytes(edge.bytes)}`;
  return edge.tensors === 1 && edge.shapes.length === 1
    ? `${edge.shapes[0]}${size}`
    : `${count(edge.tensors)} tensors${size}`;
}
