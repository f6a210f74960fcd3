// Step time over the steps of a loop, with outliers and phases: for the overview and the page of
// steps.
import { count, ordinal, percent, time } from "./amounts.js";
import { check, swatch } from "./controls.js";
import { make } from "./elements.js";
import { lines } from "./lines.js";

/**
 * Draw the curve of a document's `series`, with its `bands`, `slow_steps` and `sampled_steps`.
 * `stepCurve(place, found, { height, chosen, onPick(step), onZoom(first, end) })`; steps are
 *   numbers.
 * Returns what `lines` returns, plus `choose(step)`, `show(series)` and `refresh(found)` for new
 * data.
 */
export function stepCurve(
  place,
  found,
  {
    height = 240,
    label = "Step time over the steps",
    chosen = null,
    csvName = "steps",
    onPick,
    onZoom,
  } = {},
) {
  let now = { found, series: found.series, chosen };
  const chart = lines(place, {
    ...curveOf(now),
    label,
    height,
    csvName,
    onPick: onPick && ((at) => onPick(pickedStep(now, at))),
    onZoom:
      onZoom &&
      ((least, most) =>
        onZoom(
          least === null ? null : Math.floor(least),
          most === null ? null : Math.ceil(most) + 1,
        )),
  });
  if (found.usual_most_ns)
    chart.element.append(
      check({ label: "Go to the longest step", value: false, onChange: heighten }),
    );
  const phases = [...new Set((found.bands ?? []).map((band) => band.phase))];
  if (phases.length > 1) chart.element.append(phaseLegend(phases.map((phase) => ({ phase }))));
  function heighten(whole) {
    now = { ...now, isTall: whole };
    chart.update(curveOf(now));
  }

  return {
    ...chart,
    choose(step) {
      now = { ...now, chosen: step };
      chart.update({ marks: curveMarks(now) });
    },
    refresh(anew) {
      now = { ...now, found: anew, series: anew.series };
      chart.update(curveOf(now));
    },
    show(series) {
      now = { ...now, series };
      chart.update(curveOf(now));
    },
  };
}

/** The phases with their colours and, where `total_ns` is known, how long they took. */
export function phaseLegend(phases, whole_ns = 0) {
  return make(
    "ul",
    { class: "chart-legend small phase-legend" },
    phases.map(({ phase, total_ns }) =>
      make(
        "li",
        {},
        swatch(`phase-${phase}`),
        phase,
        total_ns === undefined
          ? null
          : make(
              "span",
              { class: "value" },
              `${time(total_ns)}${whole_ns ? ` (${percent(total_ns / whole_ns)})` : ""}`,
            ),
      ),
    ),
  );
}

/** A sentence on what a curve of so many steps shows. */
export function formatBuckets(series) {
  if (series.steps_each === 1) return "";
  return `Each point covers ${count(series.steps_each)} steps: their slowest, median and fastest. Drag over a part to zoom in.`;
}

/** A sentence on which steps stand out, worded as in `tfprobe steps`. */
export function formatOutliers(found, what, ofLast = "") {
  if (!found || found.missing) return found?.missing ? `${what}: ${found.missing}.` : "";
  if (!found.count) return `${what}: none of${ofLast} ${count(found.looked_at)} stands out.`;
  const known = found.causes.length > 1 || found.causes[0]?.cause;
  const why = known
    ? `: ${found.causes
        .slice(0, 3)
        .map((each) => `${time(each.excess_ns)} ${each.why}`)
        .join(", ")}`
    : "";
  const turns = found.periods.map(
    (each) =>
      ` ${each.every === 2 ? "Every second" : `Every ${ordinal(each.every)}`} from ${count(each.first)} on (${count(each.times)} of ${count(each.turns)}).`,
  );
  return `${what}: ${count(found.count)} of${ofLast} ${count(found.looked_at)} took ${time(found.excess_ns)} more than usual, ${percent(found.share_ratio)} of the time${why}.${turns.join("")}`;
}

/** A sentence on whether steps get slower or faster. */
export function formatTrend(trend) {
  if (!trend || trend.missing) return "";
  if (!trend.is_significant) return "Trend: none that is significant.";
  const [least, most] = [Math.abs(trend.low_ratio), Math.abs(trend.high_ratio)].sort(
    (one, other) => one - other,
  );
  const way = trend.change_ratio > 0 ? "slower" : "faster";
  return `Trend: steps get ${percent(Math.abs(trend.change_ratio))} ${way} from step ${count(trend.first_step)} to ${count(trend.last_step)} (95 % interval: ${percent(least)} to ${percent(most)}).`;
}

function curveOf(now) {
  const { found, series } = now;
  const isWhole = series.steps_each === 1;
  const shown = isWhole
    ? [{ name: "step time", kind: "time", values: series.median_ns, colour: "on" }]
    : [
        { name: "slowest", kind: "time", values: series.max_ns, colour: "before" },
        { name: "median", kind: "time", values: series.median_ns, colour: "on" },
        { name: "fastest", kind: "time", values: series.min_ns, colour: "after" },
      ];
  const sampled = curvePlaces(series, found.sampled_steps ?? []);
  const tops = series.max_ns ?? series.median_ns;
  shown.push({
    name: "traced by tfprobe",
    kind: "time",
    points: true,
    colour: "part-recording",
    values: tops.map((each, at) => (sampled.has(at) ? each : null)),
  });
  return {
    x: { title: "step", kind: "count", values: series.step },
    series: shown,
    bands: (found.bands ?? []).map((band) => ({
      from: band.first_step,
      to: band.last_step + 1,
      text: band.phase,
      colour: `phase-${band.phase}`,
    })),
    most: now.isTall ? null : (found.usual_most_ns ?? null),
    outliers: [
      ...curvePlaces(
        series,
        (found.slow_steps?.longest ?? []).map((each) => each.step),
      ),
    ],
    marks: curveMarks(now),
  };
}

function curveMarks({ chosen }) {
  return Number.isInteger(chosen)
    ? [{ x: chosen, text: `step ${count(chosen)}`, colour: "accent" }]
    : [];
}

function curvePlaces(series, steps) {
  const within = steps.filter((step) => step >= series.first_step && step < series.end_step);
  return new Set(within.map((step) => Math.floor((step - series.first_step) / series.steps_each)));
}

/** The slowest step of a point that stands out, else the point's first step. */
function pickedStep({ found, series }, at) {
  const first = series.step[at];
  const slow = (found.slow_steps?.longest ?? []).find(
    (each) => each.step >= first && each.step < first + series.steps_each,
  );
  return slow ? slow.step : first;
}
