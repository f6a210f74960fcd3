// Draw a timeline on its canvases: slices, the axis with the parts of the step, and the overview
// of the whole.
import { exactTime } from "./amounts.js";
import { colour, heat, veil } from "./colours.js";
import { categoryColour, firstFrom, ROW_HEIGHT } from "./timeline_slices.js";

const LABEL_PX = 24;
// Below this width a slice is a line, without edge and label.
const EDGE_PX = 5;
const TICK_PX = 110;
const STEPS = [1, 2, 5];
export const BAND_HEIGHT = 16;
export const AXIS_HEIGHT = 22;

/**
 * Size a canvas to its box in device pixels; returns its context, in CSS pixels.
 */
export function contextFor(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `11.5px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "middle";
  context.direction = "ltr";
  return context;
}

/**
 * Draw the visible slices. `view` is the window of time, `scroll` the vertical offset; `chosen` and
 * `hits` (or null) are ids of slices, `range` is two times or null.
 */
export function drawSlices(
  context,
  { slices, layout, view, width, height, scroll, chosen, hits, range },
) {
  const scale = width / (view.to_ns - view.from_ns);
  const palette = paletteOf(slices.found);
  const letter = context.measureText("abcdefghijklmnopqrstuvwxyz0123456789").width / 36;
  drawGrid(context, { view, width, height, scale });
  for (const group of layout.groups) {
    context.fillStyle = colour("line");
    context.fillRect(0, group.y - scroll + 0.5, width, 1);
  }
  for (let row = 0; row < slices.rows; row += 1) {
    const y = layout.tops[row] - scroll;
    if (y > height) break;
    if (y + ROW_HEIGHT < 0) continue;
    drawRow(context, { slices, row, y, view, width, scale, palette, hits, letter });
  }
  if (range) drawRange(context, { range, view, height, scale });
  drawChosen(context, { slices, layout, view, scale, scroll, chosen, width });
}

function drawRow(context, { slices, row, y, view, width, scale, palette, hits, letter }) {
  const { starts, ends, found } = slices;
  const { category, count, busy_ns, id } = found.slices;
  const high = ROW_HEIGHT - 2;
  const last = slices.first[row + 1];
  let drawn = -1;
  for (
    let at = firstFrom(slices, row, view.from_ns);
    at < last && starts[at] <= view.to_ns;
    at += 1
  ) {
    const left = Math.max((starts[at] - view.from_ns) * scale, -1);
    const right = Math.min((ends[at] - view.from_ns) * scale, width + 1);
    // Of several slices within one pixel, the first is visible.
    if (right <= drawn && !hits?.has(id[at])) continue;
    const wide = Math.max(right - left, 1);
    drawn = left + wide;
    const colours = palette[category[at]];
    context.globalAlpha = hits && !hits.has(id[at]) ? 0.22 : 1;
    if (count[at] > 1) {
      const busy = busy_ns[at] / Math.max(ends[at] - starts[at], 1);
      context.fillStyle = colours.pale;
      context.fillRect(left, y, wide, high);
      context.fillStyle = colours.full;
      const filled = Math.max(Math.round(high * Math.min(busy, 1)), 2);
      context.fillRect(left, y + high - filled, wide, filled);
      continue;
    }
    if (wide < EDGE_PX) {
      context.fillStyle = colours.full;
      context.fillRect(left, y, wide > 2 ? wide - 0.5 : wide, high);
      continue;
    }
    context.fillStyle = colours.pale;
    context.fillRect(left, y, wide - 1, high);
    context.fillStyle = colours.full;
    context.fillRect(left, y, wide - 1, 3);
    context.fillRect(left, y, 1, high);
    if (wide > LABEL_PX)
      drawLabel(context, {
        text: found.names[found.slices.name[at]],
        left,
        wide,
        y: y + high / 2 + 2,
        letter,
      });
  }
  context.globalAlpha = 1;
}

/** The whole name if it fits, else its last part, else as much of that as fits. */
function drawLabel(context, { text, left, wide, y, letter }) {
  const room = Math.floor((wide - 8) / letter);
  const from = Math.max(left, 0) + 4;
  let shown = text;
  if (shown.length > room)
    shown = text.slice(Math.max(text.lastIndexOf("/"), text.lastIndexOf(":")) + 1) || text;
  if (shown.length > room) shown = room > 2 ? `${shown.slice(0, room - 1)}…` : "";
  if (!shown) return;
  context.fillStyle = colour("ink");
  context.fillText(shown, from, y, wide - 6);
}

function drawChosen(context, { slices, layout, view, scale, scroll, chosen, width }) {
  if (!chosen) return;
  const left = Math.max((chosen.start_ns - view.from_ns) * scale, -4);
  const right = Math.min((chosen.start_ns + chosen.duration_ns - view.from_ns) * scale, width + 4);
  if (right < -4 || left > width + 4 || chosen.row >= slices.rows) return;
  context.strokeStyle = colour("ink");
  context.lineWidth = 2;
  context.strokeRect(
    left,
    layout.tops[chosen.row] - scroll,
    Math.max(right - left, 3),
    ROW_HEIGHT - 2,
  );
}

function drawRange(context, { range, view, height, scale }) {
  const [from, to] = [...range]
    .sort((one, other) => one - other)
    .map((each) => (each - view.from_ns) * scale);
  context.fillStyle = veil("accent", 0.14);
  context.fillRect(from, 0, to - from, height);
  context.fillStyle = colour("accent");
  context.fillRect(from, 0, 1, height);
  context.fillRect(to, 0, 1, height);
}

function drawGrid(context, { view, width, height, scale }) {
  context.fillStyle = veil("line", 0.6);
  for (const tick of ticksOf(view, width))
    context.fillRect(Math.round((tick - view.from_ns) * scale), 0, 1, height);
}

/** Draw the axis, and below it what each moment of the step is attributed to. */
export function drawHead(context, { found, view, width }) {
  const scale = width / (view.to_ns - view.from_ns);
  context.fillStyle = colour("ink-soft");
  const [first, second] = ticksOf(view, width);
  for (const tick of ticksOf(view, width)) {
    const x = Math.round((tick - view.from_ns) * scale);
    context.fillRect(x, AXIS_HEIGHT - 6, 1, 6);
    context.fillText(
      exactTime(tick, second - first || Math.abs(first)),
      x + 4,
      AXIS_HEIGHT / 2 - 1,
    );
  }
  const palette = paletteOf(found);
  for (const [at, band] of found.bands.entries()) {
    const y = AXIS_HEIGHT + at * (BAND_HEIGHT + 2);
    for (let moment = 0; moment < band.start_ns.length; moment += 1) {
      const left = Math.max((band.start_ns[moment] - view.from_ns) * scale, 0);
      const right = Math.min(
        (band.start_ns[moment] + band.length_ns[moment] - view.from_ns) * scale,
        width,
      );
      if (right < 0 || left > width) continue;
      context.fillStyle = palette[band.category[moment]].full;
      context.fillRect(left, y, Math.max(right - left, 0.7), BAND_HEIGHT);
    }
  }
}

/** Draw how busy each group is over the whole time, and which part of it is in view. */
export function drawOverview(context, { found, view, width, height, hits }) {
  const { groups } = found.overview;
  const whole = found.whole;
  const scale = width / (whole.to_ns - whole.from_ns || 1);
  const high = height / Math.max(groups.length, 1);
  for (const [at, group] of groups.entries()) {
    const cell = width / group.busy_ratio.length;
    for (const [number, ratio] of group.busy_ratio.entries()) {
      context.fillStyle = heat(ratio);
      context.fillRect(number * cell, at * high, cell + 0.5, high - 1);
    }
  }
  context.fillStyle = colour("critical");
  for (const hit of hits ?? []) context.fillRect((hit - whole.from_ns) * scale, 0, 1, height);
  const left = (view.from_ns - whole.from_ns) * scale;
  const right = (view.to_ns - whole.from_ns) * scale;
  context.fillStyle = veil("paper", 0.65);
  context.fillRect(0, 0, left, height);
  context.fillRect(right, 0, width - right, height);
  context.strokeStyle = colour("accent");
  context.lineWidth = 2;
  context.strokeRect(
    Math.max(left, 1),
    1,
    Math.max(Math.min(right, width - 1) - Math.max(left, 1), 2),
    height - 2,
  );
}

function paletteOf(found) {
  return found.categories.map((category) => {
    const name = categoryColour(category);
    return { full: colour(name), pale: colour(name, 0.4) };
  });
}

function* ticksOf(view, width) {
  const least = ((view.to_ns - view.from_ns) * TICK_PX) / width;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  const step = STEPS.map((each) => each * power).find((each) => each >= least) ?? 10 * power;
  for (let tick = Math.ceil(view.from_ns / step) * step; tick <= view.to_ns; tick += step)
    yield tick;
}
