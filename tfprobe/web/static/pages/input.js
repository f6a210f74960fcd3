// Why steps wait for input: the stage to change first, what steps wait for, the pipeline as a tree.
import { bytes, count, percent, time } from "../parts/amounts.js";
import { badge, card, figures, keyFigure, nameOf, workChooser } from "../parts/controls.js";
import { make } from "../parts/elements.js";
import { argsOf, rerender } from "../parts/rerender.js";
import { absent, andMore, processName, sentence, withCode } from "../parts/sentences.js";
import { stageTree } from "../parts/stagetree.js";
import { table } from "../parts/table.js";

const INPUT_LEVELS = {
  high: ["critical", "highly input bound"],
  moderate: ["warning", "moderately input bound"],
  none: ["good", "does not wait for input"],
};
const INPUT_KINDS = { iterator: "tf.data", queue: "queue", feed: "feed", python: "Python" };

export const inputPage = {
  name: "input",
  title: "Input",
  show: (place, context) =>
    rerender(place, context, {
      name: "input",
      query: (args) => argsOf(args, "work"),
      content: (found, args) => inputContent(found, args, context),
    }),
};

function inputContent(found, args, context) {
  const head = make(
    "div",
    { class: "row" },
    make("h1", {}, "Input"),
    workChooser(context, found.works, found.work),
  );
  if (!found.input)
    return [head, card("Not known", absent(found.missing)), inputOthers(found, args, context)];
  const item = found.input;
  return [
    head,
    inputAnswer(item),
    inputFigures(item),
    inputSources(item, args, context),
    inputPipeline(item),
    inputProducers(item),
    inputOthers(found, args, context),
  ];
}

function inputAnswer(item) {
  const [word, text] = INPUT_LEVELS[item.level];
  const what =
    item.keeps_up && item.input_ratio ? "taking input that was ready" : "waiting for input";
  const remedies = item.remedies.length
    ? [
        make(
          "p",
          { class: "answer" },
          make("strong", {}, "→ "),
          make("bdi", {}, withCode(item.remedies[0])),
        ),
        item.remedies.length > 1
          ? make(
              "ul",
              {},
              item.remedies.slice(1).map((each) => make("li", {}, make("bdi", {}, withCode(each)))),
            )
          : null,
      ]
    : null;
  return make(
    "section",
    { class: "card" },
    make(
      "div",
      { class: "row" },
      badge(word, text),
      make("strong", {}, `${percent(item.input_ratio)} of the time is ${what}.`),
    ),
    item.level === "none" ? null : make("p", {}, inputBottleneck(item)),
    remedies,
  );
}

/** A sentence on the stage that steps wait for. */
function inputBottleneck({ pipeline, sources }) {
  const source = sources[0];
  if (pipeline.missing || (source && source.kind !== "iterator")) {
    return source
      ? [
          "It waits for ",
          INPUT_KINDS[source.kind],
          ": ",
          nameOf(source.what),
          source.file ? ` (${inputFile(source)})` : "",
          ".",
        ]
      : "";
  }
  if (pipeline.bottleneck === null)
    return "It waits for tf.data; the recording does not show which stage takes the time.";
  const stage = pipeline.stages.find((each) => each.at === pipeline.bottleneck);
  if (!stage) return "";
  const said = pipeline.is_measured
    ? "The bottleneck of its pipeline is "
    : "Likely, not measured: its pipeline spends the time in ";
  const share =
    pipeline.is_measured && stage.waited_ratio !== null
      ? `, with ${percent(stage.waited_ratio)} of the wait`
      : "";
  const inside = stage.ops.length ? `, in ${stage.ops[0].type} of its function` : "";
  const unseen =
    pipeline.unseen_ratio >= 0.2
      ? `; ${percent(pipeline.unseen_ratio)} of the wait was for calls begun before the recording`
      : "";
  return [said, make("strong", {}, nameOf(stage.name)), share, inside, unseen, "."];
}

function inputFigures(item) {
  const cycle = item.is_watched ? "A cycle" : "A step";
  const all = [
    keyFigure(
      item.keeps_up ? "Takes input" : "Waits for input",
      time(item.wait_ns),
      item.is_watched ? "a cycle" : "a step",
    ),
    keyFigure(
      cycle,
      time(item.cycle_ns),
      item.captures === 1 ? "one traced step" : `mean of ${count(item.captures)} traced steps`,
    ),
  ];
  if (item.fed_bytes) all.push(keyFigure("Fed per step", bytes(item.fed_bytes)));
  return figures(...all);
}

function inputSources(item, args, context) {
  return table({
    caption: "What steps wait for",
    csvName: "input-sources",
    rows: item.sources,
    of: item.sources.length + item.more_sources,
    search: item.sources.length > 8,
    none: "The traced steps did not wait for input.",
    columns: [
      { key: "what", title: "What" },
      { key: "kind", title: "Kind", value: (row) => INPUT_KINDS[row.kind] ?? row.kind },
      {
        key: "time",
        title: "A cycle",
        kind: "time",
        value: (row) => row.time_ns,
      },
      { key: "ratio", title: "Share", kind: "ratio", bar: true, colour: "part-input_wait" },
      {
        key: "when",
        title: "When",
        value: (row) => (row.is_between ? "between steps" : "in the step"),
      },
      {
        key: "file",
        title: "At",
        value: (row) => (row.file ? `${row.file}:${row.line}` : ""),
        cell: (row) =>
          row.file
            ? make(
                "a",
                {
                  href: context.link("code", {
                    ...argsOf(args, "work"),
                    find: row.file.split("/").at(-1),
                  }),
                  title: `${row.file}:${row.line}`.slice(0, 2000),
                },
                inputFile(row),
              )
            : "",
      },
    ],
  });
}

function inputIsIterator(source) {
  return source.kind === "iterator";
}

function inputPipeline(item) {
  const { pipeline } = item;
  if (pipeline.missing && item.sources.length && !item.sources.some(inputIsIterator)) return null;
  if (pipeline.missing) return card("Pipeline of tf.data", absent(pipeline.missing));
  const marked = item.level === "none" ? null : pipeline.bottleneck;
  const buffer = pipeline.is_ahead
    ? "A buffer at or above the slowest stage can hold elements before a step requests them."
    : "No buffer holds elements before a step requests them: steps wait for all of the pipeline's time.";
  return [
    stageTree(pipeline, marked),
    andMore(pipeline.more_stages, "stages"),
    make(
      "p",
      { class: "soft small" },
      buffer,
      pipeline.is_of_arrays ? " Keras created this pipeline from arrays." : "",
    ),
  ];
}

function inputProducers(item) {
  if (!item.producers.length) return null;
  return table({
    caption: "Threads that fill queues",
    csvName: "queue-runners",
    rows: item.producers,
    of: item.producers.length + item.more_producers,
    columns: [
      { key: "thread", title: "Thread" },
      { key: "name", title: "Runs" },
      { key: "steps", title: "Steps", kind: "count" },
      {
        key: "step",
        title: "A step",
        kind: "time",
        bar: true,
        value: (row) => row.step_ns,
      },
      {
        key: "ops",
        title: "Longest ops",
        value: (row) =>
          row.ops
            .slice(0, 3)
            .map((op) => op.type)
            .join(", "),
      },
    ],
  });
}

/** All loops side by side, if several were recorded. */
function inputOthers(found, args, context) {
  if (found.judged.length < 2) return null;
  return table({
    caption: "All recorded loops",
    csvName: "input-works",
    rows: found.judged,
    key: (row) => row.work,
    chosen: found.work,
    href: (row) => context.link("input", { ...args, work: row.work }),
    columns: [
      { key: "title", title: "Work" },
      { key: "process", title: "Process", value: processName },
      {
        key: "input_ratio",
        title: "Waits for input",
        kind: "ratio",
        bar: true,
        colour: "part-input_wait",
      },
      {
        key: "level",
        title: "Verdict",
        value: (row) => sentence(INPUT_LEVELS[row.level][1]),
        cell: (row) => badge(...INPUT_LEVELS[row.level]),
      },
    ],
  });
}

function inputFile({ file, line }) {
  return `${file.split("/").slice(-2).join("/")}:${line}`;
}
