// When processes were alive and what they did, as bars over time.
import { count, time } from "./amounts.js";
import { dataOf } from "./chart_box.js";
import { echart } from "./charts.js";
import { colour } from "./colours.js";
import { swatch } from "./controls.js";
import { make } from "./elements.js";
import { processName, processWord } from "./sentences.js";

// The activities of a process: title, colour and height of the bar; those that contain others are
// pale.
const LIFE_KINDS = {
  train: ["training", "on", 0.9, 0.25],
  evaluate: ["evaluation", "after", 0.9, 0.25],
  predict: ["prediction", "after", 0.9, 0.25],
  import: ["import", "series-9", 0.6, 1],
  build: ["build", "series-5", 0.6, 1],
  compile: ["compile", "series-10", 0.6, 1],
  trace: ["trace", "part-compile", 0.6, 1],
  lower: ["lowering", "part-compile", 0.6, 1],
  xla: ["XLA", "part-compile", 0.6, 1],
  torch_compile: ["torch.compile", "part-compile", 0.6, 1],
  data: ["data", "part-input_wait", 0.6, 1],
  steps: ["steps", "on", 0.6, 1],
  "evaluation steps": ["evaluation steps", "after", 0.6, 1],
  callbacks: ["callbacks", "part-callbacks", 0.6, 1],
  save: ["save", "part-checkpoints", 0.75, 1],
  summary: ["summary", "part-summaries", 0.75, 1],
  user: ["named by the program", "series-7", 0.6, 1],
};
const LIFE_PX = 20;
const LIFE_NARROW_PX = 12;

/**
 * Draw the lifetimes in the document of processes:
 * `livesChart(place, lives, { onPick(process) })`.
 */
export function livesChart(place, lives, { onPick } = {}) {
  const element = make("div", { class: "chart" });
  place.append(element);
  const drawn = lives.flatMap((life, at) => [
    { life, at, bar: { kind: "", name: "", start_ns: life.start_ns, end_ns: life.end_ns } },
    ...life.bars.map((bar) => ({ life, at, bar })),
  ]);
  const kinds = [...new Set(lives.flatMap((life) => life.bars.map((bar) => bar.kind)))];
  const known = Object.keys(LIFE_KINDS);
  kinds.sort((one, other) => known.indexOf(one) - known.indexOf(other));
  element.append(
    make(
      "ul",
      { class: "chart-legend small lives-legend" },
      kinds.map((kind) => make("li", {}, lifeSwatch(lifeKind(kind)), lifeKind(kind)[0])),
    ),
  );
  const last = lives.reduce((most, life) => Math.max(most, life.end_ns), 1);
  echart(
    element,
    {
      label: "Lifetimes of processes",
      height: Math.min(
        900,
        60 + (lives.length > 24 ? LIFE_NARROW_PX : LIFE_PX) * Math.max(lives.length, 2),
      ),
    },
    () => ({
      grid: { left: 130, right: 20, top: 6, bottom: 40 },
      xAxis: {
        type: "value",
        min: 0,
        max: last,
        name: "since the first process began",
        nameLocation: "middle",
        nameGap: 26,
        nameTextStyle: { color: colour("ink-soft"), fontSize: 11.5 },
        axisLabel: {
          color: colour("ink-soft"),
          fontSize: 11,
          hideOverlap: true,
          formatter: (value) => time(value),
        },
        interval: lifeInterval(last),
        splitLine: { lineStyle: { color: colour("line") } },
      },
      yAxis: {
        type: "category",
        inverse: true,
        data: lives.map((life) => processWord(life).slice(0, 80)),
        axisLabel: { color: colour("ink-soft"), fontSize: 11, width: 115, overflow: "truncate" },
        axisLine: { lineStyle: { color: colour("line-strong") } },
        axisTick: { show: false },
      },
      dataZoom: [{ type: "inside", filterMode: "none" }],
      series: [
        {
          type: "custom",
          progressive: 2000,
          encode: { x: [1, 2], y: 0 },
          renderItem: (_, api) => lifeBar(api, drawn),
          data: drawn.map(({ at, bar }, number) => [at, bar.start_ns, bar.end_ns, number]),
        },
      ],
    }),
    {
      tip: ({ data }) => lifeTip(drawn[data[3]]),
      pick: ({ data }) => onPick?.(drawn[data[3]].life),
    },
  );
  dataOf(element, "Lifetimes of processes", {
    csvName: "lives",
    columns: () => [
      { key: "process", title: "Process" },
      { key: "kind", title: "Did" },
      { key: "name", title: "Name" },
      { key: "start", title: "From", kind: "time" },
      { key: "end", title: "To", kind: "time" },
      { key: "took", title: "Took", kind: "time" },
      { key: "count", title: "Times", kind: "count" },
    ],
    rows: () =>
      drawn.map(({ life, bar }) => ({
        process: processName(life),
        kind: bar.kind ? lifeKind(bar.kind)[0] : "lived",
        name: bar.name,
        start: bar.start_ns,
        end: bar.end_ns,
        took: bar.end_ns - bar.start_ns,
        count: bar.count ?? 1,
      })),
  });
}

function lifeBar(api, drawn) {
  const { bar } = drawn[api.value(3)];
  const [, name, height, strength] = bar.kind ? lifeKind(bar.kind) : ["", "line", 0.9, 1];
  const [left, middle] = api.coord([api.value(1), api.value(0)]);
  const [right] = api.coord([api.value(2), api.value(0)]);
  const tall = api.size([0, 1])[1] * height;
  return {
    type: "rect",
    shape: { x: left, y: middle - tall / 2, width: Math.max(right - left, 1), height: tall },
    style: { fill: bar.kind ? colour(name, strength) : colour("raised") },
  };
}

function lifeTip({ life, bar }) {
  const pairs = [
    ["process", processName(life)],
    ["from", time(bar.start_ns)],
    ["took", time(bar.end_ns - bar.start_ns)],
  ];
  if (bar.count > 1) pairs.push(["times", count(bar.count)]);
  if (bar.name) pairs.push(["name", bar.name.slice(0, 200)]);
  if (bar.is_estimate) pairs.push(["from the beginning", "not remembered step by step"]);
  return [
    bar.kind ? lifeKind(bar.kind)[0] : `it ${life.state === "running" ? "runs" : "lived"}`,
    pairs,
  ];
}

/** A round number of ns for the lines of the axis. */
function lifeInterval(last) {
  const least = last / 10;
  const size = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((each) => each * size).find((each) => each >= least);
}

function lifeSwatch([, name, , strength]) {
  const square = swatch(name);
  square.style.opacity = strength < 1 ? 0.4 : 1;
  return square;
}

function lifeKind(kind) {
  return LIFE_KINDS[kind] ?? [kind, "other", 0.6, 1];
}
