// A measured gain as a bar: its confidence interval, its value and the line of zero.
import { make } from "./elements.js";

// Further to the left nobody needs to see how much a fix lost.
const LEAST_GAIN = -1;

/** The ratios from left to right of bars that share a scale, for `gainInterval`. */
export function gainScale(gains) {
  const lows = gains.map((each) => each.low_ratio);
  return [Math.max(Math.min(0, ...lows), LEAST_GAIN), 1];
}

/**
 * Draw a gain: `{ gain_ratio, low_ratio, high_ratio, verdict }`, all ratios of the time of a step.
 * `label` says the same in words.
 */
export function gainInterval(gain, label, [first, last] = gainScale([gain])) {
  const place = (ratio) =>
    (100 * (Math.min(Math.max(ratio, first), last) - first)) / (last - first);
  const percentOf = (value) => `${value.toFixed(2)}%`;
  const left = place(gain.low_ratio);
  return make(
    "div",
    {
      class: "gain-interval",
      role: "img",
      "aria-label": label,
      title: label,
      "data-verdict": gain.verdict,
    },
    make("i", {
      class: "gain-range",
      style: { left: percentOf(left), width: percentOf(place(gain.high_ratio) - left) },
    }),
    make("i", { class: "gain-zero", style: { left: percentOf(place(0)) } }),
    make("i", { class: "gain-value", style: { left: percentOf(place(gain.gain_ratio)) } }),
  );
}
