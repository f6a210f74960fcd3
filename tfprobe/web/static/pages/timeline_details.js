// The details of one slice of a timeline, and the list of the longest ones.
import { bytes, count, exactTime, NOTHING, percent, time } from "../parts/amounts.js";
import { called, card, nameOf, swatch } from "../parts/controls.js";
import { make } from "../parts/elements.js";
import { table } from "../parts/table.js";
import { categoryColour } from "../parts/timeline_slices.js";

/**
 * Describe a slice; `known` is the server's answer about it, null until it arrives. `goTo(slice)`
 * goes to another.
 */
export function sliceCard(context, base, slice, known, goTo) {
  if (slice.count > 1) {
    const busy = slice.duration_ns
      ? `, busy ${percent(slice.busy_ns / slice.duration_ns)} of ${time(slice.duration_ns)}`
      : "";
    return card(
      `${count(slice.count)} slices too small to see`,
      make(
        "p",
        {},
        `From ${time(slice.start_ns)} on${busy}. The longest is `,
        nameOf(slice.name),
        ". Zoom in for each: Enter, or +.",
      ),
    );
  }
  const work = base.work?.work;
  const facts = [
    [
      "Op",
      slice.op && slice.category.name !== "between"
        ? make(
            "a",
            { href: context.link("ops", { work, find: slice.op.slice(0, 200) }) },
            nameOf(called(slice.op)),
          )
        : null,
    ],
    ["Counts as", [swatch(categoryColour(slice.category)), slice.category.label]],
    [
      "Takes",
      `${time(slice.duration_ns)}, ${percent(slice.duration_ns / base.duration_ns)} of the step`,
    ],
    [
      "From, to",
      `${exactTime(slice.start_ns, 100)}, ${exactTime(slice.start_ns + slice.duration_ns, 100)} after the step began`,
    ],
    ["Thread or stream", known ? nameOf(`${known.group}, ${known.lane}`) : null],
    ["Device", known?.device ? nameOf(known.device) : null],
    [
      "Scope",
      known?.scope
        ? [
            make(
              "a",
              { href: context.link("scopes", { work, at: known.scope }) },
              nameOf(called(known.scope)),
            ),
            known.has_graph
              ? [
                  " ",
                  make(
                    "a",
                    { href: context.link("graph", { work, at: known.scope }) },
                    "in the graph",
                  ),
                ]
              : null,
          ]
        : null,
    ],
    ["Bytes requested", known?.bytes ? bytes(known.bytes) : null],
    ["Bytes of outputs", known?.output_bytes ? bytes(known.output_bytes) : null],
    ["Recorded as", known?.detail ? nameOf(known.detail) : null],
    ["Inputs", known?.inputs?.length ? known.inputs.map(tensorLine) : null],
    ["Outputs", known?.outputs?.length ? known.outputs.map(tensorLine) : null],
    [
      "Belongs to",
      known?.linked?.length
        ? known.linked.map((link) =>
            make(
              "div",
              {},
              `${link.relation} `,
              make(
                "button",
                { type: "button", class: "link", onclick: () => goTo(link.slice) },
                nameOf(called(link.name)),
              ),
            ),
          )
        : null,
    ],
    [
      "Code",
      known?.code?.length
        ? known.code
            .slice(-3)
            .reverse()
            .map((frame) =>
              make(
                "div",
                {},
                make(
                  "a",
                  {
                    href: context.link("code", {
                      work,
                      view: "lines",
                      find: `${frame.file.split("/").at(-1)}:${frame.line}`,
                    }),
                  },
                  nameOf(`${frame.file}:${frame.line}`),
                ),
                " in ",
                make("code", {}, frame.function),
              ),
            )
        : null,
    ],
  ];
  return card(
    "",
    make("h2", {}, make("bdi", { class: "timeline-name" }, slice.name || NOTHING)),
    make(
      "dl",
      { class: "timeline-facts" },
      facts
        .filter(([, value]) => value)
        .map(([label, value]) => [make("dt", {}, label), make("dd", {}, value)]),
    ),
  );
}

function tensorLine({ name, shape, type }) {
  const dimensions =
    shape === null
      ? "shape unknown"
      : `[${shape.map((each) => (each < 0 ? "?" : each)).join(", ")}]`;
  return make(
    "div",
    {},
    nameOf(name),
    " ",
    make("code", {}, `${dimensions}${type ? ` ${type.replace(/^DT_/, "").toLowerCase()}` : ""}`),
  );
}

/** List the longest slices of the step; `open(told)` goes to one. */
export function longestOf(base, open) {
  const rows = base.longest.map((each) => ({
    ...each,
    slice: each.id,
    label: base.categories[each.category].label,
    lane: base.tracks[each.track].name,
  }));
  const first = base.tracks.map((_, at) =>
    base.tracks.slice(0, at).reduce((sum, each) => sum + each.rows, 0),
  );
  return table({
    caption: "The longest slices of the step",
    csvName: `timeline-step-${base.step}`,
    rows,
    sort: "-duration_ns",
    key: (row) => row.id,
    onOpen: (row) =>
      open({ ...row, row: first[row.track], count: 1, category: base.categories[row.category] }),
    columns: [
      { key: "name", title: "Slice" },
      { key: "duration_ns", title: "Takes", kind: "time" },
      { key: "share_ratio", title: "Of the step", kind: "ratio", bar: true },
      { key: "start_ns", title: "From", kind: "time" },
      { key: "lane", title: "Thread or stream" },
      { key: "label", title: "Counts as" },
      // TensorFlow's description of an iterator is longer than a line; the slice itself shows it.
      { key: "op", title: "Op", value: (row) => (row.id.startsWith("r") ? row.op : "") },
    ],
  });
}
