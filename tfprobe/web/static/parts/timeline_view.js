// The interactive timeline: zoom by wheel, pinch and keys, drag, step through slices, measure.
import { count, exactTime, percent, time } from "./amounts.js";
import { onColours } from "./colours.js";
import { nameOf } from "./controls.js";
import { fill, make } from "./elements.js";
import {
  AXIS_HEIGHT,
  BAND_HEIGHT,
  contextFor,
  drawHead,
  drawOverview,
  drawSlices,
} from "./timeline_drawing.js";
import {
  firstFrom,
  layoutOf,
  nearestIn,
  ROW_HEIGHT,
  sliceAt,
  slicesOf,
} from "./timeline_slices.js";
import { hideTip, showTip } from "./tip.js";

// Closer than this there is nothing more to see: clocks count in ns.
const LEAST_NS = 20;
const OVERVIEW_ROW = 9;
const CLICK_PX = 4;
const ZOOM_BY = 1.5;
const PAN_BY = 0.2;

/**
 * Show a document of a step. `onView(view)` is called for each new view, `onPick(told)` with the
 * selected slice (null if none), `onRange(range)` with two times being measured, `onHover(told)`
 * with the slice below the pointer. `tip(told)` may add to the tip of a slice, `axis` says what
 * times are relative to.
 * Returns `{ element, put(found), show(view), view(), choose(told), mark(hits), zoom(by),
 *   fit(), destroy() }`.
 */
export function timelineView(
  found,
  { label, hint, view, onView, onPick, onRange, onHover, tip, axis = "time in the step" },
) {
  const state = {
    slices: slicesOf(found),
    layout: layoutOf(found),
    view: { ...(view ?? found.view) },
    chosen: null,
    hits: null,
    range: null,
    width: 0,
    height: 0,
    frame: 0,
    under: -1,
  };
  const canvas = make("canvas", {
    class: "timeline-canvas",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "timeline",
    "aria-label": label,
    "aria-describedby": hint,
  });
  const head = make("canvas", { "aria-hidden": "true" });
  const small = make("canvas", { class: "timeline-small", "aria-hidden": "true" });
  const names = make("div", { class: "timeline-names" });
  const headNames = make("div", { class: "timeline-head-names small soft" });
  const inner = make("div", { class: "timeline-inner" }, names, canvas);
  const scroller = make("div", { class: "timeline-scroll", onscroll: draw }, inner);
  const element = make(
    "div",
    { class: "timeline" },
    make(
      "div",
      { class: "timeline-line" },
      make("div", { class: "timeline-head-names small soft" }, "whole"),
      small,
    ),
    make("div", { class: "timeline-line" }, headNames, head),
    scroller,
  );
  const observer = new ResizeObserver(measure);
  observer.observe(scroller);
  const forget = onColours(draw);
  lay();

  function lay() {
    const { layout } = state;
    inner.style.height = `${layout.height}px`;
    fill(
      names,
      layout.groups.map((group) =>
        make(
          "div",
          { class: "timeline-group", style: { top: `${group.y}px` } },
          nameOf(group.name),
        ),
      ),
      layout.tracks.map(({ y, height, track }) => trackName(y, height, track)),
    );
    const { bands } = state.slices.found;
    fill(
      headNames,
      make("div", { style: { height: `${AXIS_HEIGHT}px` } }, axis),
      bands.map((band) =>
        make(
          "div",
          { style: { height: `${BAND_HEIGHT + 2}px` } },
          nameOf(band.device ? `parts, ${band.device}` : "parts of the step"),
        ),
      ),
    );
  }

  function trackName(y, height, track) {
    const left = track.left_out ? `, ${count(track.left_out)} too deep to draw` : "";
    const text = `${track.lane}: ${count(track.count)} slices${left}`;
    return make(
      "div",
      { class: "timeline-track", style: { top: `${y}px`, height: `${height}px` } },
      nameOf(track.name, { title: text.slice(0, 2000) }),
    );
  }

  function measure() {
    state.width = Math.max(inner.clientWidth - names.offsetWidth, 50);
    state.height = scroller.clientHeight;
    draw();
  }

  function draw() {
    if (state.frame || !state.width) return;
    state.frame = requestAnimationFrame(() => {
      state.frame = 0;
      drawNow();
    });
  }

  function drawNow() {
    const { slices, layout, width, height, chosen, hits, range } = state;
    const now = state.view;
    const bands = slices.found.bands.length;
    drawSlices(contextFor(canvas, width, height), {
      slices,
      layout,
      view: now,
      width,
      height,
      scroll: scroller.scrollTop,
      chosen,
      hits: hits?.ids,
      range,
    });
    drawHead(contextFor(head, width, AXIS_HEIGHT + bands * (BAND_HEIGHT + 2)), {
      found: slices.found,
      view: now,
      width,
    });
    const high = OVERVIEW_ROW * Math.max(slices.found.overview.groups.length, 2);
    drawOverview(contextFor(small, width, high), {
      found: slices.found,
      view: now,
      width,
      height: high,
      hits: hits?.starts,
    });
  }

  /** Show the window between two times, within the whole. */
  function show({ from_ns, to_ns }, { isReported = true } = {}) {
    const { whole } = state.slices.found;
    const most = Math.max(whole.to_ns - whole.from_ns, LEAST_NS);
    const length = Math.min(Math.max(to_ns - from_ns, LEAST_NS), most * 1.1);
    const middle = (from_ns + to_ns) / 2;
    const slack = most * 0.05;
    const from = Math.min(
      Math.max(middle - length / 2, whole.from_ns - slack),
      whole.to_ns + slack - length,
    );
    state.view = { from_ns: from, to_ns: from + length };
    draw();
    if (isReported) onView(state.view);
  }

  function zoom(by, at = (state.view.from_ns + state.view.to_ns) / 2) {
    const { from_ns, to_ns } = state.view;
    show({ from_ns: at - (at - from_ns) / by, to_ns: at + (to_ns - at) / by });
  }

  function pan(by) {
    const { from_ns, to_ns } = state.view;
    const move = by * (to_ns - from_ns);
    show({ from_ns: from_ns + move, to_ns: to_ns + move });
  }

  function timeAt(x) {
    return state.view.from_ns + (x / state.width) * (state.view.to_ns - state.view.from_ns);
  }

  function placeAt(x, y) {
    const down = y + scroller.scrollTop;
    const row = state.layout.tops.findIndex((top) => down >= top && down < top + ROW_HEIGHT);
    if (row < 0) return -1;
    const near = (3 / state.width) * (state.view.to_ns - state.view.from_ns);
    const at = nearestIn(state.slices, row, timeAt(x));
    if (
      at < 0 ||
      state.slices.starts[at] > timeAt(x) + near ||
      state.slices.ends[at] < timeAt(x) - near
    )
      return -1;
    return at;
  }

  /** Mark a slice, which has row, start and length; bring it into view. */
  function choose(slice, { seen = true } = {}) {
    state.chosen = slice;
    if (slice && seen) bring(slice);
    draw();
  }

  function bring(slice) {
    const { from_ns, to_ns } = state.view;
    const end = slice.start_ns + slice.duration_ns;
    if (slice.start_ns > to_ns || end < from_ns) {
      const middle = slice.start_ns + Math.min(slice.duration_ns, to_ns - from_ns) / 2;
      show({ from_ns: middle - (to_ns - from_ns) / 2, to_ns: middle + (to_ns - from_ns) / 2 });
    }
    const top = state.layout.tops[slice.row];
    if (top < scroller.scrollTop) scroller.scrollTop = top - ROW_HEIGHT;
    else if (top + ROW_HEIGHT > scroller.scrollTop + scroller.clientHeight)
      scroller.scrollTop = top + 2 * ROW_HEIGHT - scroller.clientHeight;
  }

  function pick(at) {
    const slice = at < 0 ? null : sliceAt(state.slices, at);
    choose(slice);
    onPick(slice);
  }

  // Keys.
  const walks = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const pans = { ArrowLeft: -PAN_BY, ArrowRight: PAN_BY, a: -PAN_BY, d: PAN_BY };
  const zooms = { w: ZOOM_BY, "+": ZOOM_BY, "=": ZOOM_BY, s: 1 / ZOOM_BY, "-": 1 / ZOOM_BY };
  let before = { key: "", at: 0 };

  function pressed(event) {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    // "g" and a letter go to another page: see frame.js.
    const isGoing = before.key === "g" && event.timeStamp - before.at < 1500;
    before = { key, at: event.timeStamp };
    if (event.ctrlKey || event.metaKey || event.altKey || isGoing) return;
    if (state.chosen && walks[key]) walk(...walks[key]);
    else if (key === "Enter") state.chosen ? showChosen() : pick(middlemost());
    else if (key === "Escape" && (state.chosen || state.range)) letGo();
    else if (key === "0") fit();
    else if (zooms[key]) zoom(zooms[key]);
    else if (pans[key]) pan(pans[key]);
    else if (key === "ArrowUp" || key === "ArrowDown")
      scroller.scrollTop += (key === "ArrowUp" ? -2 : 2) * ROW_HEIGHT;
    else return;
    event.preventDefault();
  }

  function letGo() {
    state.range = null;
    onRange(null);
    pick(-1);
  }

  function walk(rows, slices) {
    const { chosen } = state;
    const middle = chosen.start_ns + chosen.duration_ns / 2;
    let row = chosen.row + rows;
    if (rows) {
      while (row >= 0 && row < state.slices.rows && nearestIn(state.slices, row, middle) < 0)
        row += rows;
      if (row >= 0 && row < state.slices.rows) pick(nearestIn(state.slices, row, middle));
      return;
    }
    const here = state.slices.places.get(chosen.slice) ?? nearestIn(state.slices, row, middle);
    const at = here + slices;
    if (at >= state.slices.first[row] && at < state.slices.first[row + 1]) pick(at);
  }

  /** The slice in the middle of the view, below the step itself. */
  function middlemost() {
    const middle = (state.view.from_ns + state.view.to_ns) / 2;
    const rows = [...state.layout.tops.keys()].filter(
      (row) => state.slices.found.tracks[state.layout.trackOf[row]].group !== "Step",
    );
    const seen = rows.find(
      (row) =>
        state.layout.tops[row] >= scroller.scrollTop &&
        firstFrom(state.slices, row, state.view.from_ns) < state.slices.first[row + 1],
    );
    return nearestIn(state.slices, seen ?? 0, middle);
  }

  function showChosen() {
    const { start_ns, duration_ns } = state.chosen;
    const around = Math.max(duration_ns, LEAST_NS) * 0.3;
    show({ from_ns: start_ns - around, to_ns: start_ns + duration_ns + around });
  }

  function fit() {
    show(state.slices.found.view);
  }

  // Pointers: one drags, two pinch, one with Shift measures.
  const pointers = new Map();
  let drag = null;

  function down(event) {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event.offsetX);
    drag = {
      x: event.offsetX,
      y: event.offsetY,
      moved: 0,
      view: { ...state.view },
      scroll: scroller.scrollTop,
      measures: event.shiftKey,
      from: timeAt(event.offsetX),
      apart: apart(),
    };
  }

  function moved(event) {
    if (!pointers.has(event.pointerId)) return hovered(event);
    pointers.set(event.pointerId, event.offsetX);
    drag.moved = Math.max(
      drag.moved,
      Math.abs(event.offsetX - drag.x),
      Math.abs(event.offsetY - drag.y),
    );
    if (drag.moved < CLICK_PX) return;
    hideTip();
    if (pointers.size === 2 && drag.apart) return pinched();
    if (drag.measures) {
      state.range = [drag.from, timeAt(event.offsetX)];
      onRange(state.range);
      return draw();
    }
    const by = ((drag.x - event.offsetX) / state.width) * (drag.view.to_ns - drag.view.from_ns);
    show({ from_ns: drag.view.from_ns + by, to_ns: drag.view.to_ns + by });
    scroller.scrollTop = drag.scroll + drag.y - event.offsetY;
  }

  function up(event) {
    if (!pointers.delete(event.pointerId) || !drag) return;
    if (drag.moved < CLICK_PX && event.type === "pointerup")
      pick(placeAt(event.offsetX, event.offsetY));
    if (!pointers.size) drag = null;
  }

  function apart() {
    const [one, other] = pointers.values();
    return pointers.size === 2 ? Math.abs(one - other) || 1 : 0;
  }

  function pinched() {
    const [one, other] = pointers.values();
    const at = timeAt((one + other) / 2);
    zoom(apart() / drag.apart, at);
    drag.apart = apart();
  }

  function wheeled(event) {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      pan((event.deltaX || event.deltaY) / state.width);
    else zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), timeAt(event.offsetX));
  }

  function hovered(event) {
    const at = placeAt(event.offsetX, event.offsetY);
    canvas.style.cursor = at < 0 ? "grab" : "pointer";
    if (at !== state.under) onHover?.(at < 0 ? null : sliceAt(state.slices, at));
    state.under = at;
    if (at < 0) return hideTip();
    const slice = sliceAt(state.slices, at);
    const own = slice.count === 1 ? tip?.(slice) : null;
    const pairs = own ?? pairsOf(slice);
    showTip(
      event.clientX,
      event.clientY,
      slice.count > 1 ? "Slices too small to see" : slice.name,
      pairs,
    );
  }

  function left() {
    hideTip();
    if (state.under !== -1) onHover?.(null);
    state.under = -1;
  }

  function pairsOf(slice) {
    return slice.count > 1
      ? [
          ["slices", count(slice.count)],
          ["from first to last", time(slice.duration_ns)],
          ["busy", percent(slice.busy_ns / slice.duration_ns)],
          ["longest", slice.name],
        ]
      : [
          ["takes", time(slice.duration_ns)],
          ["from", exactTime(slice.start_ns, 100)],
          ["counts as", slice.category.label],
          ...(slice.op && slice.op !== slice.name ? [["op", slice.op.slice(0, 120)]] : []),
        ];
  }

  function turned(event) {
    if (!(event.buttons & 1)) return;
    const { whole } = state.slices.found;
    const middle = whole.from_ns + (event.offsetX / state.width) * (whole.to_ns - whole.from_ns);
    const half = (state.view.to_ns - state.view.from_ns) / 2;
    show({ from_ns: middle - half, to_ns: middle + half });
  }

  canvas.addEventListener("keydown", pressed);
  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", moved);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", left);
  canvas.addEventListener("wheel", wheeled, { passive: false });
  small.addEventListener("pointerdown", turned);
  small.addEventListener("pointermove", turned);

  return {
    element,
    canvas,
    show,
    zoom,
    fit,
    choose,
    view: () => state.view,
    shown: () => state.slices,
    /** Draw another document: the same step in different detail, or another step. */
    put(next) {
      const before = state.slices.found;
      state.slices = slicesOf(next);
      state.layout = layoutOf(next);
      if (before.capture !== next.capture) lay();
      draw();
    },
    /** Dim all slices but these: `{ ids: Set, starts: [ns] }`, or null. */
    mark(hits) {
      state.hits = hits;
      draw();
    },
    destroy() {
      observer.disconnect();
      forget();
      hideTip();
      cancelAnimationFrame(state.frame);
    },
  };
}
