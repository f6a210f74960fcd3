// What uses memory: an allocator over a step and at its peak, and hosts over time.
import { bytes, count, percent, time } from "../parts/amounts.js";
import { stack, treemap } from "../parts/charts.js";
import {
  badge,
  card,
  choose,
  figures,
  keyFigure,
  missing,
  nameOf,
  tabs,
  workChooser,
} from "../parts/controls.js";
import { make } from "../parts/elements.js";
import { lines } from "../parts/lines.js";
import { argsOf, rerender } from "../parts/rerender.js";
import { absent, andMore, growthText, processName, processWord } from "../parts/sentences.js";
import { table } from "../parts/table.js";

const MEMORY_ROLES = {
  parameters: ["parameters", "series-1"],
  optimizer_state: ["optimizer state", "series-4"],
  update: ["update", "series-10"],
  gradients: ["gradients", "series-2"],
  activations: ["activations", "series-3"],
  input: ["input", "part-input_wait"],
  output: ["output", "series-6"],
  constant: ["constant", "series-7"],
  communication: ["communication", "part-collectives"],
  temporary: ["temporary", "series-5"],
  held_before: ["held before the step", "other"],
};
const MEMORY_BYS = {
  op: "op",
  layer: "layer",
  line: "line of code",
  scope: "scope",
  type: "type of op",
  shape: "shape",
  role: "role",
};
// The pages with more about a holder, and what to search for there.
const MEMORY_LINKS = { op: "ops", type: "ops", layer: "scopes", scope: "scopes", line: "code" };
// With more areas each would be too small to see; the rest is one area.
const MEMORY_AREAS = 150;

export const memoryPage = {
  name: "memory",
  title: "Memory",
  show: (place, context) =>
    rerender(place, context, {
      name: "memory",
      query: (args) => argsOf(args, "at", "by", "work"),
      content: (found, args) => memoryContent(found, args, context),
    }),
};

function memoryContent(found, args, context) {
  const { chosen } = found;
  return [
    make(
      "div",
      { class: "row" },
      make("h1", {}, "Memory"),
      workChooser(
        { ...context, go: (changed) => context.go({ ...changed, at: "" }) },
        found.works,
        found.work,
      ),
      chosen
        ? choose({
            label: "Count by",
            value: found.by,
            options: found.bys.map((by) => [by, MEMORY_BYS[by]]),
            onChange: (by) => context.go({ ...args, by }),
          })
        : null,
    ),
    memoryFigures(found),
    found.allocators.length > 1 ? memoryAllocators(found, args, context) : null,
    chosen
      ? memoryChosen(found, args, context)
      : card("On devices", absent(found.missing.allocators)),
    memoryVariables(found.variables),
    memoryHosts(found, context),
  ];
}

function memoryFigures({ chosen, variables, hosts }) {
  const host = hosts.reduce(
    (most, each) => (each.peak_bytes > (most?.peak_bytes ?? -1) ? each : most),
    null,
  );
  const all = [];
  if (chosen) {
    const of =
      chosen.capacity_bytes === null
        ? ""
        : `${percent(chosen.peak_bytes / chosen.capacity_bytes)} of ${bytes(chosen.capacity_bytes)}`;
    all.push(
      keyFigure(
        chosen.is_absolute || chosen.is_estimate
          ? "Peak on the device"
          : "Peak above what was held before",
        `${chosen.is_at_least ? "at least " : ""}${bytes(chosen.peak_bytes)}`,
        of,
      ),
    );
    if (chosen.program) all.push(...memoryProgram(chosen.program));
    if (chosen.lifetime_peak_bytes !== null)
      all.push(keyFigure("Most ever", bytes(chosen.lifetime_peak_bytes)));
    if (chosen.fragmentation_ratio !== null)
      all.push(
        keyFigure(
          "Fragmentation",
          percent(chosen.fragmentation_ratio),
          "of the free memory is fragmented",
        ),
      );
  }
  if (variables.parameters_bytes !== null) {
    all.push(
      keyFigure("Parameters", bytes(variables.parameters_bytes)),
      keyFigure("Optimizer state", bytes(variables.optimizer_state_bytes)),
    );
  }
  if (host) {
    const hint =
      host.limit_bytes === null ? "" : `${percent(host.used_ratio)} of ${bytes(host.limit_bytes)}`;
    all.push(
      keyFigure(
        hosts.length > 1 ? `Host peak, ${processWord(host)}` : "Host peak",
        bytes(host.peak_bytes),
        hint,
      ),
    );
  }
  return all.length ? figures(...all) : null;
}

function memoryProgram(program) {
  const donated = program.donated_bytes
    ? `${bytes(program.donated_bytes)} of them in donated arguments`
    : "";
  return [
    keyFigure("Arguments", bytes(program.argument_bytes)),
    keyFigure("Results", bytes(program.output_bytes), donated),
    keyFigure("Temporary", bytes(program.temporary_bytes), program.peak_op ?? ""),
  ];
}

function memoryAllocators(found, args, context) {
  return table({
    caption: "Devices and allocators",
    csvName: "allocators",
    rows: found.allocators,
    of: found.allocators.length + found.more_allocators,
    key: (row) => row.at,
    chosen: found.chosen.at,
    href: (row) => context.link("memory", { ...args, at: row.at }),
    columns: [
      { key: "allocator", title: "Allocator" },
      { key: "device", title: "Device" },
      { key: "process", title: "Process", value: processName },
      { key: "peak_bytes", title: "Peak", kind: "bytes", bar: true },
      {
        key: "capacity_bytes",
        title: "May give",
        kind: "bytes",
        missing: (row) => row.missing.capacity_bytes,
      },
      {
        key: "lifetime_peak_bytes",
        title: "Most ever",
        kind: "bytes",
        missing: (row) => row.missing.lifetime_peak_bytes,
      },
      {
        key: "fragmentation_ratio",
        title: "Fragmented",
        kind: "ratio",
        missing: (row) => row.missing.fragmentation_ratio,
      },
      { key: "sampled_steps", title: "Steps", kind: "count" },
      {
        key: "growth",
        title: "Growth",
        value: (row) => row.growth.verdict,
        cell: (row) => memoryVerdict(row.growth),
      },
    ],
  });
}

function memoryChosen(found, args, context) {
  const { chosen } = found;
  return [
    memoryLevel(chosen, context),
    card("What holds the peak", ...memoryHolders(found, args, context)),
    memoryGrowth(chosen),
    memoryPieces(chosen),
  ];
}

function memoryLevel(chosen, context) {
  const box = card(
    "",
    make(
      "h2",
      {},
      `Over step ${count(chosen.peak.step)}: `,
      nameOf(`${chosen.device} ${chosen.allocator}`),
    ),
    make(
      "p",
      {},
      memorySentence(chosen),
      " ",
      chosen.capture === null
        ? null
        : make(
            "a",
            { href: context.link("timeline", { capture: chosen.capture }) },
            "Its timeline",
          ),
    ),
  );
  // A program of a single op holds all of it at once.
  if (chosen.timeline.after_ns.length < 2) return box;
  lines(box, {
    label: "Memory held over the step",
    height: 240,
    csvName: "memory-level",
    x: { title: "into the step", kind: "time", values: chosen.timeline.after_ns },
    series: [
      {
        name: "held",
        values: chosen.timeline.bytes,
        kind: "bytes",
        colour: "on",
        steps: true,
        filled: true,
      },
    ],
    marks: [{ x: chosen.peak.after_ns, text: "peak", colour: "critical" }],
    from: "zero",
  });
  return box;
}

function memorySentence(chosen) {
  const steps =
    chosen.sampled_steps === 1
      ? "the traced step"
      : `the fullest of ${count(chosen.sampled_steps)} traced steps`;
  if (chosen.is_estimate) {
    const unknown = chosen.is_at_least
      ? ` The sizes of ${count(chosen.unknown_sizes)} of ${count(chosen.sizes)} outputs are unknown and not included.`
      : "";
    return `No allocator was recorded. Amounts are the sizes of op outputs, each until the last op that reads it has run.${unknown}`;
  }
  const above = chosen.is_absolute
    ? ""
    : " Amounts are on top of what was allocated before the step, which is unknown.";
  return `The peak is ${bytes(chosen.peak_bytes)}, ${time(chosen.peak.after_ns)} into ${steps}.${above}`;
}

function memoryHolders(found, args, context) {
  const { chosen, by } = found;
  const byRole = make("div");
  stack(byRole, {
    label: "The peak by role",
    kind: "bytes",
    bars: [
      {
        name: "at the peak",
        parts: Object.entries(chosen.peak.by_role).map(([role, value]) => ({
          name: memoryRole(role)[0],
          value,
          colour: memoryRole(role)[1],
        })),
      },
    ],
  });
  const page = MEMORY_LINKS[by];
  const linked = (row) => page && !row.name.startsWith("(");
  const show = (view, panel) =>
    view === "map"
      ? memoryMap(panel, chosen, by)
      : panel.append(memoryHolderTable(found, args, context, page, linked));
  const views = tabs({
    label: "Holders of the peak",
    options: [
      ["table", "Table"],
      ["map", "Map"],
    ],
    value: args.view,
    onChange: (view) => context.go({ ...args, view: view === "table" ? "" : view }, { keep: true }),
    show,
  });
  return [byRole, views];
}

function memoryHolderTable({ chosen, by }, args, context, page, linked) {
  return table({
    caption: `At the peak, by ${MEMORY_BYS[by]}`,
    csvName: `memory-by-${by}`,
    rows: chosen.peak.holders,
    of: chosen.peak.holders.length + chosen.more_holders,
    sort: args.sort ?? "-bytes",
    filter: args.find ?? "",
    onSort: (sort) => context.go({ ...args, sort }, { keep: true }),
    onFilter: (find) => context.go({ ...args, find }, { keep: true }),
    columns: [
      {
        key: "name",
        title: MEMORY_BYS[by].replace(/^./, (letter) => letter.toUpperCase()),
        cell: (row) =>
          linked(row)
            ? make(
                "a",
                {
                  href: context.link(page, {
                    ...argsOf(args, "work"),
                    ...memorySearch(row.name, by),
                  }),
                },
                nameOf(row.name),
              )
            : nameOf(by === "role" ? memoryRole(row.name)[0] : row.name),
      },
      { key: "bytes", title: "Size", kind: "bytes" },
      {
        key: "share",
        title: "Share",
        kind: "ratio",
        bar: true,
        value: (row) => row.bytes / (chosen.peak_bytes || 1),
      },
      { key: "role", title: "Role", value: (row) => memoryRole(row.role)[0] },
      { key: "pieces", title: "Pieces", kind: "count" },
      {
        key: "shape",
        title: "Largest piece",
        missing: () => "the recording does not have its shape",
      },
      { key: "op", title: "Type of op", missing: () => "no op is known" },
    ],
  });
}

/** What to search for on another page to find a holder: for a line of code, its file. */
function memorySearch(name, by) {
  if (by === "line") return { find: name.replace(/:\d+$/, "").split("/").at(-1) };
  return {
    ...(by === "op" ? { by: "name" } : {}),
    ...(by === "layer" ? { by } : {}),
    find: name.slice(0, 500),
  };
}

function memoryMap(panel, chosen, by) {
  const shown = chosen.peak.holders.slice(0, MEMORY_AREAS);
  const rest = chosen.peak.holders
    .slice(MEMORY_AREAS)
    .reduce((sum, each) => sum + each.bytes, chosen.more_holders_bytes);
  const areas = shown.map((each) => ({
    name: by === "role" ? memoryRole(each.name)[0] : each.name,
    value: each.bytes,
    colour: memoryRole(each.role)[1],
    holder: each,
  }));
  if (rest) areas.push({ name: "all others", value: rest, colour: "other" });
  treemap(panel, {
    label: `What holds the peak, by ${MEMORY_BYS[by]}`,
    kind: "bytes",
    root: { name: "the peak", value: chosen.peak_bytes, children: areas },
    tip: (node) =>
      node.holder
        ? [
            ["role", memoryRole(node.holder.role)[0]],
            ["pieces", count(node.holder.pieces)],
            ["largest", node.holder.shape ?? "–"],
          ]
        : [],
  });
}

function memoryGrowth(chosen) {
  const { step, low_bytes: low, top_bytes: top } = chosen.by_step;
  const box = card(
    "",
    make("h2", {}, "Growth from step to step ", memoryVerdict(chosen.growth)),
    make("p", {}, growthText(chosen.growth)),
  );
  if (step.length > 1) {
    lines(box, {
      label: "Least and most held in each traced step",
      height: 180,
      csvName: "memory-by-step",
      x: { title: "step", kind: "count", values: step },
      series: [
        { name: "most in the step", values: top, kind: "bytes", colour: "on" },
        { name: "least in the step", values: low, kind: "bytes", colour: "other" },
      ],
    });
  }
  return box;
}

function memoryPieces(chosen) {
  if (!chosen.pieces.length) return null;
  return table({
    caption: "Largest pieces at the peak",
    csvName: "memory-pieces",
    rows: chosen.pieces,
    sort: "-bytes",
    columns: [
      { key: "name", title: "Op" },
      { key: "bytes", title: "Size", kind: "bytes", bar: true },
      { key: "role", title: "Role", value: (row) => memoryRole(row.role)[0] },
      { key: "shape", title: "Shape", missing: () => "the recording does not have its shape" },
      { key: "op", title: "Type of op", missing: () => "no op is known" },
    ],
  });
}

function memoryVariables(variables) {
  if (variables.missing) return card("Persistent variables", absent(variables.missing));
  return table({
    caption: "Persistent variables",
    csvName: "variables",
    rows: variables.list,
    of: variables.list.length + variables.more,
    sort: "-bytes",
    none: "The graph does not have the shapes of variables.",
    columns: [
      { key: "name", title: "Variable" },
      { key: "role", title: "Role", value: (row) => memoryRole(row.role)[0] },
      { key: "parameters", title: "Numbers", kind: "count" },
      {
        key: "bytes",
        title: "Size",
        kind: "bytes",
        bar: true,
        missing: () => "its type is unknown",
      },
    ],
  });
}

function memoryHosts(found, context) {
  const { hosts, over_time: overTime, missing: reasons } = found;
  if (!hosts.length) return card("On the host", absent(reasons.hosts));
  const box = card(
    "On the host",
    make(
      "p",
      {},
      hosts.length === 1
        ? `Resident memory of ${processName(hosts[0])}. ${growthText(hosts[0].growth)}`
        : "Resident memory of processes over time.",
    ),
  );
  const limits = new Set(hosts.map((each) => each.limit_bytes));
  const limit = limits.size === 1 ? [...limits][0] : null;
  lines(box, {
    label: "Resident memory over time",
    height: 220,
    csvName: "host-memory",
    x: { title: "since the first sample", kind: "time", values: overTime.after_ns },
    series: overTime.lines.map((each) => ({
      name: processWord(each),
      values: each.resident_bytes,
      kind: "bytes",
    })),
  });
  box.append(andMore(overTime.more, "processes with lower peaks are only in the table") ?? "");
  if (limit)
    box.append(
      make(
        "p",
        { class: "soft small" },
        `The limit is ${bytes(limit)}, the smaller of those of the control group and the machine.`,
      ),
    );
  return [box, memoryHostTable(found, context)];
}

function memoryHostTable({ hosts, more_hosts: more }, context) {
  return table({
    caption: "Memory of processes",
    csvName: "host-memory",
    rows: hosts,
    of: hosts.length + more,
    sort: hosts.length > 1 ? "-peak_bytes" : "",
    search: hosts.length > 8,
    href: () => context.link("processes"),
    columns: [
      { key: "process", title: "Process", value: processName },
      { key: "last_bytes", title: "At last", kind: "bytes" },
      { key: "peak_bytes", title: "Peak", kind: "bytes" },
      {
        key: "limit_bytes",
        title: "Limit",
        kind: "bytes",
        missing: (row) => row.missing.limit_bytes,
      },
      {
        key: "used_ratio",
        title: "Used",
        kind: "ratio",
        bar: true,
        missing: (row) => row.missing.limit_bytes,
      },
      {
        key: "verdict",
        title: "Growth",
        value: (row) => row.growth.verdict,
        cell: (row) => memoryVerdict(row.growth),
      },
    ],
  });
}

function memoryVerdict(growth) {
  if (!growth.verdict) return missing(growth.missing);
  const words = {
    growing: ["critical", "growing"],
    warming_up: ["info", "warming up"],
    steady: ["good", "steady"],
  };
  return badge(...words[growth.verdict]);
}

function memoryRole(role) {
  return MEMORY_ROLES[role] ?? [role, "other"];
}
