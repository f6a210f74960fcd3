// The slices of a timeline's document, looked up by row and time; the positions of rows and the
// colours of slices.
import { partColour } from "./colours.js";

export const ROW_HEIGHT = 18;
const GROUP_HEIGHT = 22;
const TRACK_GAP = 5;
// Categories that are not part of a step's cycle.
const CATEGORY_COLOURS = {
  background: "other",
  function_call: "series-10",
  step: "accent",
  between: "line-strong",
  activity: "series-9",
  waiting: "warning",
  sent: "series-4",
};

/** The name of the colour of one of the document's categories. */
export function categoryColour({ name, group }) {
  return group ? partColour(name) : (CATEGORY_COLOURS[name] ?? "other");
}

/**
 * The columns of a document as arrays for fast access; `first[row]` is the first slice of a row.
 */
export function slicesOf(found) {
  const { row, start_ns, length_ns, id } = found.slices;
  const rows = found.tracks.reduce((sum, track) => sum + track.rows, 0);
  const first = new Int32Array(rows + 1).fill(row.length);
  for (let at = row.length - 1; at >= 0; at -= 1) first[row[at]] = at;
  for (let at = rows - 1; at >= 0; at -= 1) first[at] = Math.min(first[at], first[at + 1]);
  const starts = Float64Array.from(start_ns);
  const ends = Float64Array.from(length_ns, (length, at) => start_ns[at] + length);
  return { found, rows, first, starts, ends, places: new Map(id.map((each, at) => [each, at])) };
}

/**
 * The first slice of a row that ends at a time or later; the first of the next row if none does.
 */
export function firstFrom(slices, row, from_ns) {
  let low = slices.first[row];
  let high = slices.first[row + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices.ends[middle] < from_ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The slice of a row nearest to a time, or -1 if the row has none. */
export function nearestIn(slices, row, at_ns) {
  if (slices.first[row] === slices.first[row + 1]) return -1;
  const behind = Math.min(firstFrom(slices, row, at_ns), slices.first[row + 1] - 1);
  const before = Math.max(behind - 1, slices.first[row]);
  const far = (at) => Math.max(slices.starts[at] - at_ns, at_ns - slices.ends[at], 0);
  return far(before) < far(behind) ? before : behind;
}

/** The positions of groups, tracks and rows, from the top down; the track of each row. */
export function layoutOf(found) {
  const groups = [];
  const tracks = [];
  const tops = [];
  const trackOf = [];
  let y = 0;
  let group = null;
  for (const [at, track] of found.tracks.entries()) {
    if (track.group !== group) {
      group = track.group;
      groups.push({ y, name: group });
      y += GROUP_HEIGHT;
    }
    const rows = Math.max(track.rows, 1);
    tracks.push({ y, height: rows * ROW_HEIGHT, track, row: tops.length });
    for (let row = 0; row < track.rows; row += 1) {
      tops.push(y + row * ROW_HEIGHT);
      trackOf.push(at);
    }
    y += rows * ROW_HEIGHT + TRACK_GAP;
  }
  return { groups, tracks, tops, trackOf, height: y };
}

/** Describe a slice of a document: name, op, times; a `count` above one marks a block. */
export function sliceAt(slices, at) {
  const { found } = slices;
  const { name, op, row, category, count, busy_ns, id } = found.slices;
  return {
    slice: id[at],
    name: found.names[name[at]],
    op: found.names[op[at]],
    row: row[at],
    category: found.categories[category[at]],
    start_ns: slices.starts[at],
    duration_ns: slices.ends[at] - slices.starts[at],
    count: count[at],
    busy_ns: busy_ns[at],
  };
}
