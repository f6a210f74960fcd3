// Trials of fixes, newest first; `trial=ID` in the address shows one: what each fix won, how sure
// that is, and what to change. On a run's pages those of its command, else those of all commands.
import { clock, count, percent, signedPercent, time } from "../parts/amounts.js";
import { badge, card, figures, keyFigure, missing, nameOf } from "../parts/controls.js";
import { isFile } from "../parts/data.js";
import { fill, make } from "../parts/elements.js";
import { codeOf, codeParts } from "../parts/finding.js";
import { gainInterval, gainScale } from "../parts/gain_interval.js";
import { sentence } from "../parts/sentences.js";
import { table } from "../parts/table.js";

// A trial is no news of a run: the list asks by itself.
const TRIALS_EVERY_MS = 5000;
const TRIALS_VERDICTS = ["won", "lost", "cannot be told", "not applied"];

export const trialsPage = {
  name: "trials",
  title: "Trials",
  show(place, context) {
    return context.args.trial ? showTrial(place, context) : showTrials(place, context);
  },
};

async function showTrials(place, context) {
  const { ask, args, go, link, run } = context;
  let found = await ask("trials");
  const list = table({
    caption: run ? "Trials of this command" : "Trials of all commands",
    csvName: "trials",
    columns: trialsColumns(Boolean(run)),
    rows: found.trials,
    of: found.trials.length + found.left_out,
    key: (row) => row.id,
    href: (row) => link("trials", { trial: row.id }),
    sort: args.sort ?? "-started_unix_ns",
    filter: args.find ?? "",
    onSort: (sort) => go({ ...args, sort }, { keep: true, page: "trials" }),
    onFilter: (find) => go({ ...args, find }, { keep: true, page: "trials" }),
  });
  const body = make("div", { class: "trials-list" });
  place.append(make("h1", {}, "Trials"), trialsLead(), body);

  function draw() {
    list.update(found.trials, { of: found.trials.length + found.left_out });
    fill(
      body,
      found.problems.map((each) =>
        make("p", { class: "trouble" }, nameOf(each.id), ": ", each.why),
      ),
      found.trials.length ? list : trialsEmpty(found.command),
    );
  }

  async function update() {
    const before = JSON.stringify(found);
    found = await ask("trials");
    if (JSON.stringify(found) !== before) draw();
  }

  draw();
  const again = isFile
    ? null
    : setInterval(() => document.hidden || update().catch(() => {}), TRIALS_EVERY_MS);
  return { update, leave: () => clearInterval(again) };
}

function trialsLead() {
  return make(
    "p",
    { class: "soft" },
    "A trial runs a job some steps with and without a change, and says what it wins.",
  );
}

function trialsEmpty(command) {
  return make(
    "p",
    { class: "empty" },
    command
      ? "No trial of this command has been made; make one: "
      : "There are no trials yet; make one: ",
    codeOf(`tfprobe try -- ${command ?? "python train.py"}`),
  );
}

function trialsColumns(isOfRun) {
  return [
    {
      key: "started_unix_ns",
      title: "Started",
      kind: "clock",
      cell: (row) => clock(row.started_unix_ns),
    },
    ...(isOfRun ? [] : [{ key: "command", title: "Command", cell: trialsCommand }]),
    {
      key: "verdicts",
      title: "Verdicts",
      hint: "Of how many fixes; sorted by how many won",
      value: (row) => row.verdicts.won,
      cell: trialsVerdicts,
    },
    {
      key: "best",
      title: "Largest gain",
      kind: "number",
      hint: "Of a step's time, with its interval",
      value: (row) => row.best?.gain_ratio ?? null,
      cell: (row) => (row.best ? gainCell(row.best, [-1, 1]) : missing("no fix won")),
    },
    {
      key: "fix",
      title: "By",
      value: (row) => row.best?.fix ?? null,
      missing: () => "no fix won",
    },
    { key: "took_ns", title: "Took", kind: "time" },
  ];
}

/** Omit the directory of the interpreter, as the list of runs does. */
function trialsCommand(row) {
  return nameOf(row.command.replace(/^\S*\//, ""), {
    class: "cut runs-command",
    title: row.command,
  });
}

function trialsVerdicts(row) {
  const counted = TRIALS_VERDICTS.filter((verdict) => row.verdicts[verdict]);
  const words = counted.map((verdict) => [verdict, `${count(row.verdicts[verdict])} ${verdict}`]);
  // What was not applied says nothing, unless nothing else was tried.
  const shown = words.filter(([verdict]) => verdict !== "not applied");
  return make(
    "span",
    { class: "trial-verdicts", title: words.map(([, text]) => text).join(", ") },
    (shown.length ? shown : words).map(([verdict, text]) => badge(verdict, text)),
    row.delays.map(({ part, verdict }) => badge(verdict, `${part} ${verdict}`)),
    row.interrupted ? badge("stopped", "interrupted") : null,
  );
}

async function showTrial(place, { ask, args, link }) {
  const found = await ask("trials", { trial: args.trial });
  place.append(
    make("p", { class: "small" }, make("a", { href: link("trials") }, "All trials")),
    make("h1", { class: "trial-title" }, "Trial of ", nameOf(found.command, { class: "mono" })),
    trialFigures(found),
    ...(found.outcomes.length ? [trialTable(found.outcomes)] : []),
    ...found.outcomes.map((each) => outcomeCard(each, found.warm_up_ns)),
    ...(found.delays.length ? [delayTable(found.delays)] : []),
    ...found.delays.map(delayCard),
    trialProtocol(found),
  );
  return {};
}

function trialFigures(found) {
  const { base } = found;
  const unit = `${base.unit.kind} ${base.unit.name}`.trim();
  return figures(
    keyFigure("A step of the base", time(base.unit_ns), nameOf(unit)),
    keyFigure(
      "Bases differ by up to",
      base.error_ratio === null ? missing("there was one base") : percent(base.error_ratio),
      found.delays.length ? "a delay must be larger" : "a gain must be larger to be told",
    ),
    keyFigure(
      "Warm-up",
      found.warm_up_ns === null ? missing("not known") : time(found.warm_up_ns),
      "before the first measured step",
    ),
    keyFigure("Took", time(found.took_ns), clock(found.started_unix_ns)),
  );
}

function trialTable(outcomes) {
  const scale = gainScale(outcomes.filter((each) => each.gain_ratio !== null));
  const notMeasured = (row) => row.missing.gain ?? "not known";
  return table({
    caption: "What each fix wins",
    csvName: "trial",
    search: false,
    rows: outcomes,
    key: (row) => row.fix,
    columns: [
      { key: "fix", title: "Fix", cell: (row) => trialFix(row) },
      { key: "verdict", title: "Verdict", cell: (row) => badge(row.verdict) },
      {
        key: "gain_ratio",
        title: "Measured gain",
        kind: "number",
        hint: "Of a step's time, with its interval; the dashed line is 0",
        cell: (row) => (row.gain_ratio === null ? missing(notMeasured(row)) : gainCell(row, scale)),
      },
      {
        key: "predicted_ratio",
        title: "Likely",
        kind: "number",
        hint: "Predicted by the finding",
        cell: (row) => predicted(row.predicted_ratio),
      },
      {
        key: "predicted_most_ratio",
        title: "At most",
        kind: "number",
        hint: "Predicted by the finding",
        cell: (row) => predicted(row.predicted_most_ratio),
      },
      {
        key: "cpu_gain_ratio",
        title: "CPU gain",
        kind: "number",
        hint: "Of the CPU time of a step",
        cell: (row) =>
          row.cpu_gain_ratio === null
            ? missing(notMeasured(row))
            : signedPercent(row.cpu_gain_ratio),
      },
      {
        key: "results_text",
        title: "Results",
        hint: "The weights after some steps, with and without the fix",
        cell: (row) => row.results_text || missing(row.missing.results),
      },
    ],
  });
}

function trialFix(row) {
  return make("span", {}, make("bdi", {}, row.fix), row.is_combined ? " together" : null);
}

function predicted(ratio) {
  return ratio === null ? missing("no finding predicted it") : signedPercent(ratio);
}

/** A gain in words and as a bar, in one line of a table. */
function gainCell(gain, scale) {
  return make(
    "span",
    { class: "with-interval" },
    make("span", {}, gain.gain_text),
    gainInterval(gain, `${gain.gain_text}, ${gain.verdict}`, scale),
  );
}

function outcomeCard(outcome, base_ns) {
  return make(
    "article",
    { class: "card outcome" },
    make("h2", {}, badge(outcome.verdict), " ", trialFix(outcome)),
    make("p", {}, sentence(outcome.text)),
    outcome.change.length
      ? [
          make("h3", {}, "What to change"),
          make(
            "ul",
            { class: "plain-list" },
            outcome.change.map((each) =>
              make(
                "li",
                {},
                codeParts(each.parts),
                each.source
                  ? [" ", make("bdi", { class: "mono soft" }, `applied at ${each.source}`)]
                  : null,
              ),
            ),
          ),
        ]
      : null,
    outcome.notes.map((note) => make("p", { class: "remark" }, note)),
    outcome.warm_up_ns === null
      ? null
      : make("p", { class: "soft" }, formatWarmUp(outcome, base_ns)),
  );
}

function formatWarmUp({ warm_up_ns, break_even_units }, base_ns) {
  const base = base_ns === null ? "" : `, without a fix ${time(base_ns)}`;
  const steps = break_even_units === 1 ? "1 step" : `${count(break_even_units ?? 0)} steps`;
  const breakEven = break_even_units ? `; made good after ${steps}` : "";
  return `Warm-up ${time(warm_up_ns)}${base}${breakEven}.`;
}

/** Of a trial that slowed parts of the job down. */
function delayTable(delays) {
  const scale = [0, Math.max(1, ...delays.map((each) => each.slope_high_ratio ?? 0))];
  const notMeasured = (row) => row.missing.slope ?? "not known";
  return table({
    caption: "What waits for each part",
    csvName: "delays",
    search: false,
    rows: delays,
    key: (row) => row.part,
    columns: [
      { key: "part", title: "Part" },
      { key: "verdict", title: "Verdict", cell: (row) => badge(row.verdict) },
      {
        key: "slope_ratio",
        title: "Slope",
        kind: "number",
        hint: "How much longer a step gets for each second that the part takes longer",
        cell: (row) =>
          row.slope_ratio === null ? missing(notMeasured(row)) : slopeCell(row, scale),
      },
      {
        key: "share_ratio",
        title: "Of a step",
        kind: "ratio",
        hint: "What the part takes, as a share of a step's time",
        missing: notMeasured,
      },
      {
        key: "most_gain_ratio",
        title: "Gain at most",
        kind: "number",
        hint: "What a faster part can win of a step's time, with its interval",
        cell: (row) => row.most_text || missing(notMeasured(row)),
      },
      {
        key: "results_text",
        title: "Results",
        hint: "The weights after some steps, with and without the delay",
        cell: (row) => row.results_text || missing(row.missing.results),
      },
    ],
  });
}

function slopeCell(row, scale) {
  const slope = {
    gain_ratio: row.slope_ratio,
    low_ratio: row.slope_low_ratio,
    high_ratio: row.slope_high_ratio,
  };
  return make(
    "span",
    { class: "with-interval" },
    make("span", {}, row.slope_text),
    gainInterval(slope, `${row.slope_text}, ${row.verdict}`, scale),
  );
}

function delayCard(delay) {
  return make(
    "article",
    { class: "card outcome" },
    make("h2", {}, badge(delay.verdict), " ", make("bdi", {}, delay.part)),
    make("p", {}, sentence(delay.text)),
  );
}

function trialProtocol(found) {
  return card(
    "How it was measured",
    make("p", {}, found.base_text),
    make("p", {}, found.circumstances.join(" ")),
    found.not_tried.map((each) => make("p", {}, each)),
    found.written.length
      ? make(
          "details",
          {},
          make("summary", {}, `What the job wrote (${count(found.written.length)})`),
          make(
            "ul",
            { class: "plain-list mono" },
            found.written.map((each) => make("li", {}, make("bdi", {}, each))),
          ),
        )
      : null,
    make(
      "p",
      { class: "soft small" },
      "In ",
      make("bdi", { class: "mono" }, found.cwd),
      "; the document is ",
      make("bdi", { class: "mono" }, `trials/${found.id}.json`),
      ".",
    ),
  );
}
