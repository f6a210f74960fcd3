// The processes of a run: what each did and used, which are late at which steps, their lifetimes
// and machines.
import { bytes, count, percent, time, written } from "../parts/amounts.js";
import { heatmap } from "../parts/charts.js";
import { badge, card, choose, figures, keyFigure, missing, nameOf } from "../parts/controls.js";
import { fill, make } from "../parts/elements.js";
import { wholeFinding } from "../parts/finding.js";
import { lines } from "../parts/lines.js";
import { livesChart } from "../parts/lives.js";
import { argsOf, rerender } from "../parts/rerender.js";
import { absent, andMore, processName, processWord, sentence } from "../parts/sentences.js";
import { table } from "../parts/table.js";
import { ranksStraggler } from "./ranks.js";

const PROCESS_MEASURES = { step: "what a step takes", between: "the time before a step" };
// A rank that takes this much longer than the median is at the end of the scale, if none is worse.
const PROCESS_LATE_RATIO = 1.1;
const PROCESS_NAMED = 3;
// Curves of a running job grow by a point a second, faster than anyone reads them.
const PROCESSES_EVERY_MS = 5000;

export const processesPage = {
  name: "processes",
  title: "Processes",
  show: (place, context) =>
    rerender(place, context, {
      name: "processes",
      query: (args) => argsOf(args, "host", "measure", "work"),
      content: (found, args) => processesContent(found, args, context),
      everyMs: PROCESSES_EVERY_MS,
    }),
};

function processesContent(found, args, context) {
  return [
    make("div", { class: "row" }, make("h1", {}, "Processes")),
    processesFigures(found),
    found.processes.length > 1
      ? [processesLate(found, context), processesRanks(found, args, context)]
      : null,
    processesTable(found, args, context),
    processesLives(found, context),
    processesHardware(found, args, context),
    found.processes.length > 1 ? null : card("Side by side", absent(found.ranks.missing)),
  ];
}

function processesFigures({ processes, more_processes: more, ranks }) {
  const states = new Map();
  for (const each of processes) states.set(each.state, (states.get(each.state) ?? 0) + 1);
  const hosts = new Set(processes.map((each) => each.host)).size;
  const all = [
    keyFigure(
      "Processes",
      count(processes.length + more),
      [...states].map(([state, number]) => `${count(number)} ${state}`).join(", "),
    ),
    keyFigure("Hosts", count(hosts)),
  ];
  if (ranks.lanes.length) {
    const slowest = ranks.lanes.reduce((most, each) =>
      each.middle_ratio > most.middle_ratio ? each : most,
    );
    all.push(
      keyFigure("Median of all", time(ranks.median_ns), PROCESS_MEASURES[ranks.measure]),
      keyFigure(
        "Slowest",
        processWord(slowest),
        `${percent(slowest.middle_ratio)} of the median; last in ${percent(slowest.slowest_ratio)} of the steps`,
      ),
    );
  }
  return figures(...all);
}

/** The slow ranks. Findings and ranks need the traced steps, so this is shown later. */
function processesLate(found, context) {
  const box = make(
    "div",
    {},
    make("p", { class: "wait", role: "status" }, "Looking for slow processes …"),
  );
  Promise.all([context.ask("findings"), context.ask("ranks")]).then(
    ([advice, ranks]) => fill(box, processesFindings(advice, ranks, found, context)),
    (error) => error.name !== "AbortError" && fill(box, absent(error.message)),
  );
  return card("Who is late", box);
}

function processesFindings({ findings }, { stragglers }, { ranks, processes }, context) {
  const late = findings.filter((each) => each.rule === "straggler");
  if (late.length) return late.map((each) => wholeFinding(each, context.link));
  if (stragglers.length) return stragglers.slice(0, PROCESS_NAMED).map(ranksStraggler);
  if (!ranks.lanes.length) return absent(ranks.missing);
  if (processes.every((each) => each.rank === null))
    return absent("no process has a rank, so the processes that work together are unknown");
  return make(
    "p",
    {},
    badge("good", "none"),
    " No process is slower than the others by more than chance.",
  );
}

function processesRanks({ ranks, groups }, args, context) {
  const tools = make(
    "div",
    { class: "row" },
    groups.length > 1
      ? choose({
          label: "Work",
          value: processesGroup(ranks, groups)?.work,
          options: groups.map((each) => [
            each.work,
            `${each.kind} ${each.name.slice(0, 80)} in ${count(each.processes)} processes`,
          ]),
          onChange: (work) => context.go({ ...args, work }),
        })
      : null,
    ranks.lanes.length
      ? choose({
          label: "Compare",
          value: ranks.measure,
          options: ranks.measures.map((each) => [each, PROCESS_MEASURES[each]]),
          onChange: (measure) => context.go({ ...args, measure }),
        })
      : null,
  );
  const box = card("Side by side, step by step", tools);
  if (!ranks.lanes.length) {
    box.append(absent(ranks.missing));
    return box;
  }
  const columns = ranks.lanes[0].cells.length;
  const wide = ranks.steps_per_column;
  const names = Array.from({ length: columns }, (_, at) => processesColumn(ranks, at, wide));
  const cells = ranks.lanes.flatMap((lane, row) =>
    lane.cells.map((cell, column) => [column, row, cell]),
  );
  box.append(make("p", { class: "soft" }, processesExplained(ranks)));
  heatmap(box, {
    label: "Processes side by side",
    kind: "ratio",
    csvName: "ranks",
    x: { title: "step", values: names },
    y: { title: "process", values: ranks.lanes.map(processWord) },
    cells,
    least: 1,
    most: Math.max(PROCESS_LATE_RATIO, processesWorst(ranks)),
    height: Math.min(900, 90 + (ranks.lanes.length > 24 ? 12 : 22) * ranks.lanes.length),
    onPick: (_, row) => context.go({ work: ranks.lanes[row].work }, { page: "steps" }),
  });
  box.append(andMore(ranks.left_out, "processes, which are faster") ?? "");
  processesSpread(box, ranks, context);
  return box;
}

/**
 * The slowest, median and fastest process at each step: all three from the same step.
 */
function processesSpread(box, { spread, lanes, measure }, context) {
  if (spread.step.length < 2) return;
  const names = new Map(lanes.map((lane) => [lane.process, processWord(lane)]));
  box.append(
    make(
      "h3",
      {},
      measure === "step"
        ? "Times of the slowest, median and fastest process"
        : "Longest, median and shortest time before a step",
    ),
  );
  lines(box, {
    label: "Slowest, median and fastest process at each step",
    height: 190,
    csvName: "spread",
    x: { title: "step", kind: "count", values: spread.step },
    series: [
      { name: "slowest", kind: "time", values: spread.most_ns, colour: "warning" },
      { name: "median", kind: "time", values: spread.median_ns, colour: "series-1" },
      { name: "fastest", kind: "time", values: spread.least_ns, colour: "series-3" },
    ],
    onPick: (at) =>
      context.go(
        {
          work: lanes.find((lane) => lane.process === spread.slowest[at])?.work ?? lanes[0].work,
          step: spread.step[at],
        },
        { page: "steps" },
      ),
  });
  const times = new Map();
  for (const process of spread.slowest) times.set(process, (times.get(process) ?? 0) + 1);
  const [most, often] = [...times].sort(([, one], [, other]) => other - one)[0];
  box.append(
    make(
      "p",
      { class: "soft small" },
      `Slowest most often: ${names.get(most) ?? `process ${most + 1}`}, at ${count(often)} of the ${count(spread.step.length)} steps drawn. Click a point to open the step of its slowest process.`,
    ),
  );
}

function processesGroup(ranks, groups) {
  return groups.find((each) => each.kind === ranks.kind && each.name === ranks.name);
}

function processesColumn(ranks, at, wide) {
  const first = ranks.first_step + at * wide;
  const last = Math.min(first + wide - 1, ranks.last_step);
  return first === last ? count(first) : `${count(first)} to ${count(last)}`;
}

function processesExplained(ranks) {
  const column =
    ranks.steps_per_column > 1
      ? ` A column is the median of ${count(ranks.steps_per_column)} steps.`
      : "";
  const what =
    ranks.measure === "step"
      ? "the time of a step in each process, divided by the median of all at the same step"
      : "the time before a step beyond the median of all, as a share of the median cycle, plus 100 %";
  return `A cell is ${what}: 100 % is the median.${column} Traced steps are left out.`;
}

/**
 * The end of the scale: high, but not so high that one outlier leaves all other cells pale.
 */
function processesWorst({ lanes }) {
  const every = lanes
    .flatMap((lane) => lane.cells)
    .filter(Number.isFinite)
    .sort((one, other) => one - other);
  return every[Math.floor(0.99 * (every.length - 1))] ?? 1;
}

function processesTable(found, args, context) {
  const lanes = new Map(found.ranks.lanes.map((lane) => [lane.process, lane]));
  const { hardware } = found;
  const [role, work, state] = ["role", "work_title", "state"].map((name) =>
    processesOne(found.processes, name),
  );
  return table({
    caption: ["All processes", ...(found.processes.length > 1 ? [role, work] : [])]
      .filter(Boolean)
      .join(", ")
      .slice(0, 200),
    csvName: "processes",
    rows: found.processes,
    of: found.processes.length + found.more_processes,
    sort: args.sort ?? "",
    filter: args.find ?? "",
    search: found.processes.length > 8,
    onSort: (sort) => context.go({ ...args, sort }, { keep: true }),
    onFilter: (find) => context.go({ ...args, find }, { keep: true }),
    columns: [
      {
        key: "process",
        title: "Process",
        value: processName,
        cell: (row) => processesLink(row, context),
      },
      role === null
        ? { key: "role", title: "Role", cell: (row) => (row.role ? nameOf(row.role) : "") }
        : null,
      state && found.processes.length > 1
        ? null
        : { key: "state", title: "State", cell: (row) => badge(row.state) },
      work && found.processes.length > 1
        ? null
        : {
            key: "work_title",
            title: "Work",
            missing: () => "no step ran in it",
            cell: (row) => (row.work_title ? nameOf(row.work_title) : missing("no step ran in it")),
          },
      { key: "steps", title: "Steps", kind: "count" },
      {
        key: "steps_per_s",
        title: "Steps/s",
        kind: "large",
        hint: "from the first step to the last, pauses included",
        missing: (row) => row.missing.steps_per_s,
      },
      {
        key: "p50_ns",
        title: "p50",
        kind: "time",
        hint: "half of the steps took no longer",
        missing: (row) => row.missing.p50_ns,
      },
      { key: "p95_ns", title: "p95", kind: "time", missing: (row) => row.missing.p95_ns },
      ...(lanes.size ? processesLaneColumns(lanes, found.ranks) : []),
      { key: "captures", title: "Sampled", kind: "count" },
      {
        key: "overhead_ratio",
        title: "Overhead",
        kind: "ratio",
        hint: "share of its time taken by recording",
        missing: (row) => row.missing.overhead_ratio,
      },
      {
        key: "cores_busy",
        title: "CPUs busy",
        kind: "large",
        missing: (row) => row.missing.cores_busy,
        cell: (row) => processesCpus(row),
      },
      !found.processes.some((row) => row.throttled_ratio)
        ? null
        : {
            key: "throttled_ratio",
            title: "Held back",
            kind: "ratio",
            hint: "by the control group, of the CPU time that was used or wanted",
            missing: (row) => row.missing.throttled_ratio,
          },
      {
        key: "peak_bytes",
        title: "Peak memory",
        kind: "bytes",
        missing: (row) => row.missing.peak_bytes,
      },
    ].filter(Boolean),
    none: hardware.missing.processes ?? "No process was recorded.",
  });
}

/** What all processes have in common: "" means nothing, null that they differ. */
function processesOne(rows, name) {
  const every = new Set(rows.map((row) => row[name] ?? ""));
  return every.size > 1 ? null : ([...every][0] ?? "");
}

function processesLaneColumns(lanes, ranks) {
  const why = () => "it has no step in common with the others";
  return [
    {
      key: "middle_ratio",
      title: "Of the median",
      kind: "ratio",
      hint: PROCESS_MEASURES[ranks.measure],
      value: (row) => lanes.get(row.process)?.middle_ratio ?? null,
      missing: why,
    },
    {
      key: "slowest_ratio",
      title: "Slowest in",
      kind: "ratio",
      hint: "the share of steps in which no process took longer",
      value: (row) => lanes.get(row.process)?.slowest_ratio ?? null,
      missing: why,
    },
  ];
}

function processesLink(row, context) {
  const name = nameOf(processName(row));
  return row.work === null
    ? name
    : make("a", { href: context.link("steps", { work: row.work }) }, name);
}

function processesCpus(row) {
  if (row.cores_busy === null) return missing(row.missing.cores_busy);
  return row.usable_cpus === null
    ? written(row.cores_busy, "large")
    : `${written(row.cores_busy, "large")} of ${written(row.usable_cpus, "large")}`;
}

function processesLives(found, context) {
  const box = card("Lifetimes");
  if (!found.lives.length) {
    box.append(absent("the start of these processes is unknown"));
    return box;
  }
  const works = new Map(found.processes.map((each) => [each.process, each.work]));
  livesChart(box, found.lives, {
    onPick: (life) =>
      works.get(life.process) !== null &&
      works.has(life.process) &&
      context.go({ work: works.get(life.process) }, { page: "steps" }),
  });
  box.append(andMore(found.more_lives, "processes") ?? "");
  return box;
}

function processesHardware({ hardware }, args, context) {
  const hosts =
    hardware.hosts.length > 1
      ? choose({
          label: "Host",
          value: hardware.host,
          options: [["", "all hosts"], ...hardware.hosts.map((each) => [each, each])],
          onChange: (host) => context.go({ ...args, host }),
        })
      : null;
  const head = make("div", { class: "row" }, make("h2", {}, "Resource usage"), hosts);
  if (hardware.missing.processes && hardware.missing.devices) {
    return make(
      "section",
      { class: "card" },
      head,
      make(
        "ul",
        {},
        make("li", {}, sentence(hardware.missing.processes)),
        make("li", {}, sentence(hardware.missing.devices)),
      ),
    );
  }
  const grid = make("div", { class: "columns" });
  if (hardware.missing.processes)
    grid.append(card("Processes", absent(hardware.missing.processes)));
  else {
    grid.append(
      processesCurves("CPUs busy", hardware.processes.cores_busy, "large", processWord),
      processesCurves("Resident memory", hardware.processes.resident_bytes, "bytes", processWord),
    );
  }
  if (hardware.missing.devices)
    return [head, grid, card("Accelerators", absent(hardware.missing.devices))];
  const device = (each) =>
    hardware.hosts.length > 1 && !hardware.host
      ? `${each.host} GPU ${each.index}`
      : `GPU ${each.index}`;
  const { accelerators } = hardware;
  grid.append(
    processesCurves("Accelerator utilization", accelerators.utilization_ratio, "ratio", device),
    processesCurves("Accelerator memory", accelerators.memory_used_bytes, "bytes", device),
    processesCurves("Power, W", accelerators.power_watts, "large", device),
  );
  return [head, grid, processesDevices(hardware)];
}

function processesCurves(title, curves, kind, nameEach) {
  const box = card(title);
  if (!curves.lines.length) {
    box.append(absent(curves.missing ?? "nothing was sampled"));
    return box;
  }
  lines(box, {
    label: title,
    height: 170,
    csvName: title.toLowerCase().replace(/\W+/g, "-"),
    x: { title: "since the first process began", kind: "time", values: curves.at_ns },
    series: curves.lines.map((each) => ({ name: nameEach(each), values: each.values, kind })),
  });
  box.append(
    andMore(
      curves.more,
      title === "Accelerator utilization"
        ? "that are busier, in the table"
        : "with less, in the table",
    ) ?? "",
  );
  return box;
}

function processesDevices({ devices, more_devices: more }) {
  const meanOf = (name) => (row) => row[name]?.mean ?? null;
  const why = (name) => (row) => row.missing[name];
  const of = (row, name, limit, kind) =>
    row[name] === null
      ? missing(row.missing[name])
      : row[limit] === null
        ? written(row[name].mean, kind)
        : `${written(row[name].mean, kind)} of ${written(row[limit], kind)}`;
  return table({
    caption: "Accelerators, on average",
    csvName: "accelerators",
    rows: devices,
    of: devices.length + more,
    search: devices.length > 8,
    columns: [
      { key: "index", title: "Accelerator", value: (row) => `${row.host} GPU ${row.index}` },
      { key: "name", title: "Name" },
      {
        key: "utilization_ratio",
        title: "At work",
        kind: "ratio",
        bar: true,
        value: meanOf("utilization_ratio"),
        missing: why("utilization_ratio"),
      },
      {
        key: "memory_used_bytes",
        title: "Memory",
        kind: "bytes",
        value: meanOf("memory_used_bytes"),
        cell: (row) =>
          row.memory_used_bytes === null
            ? missing(row.missing.memory_used_bytes)
            : `${bytes(row.memory_used_bytes.mean)} of ${bytes(row.memory_total_bytes)}`,
      },
      {
        key: "power_watts",
        title: "Power, W",
        kind: "large",
        value: meanOf("power_watts"),
        cell: (row) => of(row, "power_watts", "power_limit_watts", "large"),
      },
      {
        key: "temperature_celsius",
        title: "°C",
        kind: "large",
        value: meanOf("temperature_celsius"),
        missing: why("temperature_celsius"),
      },
      {
        key: "sm_clock_hz",
        title: "Clock, Hz",
        kind: "large",
        value: meanOf("sm_clock_hz"),
        cell: (row) => of(row, "sm_clock_hz", "max_sm_clock_hz", "large"),
      },
      {
        key: "throttle_reasons",
        title: "Throttled by",
        value: (row) =>
          row.throttle_reasons.map((each) => `${each.reason} in ${percent(each.ratio)}`).join(", "),
      },
    ],
  });
}
