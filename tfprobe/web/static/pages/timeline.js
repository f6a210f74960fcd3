// The timeline of one recorded step: what ran where and when; Perfetto for those who know it.
import { bytes, count, exactTime, NOTHING, percent, time } from "../parts/amounts.js";
import { called, card, choose, nameOf, swatch } from "../parts/controls.js";
import { isFile, Trouble } from "../parts/data.js";
import { fill, make } from "../parts/elements.js";
import { perfettoIn } from "../parts/perfetto.js";
import { table } from "../parts/table.js";
import { categoryColour } from "../parts/timeline_slices.js";
import { timelineView } from "../parts/timeline_view.js";

// While somebody still zooms, neither the address nor the server is asked.
const REST_MS = 180;
const CLOSER = "This file holds the step in blocks; `tfprobe ui` on the run shows them closer.";

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
        if (String(next.capture ?? captures.chosen) === String(args.capture ?? captures.chosen)) return shown.turn(next);
        shown.leave();
        for (const key of Object.keys(args)) delete args[key];
        Object.assign(args, next);
        try {
          shown = await stepShown(fill(content), context, captures, args);
        } catch (error) {
          if (error.name !== "AbortError") fill(content, make("p", { class: "trouble", role: "alert" }, error.message));
        }
      },
      leave: () => shown.leave(),
    };
  },
};

/** Fill a place with one step. `args` are those of the address, and kept as it is. */
async function stepShown(place, context, captures, args) {
  const capture = Number(args.capture ?? captures.chosen);
  const base = await context.ask("timeline", { capture });
  const controller = new AbortController();
  const details = make("div", { class: "timeline-details", role: "region", "aria-label": "The slice chosen", "aria-live": "polite" });
  const said = make("span", { role: "status", class: "soft" });
  const closer = make("p", { class: "soft small", hidden: true }, CLOSER);
  const hint = make("p", { class: "hidden-text", id: "timeline-hint" }, "W and S zoom, A and D or arrows move, 0 shows the step, Enter chooses a slice, then arrows walk from slice to slice, Escape lets go. The longest slices stand in a table below.");
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
    ...headOf(context, captures, base),
    make("div", { class: "row timeline-tools" }, search.element, zoomButtons(view), said),
    make("section", { class: "card timeline-card", "aria-label": `Timeline of step ${base.step}` }, hint, view.element, closer, legendOf(base)),
    details,
    longestOf(base, (told) => {
      view.choose(told);
      picked(told);
      view.canvas.scrollIntoView({ block: "nearest" });
    }),
    perfettoCard(context, base, controller.signal),
  );
  fill(details, make("p", { class: "soft" }, "Choose a slice to see what it is: by a click, or by Enter on the timeline. Shift and drag measures."));
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
    remember({ from_ns: isStep ? null : Math.round(from_ns), to_ns: isStep ? null : Math.round(to_ns) });
    detailed(view.view());
  }

  function remember(changes) {
    Object.assign(args, changes);
    for (const [key, value] of Object.entries(args)) if (value === null || value === "") delete args[key];
    context.go(args, { keep: true });
  }

  /** Where blocks are in view, ask for what is in them. */
  async function detailed({ from_ns, to_ns }) {
    const length = to_ns - from_ns;
    const isBase = base.is_whole || length > 0.7 * (base.window.to_ns - base.window.from_ns);
    closer.hidden = !isFile || isBase;
    const { window } = found;
    const holds = window.from_ns <= Math.max(from_ns, base.whole.from_ns) && window.to_ns >= Math.min(to_ns, base.whole.to_ns);
    const isClose = found.is_whole || window.to_ns - window.from_ns <= 4 * length;
    if (isFile || (holds && isClose)) return;
    if (isBase) return put(base);
    loading?.abort();
    loading = new AbortController();
    try {
      const next = await context.ask("timeline", { capture, from_ns: Math.floor(from_ns - length / 2), to_ns: Math.ceil(to_ns + length / 2) });
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
    fill(said, range ? `${time(length)} measured, ${percent(length / base.duration_ns)} of the step` : "");
  }

  async function picked(told) {
    remember({ slice: told?.slice ?? null });
    if (!told) return fill(details, make("p", { class: "soft" }, "No slice is chosen."));
    fill(details, sliceCard(context, base, told, null, goTo));
    if (told.count > 1) return;
    try {
      const known = await context.ask("timeline-slice", { capture, slice: told.slice });
      if (args.slice === told.slice) fill(details, sliceCard(context, base, { ...told, ...known }, known, goTo));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (args.slice === told.slice) details.append(make("p", { class: "soft" }, error.message));
    }
  }

  /** Go to a slice of which only the name is known. */
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

function slicesText(number) {
  return number === 1 ? "1 slice" : `${count(number)} slices`;
}

function viewOf({ from_ns, to_ns }) {
  const [from, to] = [Number(from_ns), Number(to_ns)];
  return from_ns !== undefined && to_ns !== undefined && Number.isFinite(from) && to > from ? { from_ns: from, to_ns: to } : null;
}

function headOf(context, captures, base) {
  const where = `${base.host} ${base.label}${base.rank === null ? "" : `, rank ${base.rank}`}`;
  const work = base.work ? `${base.work.kind} ${base.work.name}` : "work unknown";
  const usual = base.usual_ns === null ? "" : `, usually ${time(base.usual_ns)} about then, when it is not recorded`;
  const goTo = (capture) => context.go({ capture });
  const alike = captures.captures.filter((each) => each.work === (base.work?.work ?? null) && each.process === base.process);
  const at = alike.findIndex((each) => each.capture === base.capture);
  const button = (to, label, text) => make("button", { type: "button", disabled: !alike[to], "aria-label": label, title: label, onclick: () => goTo(alike[to].capture) }, text);
  const notes = [
    base.is_shifted ? "Its slices were timed by another clock; the first stands where the step begins." : null,
    base.tracks_left_out ? `${count(base.tracks_left_out)} threads with fewer slices are not drawn.` : null,
    captures.captures_left_out ? `The newest ${count(captures.captures.length)} recorded steps can be chosen; ${count(captures.captures_left_out)} older ones cannot.` : null,
  ].filter(Boolean);
  return [
    make(
      "div",
      { class: "row" },
      make("h1", {}, `Timeline of step ${base.step}`),
      make(
        "div",
        { class: "row end" },
        worksChooser(captures, base, goTo),
        choose({
          label: "Step",
          value: base.capture,
          options: alike.map((each) => [each.capture, `${each.step} · ${time(each.duration_ns)} · ${slicesText(each.slices)}`]),
          onChange: (capture) => goTo(Number(capture)),
        }),
        button(at - 1, "The recorded step before", "‹"),
        button(at + 1, "The next recorded step", "›"),
      ),
    ),
    make("p", { class: "soft" }, make("bdi", {}, work), " on ", make("bdi", {}, where), `: ${time(base.duration_ns)}${usual}.`, notes.length ? ` ${notes.join(" ")}` : ""),
  ];
}

function worksChooser(captures, base, goTo) {
  const newest = new Map();
  for (const each of captures.captures) newest.set(`${each.process} ${each.work}`, each);
  if (newest.size < 2) return null;
  const told = (each) => {
    const work = captures.works.find((one) => one.work === each.work);
    const process = captures.processes[each.process];
    const rank = process.rank === null ? process.label : `rank ${process.rank}`;
    return `${work ? `${work.kind} ${work.name}`.slice(0, 60) : "work unknown"} · ${rank}`;
  };
  return choose({
    label: "Work",
    value: newest.get(`${base.process} ${base.work?.work ?? null}`)?.capture,
    options: [...newest.values()].map((each) => [each.capture, told(each)]),
    onChange: (capture) => goTo(Number(capture)),
  });
}

function zoomButtons(view) {
  const button = (label, text, act) => make("button", { type: "button", class: "icon", title: label, "aria-label": label, onclick: act }, text);
  return make(
    "div",
    { class: "row timeline-zoom", role: "group", "aria-label": "Zoom" },
    button("Zoom in (W)", "+", () => view.zoom(2)),
    button("Zoom out (S)", "−", () => view.zoom(0.5)),
    make("button", { type: "button", title: "The step alone (0)", onclick: () => view.fit() }, "Fit the step"),
    make("button", { type: "button", title: "All that was recorded", onclick: () => view.show(view.shown().found.whole) }, "All"),
  );
}

/** Search for a text: what has it stands out, Enter goes from one to the next. */
function searchBox(context, base, view, args, said, remember, goTo) {
  let hits = null;
  let at = -1;
  let asked = 0;
  const box = make("input", { type: "search", placeholder: "Search names and ops", "aria-label": "Search the timeline", value: args.find ?? "", oninput: typed, onkeydown: pressed });
  return { element: box, run };

  function typed() {
    clearTimeout(asked);
    asked = setTimeout(run, REST_MS);
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
      hits = inDrawn(view.shown().found, text);
    }
    if (box.value.trim() !== text) return;
    fill(said, `${count(hits.count)} found, ${time(hits.total_ns)} in all${hits.left_out ? `; the first ${count(hits.slices.length)} are marked` : ""}. Enter goes to the next.`);
    view.mark({ ids: new Set(hits.slices), starts: hits.start_ns });
  }

  function pressed(event) {
    if (event.key !== "Enter" || !hits?.slices.length) return;
    at = (at + (event.shiftKey ? -1 : 1) + hits.slices.length) % hits.slices.length;
    const told = { slice: hits.slices[at], row: hits.row[at], start_ns: hits.start_ns[at], duration_ns: hits.length_ns[at] };
    view.choose(told);
    goTo(told.slice);
    fill(said, `${count(at + 1)} of ${count(hits.count)}: ${time(told.duration_ns)} from ${time(told.start_ns)} on`);
  }
}

/** What of the slices that are drawn has a text: all that a file can search. */
function inDrawn(found, text) {
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

/** What the colours mean: all categories that this step has, the parts with their share of it. */
function legendOf(base) {
  const met = new Set(base.slices.category);
  const [band] = base.bands;
  const of = (category) => band?.total_ns[category.name];
  const keys = base.categories.filter((category, at) => met.has(at) || of(category));
  return make(
    "ul",
    { class: "chart-legend small", "aria-label": "Colours, and the share of the step" },
    keys.map((category) =>
      make("li", {}, swatch(categoryColour(category)), category.label, of(category) ? make("span", { class: "number soft" }, ` ${percent(of(category) / base.duration_ns)}`) : null),
    ),
  );
}

function sliceCard(context, base, told, known, goTo) {
  if (told.count > 1) {
    const busy = told.duration_ns ? `, busy ${percent(told.busy_ns / told.duration_ns)} of ${time(told.duration_ns)}` : "";
    return card(`${count(told.count)} slices too small to be seen`, make("p", {}, `From ${time(told.start_ns)} on${busy}. The longest is `, nameOf(told.name), ". Zoom in for each: Enter, or +."));
  }
  const work = base.work?.work;
  const facts = [
    ["Op", told.op && told.category.name !== "between" ? make("a", { href: context.link("ops", { work, find: told.op.slice(0, 200) }) }, nameOf(called(told.op))) : null],
    ["Counts as", [swatch(categoryColour(told.category)), told.category.label]],
    ["Takes", `${time(told.duration_ns)}, ${percent(told.duration_ns / base.duration_ns)} of the step`],
    ["From, to", `${exactTime(told.start_ns, 100)}, ${exactTime(told.start_ns + told.duration_ns, 100)} after the step began`],
    ["Thread or stream", known ? nameOf(`${known.group}, ${known.lane}`) : null],
    ["Device", known?.device ? nameOf(known.device) : null],
    ["Scope", known?.scope ? [make("a", { href: context.link("scopes", { work, at: known.scope }) }, nameOf(called(known.scope))), known.has_graph ? [" ", make("a", { href: context.link("graph", { work, at: known.scope }) }, "in the graph")] : null] : null],
    ["Bytes asked for", known?.bytes ? bytes(known.bytes) : null],
    ["Bytes of outputs", known?.output_bytes ? bytes(known.output_bytes) : null],
    ["Recorded as", known?.detail ? nameOf(known.detail) : null],
    ["Inputs", known?.inputs?.length ? known.inputs.map(tensorLine) : null],
    ["Outputs", known?.outputs?.length ? known.outputs.map(tensorLine) : null],
    ["Belongs to", known?.linked?.length ? known.linked.map((link) => make("div", {}, `${link.relation} `, make("button", { type: "button", class: "link", onclick: () => goTo(link.slice) }, nameOf(called(link.name))))) : null],
    ["Code", known?.code?.length ? known.code.slice(-3).reverse().map((frame) => make("div", {}, make("a", { href: context.link("code", { work, view: "lines", find: `${frame.file.split("/").at(-1)}:${frame.line}` }) }, nameOf(`${frame.file}:${frame.line}`)), " in ", make("code", {}, frame.function))) : null],
  ];
  return card(
    "",
    make("h2", {}, make("bdi", { class: "timeline-name" }, told.name || NOTHING)),
    make("dl", { class: "timeline-facts" }, facts.filter(([, value]) => value).map(([label, value]) => [make("dt", {}, label), make("dd", {}, value)])),
  );
}

function tensorLine({ name, shape, type }) {
  const told = shape === null ? "shape unknown" : `[${shape.map((each) => (each < 0 ? "?" : each)).join(", ")}]`;
  return make("div", {}, nameOf(name), " ", make("code", {}, `${told}${type ? ` ${type.replace(/^DT_/, "").toLowerCase()}` : ""}`));
}

function longestOf(base, open) {
  const rows = base.longest.map((each) => ({ ...each, slice: each.id, label: base.categories[each.category].label, lane: base.tracks[each.track].name }));
  const first = base.tracks.map((track, at) => base.tracks.slice(0, at).reduce((sum, each) => sum + each.rows, 0));
  return table({
    caption: "The longest slices of the step",
    csvName: `timeline-step-${base.step}`,
    rows,
    sort: "-duration_ns",
    key: (row) => row.id,
    onOpen: (row) => open({ ...row, row: first[row.track], count: 1, category: base.categories[row.category] }),
    columns: [
      { key: "name", title: "Slice" },
      { key: "duration_ns", title: "Takes", kind: "time" },
      { key: "share_ratio", title: "Of the step", kind: "ratio", bar: true },
      { key: "start_ns", title: "From", kind: "time" },
      { key: "lane", title: "Thread or stream" },
      { key: "label", title: "Counts as" },
      // What TensorFlow tells of an iterator is longer than a line; the slice itself shows it.
      { key: "op", title: "Op", value: (row) => (row.id.startsWith("r") ? row.op : "") },
    ],
  });
}

function perfettoCard(context, base, signal) {
  if (isFile) {
    return card("Perfetto", make("p", { class: "soft" }, "A file has no Perfetto: `tfprobe ui` on the run opens this step in it, and `tfprobe export RUN --to chrome` writes a file that its own site opens."));
  }
  const place = make("div", {});
  const name = `run/${context.run.split("/").map(encodeURIComponent).join("/")}/trace`;
  let open = null;
  const buttons = [
    perfettoButton("Open in Perfetto", `${name}?capture=${base.capture}`, `step ${base.step}`),
    perfettoButton("All recorded steps", name, context.run),
    make("a", { class: "button", href: `/api/${name}?capture=${base.capture}`, download: `step-${base.step}.json` }, "Download the trace"),
  ];
  return card(
    "Perfetto",
    make("p", { class: "soft" }, `Perfetto is served from this machine and asks nobody else. The trace of this step has ${slicesText(base.total)}, about ${bytes(base.trace_bytes)}; it goes from the server to this browser, and is not kept. The file that is downloaded opens in Perfetto's own site and in chrome://tracing, too.`),
    make("div", { class: "row" }, buttons),
    place,
  );

  function perfettoButton(label, trace, title) {
    return make("button", { type: "button", onclick: () => begin(trace, title) }, label);
  }

  function begin(trace, title) {
    open?.close();
    open = perfettoIn(place, { name: trace, title, signal });
    place.scrollIntoView({ block: "start" });
  }
}
