// All steps of a loop: how long they took, which stand out, in which phase they were; and one step
// in detail.
import { clock, count, percent, time } from "../parts/amounts.js";
import { causesList } from "../parts/answer.js";
import { bars, stack } from "../parts/charts.js";
import { partColour } from "../parts/colours.js";
import {
  card,
  figures,
  freshId,
  keyFigure,
  missing,
  nameOf,
  workChooser,
} from "../parts/controls.js";
import { ApiError, isFile } from "../parts/data.js";
import { fill, make, refill } from "../parts/elements.js";
import {
  formatBuckets,
  formatOutliers,
  formatTrend,
  phaseLegend,
  stepCurve,
} from "../parts/stepcurve.js";
import { table } from "../parts/table.js";

// Tables and bars that change each second cannot be read; for a running job they are redrawn this
// often.
const STEPS_REST_MS = 10_000;

export const stepsPage = {
  name: "steps",
  title: "Steps",
  async show(place, context) {
    let args = { ...context.args };
    let drawn = await drawSteps(place, context, args, pick);
    return {
      async turn(changed) {
        const sameWork = (changed.work ?? "") === (args.work ?? "");
        args = { ...changed };
        if (sameWork) drawn.choose(stepsNumber(args.step));
        else drawn = await drawSteps(place, context, args, pick);
      },
      async update() {
        drawn = (await drawn.refresh(args)) ?? (await drawSteps(place, context, args, pick));
      },
    };

    function pick(step) {
      args = { ...args, step };
      context.go(args, { keep: true });
      drawn.choose(step);
    }
  },
};

/** Fill the page with the steps of the loop that the address names. */
async function drawSteps(place, context, args, pick) {
  let found = await context.ask("steps", { work: args.work });
  if (found.missing) return stepsNone(place, found);
  const chosen = stepsNumber(args.step);
  const picked = stepsPicked(context, () => found, pick);
  const curve = card("Step time over the steps");
  const [top, foot] = [make("div", {}), make("div", { class: "page" })];
  fill(
    place,
    make(
      "div",
      { class: "row" },
      make("h1", {}, "Steps"),
      workChooser({ ...context, args: { ...args, step: undefined } }, found.works, found.work),
    ),
    top,
    curve,
    picked.element,
    foot,
  );
  const chart = stepsCurve(curve, context, () => found, { chosen, pick });
  let since = -Infinity;
  write();
  picked.choose(chosen);

  function write() {
    refill(
      top,
      stepsFigures(found),
      found.queue_note && make("p", { class: "remark" }, make("bdi", {}, found.queue_note)),
    );
    if (performance.now() - since < STEPS_REST_MS) return;
    since = performance.now();
    refill(
      foot,
      stepsOutliers(found, pick),
      stepsCompilations(found.compilations, pick),
      stepsBreaks(found.graph_breaks, pick),
      stepsTimes(found),
      stepsLife(found.life),
    );
  }

  return {
    choose(step) {
      chart.choose(step);
      picked.choose(step);
    },
    async refresh(now) {
      const anew = await context.ask("steps", { work: now.work });
      if (anew.missing || anew.work !== found.work) return null;
      found = anew;
      chart.refresh(found);
      write();
      return this;
    },
  };
}

function stepsNone(place, found) {
  fill(
    place,
    make("h1", {}, "Steps"),
    make("p", {}, `There is nothing to show: ${found.missing}.`),
    found.silences.map((text) => make("p", { class: "notice" }, make("bdi", {}, text))),
  );
  return { choose() {}, refresh: async () => null };
}

function stepsNumber(text) {
  const number = Number(text);
  return text !== undefined && text !== "" && Number.isSafeInteger(number) && number >= 0
    ? number
    : null;
}

function stepsFigures(found) {
  const { facts, step_times, gap_times } = found;
  const about = step_times.error_ratio ? "~" : "";
  const timed = (name) =>
    step_times.missing ? missing(step_times.missing) : `${about}${time(step_times[name])}`;
  const sampled = facts.sampled
    ? `${count(facts.sampled)} traced by tfprobe, ${step_times.error_ratio ? "in these times, too" : "left out of these times"}`
    : "none was traced";
  return figures(
    keyFigure(
      "Steps",
      count(facts.count),
      facts.raised ? `${count(facts.raised)} raised` : sampled,
    ),
    keyFigure(
      "Mean",
      step_times.missing ? missing(step_times.missing) : time(step_times.mean_ns),
      step_times.missing ? "" : `${time(step_times.total_ns)} in all`,
    ),
    keyFigure(
      "Median",
      timed("p50_ns"),
      step_times.missing
        ? ""
        : `half of them ${time(step_times.p25_ns)} to ${time(step_times.p75_ns)}`,
    ),
    keyFigure("p95", timed("p95_ns"), about ? "off by 1/16 at most" : ""),
    keyFigure(
      "p99",
      timed("p99_ns"),
      step_times.missing ? "" : `longest ${time(step_times.max_ns)}`,
    ),
    keyFigure(
      "Between two steps",
      gap_times.missing
        ? missing(gap_times.missing)
        : `${gap_times.error_ratio ? "~" : ""}${time(gap_times.p50_ns)}`,
      gap_times.missing ? "" : `median; ${time(gap_times.total_ns)} in all`,
    ),
    keyFigure(
      "Warm-up",
      facts.warm_up_steps === null
        ? missing(facts.missing?.warm_up_steps)
        : facts.warm_up_steps === 1
          ? "1 step"
          : `${count(facts.warm_up_steps)} steps`,
      facts.retraces ? `${count(facts.retraces)} traces after the first` : "",
    ),
  );
}

function stepsCurve(box, context, known, { chosen, pick }) {
  const note = make("p", { class: "soft small" });
  const troubled = make("p", { class: "trouble", role: "alert", hidden: true });
  const summary = make("div", {});
  let requests = 0;
  let isNear = false;
  const chart = stepCurve(box, known(), { height: 280, chosen, onPick: pick, onZoom: nearer });
  box.append(note, troubled, summary);
  summarize(known().series);
  return {
    choose: chart.choose,
    refresh(found) {
      // A zoomed curve keeps its range.
      if (!isNear) chart.refresh(found);
      if (!isNear) summarize(found.series);
    },
  };

  function summarize(series) {
    const found = known();
    const ofLast = found.is_whole ? "" : " the last";
    const forgotten = found.is_whole
      ? ""
      : `The last ${count(found.remembered)} of ${count(found.facts.count)} steps are kept, from step ${count(found.first_step)} on.`;
    const texts = [
      forgotten,
      formatOutliers(found.slow_steps, "Slow steps", ofLast),
      formatOutliers(found.long_gaps, "Long gaps", ofLast),
      formatTrend(found.trend),
    ];
    fill(
      summary,
      texts.filter(Boolean).map((text) => make("p", {}, text)),
    );
    fill(note, formatBuckets(series));
  }

  /** Request a range of many steps, step by step. */
  async function nearer(first, end) {
    const whole = known().series;
    isNear = first !== null;
    if (whole.steps_each === 1 || isFile) return;
    requests += 1;
    const turn = requests;
    const from = Math.max(first ?? 0, 0);
    try {
      const shown =
        first === null
          ? whole
          : (
              await context.ask("steps", {
                work: known().work,
                first: from,
                end: Math.max(Math.min(end, whole.end_step), from),
              })
            ).series;
      if (turn !== requests || !shown.step.length) return;
      chart.show(shown);
      summarize(shown);
      troubled.hidden = true;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(troubled, error.message).hidden = false;
    }
  }
}

/** The card of one step: a field for its number, arrows to its neighbours, and what it did. */
function stepsPicked(context, known, pick) {
  const found = known();
  const range = () => [known().first_step, known().first_step + known().remembered - 1];
  const [first, last] = range();
  const id = freshId("step");
  let chosen = null;
  let turn = 0;
  const number = make("input", {
    type: "number",
    id,
    min: first,
    max: last,
    step: 1,
    onchange: () => number.value !== "" && go(Number(number.value)),
  });
  const before = make(
    "button",
    { type: "button", onclick: () => walk(-1), "aria-label": "The step before" },
    "←",
  );
  const after = make(
    "button",
    { type: "button", onclick: () => walk(1), "aria-label": "The next step" },
    "→",
  );
  const slowest = found.slow_steps.longest?.[0];
  const sampled = found.sampled_steps.at(-1);
  const tools = make(
    "div",
    { class: "step-picker", onkeydown: walked },
    make("label", { for: id }, "Step"),
    before,
    number,
    after,
    slowest
      ? make(
          "button",
          { type: "button", onclick: () => go(slowest.step) },
          `The slowest: ${count(slowest.step)}`,
        )
      : null,
    sampled !== undefined
      ? make(
          "button",
          { type: "button", onclick: () => go(sampled) },
          `Last traced step: ${count(sampled)}`,
        )
      : null,
  );
  const body = make("div", { class: "step-body", "aria-live": "polite" });
  const element = card("One step", found.remembered ? tools : null, body);

  function go(step) {
    const [least, most] = range();
    if (Number.isSafeInteger(step)) pick(Math.min(Math.max(step, least), most));
  }

  function walk(by) {
    const [least, most] = range();
    go((chosen ?? (by > 0 ? least - 1 : most + 1)) + by);
  }

  function walked(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.target === number) return;
    walk(by);
    event.preventDefault();
  }

  async function choose(step) {
    chosen = step;
    turn += 1;
    const mine = turn;
    number.value = step ?? "";
    if (step === null) {
      fill(
        body,
        make(
          "p",
          { class: "soft" },
          found.remembered
            ? "Select a step in the chart or in the table, or type its number."
            : "No step of this loop was recorded.",
        ),
      );
      return;
    }
    const [facts, parts] = await Promise.all([
      stepsOrError(() => stepsFacts(context, known(), step)),
      stepsOrError(() => stepsParts(context, known(), step)),
    ]);
    if (mine === turn) fill(body, facts, parts);
  }

  return { element, choose };
}

/** The content of a part of the page, or the reason why there is none. */
async function stepsOrError(make_) {
  try {
    return await make_();
  } catch (error) {
    if (error.name === "AbortError") return null;
    if (!(error instanceof ApiError)) throw error;
    return make("p", { class: error.status === 404 || isFile ? "soft" : "trouble" }, error.message);
  }
}

async function stepsFacts(context, found, step) {
  const facts = await context.ask("step", { work: found.work, step }).catch((error) => {
    if (isFile && error instanceof ApiError)
      return stepsOfCurve(found, step) ?? Promise.reject(error);
    throw error;
  });
  const usual = facts.usual_ns ? `usually ${time(facts.usual_ns)}` : "";
  const marks = [
    facts.is_sampled ? "traced by tfprobe" : "",
    facts.has_raised ? "raised" : "",
    !facts.is_sampled && !facts.has_raised && facts.counts === false ? "next to a traced step" : "",
  ].filter(Boolean);
  const slow = [
    ["This step", facts.slow],
    ["The time before it", facts.gap],
  ].filter(([, each]) => each);
  return [
    figures(
      keyFigure("Step", count(facts.step), marks.join(", ")),
      keyFigure("It took", time(facts.duration_ns), usual),
      keyFigure(
        "Time before it",
        facts.gap_ns === null ? missing("nothing before it was kept") : time(facts.gap_ns),
        facts.usual_gap_ns ? `usually ${time(facts.usual_gap_ns)}` : "",
      ),
      keyFigure("Phase", facts.phase ?? missing("the recording has no start of its process"), ""),
      keyFigure(
        "Began",
        facts.start_unix_ns === null
          ? missing(facts.start_missing ?? "the recording does not say when")
          : new Date(facts.start_unix_ns / 1e6).toLocaleTimeString(),
        facts.start_unix_ns === null ? "" : clock(facts.start_unix_ns),
      ),
    ),
    slow.map(([what, each]) =>
      make(
        "p",
        {},
        `${what} took ${time(each.excess_ns)} more than usual (z ${each.z}): `,
        nameOf(each.why),
        ".",
      ),
    ),
  ];
}

/** What the single file knows of a step without a request: its time, if each point is one step. */
function stepsOfCurve({ series, sampled_steps, raised_steps, bands, slow_steps, long_gaps }, step) {
  if (series.steps_each !== 1 || step < series.first_step || step >= series.end_step) return null;
  const at = step - series.first_step;
  const longest = (each) => each.longest?.find((one) => one.step === step) ?? null;
  return {
    step,
    duration_ns: series.median_ns[at],
    gap_ns: at ? series.gap_ns[at] : null,
    start_unix_ns: null,
    start_missing: "this file does not contain it",
    is_sampled: sampled_steps.includes(step),
    has_raised: raised_steps.includes(step),
    phase: bands.find((band) => band.first_step <= step && step <= band.last_step)?.phase ?? null,
    slow: longest(slow_steps),
    gap: longest(long_gaps),
    usual_ns: slow_steps.usual_ns ?? null,
    usual_gap_ns: long_gaps.usual_ns ?? null,
  };
}

async function stepsParts(context, found, step) {
  const all = await context.ask("parts", { work: found.work });
  if (all.missing)
    return make("p", { class: "soft" }, `What it was spent on is unknown: ${all.missing}.`);
  const has =
    all.steps.find((each) => each.step === step) ??
    (all.recorded > all.steps.length && found.sampled_steps.includes(step)
      ? (await context.ask("parts", { work: found.work, step })).step
      : null);
  if (!has) return stepsMean(all, found);
  const box = make("div", {});
  stepsStack(box, all.labels, [
    { name: `step ${count(step)}`, parts: has.parts_ns },
    { name: "mean", parts: stepsMeanParts(all) },
  ]);
  box.append(
    make(
      "p",
      {},
      make("a", { href: context.link("timeline", { capture: has.capture }) }, "Its timeline"),
      has.between_ns === null
        ? ""
        : `; ${time(has.between_ns)} of the ${time(has.cycle_ns)} are between it and the next`,
    ),
  );
  if (has.causes.length) box.append(make("h3", {}, "Of these"), causesList(has.causes));
  return box;
}

/** What an untraced step did is unknown: show what the traced steps did. */
function stepsMean(all, found) {
  const box = make("div", {});
  const nearest = found.sampled_steps.at(-1);
  box.append(
    make(
      "p",
      { class: "soft" },
      `This step was not traced, so what it was spent on is unknown. The mean of ${count(all.recorded)} that were${nearest === undefined ? "" : `, such as step ${count(nearest)}`}:`,
    ),
  );
  stepsStack(box, all.labels, [{ name: "mean", parts: stepsMeanParts(all) }]);
  return box;
}

function stepsMeanParts(all) {
  return Object.fromEntries(
    all.mean.groups.flatMap((group) => group.parts.map((part) => [part.part, part.time_ns])),
  );
}

function stepsStack(box, labels, rows) {
  stack(box, {
    label: "What a step is spent on",
    wholes: false,
    bars: rows.map(({ name, parts }) => ({
      name,
      parts: Object.entries(parts).map(([part, value]) => ({
        name: labels[part],
        value,
        colour: partColour(part),
      })),
    })),
  });
}

function stepsOutliers(found, pick) {
  const rows = [
    ...(found.slow_steps.longest ?? []).map((each) => ({
      ...each,
      what: "step",
      usual_ns: found.slow_steps.usual_ns,
    })),
    ...(found.long_gaps.longest ?? []).map((each) => ({
      ...each,
      what: "time before it",
      usual_ns: found.long_gaps.usual_ns,
    })),
  ];
  const why = found.slow_steps.missing ?? "No step and no gap stands out.";
  return table({
    caption: "What stands out",
    rows,
    of: (found.slow_steps.count ?? 0) + (found.long_gaps.count ?? 0),
    sort: "-excess_ns",
    csvName: "outliers",
    none: why,
    search: rows.length > 10,
    onOpen: (row) => pick(row.step),
    columns: [
      { key: "step", title: "Step", kind: "count" },
      { key: "what", title: "What" },
      { key: "duration_ns", title: "Took", kind: "time", bar: true },
      { key: "usual_ns", title: "Usual", kind: "time" },
      { key: "excess_ns", title: "Beyond it", kind: "time" },
      {
        key: "z",
        title: "z",
        kind: "number",
        hint: "Robust distance from the median: steps from 3.5 on stand out",
      },
      { key: "why", title: "What happened then" },
    ],
  });
}

const BEFORE_STEPS = "before the first step of the loop had ended";

/** What was compiled in steps of this loop, or before them, the longest first. */
function stepsCompilations(found, pick) {
  if (!found) return null;
  return table({
    caption: "Compilations",
    rows: found.rows.map((row) => ({
      ...row,
      from_cache: row.cached === null ? "" : row.cached ? "hit" : "miss",
      where: row.file ? `${row.file}:${row.line}` : "",
    })),
    of: found.count,
    sort: "-duration_ns",
    csvName: "compilations",
    search: found.rows.length > 10,
    onOpen: (row) => pick(row.step),
    columns: [
      { key: "step", title: "Step", kind: "count", missing: () => BEFORE_STEPS },
      { key: "name", title: "Function" },
      { key: "since_start_ns", title: "At", kind: "time", hint: "Since the start of the process" },
      { key: "duration_ns", title: "Took", kind: "time", bar: true },
      { key: "trace_ns", title: "Trace", kind: "time" },
      { key: "lower_ns", title: "Lower", kind: "time" },
      { key: "backend_ns", title: "Backend", kind: "time", hint: "XLA, or that of torch.compile" },
      ...(found.rows.some((row) => row.cached !== null)
        ? [{ key: "from_cache", title: "Cache", hint: "Whether a cache on disk had it" }]
        : []),
      { key: "why", title: "Why" },
      { key: "where", title: "Called at", cell: (row) => stepsLine(row.where) },
    ],
  });
}

/** Where graphs of torch.compile break: each line with a reason once, the most frequent first. */
function stepsBreaks(found, pick) {
  if (!found) return null;
  return table({
    caption: "Graph breaks",
    rows: found.rows.map((row) => ({
      ...row,
      effect: row.skipped ? "runs uncompiled" : "ends a graph",
    })),
    of: found.count,
    sort: "-count",
    csvName: "graph-breaks",
    search: found.rows.length > 10,
    onOpen: (row) => pick(row.step),
    columns: [
      {
        key: "step",
        title: "First step",
        kind: "count",
        hint: "In which it was compiled first",
        missing: () => BEFORE_STEPS,
      },
      { key: "name", title: "Function" },
      { key: "source", title: "Line", cell: (row) => stepsLine(row.source) },
      { key: "count", title: "Times", kind: "count", hint: "In how many compilations", bar: true },
      { key: "effect", title: "Effect" },
      {
        key: "reason",
        title: "Why",
        hint: "In PyTorch's words",
        cell: (row) =>
          make(
            "bdi",
            { style: { "white-space": "normal", "overflow-wrap": "anywhere" } },
            row.reason,
          ),
      },
    ],
  });
}

/** A line by the last part of its path, which is what one looks for; the whole on hovering. */
function stepsLine(source) {
  if (!source) return missing("not recorded");
  return make("bdi", { title: source }, source.split("/").at(-1));
}

function stepsTimes(found) {
  const box = make("div", { class: "columns" });
  for (const [what, times, unit] of [
    ["Distribution of step times", found.step_times, "steps"],
    ["Distribution of times between steps", found.gap_times, "gaps"],
  ]) {
    const each = card(what);
    box.append(each);
    if (times.missing) each.append(make("p", {}, `Not known: ${times.missing}.`));
    else stepsDistribution(each, times, unit);
  }
  return box;
}

const STEP_SHARES = [
  ["up to the median", "p50_ns", "series-1"],
  ["to p95", "p95_ns", "series-3"],
  ["to p99", "p99_ns", "series-5"],
  ["beyond", null, "series-2"],
];

function stepsDistribution(box, times, unit) {
  const about = times.error_ratio ? "~" : "";
  const kindOf = (low) => STEP_SHARES.findIndex(([, key]) => key === null || low <= times[key]);
  bars(box, {
    label: `${unit} by how long they took`,
    kind: "count",
    height: 220,
    csvName: `${unit}-distribution`,
    x: { title: "time", values: times.bars.map(([low]) => time(low)) },
    series: STEP_SHARES.map(([name, , colour], at) => ({
      name,
      colour,
      values: times.bars.map(([low, , number]) => (kindOf(low) === at ? number : 0)),
    })),
  });
  const quantiles = ["p5_ns", "p25_ns", "p50_ns", "p75_ns", "p95_ns", "p99_ns"].map(
    (key) => `${key.slice(0, -3)} ${about}${time(times[key])}`,
  );
  const left = times.left_out
    ? ` ${count(times.left_out)} that tfprobe disturbed or that raised an exception are left out.`
    : "";
  box.append(
    make(
      "p",
      { class: "soft small" },
      `${count(times.count)} ${unit}: ${quantiles.join(" · ")}; least ${time(times.min_ns)}, most ${time(times.max_ns)}.${left} Bars are as wide as a sixteenth of an octave.`,
    ),
  );
}

function stepsLife(found) {
  if (found.missing)
    return card("Phases of its process", make("p", {}, `Not known: ${found.missing}.`));
  const phases = Object.entries(found.phases_ns)
    .filter(([, total_ns]) => total_ns)
    .map(([phase, total_ns]) => ({ phase, total_ns }));
  const segments = found.segments.map(([phase, start, end]) =>
    make("i", {
      title: `${phase} ${time(end - start)}`,
      style: { "flex-grow": String(Math.max(end - start, 1)), background: `var(--phase-${phase})` },
    }),
  );
  return card(
    "Phases of its process",
    make(
      "div",
      {
        class: "life",
        role: "img",
        "aria-label": phases.map((each) => `${each.phase} ${time(each.total_ns)}`).join(", "),
      },
      segments,
    ),
    phaseLegend(phases, found.wall_ns),
    make(
      "p",
      { class: "soft small" },
      `${time(found.wall_ns)} in all, ${percent(stepsSteady(found))} of it steady.${found.knows_import ? "" : " The time of the framework's import is unknown: set-up is part of start-up."}${found.column_ns ? ` Drawn is the phase that takes most of each ${time(found.column_ns)}.` : ""}`,
    ),
  );
}

function stepsSteady(found) {
  return found.phases_ns.steady / found.wall_ns;
}
