// The tree of a pipeline as a grid: rows open and close, arrows walk, shares are bars.
import { count, percent, plainNumber, time } from "./amounts.js";
import { badge, freshId, missing, nameOf } from "./controls.js";
import { fill, make } from "./elements.js";

const STAGE_COLUMNS = [
  ["Stage", ""],
  ["Of the wait", "the share of the steps' waiting that was for this stage itself"],
  ["Work per step", "the time it works itself, whether steps wait for it or not"],
  ["Calls per step", ""],
  ["A call", "the mean, including everything below it"],
  ["Threads", ""],
  ["Buffer", "ready elements, of its capacity; calls that found one ready"],
  ["Settings", ""],
];

/**
 * Make the grid of a pipeline's document; `marked` is the stage that is the bottleneck, or null.
 */
export function stageTree(pipeline, marked) {
  const stages = pipeline.stages;
  const path = new Set(marked === null ? [] : pipeline.blocking_path);
  const parents = new Set(stages.map((stage) => stage.parent));
  const closed = new Set();
  const rows = new Map(
    stages.map((stage) => [
      stage.at,
      stageRow(stage, {
        isPath: path.has(stage.at),
        isMarked: stage.at === marked,
        isMeasured: pipeline.is_measured,
        hasChildren: parents.has(stage.at),
      }),
    ]),
  );
  const captionId = freshId("caption");
  const body = make("tbody", { role: "rowgroup" }, [...rows.values()]);
  const headings = STAGE_COLUMNS.map(([title, hint], at) =>
    make(
      "th",
      {
        scope: "col",
        role: "columnheader",
        title: hint || null,
        class: at && at < 6 ? "numeric" : null,
      },
      title,
    ),
  );
  const grid = make(
    "table",
    {
      role: "treegrid",
      "aria-labelledby": captionId,
      class: "stage-tree",
      onkeydown: pressed,
      onclick: clicked,
    },
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, headings)),
    body,
  );
  if (stages.length) rows.get(stages[0].at).tabIndex = 0;
  return make(
    "section",
    { class: "table", "aria-labelledby": captionId },
    make(
      "div",
      { class: "table-tools" },
      make("h3", { id: captionId }, "The pipeline"),
      make("span", { class: "soft small" }, "A stage's inputs are below it."),
    ),
    make("div", { class: "table-place" }, grid),
  );

  function shownStages() {
    const hidden = new Set();
    return stages.filter((stage) => {
      if (hidden.has(stage.parent) || closed.has(stage.parent)) hidden.add(stage.at);
      return !hidden.has(stage.at);
    });
  }

  function turn(at, isClosed) {
    if (!parents.has(at)) return;
    if (isClosed) closed.add(at);
    else closed.delete(at);
    rows.get(at).setAttribute("aria-expanded", String(!isClosed));
    const shown = new Set(shownStages().map((stage) => stage.at));
    for (const [each, row] of rows) row.hidden = !shown.has(each);
  }

  function clicked(event) {
    const row = event.target.closest("tr[data-at]");
    if (!row) return;
    focus(row);
    if (event.target.closest(".stage-turn"))
      turn(Number(row.dataset.at), !closed.has(Number(row.dataset.at)));
  }

  function focus(row) {
    for (const each of rows.values()) each.tabIndex = -1;
    row.tabIndex = 0;
    row.focus();
  }

  function pressed(event) {
    const row = event.target.closest("tr[data-at]");
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Number(row.dataset.at);
    const shown = shownStages();
    const place = shown.findIndex((stage) => stage.at === at);
    const walk = (to) => focus(rows.get(shown[Math.min(Math.max(to, 0), shown.length - 1)].at));
    const parent = shown[place]?.parent;
    if (event.key === "ArrowDown") walk(place + 1);
    else if (event.key === "ArrowUp") walk(place - 1);
    else if (event.key === "Home") walk(0);
    else if (event.key === "End") walk(shown.length - 1);
    else if (event.key === "ArrowRight" && closed.has(at)) turn(at, false);
    else if (event.key === "ArrowRight" && parents.has(at)) walk(place + 1);
    else if (event.key === "ArrowLeft" && parents.has(at) && !closed.has(at)) turn(at, true);
    else if (event.key === "ArrowLeft" && rows.has(parent)) focus(rows.get(parent));
    else if (event.key === "Enter" || event.key === " ") turn(at, !closed.has(at));
    else return;
    event.preventDefault();
  }
}

function stageRow(stage, { isPath, isMarked, isMeasured, hasChildren }) {
  const cells = [
    stageName(stage, isMarked, isMeasured, hasChildren),
    stage.waited_ratio === null
      ? missing("steps did not wait for it")
      : stageShare(stage.waited_ratio),
    stage.active_ns_per_step ? time(stage.active_ns_per_step) : missing("it was not seen at work"),
    stage.calls_per_step
      ? plainNumber(stage.calls_per_step)
      : missing("none of its calls was entirely within a traced step"),
    stage.call_ns === null
      ? missing("none of its calls was entirely within a traced step")
      : time(stage.call_ns),
    stage.threads ? String(stage.threads) : missing("none was seen"),
    stageBuffer(stage.buffer),
    stageSettings(stage),
  ];
  return make(
    "tr",
    {
      role: "row",
      "data-at": stage.at,
      "aria-level": stage.depth,
      "aria-expanded": hasChildren ? "true" : null,
      class: [isPath ? "on-path" : "", isMarked ? "bottleneck" : ""].join(" ").trim() || null,
      tabindex: "-1",
    },
    cells.map((cell, at) =>
      make(
        "td",
        { role: "gridcell", class: at && at < 6 ? "numeric" : at ? null : "stage-cell" },
        cell,
      ),
    ),
  );
}

function stageName(stage, isMarked, isMeasured, hasChildren) {
  const turn = make("span", { class: "stage-turn", "aria-hidden": "true" }, hasChildren ? "" : "·");
  const mark = isMarked
    ? badge("critical", isMeasured ? "bottleneck" : "likely the bottleneck")
    : null;
  const style = { "padding-left": `${18 * Math.min(stage.depth - 1, 24)}px` };
  return make(
    "div",
    { class: "stage-name", style },
    turn,
    nameOf(stage.name),
    stage.is_async
      ? make("span", { class: "soft small", title: "It has its own threads." }, "ahead")
      : null,
    mark,
  );
}

function stageShare(ratio) {
  const line = make("i", {
    style: {
      width: `${100 * Math.min(Math.max(ratio, 0), 1)}%`,
      background: "var(--part-input_wait)",
    },
  });
  return make(
    "span",
    { class: "with-bar" },
    make("span", {}, percent(ratio)),
    make("span", { class: "bar", "aria-hidden": "true" }, line),
  );
}

function stageBuffer(buffer) {
  if (!buffer) return "";
  const parts = [];
  if (buffer.elements !== null)
    parts.push(`${count(buffer.elements)} of ${buffer.limit === null ? "?" : count(buffer.limit)}`);
  else if (buffer.limit !== null) parts.push(`holds ${count(buffer.limit)}`);
  if (buffer.ready_ratio !== null) parts.push(`ready at ${percent(buffer.ready_ratio)} of calls`);
  return parts.length
    ? parts.join(", ")
    : missing("TensorFlow did not report it (2.12 and later do)");
}

function stageSettings(stage) {
  const words = {
    parallelism: "parallel",
    batch_size: "batch",
    cycle_length: "cycle",
    block_length: "block",
  };
  const parts = Object.entries(words)
    .filter(([name]) => stage.facts[name] !== undefined)
    .map(([name, word]) => `${word} ${stage.facts[name]}`);
  if (stage.facts.autotune === "true") parts.push("autotuned");
  if (stage.facts.deterministic === "false") parts.push("in any order");
  if (stage.iterators > 1) parts.push(`${count(stage.iterators)} iterators`);
  if (stage.ops.length)
    parts.push(
      `runs ${stage.ops
        .slice(0, 2)
        .map((op) => `${op.type} ${time(op.ns_per_step)}`)
        .join(", ")}`,
    );
  const whole = [
    ...parts,
    stage.facts.shapes ? `elements ${stage.facts.shapes} ${stage.facts.types ?? ""}` : "",
  ]
    .filter(Boolean)
    .join(", ");
  return fill(
    make("bdi", { class: "cut stage-settings", title: whole.slice(0, 2000) }),
    parts.join(", ").slice(0, 2000),
  );
}
