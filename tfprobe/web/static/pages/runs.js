// All runs of the directory, newest first, and what running ones are doing now.
import { addressOf } from "../parts/address.js";
import { clock, count, digits, percent, time } from "../parts/amounts.js";
import { badge, missing, nameOf } from "../parts/controls.js";
import { make } from "../parts/elements.js";
import { table } from "../parts/table.js";

const RUNS_SECOND_NS = 1e9;
// In their order within a step.
const RUNS_SHARES = [
  ["before", "before the accelerator"],
  ["on", "on it"],
  ["after", "after it"],
  ["other", "other"],
];
const RUNS_SPARK_PX = [72, 18];

export const runsPage = {
  name: "runs",
  title: "Runs",
  async show(place, { ask, args, go }) {
    let found = await ask("runs");
    const list = table({
      caption: "Recorded here",
      csvName: "runs",
      columns: runsColumns(),
      rows: runsRows(found),
      of: found.runs.length + found.left_out,
      key: (run) => run.id,
      href: (run) => addressOf(run.id, "overview"),
      sort: args.sort ?? "-started_unix_ns",
      filter: args.find ?? "",
      onSort: (sort) => go({ ...args, sort }, { keep: true }),
      onFilter: (find) => go({ ...args, find }, { keep: true }),
      none: "There are no runs yet. Record one: tfprobe run -- python train.py",
    });
    const problems = make("div");
    const tellProblems = () =>
      problems.replaceChildren(
        ...found.problems.map((what) => make("p", { class: "trouble" }, what)),
      );
    tellProblems();
    place.append(make("h1", {}, "Runs"), problems, list);
    return {
      async update() {
        found = await ask("runs");
        list.update(runsRows(found), { of: found.runs.length + found.left_out });
        tellProblems();
      },
    };
  },
};

/** A run's share is put into the row itself, so that the table can sort by it. */
function runsRows(found) {
  const now_ns = found.at_unix_ns;
  return found.runs.map((run) => ({
    ...run,
    age_ns: run.started_unix_ns === null ? null : now_ns - run.started_unix_ns,
    on_ratio: run.shares?.on_ratio ?? null,
  }));
}

function runsColumns() {
  const why = (key) => (run) => run.missing[key];
  return [
    { key: "id", title: "Run", cell: (run) => nameOf(run.id) },
    { key: "state", title: "State", cell: (run) => badge(run.state) },
    {
      key: "started_unix_ns",
      title: "Started",
      kind: "clock",
      hint: "When it was launched",
      missing: why("started_unix_ns"),
      cell: runsStart,
    },
    {
      key: "steps",
      title: "Steps",
      kind: "count",
      hint: "Of the process with the most",
      missing: why("steps"),
    },
    {
      key: "steps_per_s",
      title: "Steps/s",
      kind: "number",
      hint: "Now",
      missing: why("steps_per_s"),
      cell: (run) =>
        run.steps_per_s === null ? missing(run.missing.steps_per_s) : digits(run.steps_per_s),
    },
    {
      key: "p50_ns",
      title: "Step",
      kind: "time",
      hint: "Median of the latest 1,024 steps, with their curve",
      missing: why("p50_ns"),
      cell: runsStepTime,
    },
    {
      key: "on_ratio",
      title: "Where",
      kind: "ratio",
      hint: "Before, on and after the accelerator, in the newest traced steps; sorted by the share on it",
      cell: runsShares,
    },
    {
      key: "processes",
      title: "Processes",
      kind: "count",
      hint: "Recorded processes; for a run in progress, how many are running",
      cell: runsProcesses,
    },
    { key: "captures", title: "Sampled", kind: "count", hint: "Steps that were traced" },
    { key: "command", title: "Command", missing: why("command"), cell: runsCommand },
    { key: "host", title: "Host", missing: why("host") },
    { key: "user", title: "User", missing: why("user") },
  ];
}

/**
 * Omit the directory of the interpreter, which is long and says little; the title has everything.
 */
function runsCommand(run) {
  if (run.command === null) return missing(run.missing.command);
  return nameOf(run.command.replace(/^\S*\//, ""), {
    class: "cut runs-command",
    title: run.command,
  });
}

function runsStart(run) {
  if (run.started_unix_ns === null) return missing(run.missing.started_unix_ns);
  return make("span", { title: clock(run.started_unix_ns) }, `${runsAge(run.age_ns)} ago`);
}

function runsAge(age_ns) {
  const seconds = Math.max(0, age_ns / RUNS_SECOND_NS);
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function runsProcesses(run) {
  return run.live_processes && run.live_processes < run.processes
    ? `${count(run.live_processes)} of ${count(run.processes)}`
    : count(run.processes);
}

function runsStepTime(run) {
  if (run.p50_ns === null) return missing(run.missing.p50_ns);
  return make(
    "span",
    { class: "with-spark" },
    run.trend_ns ? runsSpark(run.trend_ns) : null,
    make("span", {}, time(run.p50_ns)),
  );
}

/** The step time over the latest steps, with an axis from zero. */
function runsSpark(values) {
  const [width, height] = RUNS_SPARK_PX;
  const most = Math.max(...values) || 1;
  const canvas = make("canvas", {
    width: width * 2,
    height: height * 2,
    class: "spark",
    role: "img",
    "aria-label": `from ${time(values[0])} to ${time(values.at(-1))}`,
  });
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("color");
  pen.beginPath();
  for (const [at, value] of values.entries())
    pen.lineTo(
      (at / Math.max(values.length - 1, 1)) * (width - 2) + 1,
      height - 1 - (value / most) * (height - 2),
    );
  pen.stroke();
  return canvas;
}

function runsShares(run) {
  if (!run.shares) return missing(run.missing.shares);
  const title = RUNS_SHARES.map(
    ([name, where]) => `${percent(run.shares[`${name}_ratio`])} ${where}`,
  ).join(", ");
  return make(
    "span",
    { class: "shares", role: "img", "aria-label": title, title: title },
    RUNS_SHARES.map(([name]) =>
      make("i", {
        style: { width: `${100 * run.shares[`${name}_ratio`]}%`, background: `var(--${name})` },
      }),
    ),
  );
}
