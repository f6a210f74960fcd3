// Series over steps or time, by uPlot.
import { clock, count, NOTHING, time, written } from "./amounts.js";
import { chartBox, dataOf } from "./chart_box.js";
import { colour, seriesColour, veil } from "./colours.js";
import { swatch } from "./controls.js";
import { fill, make } from "./elements.js";

const NS_PER_S = 1e9;
const BINARY_STEPS = Array.from({ length: 60 }, (_, at) => 2 ** at);

/**
 * Draw series over one axis: `lines(place, { label, x, series, … })`.
 *
 * `label`: what it shows, for screen readers; `height`: in pixels
 * `x`: `{ title, kind, values }`, ascending; kind "count" (steps), "time" (ns) or "clock" (unix ns)
 * `series`: `[{ name, values, kind, colour, steps, points, filled, dashed }]`
 *   kind: "time", "bytes", "count", "large" or "ratio": one axis each, two at most
 *   colour: a name of base.css; values: null for gaps
 *   steps: drawn as stairs; points: only points, no line; filled: the area below
 * `marks`: `[{ x, text, colour }]`, vertical lines; `outliers`: indices into the first series
 * `bands`: `[{ from, to, text, colour }]`, ranges of x with a pale background and a strip at the
 *   bottom
 * `from`: "zero" (where the axes begin by default) or "least"
 * `most`: the end of the first axis; values beyond it are cut off, outliers are drawn at its edge
 * `zoom`: the range `[least, most]` of x shown; `onZoom(least, most)` is called when it changes,
 *   with `(null, null)` for all
 * `onPick(at)`: a point was clicked, or Enter pressed on it
 * `csvName`: the file of its table
 * Returns `{ update(changed), destroy() }`; `update` accepts new values of some of these options.
 */
export function lines(place, options) {
  let now = { height: 220, marks: [], bands: [], outliers: [], from: "zero", ...options };
  let plot = null;
  let cursor = null;
  const hidden = new Set();
  const values = new Map();
  const legend = make("ul", { class: "chart-legend" });
  const position = make("span", { class: "value" });
  const said = make("div", { class: "hidden-text", role: "status" });
  const element = make("div", { class: "chart" }, legend);
  const reset = make(
    "button",
    { type: "button", hidden: true, onclick: () => zoomTo(null, null) },
    "Whole range",
  );
  place.append(element);
  writeLegend();
  const drawing = chartBox(
    element,
    {
      label: `${now.label}. Left and right move, plus and minus zoom, 0 shows all${now.onPick ? ", Enter opens" : ""}.`,
      height: now.height,
    },
    begin,
  );
  Object.assign(drawing.box, { tabIndex: 0 });
  drawing.box.addEventListener("keydown", pressed);
  element.append(said);
  const data = dataOf(element, now.label, {
    columns: lineColumns,
    rows: lineRows,
    csvName: now.csvName,
  });

  return {
    element,
    update(changed) {
      const sameSeries = !changed.series || changed.series.length === now.series.length;
      now = { ...now, ...changed };
      if (!sameSeries) writeLegend();
      if (plot && sameSeries) plot.setData(lineData(now), !now.zoom);
      else drawing.redraw();
      data.refresh();
    },
    destroy() {
      drawing.destroy();
      element.remove();
    },
  };

  function begin(box) {
    plot = new uPlot(lineOptions(box), lineData(now), box);
    if (now.zoom) plot.setScale("x", zoomed(now.zoom));
    reset.hidden = !now.zoom;
    return {
      resize: () => plot.setSize({ width: box.clientWidth, height: now.height }),
      end: () => {
        plot?.destroy();
        plot = null;
      },
    };
  }

  function lineOptions(box) {
    const kinds = [...new Set(now.series.map((each) => each.kind))].slice(0, 2);
    const axis = {
      stroke: colour("ink-soft"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1 },
      font: "11.5px system-ui, sans-serif",
      labelFont: "11.5px system-ui, sans-serif",
      labelSize: 18,
    };
    const onX = {
      ...axis,
      label: now.x.title,
      size: 30,
      ...(now.x.kind === "clock"
        ? {}
        : {
            values: (_, splits) =>
              splits.map((each) =>
                now.x.kind === "time" ? time(each) : Number.isInteger(each) ? count(each) : "",
              ),
          }),
    };
    const onY = kinds.map((kind, at) => ({
      ...axis,
      scale: kind,
      side: at ? 1 : 3,
      size: 68,
      grid: at ? { show: false } : axis.grid,
      values: (_, splits) => splits.map((each) => axisText(each, kind)),
      ...(kind === "bytes" ? { incrs: BINARY_STEPS } : {}),
    }));
    const scale = (at) => ({
      range: (_, least, most) =>
        at === 0 && now.most ? [0, now.most] : lineRange(least, most, now.from),
    });
    return {
      width: box.clientWidth,
      height: now.height,
      padding: [8, kinds.length > 1 ? 0 : 12, 0, 0],
      legend: { show: false },
      cursor: {
        drag: { x: true, y: false, uni: 8 },
        points: { size: 7 },
        bind: { dblclick: () => () => zoomTo(null, null) },
      },
      scales: {
        x: { time: now.x.kind === "clock" },
        ...Object.fromEntries(kinds.map((kind, at) => [kind, scale(at)])),
      },
      axes: [onX, ...onY],
      series: [{}, ...now.series.map((each, at) => lineSeries(each, at, kinds))],
      hooks: {
        setCursor: [(self) => tell(self.cursor.idx)],
        setSelect: [(self) => self.select.width > 0 && zoomToSelection(self)],
        drawClear: [(self) => drawBands(self)],
        draw: [(self) => drawMarks(self)],
        ready: [(self) => self.over.addEventListener("click", () => clicked(self))],
      },
    };
  }

  function lineSeries(each, at, kinds) {
    const stroke = colour(each.colour ?? seriesColour(at));
    return {
      show: !hidden.has(at),
      label: each.name,
      scale: kinds.includes(each.kind) ? each.kind : kinds[0],
      stroke: each.points ? "transparent" : stroke,
      width: each.points ? 0 : 1.5,
      dash: each.dashed ? [5, 4] : undefined,
      fill: each.filled ? veil(each.colour ?? seriesColour(at), 0.2) : undefined,
      paths: each.points ? () => null : each.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
      points: each.points
        ? { show: true, size: 5, fill: stroke, stroke }
        : { show: now.x.values.length === 1 },
      spanGaps: false,
    };
  }

  function drawBands(self) {
    const { ctx, bbox } = self;
    const foot = 4 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const band of now.bands) {
      const left = self.valToPos(scaledX(band.from), "x", true);
      const width = Math.max(self.valToPos(scaledX(band.to), "x", true) - left, devicePixelRatio);
      ctx.fillStyle = colour(band.colour, 0.12);
      ctx.fillRect(left, bbox.top, width, bbox.height);
      ctx.fillStyle = colour(band.colour);
      ctx.fillRect(left, bbox.top + bbox.height - foot, width, foot);
    }
    ctx.restore();
  }

  function drawMarks(self) {
    const { ctx, bbox } = self;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    for (const mark of now.marks) {
      const left = self.valToPos(scaledX(mark.x), "x", true);
      ctx.strokeStyle = ctx.fillStyle = colour(mark.colour ?? "ink-soft");
      ctx.lineWidth = ratio;
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(String(mark.text ?? "").slice(0, 40), left + 3 * ratio, bbox.top + 11 * ratio);
    }
    const first = now.series[0];
    ctx.fillStyle = colour("critical");
    for (const at of hidden.has(0) ? [] : now.outliers) {
      if (first.values[at] === null || first.values[at] === undefined) continue;
      ctx.beginPath();
      const top = Math.max(
        self.valToPos(first.values[at], self.series[1].scale, true),
        bbox.top + 4 * ratio,
      );
      ctx.arc(
        self.valToPos(scaledX(now.x.values[at]), "x", true),
        top,
        3.5 * ratio,
        0,
        2 * Math.PI,
      );
      ctx.fill();
    }
    ctx.restore();
  }

  function tell(at) {
    cursor = at ?? null;
    for (const [number, place] of values)
      place.textContent =
        cursor === null ? "" : written(now.series[number].values[cursor], now.series[number].kind);
    position.textContent = cursor === null ? "" : `${now.x.title} ${writtenX(cursor)}`;
  }

  function zoomToSelection(self) {
    const least = self.posToVal(self.select.left, "x");
    const most = self.posToVal(self.select.left + self.select.width, "x");
    zoomTo(unscaledX(least), unscaledX(most), true);
  }

  function clicked(self) {
    if (cursor !== null && self.select.width === 0) now.onPick?.(cursor);
  }

  function zoomTo(least, most, isDrawn = false) {
    now.zoom = least === null ? null : [least, most];
    reset.hidden = !now.zoom;
    if (plot && !isDrawn)
      plot.setScale(
        "x",
        now.zoom
          ? zoomed(now.zoom)
          : { min: scaledX(now.x.values[0]), max: scaledX(now.x.values.at(-1)) },
      );
    now.onZoom?.(least, most);
  }

  function pressed(event) {
    if (!plot || !now.x.values.length || event.ctrlKey || event.metaKey || event.altKey) return;
    const { min, max } = plot.scales.x;
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by) walk(by);
    else if (event.key === "+" || event.key === "=") zoomAround((max - min) / 4);
    else if (event.key === "-") zoomAround(max - min);
    else if (event.key === "0") zoomTo(null, null);
    else if (event.key === "Enter" && cursor !== null && now.onPick) now.onPick(cursor);
    else return;
    event.preventDefault();
  }

  function walk(by) {
    const last = now.x.values.length - 1;
    const at = Math.min(Math.max((cursor ?? (by > 0 ? -1 : last + 1)) + by, 0), last);
    const left = plot.valToPos(scaledX(now.x.values[at]), "x");
    const value = now.series[0].values[at];
    plot.setCursor({
      left,
      top: Number.isFinite(value) ? plot.valToPos(value, plot.series[1].scale) : 0,
    });
    tell(at);
    said.textContent = `${now.x.title} ${writtenX(at)}: ${now.series.map((each) => `${each.name} ${written(each.values[at], each.kind)}`).join(", ")}`;
  }

  function zoomAround(half) {
    const middle =
      cursor === null ? (plot.scales.x.min + plot.scales.x.max) / 2 : scaledX(now.x.values[cursor]);
    const [first, last] = [scaledX(now.x.values[0]), scaledX(now.x.values.at(-1))];
    const [least, most] = [Math.max(first, middle - half), Math.min(last, middle + half)];
    if (least <= first && most >= last) zoomTo(null, null);
    else zoomTo(unscaledX(least), unscaledX(most));
  }

  function writeLegend() {
    values.clear();
    position.textContent = "";
    fill(
      legend,
      now.series.map((each, at) => legendEntry(each, at)),
      make("li", {}, position),
      make("li", {}, reset),
    );
  }

  function legendEntry(each, at) {
    const value = make("span", { class: "value" });
    values.set(at, value);
    const button = make(
      "button",
      {
        type: "button",
        "aria-pressed": String(!hidden.has(at)),
        title: "Show or hide",
        onclick: turn,
      },
      swatch(each.colour ?? seriesColour(at)),
      make("bdi", {}, each.name),
    );
    function turn() {
      if (!hidden.delete(at)) hidden.add(at);
      button.setAttribute("aria-pressed", String(!hidden.has(at)));
      plot?.setSeries(at + 1, { show: !hidden.has(at) });
    }
    return make("li", {}, button, value);
  }

  function lineColumns() {
    const first = {
      key: "x",
      title: now.x.title,
      kind: now.x.kind === "count" ? "count" : now.x.kind,
    };
    return [
      first,
      ...now.series.map((each, at) => ({ key: `s${at}`, title: each.name, kind: each.kind })),
    ];
  }

  function lineRows() {
    return now.x.values.map((x, at) => ({
      x,
      ...Object.fromEntries(now.series.map((each, number) => [`s${number}`, each.values[at]])),
    }));
  }

  function lineData({ x, series }) {
    return [x.values.map(scaledX), ...series.map((each) => each.values)];
  }

  function scaledX(value) {
    return now.x.kind === "clock" ? value / NS_PER_S : value;
  }

  function unscaledX(value) {
    return now.x.kind === "clock" ? value * NS_PER_S : value;
  }

  function zoomed([least, most]) {
    return { min: scaledX(least), max: scaledX(most) };
  }

  function writtenX(at) {
    const value = now.x.values[at];
    return now.x.kind === "clock"
      ? clock(value)
      : now.x.kind === "time"
        ? time(value)
        : value === undefined
          ? NOTHING
          : count(value);
  }
}

function axisText(value, kind) {
  if (kind === "ratio") return `${Number((100 * value).toFixed(2))} %`;
  return value === 0
    ? "0"
    : written(value, kind).replace(/\.?0+(?= )/, (zeros) => (zeros.startsWith(".") ? "" : zeros));
}

function lineRange(least, most, from) {
  if (least === null || most === null) return [0, 1];
  const low = from === "zero" ? Math.min(0, least) : least;
  const high = most === low ? low + Math.max(1, Math.abs(low) * 0.1) : most;
  const air = (high - low) * 0.06;
  return [low === 0 ? 0 : low - air, high + air];
}
