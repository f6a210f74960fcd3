// The ranks of a run side by side: which are late, who waits for whom, how their clocks differ.
import { count, percent, plainNumber, time } from "../parts/amounts.js";
import { heatmap } from "../parts/charts.js";
import { badge, card, figures, keyFigure, missing, nameOf } from "../parts/controls.js";
import { make } from "../parts/elements.js";
import { lines } from "../parts/lines.js";
import { rerender } from "../parts/rerender.js";
import { absent, andMore, processWord } from "../parts/sentences.js";
import { table } from "../parts/table.js";

const RANKS_MEASURES = {
  cycle: "from step to step",
  between: "between two steps",
  inside: "in a step, outside collectives",
  step: "of a step",
};

export const ranksPage = {
  name: "ranks",
  title: "Ranks",
  show: (place, context) =>
    rerender(place, context, {
      name: "ranks",
      query: () => ({}),
      content: (found, args) => ranksContent(found, args, context),
    }),
};

function ranksContent(found, args, context) {
  const timeline = make(
    "a",
    { href: context.link("timeline", { show: "ranks" }) },
    "one step in all ranks on one clock",
  );
  const processes = make("a", { href: context.link("processes") }, "the ranks step by step");
  return [
    make("div", { class: "row" }, make("h1", {}, "Ranks")),
    ranksFacts(found),
    found.processes > 1 ? ranksFigures(found) : null,
    ranksLate(found),
    ranksSteps(found, context),
    ranksMap(found, context),
    ranksRows(found, args, context),
    ranksServers(found),
    ranksClocks(found),
    make("p", { class: "soft" }, "See also ", timeline, ", and ", processes, "."),
  ].filter(Boolean);
}

/** Problems: a missing rank, two with the same number, different versions. */
function ranksFacts({ facts, facts_left_out: left }) {
  if (!facts.length) return null;
  return make(
    "div",
    { class: "notice" },
    make(
      "ul",
      { class: "plain-list" },
      facts.map((each) => make("li", {}, make("bdi", {}, each))),
    ),
    andMore(left),
  );
}

function ranksFigures({ waits, ranks, processes, machines, clock_error_ns: error }) {
  const all = [
    keyFigure(
      "Ranks",
      count(processes),
      waits.missing ? "" : `${count(waits.ranks_in_all)} met in ${count(waits.steps)} traced steps`,
    ),
  ];
  const worst = ranks.reduce(
    (most, each) => ((each.caused_ns ?? 0) > (most?.caused_ns ?? 0) ? each : most),
    null,
  );
  if (!waits.missing)
    all.push(
      keyFigure("They waited", time(waits.waiting_ns), "all of them together, in these steps"),
    );
  if (worst && waits.waiting_ns)
    all.push(
      keyFigure(
        "Most for",
        processWord(worst),
        `${percent(worst.caused_ns / waits.waiting_ns)} of it; last at ${count(worst.last)} of ${count(worst.matched)} collectives`,
      ),
    );
  all.push(keyFigure("Machines", count(machines), error ? `clocks known to ${time(error)}` : ""));
  return figures(...all);
}

function ranksLate({ stragglers, stragglers_in_all: all, processes }) {
  if (processes < 2)
    return card(
      "Who is late",
      absent("only one process was recorded: there is nothing to compare it with"),
    );
  if (!stragglers.length)
    return card(
      "Who is late",
      make(
        "p",
        {},
        badge("good", "none"),
        " No rank is slower than the others by more than chance.",
      ),
    );
  return card(
    "Who is late",
    stragglers.map(ranksStraggler),
    andMore(all - stragglers.length) ?? "",
  );
}

/** One slow rank: by how much, by which measure, and how often the others waited for it. */
export function ranksStraggler(each) {
  const last =
    each.last_ratio === null
      ? ""
      : ` It arrived last at ${percent(each.last_ratio)} of ${count(each.matched)} collectives.`;
  return make(
    "div",
    {},
    make(
      "div",
      { class: "row" },
      badge("warning", "late"),
      make(
        "strong",
        {},
        make(
          "bdi",
          {},
          `${each.title} takes ${time(each.excess_ns)} longer than the median rank, ${percent(each.excess_ratio)} of a ${each.measure === "inside" ? "traced step" : "step"}`,
        ),
      ),
    ),
    make(
      "p",
      { class: "soft" },
      `Measured by the time ${RANKS_MEASURES[each.measure] ?? each.measure}, over ${count(each.steps)} steps: ${plainNumber(each.z)} times as far from the median as ranks usually are.${last}`,
    ),
  );
}

/** The slowest, median and fastest rank at each step: all three from the same step. */
function ranksSteps({ steps, ranks, work }, context) {
  if (steps.step.length < 2) return null;
  const names = new Map(ranks.map((each) => [each.process, processWord(each)]));
  const box = card("The latest steps");
  const times = new Map();
  for (const process of steps.slowest) times.set(process, (times.get(process) ?? 0) + 1);
  const [most, often] = [...times].sort(([, one], [, other]) => other - one)[0];
  box.append(
    make(
      "p",
      { class: "soft" },
      make("bdi", {}, work),
      `: the times of the slowest, median and fastest rank at each step. Slowest most often: ${names.get(most) ?? `process ${most + 1}`}, at ${count(often)} of ${count(steps.step.length)} steps.`,
    ),
  );
  lines(box, {
    label: "Slowest, median and fastest rank at each step",
    height: 200,
    csvName: "rank-steps",
    x: { title: "step", kind: "count", values: steps.step },
    series: [
      { name: "slowest", kind: "time", values: steps.max_ns, colour: "warning" },
      { name: "median", kind: "time", values: steps.median_ns, colour: "series-1" },
      { name: "fastest", kind: "time", values: steps.min_ns, colour: "series-3" },
    ],
    onPick: () => context.go({}, { page: "processes" }),
  });
  return box;
}

function ranksMap({ waits, processes }, context) {
  if (processes < 2) return null;
  const box = card("Who waits for whom");
  if (waits.missing || !waits.cells.length) {
    box.append(absent(waits.missing ?? "no rank waited for another"));
    return box;
  }
  const names = waits.ranks.map(processWord);
  box.append(
    make(
      "p",
      { class: "soft" },
      "A row waits for a column: the last rank to arrive at a collective, or the sender of received data. A full column keeps all others waiting.",
    ),
  );
  heatmap(box, {
    label: "Who waits for whom",
    csvName: "waits",
    x: { title: "waited for", values: names },
    y: { title: "waits", values: names },
    cells: waits.cells.map(([whom, who, waiting]) => [whom, who, waiting]),
    least: 0,
    height: Math.min(760, 96 + (names.length > 20 ? 13 : 22) * Math.max(names.length, 4)),
    onPick: () => context.go({ show: "ranks" }, { page: "timeline" }),
  });
  box.append(andMore(waits.left_out, "ranks, which are less involved in waiting") ?? "");
  return box;
}

function ranksRows(found, args, context) {
  const why = (name) => (row) => row.missing[name];
  return table({
    caption: "Rank by rank",
    csvName: "ranks",
    rows: found.ranks,
    of: found.ranks.length + found.ranks_left_out,
    sort: args.sort ?? "",
    filter: args.find ?? "",
    search: found.ranks.length > 8,
    onSort: (sort) => context.go({ ...args, sort }, { keep: true }),
    onFilter: (find) => context.go({ ...args, find }, { keep: true }),
    columns: [
      { key: "title", title: "Rank", cell: (row) => nameOf(row.title) },
      {
        key: "mean_ns",
        title: "Step",
        kind: "time",
        hint: "on average",
        missing: () => "it ran no step of the loop that is compared",
      },
      {
        key: "excess_ratio",
        title: "Longer by",
        kind: "ratio",
        hint: "than the median rank at the same step, as a share of a step",
        missing: why("excess_ratio"),
      },
      {
        key: "z",
        title: "z",
        kind: "large",
        hint: "that distance, in units of the usual distance of ranks from the median",
        missing: why("z"),
      },
      {
        key: "caused_ns",
        title: "Kept others waiting",
        kind: "time",
        bar: true,
        hint: "all of them together, in the traced steps",
        missing: why("caused_ns"),
      },
      {
        key: "waiting_ns",
        title: "Waited",
        kind: "time",
        hint: "for others",
        missing: why("waiting_ns"),
      },
      {
        key: "last",
        title: "Last to",
        kind: "count",
        hint: "collectives at which no rank arrived later",
        missing: why("last"),
        cell: (row) =>
          row.last === null
            ? missing(row.missing.last)
            : `${count(row.last)} of ${count(row.matched)}`,
      },
      {
        key: "collectives_ns",
        title: "In collectives",
        kind: "time",
        missing: why("collectives_ns"),
      },
      {
        key: "hidden_ratio",
        title: "Hidden",
        kind: "ratio",
        hint: "the share of that time in which it also computed",
        missing: why("hidden_ratio"),
      },
    ],
    none: "No process was recorded.",
  });
}

function ranksServers({ servers }) {
  if (!servers.loads.length) return null;
  return table({
    caption: `Parameter servers${servers.imbalance_ratio > 1.05 ? `, of which one moves ${plainNumber(servers.imbalance_ratio)} times the mean` : ""}`,
    csvName: "parameter-servers",
    rows: servers.loads,
    of: servers.loads.length + servers.left_out,
    search: servers.loads.length > 8,
    columns: [
      { key: "server", title: "Server" },
      {
        key: "pulled_bytes",
        title: "Pulled from it",
        kind: "bytes",
        bar: true,
        missing: (row) => row.missing.receiving_ns,
      },
      {
        key: "pushed_bytes",
        title: "Pushed to it",
        kind: "bytes",
        bar: true,
        missing: (row) => row.missing.receiving_ns,
      },
      {
        key: "receiving_ns",
        title: "Waited for it",
        kind: "time",
        hint: "the time of the receives, which mostly wait for data to be produced",
        missing: (row) => row.missing.receiving_ns,
      },
      { key: "waits_most", title: "Most" },
      {
        key: "busy_ns",
        title: "Ops ran there",
        kind: "time",
        missing: (row) => row.missing.busy_ns,
      },
      { key: "processes", title: "Processes", kind: "count" },
    ],
  });
}

function ranksClocks(found) {
  if (found.ranks.length < 2) return null;
  const why = (name) => (row) => row.missing[name];
  return table({
    caption: `Clocks of ${count(found.machines)} ${found.machines === 1 ? "machine" : "machines"}`,
    csvName: "clocks",
    rows: found.ranks,
    of: found.ranks.length + found.ranks_left_out,
    search: found.ranks.length > 8,
    columns: [
      { key: "title", title: "Rank", cell: (row) => nameOf(row.title) },
      {
        key: "offset_ns",
        title: "Ahead by",
        kind: "time",
        hint: "of the clock of the reference",
        missing: why("offset_ns"),
        cell: ranksOffset,
      },
      { key: "error_ns", title: "± at most", kind: "time", missing: why("error_ns") },
      { key: "drift_ppm", title: "Faster, ppm", kind: "large", missing: why("drift_ppm") },
      { key: "basis", title: "Known by" },
    ],
  });
}

function ranksOffset(row) {
  if (row.is_reference) return "reference";
  return row.offset_ns === null ? missing(row.missing.offset_ns) : time(row.offset_ns);
}
