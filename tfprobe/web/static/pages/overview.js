// The overview: the answer first. What needs no traced step is shown at once; the rest follows when
// it is read.
import { accountCard } from "../parts/account.js";
import { bytes, count, digits, large, percent, plainNumber, time } from "../parts/amounts.js";
import { causesList, formatAnswer, groupsBar, groupsTable } from "../parts/answer.js";
import { badge, called, card, figures, keyFigure, missing, nameOf } from "../parts/controls.js";
import { ApiError } from "../parts/data.js";
import { fill, make, refill } from "../parts/elements.js";
import { shortFinding } from "../parts/finding.js";
import { lines } from "../parts/lines.js";
import { withCode } from "../parts/sentences.js";
import { formatBuckets, formatOutliers, formatTrend, stepCurve } from "../parts/stepcurve.js";
import { table } from "../parts/table.js";

const SHOWN_MACHINES = 4;
const SHOWN_PROBLEMS = 10;
// A running job makes steps all the time; what is computed from its captures is expensive and
// changes slowly.
const OVERVIEW_REST_MS = 10_000;

export const overviewPage = {
  name: "overview",
  title: "Overview",
  async show(place, context) {
    const parts = overviewParts();
    place.append(
      parts.head,
      parts.account,
      parts.answer,
      parts.findings,
      parts.figures,
      parts.steps,
      parts.tiers,
      parts.processes,
      parts.problems,
    );
    overviewEarly(parts, await context.ask("overview"), context);
    // The page is already shown; these take as long as reading the captures.
    let since = 0;
    const rest = () => {
      since = performance.now();
      return overviewRest(parts, context);
    };
    return {
      shown: rest,
      async update() {
        overviewEarly(parts, await context.ask("overview"), context);
        if (performance.now() - since > OVERVIEW_REST_MS) await rest();
      },
    };
  },
};

function overviewParts() {
  const names = [
    "head",
    "account",
    "answer",
    "figures",
    "findings",
    "steps",
    "tiers",
    "processes",
    "problems",
  ];
  const parts = Object.fromEntries(
    names.map((name) => [name, make("div", { class: `overview-${name}` })]),
  );
  for (const name of ["account", "answer", "findings"]) parts[name].append(overviewWaits(name));
  parts.framework = make("div", {}, overviewWaits("ops"));
  return parts;
}

function overviewWaits(name) {
  const what = {
    account: "Where the time went",
    answer: "Where a step goes",
    findings: "What to change",
    ops: "Framework",
  }[name];
  return card(what, make("p", { class: "wait", role: "status" }, "Reading the traced steps …"));
}

async function overviewRest(parts, { ask, link, signal }) {
  await overviewPart(
    parts.answer,
    signal,
    async () => {
      const found = await ask("shares");
      fill(parts.problems, overviewProblems(found));
      fill(parts.framework, overviewFramework(found, link));
      refill(parts.account, accountCard(found.account));
      return overviewAnswer(found);
    },
    () => {
      fill(parts.framework);
      fill(parts.account);
    },
  );
  await overviewPart(parts.findings, signal, async () =>
    overviewFindings(await ask("findings"), link),
  );
}

/** Put the result of `make` into its place, or the reason why it failed. */
async function overviewPart(place, signal, make_, failed = () => {}) {
  try {
    const made = await make_();
    if (!signal.aborted) refill(place, made);
  } catch (error) {
    if (signal.aborted) return;
    failed();
    fill(
      place,
      make(
        "p",
        { class: "trouble", role: "alert" },
        error instanceof ApiError ? error.message : `This part failed: ${error.message}`,
      ),
    );
    if (!(error instanceof ApiError)) throw error;
  }
}

function overviewEarly(parts, found, context) {
  refill(parts.head, overviewHead(found));
  refill(parts.figures, overviewFigures(found));
  overviewSteps(parts, found.main, context);
  refill(parts.tiers, overviewTiers(parts, found));
  refill(parts.processes, overviewProcesses(found, context));
}

function overviewHead(found) {
  const { run } = found;
  const state = formatState(run);
  return [
    make(
      "div",
      { class: "row" },
      make("h1", {}, "Overview"),
      make("span", { class: "mono soft" }, nameOf(run.directory)),
    ),
    state ? make("p", {}, badge(run.state), " ", make("bdi", {}, state)) : null,
    found.silences.map((text) => make("p", { class: "notice" }, make("bdi", {}, text))),
  ];
}

function formatState(run) {
  return run.state_words === run.state ? "" : `${run.state_words}.`;
}

function overviewAnswer(found) {
  const breakdown = found.breakdown;
  if (breakdown.missing) {
    return card(
      "Where a step goes",
      make("p", {}, `Not known: ${breakdown.missing}.`),
      make(
        "p",
        { class: "soft" },
        "Only a traced step shows what its time is spent on (`tfprobe run`, or `tfprobe capture` on a running job). The step times below need no trace.",
      ),
    );
  }
  const steps =
    breakdown.captures === 1 ? "1 traced step" : `${count(breakdown.captures)} traced steps`;
  const of =
    breakdown.works > 1
      ? ` of ${count(breakdown.works)} kinds of step, weighted by their time`
      : "";
  const box = card(
    "Where a step goes",
    make("p", { class: "answer" }, formatAnswer(breakdown.answer)),
  );
  groupsBar(box, breakdown.groups);
  const causes = breakdown.causes.length
    ? make("div", {}, make("h3", {}, "Of these"), causesList(breakdown.causes))
    : null;
  box.append(
    make(
      "div",
      { class: "columns" },
      make("div", {}, groupsTable(breakdown.groups, breakdown.cycle_ns)),
      causes ?? "",
    ),
    make(
      "p",
      { class: "soft small" },
      `Shares of the time from one step to the next, from ${steps}${of}. All such time together is ${time(breakdown.total_ns)}${breakdown.cycle_ns ? `; a recorded cycle takes ${time(breakdown.cycle_ns)}` : ""}.`,
    ),
  );
  return box;
}

function overviewFindings(found, link) {
  const shown = found.top.map((at) => found.findings[at]);
  const left = found.findings.length - shown.length;
  const more = left
    ? make(
        "p",
        {},
        make(
          "a",
          { href: link("findings") },
          shown.length
            ? `${count(left)} more ${left === 1 ? "finding" : "findings"}`
            : `${count(left)} small ${left === 1 ? "finding" : "findings"}`,
        ),
      )
    : null;
  const none = shown.length
    ? null
    : make(
        "p",
        {},
        found.missing ? `Not known: ${found.missing}.` : "No significant optimization was found.",
      );
  return card(
    "What to change",
    none,
    make(
      "div",
      { class: "columns" },
      shown.map((each) => shortFinding(each, link)),
    ),
    more,
  );
}

const FRAMEWORKS = { tensorflow: "TensorFlow", jax: "JAX", torch: "PyTorch" };

/** The framework that runs the steps, or else the first that the processes have imported. */
function frameworkOf(found) {
  const has = (name) => found.processes.some((each) => each[name]);
  return found.main.framework ?? Object.keys(FRAMEWORKS).find(has) ?? "tensorflow";
}

function overviewFigures(found) {
  const { main, overhead } = found;
  const about = main.error_ratio ? "~" : "";
  const why = main.missing?.p50_ns ?? (typeof main.missing === "string" ? main.missing : "");
  const timed = (value) =>
    value === null || value === undefined ? missing(why) : `${about}${time(value)}`;
  const of = (name) => found.processes.map((each) => each[name]).filter(Boolean);
  const framework = frameworkOf(found);
  const builds = of(framework);
  // Of a PyTorch 2.14.1+cu130, the rest has no room here; the table of processes has it.
  const versions = builds.map((build) => build.split("+")[0]);
  const pythons = of("python");
  const rate = main.steps_per_s;
  const hosts = [...new Set(found.processes.map((each) => each.host))];
  return figures(
    keyFigure(
      "Steps",
      count(found.steps),
      main.raised
        ? `${count(main.raised)} raised`
        : nameOf(main.kind ? `mostly ${main.kind} ${main.name}` : ""),
    ),
    keyFigure(
      "Steps a second",
      Number.isFinite(rate) ? large(rate) : missing(why || main.missing?.steps_per_s),
      Number.isFinite(rate) ? "of late" : "",
    ),
    keyFigure(
      "Median step",
      timed(main.p50_ns),
      Number.isFinite(main.mean_ns) ? `mean ${time(main.mean_ns)}` : "",
    ),
    keyFigure(
      "p95",
      timed(main.p95_ns),
      Number.isFinite(main.max_ns) ? `longest ${time(main.max_ns)}` : "",
    ),
    keyFigure("Traced steps", count(found.sampled), found.sampled ? "" : "none was traced"),
    keyFigure(
      "Cost of recording",
      overhead.missing ? missing(overhead.missing) : percent(overhead.fraction),
      overhead.missing ? "" : `of ${time(overhead.wall_ns)}`,
    ),
    keyFigure(
      "Processes",
      count(found.processes_in_all),
      nameOf(hosts.length > 1 ? `on ${count(hosts.length)} hosts` : (hosts[0] ?? "")),
    ),
    keyFigure(
      FRAMEWORKS[framework],
      versions.length
        ? nameOf([...new Set(versions)].join(", "), { title: [...new Set(builds)].join(", ") })
        : missing(found.processes[0]?.missing?.tensorflow ?? "no process was recorded"),
      pythons.length ? nameOf(`Python ${[...new Set(pythons)].join(", ")}`) : "",
    ),
  );
}

function overviewSteps(parts, main, context) {
  if (!main.series) {
    fill(parts.steps, card("Step time over time", make("p", {}, `Not known: ${main.missing}.`)));
    return;
  }
  if (parts.curve?.work === main.work) parts.curve.chart.refresh(main);
  else overviewCurveOf(parts, main, context);
  fill(parts.curve.summary, stepSummary(main, context.link));
}

function overviewCurveOf(parts, main, { go }) {
  const box = card("Step time over time");
  const summary = make("div", {});
  fill(parts.steps, box);
  const chart = stepCurve(box, main, {
    onPick: (step) => go({ work: main.work, step }, { page: "steps" }),
  });
  box.append(summary);
  parts.curve = { work: main.work, chart, summary };
}

function stepSummary(main, link) {
  const ofLast = main.is_whole ? "" : " the last";
  const texts = [
    formatOutliers(main.slow_steps, "Slow steps", ofLast),
    main.long_gaps.count ? formatOutliers(main.long_gaps, "Long gaps", ofLast) : "",
    formatTrend(main.trend),
    formatBuckets(main.series),
  ];
  return [
    make(
      "p",
      { class: "soft small" },
      nameOf(`${main.kind} ${main.name}`),
      main.is_whole
        ? ""
        : `: the last ${count(main.series.end_step - main.series.first_step)} of ${count(main.count)} steps are kept.`,
    ),
    texts.filter(Boolean).map((text) => make("p", {}, text)),
    make("p", {}, make("a", { href: link("steps", { work: main.work }) }, "More about steps")),
  ];
}

function overviewTiers(parts, found) {
  return make("div", { class: "columns" }, parts.framework, overviewMachines(found.hardware));
}

function overviewFramework(found, link) {
  const framework = found.framework;
  if (framework.missing)
    return card(
      "Framework",
      make("p", {}, `Not known: ${framework.missing}.`),
      overviewRuntime(found.runtime),
    );
  const rows = framework.types.map((each) => [
    make("a", { href: link("ops", { find: each.type }), class: "cut" }, nameOf(called(each.type))),
    count(each.count),
    time(each.total_ns),
    percent(each.share_ratio),
  ]);
  const more = framework.types_in_all - framework.types.length;
  return card(
    "Framework",
    factsTable(["op", "count", "time", "share"], rows),
    make(
      "p",
      {},
      make("a", { href: link("ops") }, more > 0 ? `and ${count(more)} more types` : "All ops"),
    ),
    overviewRuntime(found.runtime),
  );
}

function overviewRuntime(found) {
  if (found.missing) return make("p", { class: "soft small" }, `Runtime: ${found.missing}.`);
  return [
    make("h3", {}, "Runtime"),
    factsTable(
      ["call", "count", "time"],
      found.calls.map((each) => [nameOf(each.name), count(each.count), time(each.total_ns)]),
    ),
  ];
}

function overviewMachines(found) {
  const box = card("Hardware");
  if (found.processes_missing)
    box.append(make("p", {}, `Host memory is unknown: ${found.processes_missing}.`));
  for (const each of found.processes.slice(0, SHOWN_MACHINES)) overviewMachine(box, each);
  if (found.processes.length > SHOWN_MACHINES)
    box.append(
      make(
        "p",
        { class: "soft" },
        `and ${count(found.processes.length - SHOWN_MACHINES)} more processes: see Processes.`,
      ),
    );
  for (const each of found.devices.slice(0, SHOWN_MACHINES)) overviewDevice(box, each);
  if (found.devices_missing)
    box.append(make("p", { class: "soft small" }, `Accelerators: ${found.devices_missing}.`));
  return box;
}

function overviewMachine(box, each) {
  const cores = each.cores_busy;
  const memory = each.resident_bytes;
  const of = each.usable_cpus === null ? "" : ` of ${plainNumber(each.usable_cpus)}`;
  const facts = [
    cores ? `${digits(cores.mean)}${of} CPUs busy` : null,
    each.peak_resident_bytes ? `${bytes(each.peak_resident_bytes)} at most` : null,
    each.throttled_ratio ? `throttled ${percent(each.throttled_ratio)} of the time` : null,
  ].filter(Boolean);
  box.append(
    make(
      "p",
      {},
      nameOf(each.rank === null ? each.label : `rank ${each.rank}`),
      facts.length ? `: ${facts.join(", ")}` : ": nothing was sampled",
    ),
  );
  overviewCurve(box, `CPUs busy of ${each.label}`, [
    ["CPUs busy", "number", cores, "series-1"],
    ["memory", "bytes", memory, "series-4"],
  ]);
}

function overviewDevice(box, each) {
  box.append(
    make(
      "p",
      {},
      nameOf(`${each.name} ${each.index}`),
      each.memory_used_bytes
        ? `: ${bytes(each.memory_used_bytes.max)} of ${bytes(each.memory_total_bytes)} at most`
        : "",
    ),
  );
  overviewCurve(box, `Use of accelerator ${each.index}`, [
    ["busy", "ratio", each.utilization_ratio, "series-3"],
    ["memory", "bytes", each.memory_used_bytes, "series-4"],
  ]);
}

/** Draw amounts over time that were sampled at the same moments, or nearly. */
function overviewCurve(box, label, amounts) {
  const known = amounts.filter(([, , curve]) => curve && curve.values.length > 1);
  if (!known.length) return;
  const moments = [...new Set(known.flatMap(([, , curve]) => curve.at_unix_ns))].sort(
    (one, other) => one - other,
  );
  const series = known.map(([name, kind, curve, colour]) => {
    const at = new Map(curve.at_unix_ns.map((moment, place) => [moment, curve.values[place]]));
    return { name, kind, colour, values: moments.map((moment) => at.get(moment) ?? null) };
  });
  const since = moments.map((moment) => moment - moments[0]);
  lines(box, {
    label,
    height: 150,
    csvName: "machine",
    x: { title: "since the first sample", kind: "time", values: since },
    series,
  });
}

function overviewProcesses(found, { link }) {
  if (!found.processes.length) return null;
  const reasonOf = (name) => (row) => row.missing?.[name];
  const framework = frameworkOf(found);
  return table({
    caption: "Processes",
    rows: found.processes,
    of: found.processes_in_all,
    search: found.processes.length > 8,
    csvName: "processes",
    href: () => link("processes"),
    columns: [
      {
        key: "label",
        title: "Process",
        value: (row) =>
          row.rank === null
            ? `${row.host} ${row.label}`
            : `${row.role ?? "rank"} ${row.rank}, ${row.host} ${row.label}`,
      },
      {
        key: "state",
        title: "State",
        cell: (row) =>
          make(
            "span",
            {},
            badge(row.state),
            row.state_words === row.state
              ? null
              : make("bdi", { class: "soft small" }, ` ${row.state_words}`),
          ),
      },
      { key: "steps", title: "Steps", kind: "count" },
      { key: "steps_ns", title: "In steps", kind: "time", bar: true },
      { key: "captures", title: "Sampled", kind: "count" },
      {
        key: "overhead_ratio",
        title: "Recording",
        kind: "ratio",
        missing: reasonOf("overhead_ratio"),
      },
      { key: framework, title: FRAMEWORKS[framework], missing: reasonOf(framework) },
      { key: "python", title: "Python", missing: reasonOf("python") },
    ],
  });
}

function overviewProblems(found) {
  if (!found.problems_in_all) return null;
  const left = found.problems_in_all - Math.min(found.problems.length, SHOWN_PROBLEMS);
  return card(
    "Problems of the recording",
    make(
      "ul",
      { class: "plain-list" },
      found.problems
        .slice(0, SHOWN_PROBLEMS)
        .map((each) =>
          make(
            "li",
            {},
            make("bdi", { class: "mono" }, each.where),
            " ",
            make("bdi", {}, each.what),
          ),
        ),
    ),
    left > 0
      ? make("p", {}, withCode(`and ${count(left)} more; \`tfprobe report --json\` has all.`))
      : null,
  );
}

function factsTable(headings, rows) {
  return make(
    "table",
    { class: "facts-table" },
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        headings.map((each, at) =>
          make("th", { scope: "col", class: at ? "numeric" : null }, each),
        ),
      ),
    ),
    make(
      "tbody",
      {},
      rows.map((row) =>
        make(
          "tr",
          {},
          row.map((cell, at) =>
            make(at ? "td" : "th", at ? { class: "numeric" } : { scope: "row" }, cell),
          ),
        ),
      ),
    ),
  );
}
