// Bars, treemaps and heat maps by ECharts; stacks of shares by plain elements.
import { percent, written } from "./amounts.js";
import { chartBox, dataOf } from "./chart_box.js";
import { colour, heatColours, isStill, nameColour, seriesColour } from "./colours.js";
import { swatch } from "./controls.js";
import { make } from "./elements.js";
import { hideTip, showTip } from "./tip.js";

const LABEL_CHARACTERS = 80;

/**
 * Draw shares of wholes, one bar each, with a legend: where a step goes.
 * `stack(place, { label, kind, bars: [{ name, parts: [{ name, value, colour }] }], onOpen })`
 * `colour` is a name of base.css; `onOpen(part, bar)`. With `wholes: false` bars are scaled to the
 * longest, otherwise every bar has the full length.
 */
export function stack(place, { label, kind = "time", bars, wholes = true, onOpen }) {
  const sums = bars.map((bar) => bar.parts.reduce((sum, part) => sum + (part.value || 0), 0));
  const longest = Math.max(...sums, 0) || 1;
  const seen = new Map();
  const rows = bars.map((bar, at) => {
    const parts = bar.parts.filter((part) => part.value > 0);
    for (const part of parts) seen.set(part.name, part.colour);
    const line = make(
      "div",
      { class: "stack-bar", style: { width: `${100 * (wholes ? 1 : sums[at] / longest)}%` } },
      parts.map((part) => stackPart(part, bar, sums[at])),
    );
    return [
      make("span", { class: "stack-name" }, make("bdi", {}, bar.name ?? "")),
      line,
      make("span", { class: "number soft" }, written(sums[at], kind)),
    ];
  });
  const keys = [...seen].map(([name, each]) => make("li", {}, swatch(each), make("bdi", {}, name)));
  const element = make(
    "div",
    { class: "chart", role: "group", "aria-label": label },
    make("div", { class: "stack" }, rows),
    make("ul", { class: "chart-legend small" }, keys),
  );
  place.append(element);
  const parts = () =>
    bars.flatMap((bar, at) =>
      bar.parts.map((part) => ({
        bar: bar.name ?? "",
        part: part.name,
        value: part.value,
        share: sums[at] ? part.value / sums[at] : null,
      })),
    );
  const columns = [
    { key: "part", title: "Part" },
    { key: "bar", title: "Of" },
    { key: "value", title: "Amount", kind },
    { key: "share", title: "Share", kind: "ratio", bar: true },
  ];
  dataOf(element, label, { columns: () => columns, rows: parts, csvName: null });
  return { element, destroy: () => element.remove() };

  function stackPart(part, bar, sum) {
    const lines = [[written(part.value, kind), percent(part.value / sum)]];
    const name = `${part.name}: ${lines[0].join(", ")}`;
    const shown = {
      style: { width: `${(100 * part.value) / sum}%`, background: `var(--${part.colour})` },
      onmousemove: (event) => showTip(event.clientX, event.clientY, part.name, lines),
      onmouseleave: hideTip,
    };
    if (!onOpen) return make("span", { ...shown, role: "img", "aria-label": name });
    return make("button", {
      ...shown,
      type: "button",
      "aria-label": name,
      onclick: () => onOpen(part, bar),
    });
  }
}

/**
 * Draw columns side by side, with one or more series stacked.
 * `bars(place, { label, x: { title, values }, kind, series: [{ name, values, colour }],
 *   onPick(at) })`
 * `x.values` are texts. If there are many, the wheel zooms and dragging pans.
 */
export function bars(place, { label, x, kind = "time", series, height = 240, onPick, csvName }) {
  const element = make("div", { class: "chart" });
  place.append(element);
  if (series.length > 1)
    element.append(
      make(
        "ul",
        { class: "chart-legend small" },
        series.map((each, at) =>
          make("li", {}, swatch(each.colour ?? seriesColour(at)), make("bdi", {}, each.name)),
        ),
      ),
    );
  const drawing = echart(
    element,
    { label, height },
    () => ({
      grid: { left: 74, right: 14, top: 10, bottom: 44 },
      xAxis: {
        type: "category",
        data: x.values.map(shortened),
        name: x.title,
        nameLocation: "middle",
        nameGap: 28,
        ...echartAxis(),
      },
      yAxis: {
        type: "value",
        axisLabel: { formatter: (value) => written(value, kind), color: colour("ink-soft") },
        splitLine: { lineStyle: { color: colour("line") } },
      },
      dataZoom: x.values.length > 60 ? [{ type: "inside" }] : [],
      series: series.map((each, at) => ({
        type: "bar",
        name: String(each.name),
        stack: "all",
        data: each.values,
        large: each.values.length > 5000,
        itemStyle: { color: colour(each.colour ?? seriesColour(at)) },
      })),
    }),
    {
      tip: ({ dataIndex }) => [
        `${x.title} ${x.values[dataIndex]}`,
        series.map((each) => [each.name, written(each.values[dataIndex], kind)]),
      ],
      pick: ({ dataIndex }) => onPick?.(dataIndex),
    },
  );
  dataOf(element, label, {
    columns: () => [
      { key: "x", title: x.title },
      ...series.map((each, at) => ({ key: `s${at}`, title: each.name, kind })),
    ],
    rows: () =>
      x.values.map((each, at) => ({
        x: each,
        ...Object.fromEntries(series.map((one, number) => [`s${number}`, one.values[at]])),
      })),
    csvName,
  });
  return ended(element, drawing);
}

/**
 * Draw nested areas in proportion to amounts.
 * `treemap(place, { label, kind, root: { name, value, children, colour }, onOpen(node) })`
 * A node's `colour` is a name of base.css; without it, its name determines the colour. `tip(node)`
 * adds pairs of texts. A click zooms into a node with children and calls `onOpen` for a leaf.
 */
export function treemap(place, { label, kind = "time", root, height = 380, onOpen, tip }) {
  const element = make("div", { class: "chart" });
  place.append(element);
  const drawing = echart(
    element,
    { label, height },
    () => ({
      series: [
        {
          type: "treemap",
          data: (root.children ?? [root]).map((each) => areaOf(each)),
          name: shortened(root.name),
          left: 0,
          right: 0,
          top: 0,
          bottom: 30,
          leafDepth: 2,
          roam: false,
          nodeClick: "zoomToNode",
          visibleMin: 200,
          animationDuration: 250,
          breadcrumb: {
            bottom: 0,
            itemStyle: {
              color: colour("raised"),
              borderColor: colour("line"),
              textStyle: { color: colour("ink") },
            },
            emphasis: {
              itemStyle: { color: colour("accent-soft"), textStyle: { color: colour("ink") } },
            },
          },
          label: {
            formatter: ({ name, value }) => `${name}\n${written(value, kind)}`,
            color: colour("ink"),
            overflow: "truncate",
            fontSize: 11.5,
            lineHeight: 15,
          },
          upperLabel: {
            show: true,
            height: 20,
            color: colour("ink"),
            formatter: ({ name, value }) => `${name}  ${written(value, kind)}`,
            overflow: "truncate",
            fontSize: 11.5,
          },
          itemStyle: { borderColor: colour("card"), borderWidth: 1, gapWidth: 1 },
          emphasis: {
            itemStyle: { borderColor: colour("ink") },
            label: { color: colour("ink") },
            upperLabel: { color: colour("ink") },
          },
        },
      ],
    }),
    {
      tip: ({ data, value }) =>
        data?.node && [
          data.node.name,
          [
            ["amount", written(value, kind)],
            ["share", percent(value / (root.value || value))],
            ...(tip?.(data.node) ?? []),
          ],
        ],
      pick: ({ data }) => data?.node && !data.node.children?.length && onOpen?.(data.node),
    },
  );
  dataOf(element, label, {
    columns: () => [
      { key: "name", title: "Name" },
      { key: "value", title: "Amount", kind, bar: true },
      { key: "depth", title: "Depth", kind: "count" },
    ],
    rows: () => flattened(root),
    csvName: null,
  });
  return ended(element, drawing);

  function areaOf(node) {
    const fillColour = colour(
      node.colour ?? nameColour(node.name),
      node.children?.length ? 0.45 : 0.3,
    );
    return {
      name: shortened(node.name),
      value: node.value,
      node,
      itemStyle: { color: fillColour, borderColor: fillColour },
      children: node.children?.map(areaOf),
    };
  }
}

/**
 * Draw amounts by two names, such as ranks x steps.
 * `heatmap(place, { label, kind, x: { title, values }, y: { title, values },
 *   cells: [[x, y, amount], …], onPick(x, y) })`
 * `cells` refer to columns and rows by index; `least`, `most`: the ends of the scale, by default
 *   those of the amounts.
 */
export function heatmap(
  place,
  { label, kind = "time", x, y, cells, least, most, height, onPick, csvName },
) {
  const element = make("div", { class: "chart" });
  place.append(element);
  const amounts = cells.map(([, , amount]) => amount).filter(Number.isFinite);
  const low = least ?? amounts.reduce((one, other) => Math.min(one, other), Infinity);
  const high = most ?? amounts.reduce((one, other) => Math.max(one, other), -Infinity);
  const tall = height ?? Math.min(640, 90 + 18 * Math.max(y.values.length, 4));
  const drawing = echart(
    element,
    { label, height: tall },
    () => ({
      grid: { left: 130, right: 96, top: 8, bottom: 44 },
      xAxis: {
        type: "category",
        data: x.values.map(shortened),
        name: x.title,
        nameLocation: "middle",
        nameGap: 28,
        ...echartAxis(),
      },
      yAxis: {
        type: "category",
        data: y.values.map(shortened),
        inverse: true,
        ...echartAxis(),
        axisLabel: { color: colour("ink-soft"), width: 115, overflow: "truncate" },
      },
      visualMap: {
        min: Number.isFinite(low) ? low : 0,
        max: Number.isFinite(high) ? high : 1,
        calculable: false,
        orient: "vertical",
        right: 4,
        top: "middle",
        itemHeight: Math.min(120, tall - 100),
        formatter: (value) => written(value, kind),
        text: [written(high, kind), written(low, kind)],
        textStyle: { color: colour("ink-soft"), fontSize: 11 },
        inRange: { color: heatColours() },
      },
      series: [
        {
          type: "heatmap",
          data: cells.map(([column, row, amount]) => [column, row, amount ?? "-"]),
          progressive: 4000,
          emphasis: { itemStyle: { borderColor: colour("ink"), borderWidth: 1 } },
        },
      ],
    }),
    {
      tip: ({ data }) => [
        `${x.title} ${x.values[data[0]]}, ${y.title} ${y.values[data[1]]}`,
        [["amount", written(Number.isFinite(data[2]) ? data[2] : null, kind)]],
      ],
      pick: ({ data }) => onPick?.(data[0], data[1]),
    },
  );
  dataOf(element, label, {
    columns: () => [
      { key: "y", title: y.title },
      { key: "x", title: x.title },
      { key: "amount", title: "Amount", kind, bar: true },
    ],
    rows: () =>
      cells.map(([column, row, amount]) => ({ x: x.values[column], y: y.values[row], amount })),
    csvName,
  });
  return ended(element, drawing);
}

/** Anything else ECharts can draw: `options()` returns its options, with the current colours. */
export function echart(place, { label, height = 240 }, options, { tip, pick } = {}) {
  return chartBox(place, { label, height }, (box) => {
    const chart = echarts.init(box, null, { renderer: "canvas" });
    const still = isStill();
    chart.setOption({
      animation: !still,
      animationDuration: 200,
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
      aria: { enabled: false },
      tooltip: { show: false },
      ...options(),
    });
    chart.on("mousemove", (what) => {
      const lines = tip?.(what);
      if (lines) showTip(what.event.event.clientX, what.event.event.clientY, ...lines);
    });
    chart.on("mouseout", hideTip);
    chart.on("click", (what) => pick?.(what));
    return { resize: () => chart.resize(), end: () => chart.dispose() };
  });
}

function echartAxis() {
  return {
    nameTextStyle: { color: colour("ink-soft"), fontSize: 11.5 },
    axisLabel: { color: colour("ink-soft"), fontSize: 11, hideOverlap: true },
    axisLine: { lineStyle: { color: colour("line-strong") } },
    axisTick: { show: false },
  };
}

function ended(element, drawing) {
  return {
    element,
    destroy() {
      drawing.destroy();
      element.remove();
    },
  };
}

function shortened(name) {
  const text = String(name);
  return text.length > LABEL_CHARACTERS ? `${text.slice(0, LABEL_CHARACTERS)}…` : text;
}

function flattened(root) {
  const rows = [];
  const left = [[root, 0]];
  while (left.length) {
    const [node, depth] = left.pop();
    rows.push({ name: node.name, value: node.value, depth });
    for (const child of node.children ?? []) left.push([child, depth + 1]);
  }
  return rows;
}
