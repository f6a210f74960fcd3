// The timeline of one traced step in all ranks, on one clock: who does what, who waits for whom.
import { count, exactTime, NOTHING, percent, time } from "../parts/amounts.js";
import { card, choose, missing, nameOf, swatch } from "../parts/controls.js";
import { fill, make } from "../parts/elements.js";
import { table } from "../parts/table.js";
import { categoryColour } from "../parts/timeline_slices.js";
import { timelineView } from "../parts/timeline_view.js";

const RANKS_REST_MS = 180;
const RANKS_IN_TIP = 6;

/**
 * The choice between one process and all ranks; nothing if only one process recorded the step.
 */
export function ranksChooser(base, args, go) {
  if (base.ranks < 2) return null;
  return choose({
    label: "Show",
    value: args.show ?? "",
    options: [
      ["", "this process"],
      ["ranks", `all ${count(base.ranks)} ranks`],
    ],
    onChange: (show) => go({ capture: args.capture ?? base.capture, ...(show ? { show } : {}) }),
  });
}

/**
 * Fill a place with the step of all ranks. `head(…)` makes the page's header with more elements.
 */
export async function ranksShown(place, context, { capture, args, head }) {
  const found = await context.ask("timeline-ranks", { capture });
  const groups = meetingsOf(found);
  const details = make("div", {
    class: "timeline-details",
    role: "region",
    "aria-label": "Selected event",
    "aria-live": "polite",
  });
  const hint = make(
    "p",
    { class: "hidden-text", id: "timeline-hint" },
    "W and S zoom, A and D or arrows move, 0 shows the step, Enter selects a slice, then arrows move from slice to slice, Escape clears the selection. The ranks are in a table below.",
  );
  let resting = 0;
  const view = timelineView(found, {
    label: `Timeline of step ${found.step} in ${found.ranks.length} ranks`,
    hint: "timeline-hint",
    view: ranksViewOf(args),
    onView: viewed,
    onPick: picked,
    onRange: () => {},
    onHover: (slice) => mark(slice ?? chosen()),
    tip: (slice) => ranksTip(found, slice),
    axis: "time since the first began",
  });
  place.append(
    ...head(found),
    make("p", { class: "soft" }, formatRanks(found)),
    make(
      "section",
      { class: "card timeline-card", "aria-label": `Timeline of step ${found.step} in all ranks` },
      hint,
      view.element,
      ranksLegend(found),
    ),
    details,
    ranksTable(found, context),
  );
  clearDetails();
  if (args.slice) goTo(args.slice);

  function clearDetails() {
    fill(
      details,
      make(
        "p",
        { class: "soft" },
        "Hover over a collective to see it in all ranks; select it, by a click or by Enter, to see when each rank arrived.",
      ),
    );
  }

  function chosen() {
    return args.slice ? sliceById(args.slice) : null;
  }

  function sliceById(id) {
    const slices = view.shown();
    const at = slices.places.get(id);
    return at === undefined
      ? null
      : {
          slice: id,
          row: found.slices.row[at],
          start_ns: slices.starts[at],
          duration_ns: slices.ends[at] - slices.starts[at],
          count: 1,
        };
  }

  /** Highlight the peers of a slice, on all ranks. */
  function mark(slice) {
    const members = slice ? groups.get(groupOf(found, view, slice.slice)) : null;
    view.mark(members ? { ids: members.ids, starts: members.starts } : null);
  }

  function picked(slice) {
    remember({ slice: slice?.slice ?? null });
    mark(slice);
    const group = slice ? groupOf(found, view, slice.slice) : -1;
    if (!slice) clearDetails();
    else
      fill(
        details,
        group < 0
          ? ranksSliceCard(found, slice)
          : meetingCard(found, found.meetings[group], slice, context),
      );
  }

  function goTo(id) {
    const slice = sliceById(id);
    if (!slice) return;
    view.choose(slice);
    picked({ ...slice, name: found.names[found.slices.name[view.shown().places.get(id)]] });
  }

  function viewed() {
    clearTimeout(resting);
    resting = setTimeout(() => {
      const { from_ns, to_ns } = view.view();
      const isWhole =
        Math.abs(from_ns - found.view.from_ns) + Math.abs(to_ns - found.view.to_ns) < 2;
      remember({
        from_ns: isWhole ? null : Math.round(from_ns),
        to_ns: isWhole ? null : Math.round(to_ns),
      });
    }, RANKS_REST_MS);
  }

  function remember(changes) {
    Object.assign(args, changes);
    for (const [key, value] of Object.entries(args))
      if (value === null || value === "") delete args[key];
    context.go(args, { keep: true });
  }

  return {
    turn(next) {
      const moved = next.from_ns !== args.from_ns || next.to_ns !== args.to_ns;
      const other = next.slice !== args.slice;
      for (const key of Object.keys(args)) delete args[key];
      Object.assign(args, next);
      if (moved) view.show(ranksViewOf(args) ?? found.view);
      if (other) next.slice ? goTo(next.slice) : view.mark(null);
    },
    leave() {
      clearTimeout(resting);
      view.destroy();
    },
  };
}

function ranksViewOf({ from_ns, to_ns }) {
  const [from, to] = [Number(from_ns), Number(to_ns)];
  return from_ns !== undefined && to_ns !== undefined && Number.isFinite(from) && to > from
    ? { from_ns: from, to_ns: to }
    : null;
}

/** The slices of each synchronization event, by its number. */
function meetingsOf({ slices }) {
  const groups = new Map();
  for (const [at, group] of slices.meeting.entries()) {
    if (group < 0) continue;
    if (!groups.has(group)) groups.set(group, { ids: new Set(), starts: [] });
    groups.get(group).ids.add(slices.id[at]);
    groups.get(group).starts.push(slices.start_ns[at]);
  }
  return groups;
}

function groupOf(found, view, id) {
  const at = view.shown().places.get(id);
  return at === undefined ? -1 : found.slices.meeting[at];
}

function formatRanks(found) {
  const { ranks, ranks_left_out: left, clock_error_ns: error } = found;
  const unknown = ranks.filter((each) => each.missing);
  const texts = [
    `${count(ranks.length)} ranks on one clock${error ? `, which may be wrong by ${time(error)} at most` : ""}.`,
  ];
  if (left)
    texts.push(
      `${count(left)} ranks are not drawn. The drawn ranks kept others waiting, were slow, or are the first ones.`,
    );
  if (unknown.length)
    texts.push(
      `The clock of ${unknown.map((each) => each.title).join(", ")} is unknown: ${unknown.length > 1 ? "they are" : "it is"} drawn as if the step had begun everywhere at once.`,
    );
  return texts.join(" ");
}

/**
 * How to describe the last rank of a synchronization event: certain only if it was late by more
 * than the clocks may be wrong.
 */
function lastRank({ last_title: last, behind_ns: behind, error_ns: error }) {
  if (last === null || behind === null) return null;
  const isSure = behind > (error ?? 0);
  return `${isSure ? "" : "perhaps "}${last}, by ${time(behind)}${error ? ` ± ${time(error)}` : ""}`;
}

function ranksTip(found, slice) {
  const at = found.slices.id.indexOf(slice.slice);
  const met = found.meetings[found.slices.meeting[at]];
  if (!met) return null;
  const last = lastRank(met);
  const members = met.members
    .slice(0, RANKS_IN_TIP)
    .map((each) => [
      each.title,
      each.waited_ns === null ? time(each.length_ns) : `waited ${time(each.waited_ns)}`,
    ]);
  const more = met.count - members.length;
  return [
    ["takes", time(slice.duration_ns)],
    ["from", exactTime(slice.start_ns, 100)],
    ...(last ? [["last to arrive", last]] : []),
    ...members,
    ...(more > 0 ? [["and", `${count(more)} more`]] : []),
  ];
}

function meetingCard(found, met, slice, context) {
  const last = met ? lastRank(met) : null;
  const link = (row) =>
    make("a", { href: context.link("timeline", { capture: row.capture }) }, nameOf(row.title));
  return card(
    "",
    make("h2", {}, make("bdi", { class: "timeline-name" }, slice.name || NOTHING)),
    last
      ? make(
          "p",
          {},
          `Last to arrive: ${last}. The others waited a total of ${time(met.waited_ns)} for it.`,
        )
      : null,
    met
      ? table({
          caption:
            met.kind === "send" ? "Sender and receiver" : `Arrivals, ${count(met.count)} in all`,
          csvName: `meeting-step-${found.step}`,
          rows: met.members,
          of: met.count,
          sort: "-start_ns",
          columns: [
            { key: "title", title: "Rank", cell: link },
            {
              key: "start_ns",
              title: "Came",
              kind: "time",
              hint: "since the first rank began the step",
            },
            {
              key: "waited_ns",
              title: "Waited",
              kind: "time",
              bar: true,
              missing: () => "its clock is unknown, or nothing waits here",
            },
            { key: "length_ns", title: "Was in it", kind: "time" },
            {
              key: "bytes",
              title: "Bytes",
              kind: "bytes",
              missing: () => "the recording does not say",
            },
          ],
        })
      : make(
          "p",
          { class: "soft" },
          "There are too many events to show this one in detail; its rank's own timeline does.",
        ),
  );
}

function ranksSliceCard(found, slice) {
  return card(
    slice.name || NOTHING,
    make(
      "p",
      {},
      `${time(slice.duration_ns)}, ${percent(slice.duration_ns / found.duration_ns)} of the step.`,
    ),
  );
}

function clockCell(row) {
  if (row.is_reference) return "reference";
  return row.missing ? missing(row.missing) : time(row.offset_ns);
}

function ranksLegend(found) {
  const met = new Set(found.slices.category);
  return make(
    "ul",
    { class: "chart-legend small", "aria-label": "Colours" },
    found.categories
      .filter((_, at) => met.has(at))
      .map((category) => make("li", {}, swatch(categoryColour(category)), category.label)),
  );
}

function ranksTable(found, context) {
  const why = (row) => row.missing ?? "none of its collectives was seen on other ranks";
  return table({
    caption: `Step ${found.step}, rank by rank`,
    csvName: `ranks-step-${found.step}`,
    rows: found.ranks,
    of: found.ranks.length + found.ranks_left_out,
    search: found.ranks.length > 8,
    columns: [
      {
        key: "title",
        title: "Rank",
        cell: (row) =>
          make(
            "a",
            { href: context.link("timeline", { capture: row.capture }) },
            nameOf(row.title),
          ),
      },
      { key: "start_ns", title: "Began", kind: "time", hint: "after the first of them" },
      { key: "duration_ns", title: "Step", kind: "time", bar: true },
      { key: "collectives_ns", title: "In collectives", kind: "time" },
      { key: "waited_ns", title: "Waited", kind: "time", missing: why },
      {
        key: "last",
        title: "Last in",
        kind: "count",
        hint: "collectives for which all others waited for it",
        value: (row) => (row.matched ? row.last : null),
        missing: why,
      },
      {
        key: "offset_ns",
        title: "Clock ahead",
        kind: "time",
        missing: (row) => row.missing,
        hint: "of the reference clock, by which its times were shifted",
        cell: clockCell,
      },
      {
        key: "error_ns",
        title: "± at most",
        kind: "time",
        missing: (row) => row.missing ?? "it has no bound",
      },
      { key: "basis", title: "Known by" },
      { key: "why", title: "Drawn because" },
    ],
  });
}
