// The cost of code: calls by line, files and lines, and the source next to its costs.
import { count, percent, plainNumber, time } from "../parts/amounts.js";
import { heat } from "../parts/colours.js";
import { badge, choose, nameOf, tabs, workChooser } from "../parts/controls.js";
import {
  breadcrumbs,
  costColumns,
  costFlame,
  costOfWhole,
  costTable,
  METRICS,
  metricChooser,
  placesTree,
  rowsBelow,
  showing,
  unknownCosts,
} from "../parts/costs.js";
import { ApiError, isFile } from "../parts/data.js";
import { fill, make } from "../parts/elements.js";
import { table } from "../parts/table.js";

// How many lines the document of a source contains around one.
const SOURCE_STEP = 600;

export const codePage = {
  name: "code",
  title: "Code",
  show(place, context) {
    const tree = make("div", { class: "page" });
    const source = make("div");
    return showing(place, context, {
      title: "Code",
      question: (args) => [codeQuestion(args), args.view, args.sort, args.shape],
      load: (args) => askCode(context, args),
      draw: async (found, args, go, { isNew }) => {
        // Selecting a line leaves the rest unchanged.
        if (isNew) showCode(tree, found, context, args, go);
        fill(place, tree, source);
        await showSource(source, context, {
          ...args,
          file: codeFile(found.found.files, args.file),
        });
      },
      seen: () => seeLine(source),
    });
  },
};

/** Links from elsewhere name a file by its path: find its number; "" if no op was created in it. */
function codeFile(files, named) {
  if (named === undefined || /^\d*$/.test(named)) return named;
  const found = files.find((each) => each.path === named);
  return found ? String(found.file) : "";
}

// Going elsewhere closes the open source.
const codeClosed = { find: "", file: "", line: "" };

function codeQuestion({ work, frames, metric, at }) {
  return {
    work,
    frames: frames === "job" ? frames : "",
    metric: metric === "time" ? "" : metric,
    at: at === "0" ? "" : at,
  };
}

async function askCode(context, args) {
  const question = codeQuestion(args);
  try {
    const found = await context.ask("code", question);
    return { found, root: found.nothing ? null : codeTree(found) };
  } catch (error) {
    if (!isFile || !question.at || !(error instanceof ApiError)) throw error;
    const found = await context.ask("code", { ...question, at: "" });
    const left = [codeTree(found)];
    while (left.length) {
      const node = left.pop();
      if (String(node.number) === String(question.at)) return { found, root: node };
      left.push(...node.children);
    }
    throw error;
  }
}

function codeTree(found) {
  const { places } = found;
  return placesTree(places, found.metric, (index) => ({
    name: places.number[index] === 0 ? "all code" : places.name[index],
    number: places.number[index],
    file: places.file[index],
    line: places.line[index],
  }));
}

function showCode(place, { found, root }, context, args, go) {
  const metric = METRICS[found.metric];
  const options = [
    ["calls", "Calls"],
    ["lines", "Lines"],
    ["files", "Files"],
  ];
  fill(
    place,
    make(
      "div",
      { class: "row" },
      make("h1", {}, "Code"),
      workChooser(context, found.works, found.work),
      choose({
        label: "Frames",
        options: [
          ["all", "of the job and libraries"],
          ["job", "of the job alone"],
        ],
        value: found.frames,
        onChange: (frames) => go({ frames: frames === "all" ? "" : frames, at: "", ...codeClosed }),
      }),
      metricChooser(found, (chosen) => go({ metric: chosen === "time" ? "" : chosen })),
    ),
    make(
      "p",
      { class: "soft" },
      "Ops by the lines of Python that created them when the graph was built: not the time of Python itself.",
    ),
    tabs({
      label: "Views",
      options,
      value: args.view ?? "calls",
      onChange: (view) => go({ view: view === "calls" ? "" : view }, { keep: true }),
      show: (view, panel) => {
        panel.classList.add("page");
        if (view === "calls") codeCalls(panel, found, root, metric, context, args, go);
        else codeTable(panel, found, view, context, args, go);
      },
    }),
    found.unplaced_ns
      ? make(
          "p",
          { class: "soft" },
          `Not in this view: ${time(found.unplaced_ns)} of ops without a known line.`,
        )
      : null,
    unknownCosts(found),
  );
}

function codeCalls(panel, found, root, metric, context, args, go) {
  const { places } = found;
  const here = root.number;
  const open = (node) => node.number !== here && go({ at: node.number || "", ...codeClosed });
  const source = (row) =>
    row.file === null ? null : context.link("code", { ...args, file: row.file, line: row.line });
  const drawing = make("section", { class: "card" });
  panel.append(
    make(
      "div",
      { class: "row" },
      breadcrumbs(codeSteps(found, root, args), (to) => context.link("code", to)),
      make(
        "span",
        { class: "soft number" },
        costOfWhole(root.value, found.whole[metric.column], metric.kind),
      ),
      root.file === null
        ? null
        : make("span", { class: "end" }, make("a", { href: source(root) }, "Its source")),
    ),
    drawing,
    ...costTable({
      found,
      rows: rowsBelow(places, root),
      caption: "Called directly",
      csvName: "calls",
      args,
      go,
      top: root,
      first: {
        key: "name",
        title: "Line",
        cell: (row) =>
          make(
            "span",
            { class: "op-name" },
            make(
              "a",
              {
                class: "cut",
                href: context.link("code", { ...args, at: row.number, ...codeClosed }),
              },
              nameOf(row.name),
            ),
            source(row)
              ? make(
                  "a",
                  { class: "small", href: source(row), "aria-label": `Source of ${row.name}` },
                  "source",
                )
              : null,
          ),
      },
    }).filter(Boolean),
  );
  costFlame(drawing, root, {
    label: `${metric.title} of code`,
    metric: found.metric,
    args,
    go,
    onOpen: open,
    onWhole: () => here && go({ at: "", ...codeClosed }),
    tip: (node) =>
      node.within
        ? []
        : [
            ["own time", time(places.own_time_ns[node.index])],
            ["runs", plainNumber(places.runs[node.index])],
          ],
  });
}

function codeSteps(found, root, args) {
  const above =
    found.at === root.number
      ? found.above
      : [
          { number: 0, name: "" },
          { number: root.number, name: root.name },
        ];
  return above.map((each) => [
    each.number ? each.name : "all code",
    { ...args, at: each.number || "", ...codeClosed },
  ]);
}

function codeTable(panel, found, view, context, args, go) {
  const ofFiles = view === "files";
  const rows = ofFiles ? found.files : found.lines;
  const named = ofFiles
    ? { key: "path", title: "File", cell: (row) => codePath(row.path) }
    : {
        key: "path",
        title: "Line",
        value: (row) => `${row.path}:${row.line}`,
        cell: (row) => codePath(`${row.path}:${row.line}`),
      };
  const columns = [
    named,
    ...costColumns(found, {
      whole_ns: found.whole.time_ns,
      accelerator: Boolean(found.whole.accelerator_ns),
    }),
  ];
  if (ofFiles)
    columns.push(
      { key: "lines", title: "Lines", kind: "count" },
      {
        key: "is_library",
        title: "Of",
        value: (row) => (row.is_library ? "a library" : "the job"),
      },
    );
  else columns.push({ key: "function", title: "Function" });
  panel.append(
    table({
      caption: ofFiles ? "Files" : "Lines",
      csvName: ofFiles ? "files" : "lines",
      rows,
      of: rows.length + (ofFiles ? found.more_files : found.more_lines),
      sort: args.sort ?? "-own_time_ns",
      filter: args.find ?? "",
      onSort: (sort) => go({ sort: sort === "-own_time_ns" ? "" : sort }, { keep: true }),
      onFilter: (find) => go({ find }, { keep: true }),
      href: (row) =>
        context.link("code", { ...args, file: row.file, line: ofFiles ? "" : row.line }),
      columns,
      none: "No line is known.",
    }),
    make(
      "p",
      { class: "soft small" },
      "Own covers what a line of the job created, directly or through libraries; a library has its own costs only where no line of the job called it.",
    ),
  );
}

/** A path, for an installed package from its name on; in full in its title. */
export function codePath(path) {
  return make(
    "bdi",
    { class: "cut mono", title: path },
    path.replace(/^.*\/(?:site|dist)-packages\//, "…/"),
  );
}

async function showSource(place, context, args) {
  if (args.file === undefined || args.file === "") return fill(place);
  let found;
  try {
    found = await askSource(context, args);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return fill(
      place,
      make(
        "section",
        { class: "card" },
        make("h2", {}, "Source"),
        make("p", { class: "trouble" }, error.message),
      ),
    );
  }
  const chosen = Number(args.line) || null;
  return fill(place, sourceCard(found, chosen, context, args));
}

async function askSource(context, { work, file, line }) {
  const question = { work, file: file === "0" ? "" : file };
  const found = await context.ask("source", question);
  const wanted = Number(line) || 0;
  const last = found.first_line + found.lines.length - 1;
  if (
    !found.lines.length ||
    !wanted ||
    (wanted >= found.first_line && wanted <= last) ||
    wanted > found.line_count
  )
    return found;
  return context.ask("source", { ...question, line: wanted });
}

function sourceCard(found, chosen, context, args) {
  const last = found.first_line + found.lines.length - 1;
  const toLine = (line, text) =>
    make("a", { class: "button", href: context.link("code", { ...args, line }) }, text);
  return make(
    "section",
    { class: "card source", "aria-labelledby": "source-title" },
    make(
      "div",
      { class: "row" },
      make("h2", { id: "source-title" }, codePath(found.path)),
      found.is_changed ? badge("warning", "changed since the job started") : null,
      make(
        "span",
        { class: "end row" },
        found.first_line > 1
          ? toLine(Math.max(1, found.first_line - SOURCE_STEP / 2), "Earlier lines")
          : null,
        found.lines.length && last < found.line_count
          ? toLine(Math.min(found.line_count, last + SOURCE_STEP / 2), "Later lines")
          : null,
        make(
          "a",
          { class: "button", href: context.link("code", { ...args, file: "", line: "" }) },
          "Close",
        ),
      ),
    ),
    found.unreadable
      ? make("p", { class: "soft" }, `The source cannot be shown: ${found.unreadable}.`)
      : null,
    found.lines.length ? sourceLines(found, chosen) : sourceCosts(found, chosen),
  );
}

function sourceLines(found, chosen) {
  const costs = new Map(found.costs.map((each) => [each.line, each]));
  const most = Math.max(...found.costs.map((each) => each.time_ns), 1);
  const seen = chosen ?? found.dearest_line;
  const rows = found.lines.map((text, at) => {
    const line = found.first_line + at;
    const cost = costs.get(line);
    const ran = cost?.runs;
    const title =
      cost &&
      `${time(cost.time_ns)}, ${percent(cost.time_ns / found.whole.time_ns)} of all ops; ${time(cost.own_time_ns)} its own`;
    return make(
      "tr",
      { "data-line": line, "data-chosen": line === chosen, "data-seen": line === seen },
      make(
        "td",
        {
          class: "cost",
          title: title,
          style: ran ? { background: heat(0.1 + (0.4 * cost.time_ns) / most) } : {},
        },
        ran ? time(cost.time_ns) : "",
      ),
      make("td", { class: "cost" }, cost?.own_time_ns ? time(cost.own_time_ns) : ""),
      make("th", { scope: "row" }, String(line)),
      make("td", { class: "text" }, make("code", {}, make("bdi", {}, text))),
    );
  });
  const heading = make(
    "tr",
    {},
    make(
      "th",
      { scope: "col", title: "of ops created by it and what it called, in a mean step" },
      "Time",
    ),
    make("th", { scope: "col", title: "of ops that it created itself" }, "Own"),
    make("th", { scope: "col" }, "Line"),
    make("th", { scope: "col" }, `Source, ${count(found.line_count)} lines`),
  );
  return make(
    "div",
    { class: "source-lines", role: "region", tabindex: "0", "aria-label": "Source with costs" },
    make("table", {}, make("thead", {}, heading), make("tbody", {}, rows)),
  );
}

/** Without the source, its lines still have their costs. */
function sourceCosts(found, chosen) {
  return table({
    caption: "Lines of this file",
    csvName: "lines-of-file",
    rows: found.costs,
    sort: "line",
    key: (row) => row.line,
    chosen,
    columns: [
      { key: "line", title: "Line", kind: "count" },
      { key: "function", title: "Function" },
      ...costColumns(found, { whole_ns: found.whole.time_ns, accelerator: false }),
    ],
  });
}

function seeLine(place) {
  const region = place.querySelector(".source-lines");
  const row = region?.querySelector("tr[data-seen]");
  if (!row) return;
  region.scrollTop = Math.max(0, row.offsetTop - region.clientHeight / 2);
  if (row.dataset.chosen !== undefined) region.scrollIntoView({ block: "nearest" });
}
