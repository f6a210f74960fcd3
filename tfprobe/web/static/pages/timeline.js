// The timeline of one traced step: what ran where and when; also in Perfetto.
import { count, percent, time } from "../parts/amounts.js";
import { choose, swatch } from "../parts/controls.js";
import { isFile } from "../parts/data.js";
import { fill, make } from "../parts/elements.js";
import { categoryColour } from "../parts/timeline_slices.js";
import { timelineView } from "../parts/timeline_view.js";
import { longestOf, sliceCard } from "./timeline_details.js";
import { perfettoCard, slicesText } from "./timeline_perfetto.js";
import { ranksChooser, ranksShown } from "./timeline_ranks.js";

// While the user is still zooming, the address is not changed and no request is sent.
const REST_MS = 180;
const CLOSER = "This file has the step in blocks; `tfprobe ui` on the run shows them in detail.";

export const timelinePage = {
  name: "timeline",
  title: "Timeline",
  async show(place, context) {
    const captures = await context.ask("timeline", {});
    const args = { ...context.args };
    const content = make("div", { class: "timeline-page" });
    place.append(content);
    let shown = await stepShown(content, context, captures, args);
    return {
      async turn(next) {
        const isSame =
          String(next.capture ?? captures.chosen) === String(args.capture ?? captures.chosen);
        if (isSame && next.show === args.show) return shown.turn(next);
        shown.leave();
        for (const key of Object.keys(args)) delete args[key];
        Object.assign(args, next);
        try {
          shown = await stepShown(fill(content), context, captures, args);
        } catch (error) {
          if (error.name !== "AbortError")
            fill(content, make("p", { class: "trouble", role: "alert" }, error.message));
        }
      },
      leave: () => shown.leave(),
    };
  },
};

/** Fill a place with one step. `args` are those of the address, and follow it. */
async function stepShown(place, context, captures, args) {
  const capture = Number(args.capture ?? captures.chosen);
  const base = await context.ask("timeline", { capture });
  if (args.show === "ranks" && base.ranks > 1)
    return ranksShown(place, context, {
      capture,
      args,
      head: () => headOf(context, captures, base, args),
    });
  const controller = new AbortController();
  const details = make("div", {
    class: "timeline-details",
    role: "region",
    "aria-label": "Selected slice",
    "aria-live": "polite",
  });
  const said = make("span", { role: "status", class: "soft" });
  const closer = make("p", { class: "soft small", hidden: true }, CLOSER);
  const hint = make(
    "p",
    { class: "hidden-text", id: "timeline-hint" },
    "W and S zoom, A and D or arrows move, 0 shows the step, Enter selects a slice, then arrows move from slice to slice, Escape clears the selection. The longest slices are in a table below.",
  );
  const view = timelineView(base, {
    label: `Timeline of step ${base.step}, ${time(base.duration_ns)}`,
    hint: "timeline-hint",
    view: viewOf(args),
    onView: viewed,
    onPick: picked,
    onRange: measured,
  });
  let resting = 0;
  let loading = null;
  let found = base;
  const search = searchBox(context, base, view, args, said, remember, goTo);

  place.append(
    ...headOf(context, captures, base, args),
    make("div", { class: "row timeline-tools" }, search.element, zoomButtons(view), said),
    make(
      "section",
      { class: "card timeline-card", "aria-label": `Timeline of step ${base.step}` },
      hint,
      view.element,
      closer,
      legendOf(base),
    ),
    details,
    longestOf(base, (slice) => {
      view.choose(slice);
      picked(slice);
      view.canvas.scrollIntoView({ block: "nearest" });
    }),
    perfettoCard(context, base, controller.signal),
  );
  fill(
    details,
    make(
      "p",
      { class: "soft" },
      "Select a slice to see its details, by a click or by Enter on the timeline. Drag with Shift to measure.",
    ),
  );
  if (args.slice) goTo(args.slice);
  if (viewOf(args)) viewed(view.view());
  if (args.find) search.run();

  function viewed() {
    clearTimeout(resting);
    resting = setTimeout(rested, REST_MS);
  }

  function rested() {
    const { from_ns, to_ns } = view.view();
    const isStep = Math.abs(from_ns - base.view.from_ns) + Math.abs(to_ns - base.view.to_ns) < 2;
    remember({
      from_ns: isStep ? null : Math.round(from_ns),
      to_ns: isStep ? null : Math.round(to_ns),
    });
    detailed(view.view());
  }

  function remember(changes) {
    Object.assign(args, changes);
    for (const [key, value] of Object.entries(args))
      if (value === null || value === "") delete args[key];
    context.go(args, { keep: true });
  }

  /** If blocks are in view, request their contents. */
  async function detailed({ from_ns, to_ns }) {
    const length = to_ns - from_ns;
    const isBase = base.is_whole || length > 0.7 * (base.window.to_ns - base.window.from_ns);
    closer.hidden = !isFile || isBase;
    const { window } = found;
    const holds =
      window.from_ns <= Math.max(from_ns, base.whole.from_ns) &&
      window.to_ns >= Math.min(to_ns, base.whole.to_ns);
    const isClose = found.is_whole || window.to_ns - window.from_ns <= 4 * length;
    if (isFile || (holds && isClose)) return;
    if (isBase) return put(base);
    loading?.abort();
    loading = new AbortController();
    try {
      const next = await context.ask("timeline", {
        capture,
        from_ns: Math.floor(from_ns - length / 2),
        to_ns: Math.ceil(to_ns + length / 2),
      });
      if (!controller.signal.aborted) put(next);
    } catch (error) {
      if (error.name !== "AbortError") fill(said, error.message);
    }
  }

  function put(next) {
    found = next;
    view.put(next);
  }

  function measured(range) {
    const length = range ? Math.abs(range[1] - range[0]) : 0;
    fill(
      said,
      range ? `${time(length)} measured, ${percent(length / base.duration_ns)} of the step` : "",
    );
  }

  async function picked(slice) {
    remember({ slice: slice?.slice ?? null });
    if (!slice) return fill(details, make("p", { class: "soft" }, "No slice is selected."));
    fill(details, sliceCard(context, base, slice, null, goTo));
    if (slice.count > 1) return;
    try {
      const known = await context.ask("timeline-slice", { capture, slice: slice.slice });
      if (args.slice === slice.slice)
        fill(details, sliceCard(context, base, { ...slice, ...known }, known, goTo));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (args.slice === slice.slice) details.append(make("p", { class: "soft" }, error.message));
    }
  }

  /** Go to a slice by its name alone. */
  async function goTo(slice) {
    try {
      const known = await context.ask("timeline-slice", { capture, slice });
      view.choose({ ...known, count: 1 });
      remember({ slice });
      fill(details, sliceCard(context, base, { ...known, count: 1 }, known, goTo));
    } catch (error) {
      if (error.name !== "AbortError") fill(details, make("p", { class: "soft" }, error.message));
    }
  }

  return {
    turn(next) {
      const moved = next.from_ns !== args.from_ns || next.to_ns !== args.to_ns;
      const other = next.slice !== args.slice && next.slice;
      for (const key of Object.keys(args)) delete args[key];
      Object.assign(args, next);
      if (moved) view.show(viewOf(args) ?? base.view);
      if (other) goTo(next.slice);
    },
    leave() {
      clearTimeout(resting);
      controller.abort();
      loading?.abort();
      view.destroy();
    },
  };
}

function viewOf({ from_ns, to_ns }) {
  const [from, to] = [Number(from_ns), Number(to_ns)];
  return from_ns !== undefined && to_ns !== undefined && Number.isFinite(from) && to > from
    ? { from_ns: from, to_ns: to }
    : null;
}

function headOf(context, captures, base, args) {
  const where = `${base.host} ${base.label}${base.rank === null ? "" : `, rank ${base.rank}`}`;
  const work = base.work ? `${base.work.kind} ${base.work.name}` : "work unknown";
  const usual =
    base.usual_ns === null ? "" : `; untraced steps near it usually take ${time(base.usual_ns)}`;
  const show = args.show ? { show: args.show } : {};
  const goTo = (capture) => context.go({ capture, ...show });
  const alike = captures.captures.filter(
    (each) => each.work === (base.work?.work ?? null) && each.process === base.process,
  );
  const at = alike.findIndex((each) => each.capture === base.capture);
  const button = (to, label, text) =>
    make(
      "button",
      {
        type: "button",
        disabled: !alike[to],
        "aria-label": label,
        title: label,
        onclick: () => goTo(alike[to].capture),
      },
      text,
    );
  const notes =
    args.show === "ranks"
      ? []
      : [
          base.is_shifted
            ? "Its slices were timed by another clock; the first is drawn at the start of the step."
            : null,
          base.tracks_left_out
            ? `${count(base.tracks_left_out)} threads with fewer slices are not drawn.`
            : null,
          captures.captures_left_out
            ? `The newest ${count(captures.captures.length)} traced steps can be selected, but not the ${count(captures.captures_left_out)} older ones.`
            : null,
        ].filter(Boolean);
  return [
    make(
      "div",
      { class: "row" },
      make("h1", {}, `Timeline of step ${base.step}`),
      make(
        "div",
        { class: "row end" },
        ranksChooser(base, args, context.go),
        worksChooser(captures, base, goTo),
        choose({
          label: "Step",
          value: base.capture,
          options: alike.map((each) => [
            each.capture,
            `${each.step} · ${time(each.duration_ns)} · ${slicesText(each.slices)}`,
          ]),
          onChange: (capture) => goTo(Number(capture)),
        }),
        button(at - 1, "The traced step before", "‹"),
        button(at + 1, "The next traced step", "›"),
      ),
    ),
    make(
      "p",
      { class: "soft" },
      make("bdi", {}, work),
      " on ",
      make("bdi", {}, where),
      `: ${time(base.duration_ns)}${usual}.`,
      notes.length ? ` ${notes.join(" ")}` : "",
    ),
  ];
}

function worksChooser(captures, base, goTo) {
  const newest = new Map();
  for (const each of captures.captures) newest.set(`${each.process} ${each.work}`, each);
  if (newest.size < 2) return null;
  const label = (each) => {
    const work = captures.works.find((one) => one.work === each.work);
    const process = captures.processes[each.process];
    const rank = process.rank === null ? process.label : `rank ${process.rank}`;
    return `${work ? `${work.kind} ${work.name}`.slice(0, 60) : "work unknown"} · ${rank}`;
  };
  return choose({
    label: "Work",
    value: newest.get(`${base.process} ${base.work?.work ?? null}`)?.capture,
    options: [...newest.values()].map((each) => [each.capture, label(each)]),
    onChange: (capture) => goTo(Number(capture)),
  });
}

function zoomButtons(view) {
  const button = (label, text, act) =>
    make(
      "button",
      { type: "button", class: "icon", title: label, "aria-label": label, onclick: act },
      text,
    );
  return make(
    "div",
    { class: "row timeline-zoom", role: "group", "aria-label": "Zoom" },
    button("Zoom in (W)", "+", () => view.zoom(2)),
    button("Zoom out (S)", "−", () => view.zoom(0.5)),
    make(
      "button",
      { type: "button", title: "The step alone (0)", onclick: () => view.fit() },
      "Fit the step",
    ),
    make(
      "button",
      {
        type: "button",
        title: "Everything recorded",
        onclick: () => view.show(view.shown().found.whole),
      },
      "All",
    ),
  );
}

/** Search for a text: matches are highlighted, Enter goes from one to the next. */
function searchBox(context, base, view, args, said, remember, goTo) {
  let hits = null;
  let at = -1;
  let pending = 0;
  const box = make("input", {
    type: "search",
    placeholder: "Search names and ops",
    "aria-label": "Search the timeline",
    value: args.find ?? "",
    oninput: typed,
    onkeydown: pressed,
  });
  return { element: box, run };

  function typed() {
    clearTimeout(pending);
    pending = setTimeout(run, REST_MS);
  }

  async function run() {
    const text = box.value.trim();
    remember({ find: text || null });
    at = -1;
    if (!text) {
      hits = null;
      fill(said);
      return view.mark(null);
    }
    try {
      hits = await context.ask("timeline-search", { capture: base.capture, text });
    } catch (error) {
      if (error.name === "AbortError") return;
      hits = findInView(view.shown().found, text);
    }
    if (box.value.trim() !== text) return;
    fill(
      said,
      `${count(hits.count)} found, ${time(hits.total_ns)} in all${hits.left_out ? `; the first ${count(hits.slices.length)} are marked` : ""}. Enter goes to the next.`,
    );
    view.mark({ ids: new Set(hits.slices), starts: hits.start_ns });
  }

  function pressed(event) {
    if (event.key !== "Enter" || !hits?.slices.length) return;
    at = (at + (event.shiftKey ? -1 : 1) + hits.slices.length) % hits.slices.length;
    const slice = {
      slice: hits.slices[at],
      row: hits.row[at],
      start_ns: hits.start_ns[at],
      duration_ns: hits.length_ns[at],
    };
    view.choose(slice);
    goTo(slice.slice);
    fill(
      said,
      `${count(at + 1)} of ${count(hits.count)}: ${time(slice.duration_ns)} from ${time(slice.start_ns)} on`,
    );
  }
}

/** The drawn slices that contain a text: all that a single file can search. */
function findInView(found, text) {
  const wanted = text.toLowerCase();
  const has = found.names.map((name) => name.toLowerCase().includes(wanted));
  const { id, name, op, row, start_ns, length_ns, busy_ns } = found.slices;
  const chosen = id.map((_, at) => at).filter((at) => has[name[at]] || has[op[at]]);
  return {
    count: chosen.length,
    total_ns: chosen.reduce((sum, at) => sum + busy_ns[at], 0),
    left_out: 0,
    slices: chosen.map((at) => id[at]),
    row: chosen.map((at) => row[at]),
    start_ns: chosen.map((at) => start_ns[at]),
    length_ns: chosen.map((at) => length_ns[at]),
  };
}

/** The legend: all categories in this step, and the parts with their shares of it. */
function legendOf(base) {
  const met = new Set(base.slices.category);
  const [band] = base.bands;
  const of = (category) => band?.total_ns[category.name];
  const keys = base.categories.filter((category, at) => met.has(at) || of(category));
  return make(
    "ul",
    { class: "chart-legend small", "aria-label": "Colours and shares of the step" },
    keys.map((category) =>
      make(
        "li",
        {},
        swatch(categoryColour(category)),
        category.label,
        of(category)
          ? make("span", { class: "number soft" }, ` ${percent(of(category) / base.duration_ns)}`)
          : null,
      ),
    ),
  );
}
