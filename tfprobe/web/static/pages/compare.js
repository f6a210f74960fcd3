// Compare this run with another of the directory: what changed, and whether it is significant.
import { bytes, count, signedPercent, time } from "../parts/amounts.js";
import { stack } from "../parts/charts.js";
import { partColour } from "../parts/colours.js";
import { badge, card, choose, missing, nameOf } from "../parts/controls.js";
import { ApiError, ask, isFile } from "../parts/data.js";
import { make } from "../parts/elements.js";
import { withCode } from "../parts/sentences.js";
import { table } from "../parts/table.js";

export const comparePage = {
  name: "compare",
  title: "Compare",
  async show(place, context) {
    const other = context.args.with;
    const head = make("div", { class: "row" }, make("h1", {}, "Compare"));
    place.append(head);
    if (isFile)
      return compareSays(
        place,
        "This file contains a single run. `tfprobe ui` compares two runs of a directory, `tfprobe diff A B` does so in a terminal.",
      );
    head.append(await compareChooser(context, other));
    if (!other) return compareSays(place, "Choose another run to compare this one with.");
    try {
      const found = await context.ask("compare", { with: other });
      if (found.missing) return compareSays(place, `They cannot be compared: ${found.missing}.`);
      compareShow(place, found, context);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      compareSays(place, error.message, "trouble");
    }
    return {};
  },
};

function compareSays(place, sentence, className = "soft") {
  place.append(make("p", { class: className }, sentence));
  return {};
}

async function compareChooser(context, other) {
  const { runs } = await ask("runs", {}, { signal: context.signal });
  const others = runs.filter((run) => run.id !== context.run);
  if (!others.length)
    return make("span", { class: "soft" }, "There is no other run in this directory.");
  const named = (run) => [run.id, [run.id, run.command].filter(Boolean).join(" · ").slice(0, 120)];
  const unknown =
    other && !others.some((run) => run.id === other) ? [[other, other.slice(0, 120)]] : [];
  return choose({
    label: "with",
    value: other ?? "",
    options: [["", "another run …"], ...unknown, ...others.map(named)],
    onChange: (chosen) => context.go({ with: chosen }),
  });
}

function compareShow(place, found, { link }) {
  place.append(compareSummary(found), compareDifferences(found));
  for (const work of found.works) place.append(...compareWork(work, found));
  if (found.works_in_all > found.works.length)
    place.append(
      make(
        "p",
        {},
        withCode(
          `and ${count(found.works_in_all - found.works.length)} more kinds of step; \`tfprobe diff --json\` has all.`,
        ),
      ),
    );
  place.append(compareMemory(found));
  for (const [label, names] of [
    ["Only in A", found.only_a],
    ["Only in B", found.only_b],
  ]) {
    if (names.length)
      place.append(
        card(
          label,
          make(
            "ul",
            {},
            names.map((each) => make("li", {}, nameOf(`${each.kind} ${each.name}`))),
          ),
        ),
      );
  }
  place.append(
    make("p", { class: "small" }, make("a", { href: link("overview") }, "Overview of A")),
  );
}

function compareSummary(found) {
  const run = (name, each) =>
    make(
      "p",
      {},
      make("b", {}, `${name} `),
      nameOf(each.command ?? each.id),
      " ",
      make("span", { class: "mono soft" }, nameOf(each.id)),
    );
  const verdict = found.is_significant
    ? "Step times changed, by more than the variation within each recording."
    : "No step time changed by more than each recording scatters.";
  const load = found.load
    ? make(
        "p",
        { class: "notice" },
        `The machine was busy (load ${found.load}): medians and means reflect other programs as much as the job. Only fast steps are compared.`,
      )
    : null;
  return card(
    "",
    make("p", { class: "answer" }, verdict),
    run("A", found.a),
    run("B", found.b),
    load,
  );
}

function compareDifferences(found) {
  if (!found.differences.length) return "";
  return table({
    caption: "Other differences",
    rows: found.differences,
    search: false,
    columns: [
      { key: "of", title: "Of" },
      { key: "a", title: "A" },
      { key: "b", title: "B" },
    ],
  });
}

function compareWork(work, found) {
  const name = `${work.kind} ${work.name}`;
  const rank = work.rank === null ? "" : `, rank ${work.rank}`;
  const renamed = work.name === work.name_b ? "" : ` (in B: ${work.name_b})`;
  const parts = card("Where a step goes");
  if (work.breakdown.missing)
    parts.append(make("p", { class: "soft" }, `Not compared: ${work.breakdown.missing}.`));
  else compareParts(parts, work.breakdown);
  const elements = [
    make("h2", {}, nameOf(`${name}${rank}${renamed}`)),
    compareMeasures(work, found),
    compareCause(work),
    parts,
  ];
  if (work.ops.missing)
    return [
      ...elements,
      make("p", { class: "soft" }, `Ops are not compared: ${work.ops.missing}.`),
    ];
  const { ops } = work;
  const steps = `${count(ops.sampled_steps_a)} and ${count(ops.sampled_steps_b)} traced steps`;
  const caption = (what) => `${what}, in a step (${steps})`;
  elements.push(
    compareCosts(caption("Ops that changed most"), ops.types, "Op"),
    compareCosts(caption("Scopes that changed most"), ops.scopes, "Scope"),
  );
  if (!ops.is_enough)
    elements.push(
      make("p", { class: "soft" }, "Too few steps were traced to test for significance."),
    );
  for (const [label, names] of [
    ["Ops only in A", ops.gone],
    ["Ops only in B", ops.new],
  ]) {
    if (names.length) elements.push(make("p", {}, `${label}: `, make("bdi", {}, names.join(", "))));
  }
  return elements;
}

function compareCause(work) {
  return work.cause ? make("p", { class: "notice" }, work.cause) : "";
}

function compareMeasures(work, found) {
  const known = work.measures.find((each) => !each.missing);
  const confidence = known
    ? `${Number((100 * known.confidence).toPrecision(4))} % interval`
    : "Interval";
  return table({
    caption: `Step times of ${count(work.count_a)} and ${count(work.count_b)} steps`,
    rows: work.measures,
    search: false,
    csvName: "step-times",
    columns: [
      { key: "label", title: "" },
      { key: "a_ns", title: "A", kind: "time", missing: (row) => row.missing },
      { key: "b_ns", title: "B", kind: "time", missing: (row) => row.missing },
      { key: "change_ratio", title: "Change", kind: "ratio", cell: compareChange },
      {
        key: "low_ratio",
        title: confidence,
        kind: "ratio",
        cell: (row) =>
          row.missing
            ? missing(row.missing)
            : `${signedPercent(row.low_ratio)} to ${signedPercent(row.high_ratio)}`,
      },
      {
        key: "is_significant",
        title: "",
        cell: (row) => compareVerdict(row, found.judged.includes(row.measure)),
      },
    ],
  });
}

function compareParts(box, parts) {
  stack(box, {
    label: "Parts of a step's cycle in A and in B",
    wholes: false,
    bars: [
      ["A", "mean_a_ns"],
      ["B", "mean_b_ns"],
    ].map(([name, key]) => ({
      name,
      parts: parts.map((part) => ({
        name: part.label,
        value: part[key] ?? 0,
        colour: partColour(part.name),
      })),
    })),
  });
  box.append(compareCosts("Parts of a step", parts, "Part"));
}

function compareCosts(caption, rows, title) {
  return table({
    caption,
    rows,
    sort: "",
    csvName: caption.split(",")[0].toLowerCase().replaceAll(" ", "-"),
    search: rows.length > 10,
    none: "None takes 1 % of a step.",
    columns: [
      { key: "name", title, value: (row) => row.label ?? row.name },
      { key: "mean_a_ns", title: "A", kind: "time", missing: () => "not there" },
      { key: "mean_b_ns", title: "B", kind: "time", missing: () => "not there" },
      {
        key: "delta_ns",
        title: "Difference",
        kind: "time",
        cell: (row) => `${row.delta_ns < 0 ? "−" : "+"}${time(Math.abs(row.delta_ns))}`,
      },
      { key: "change_ratio", title: "Median", kind: "ratio", cell: compareChange },
      { key: "is_significant", title: "", cell: (row) => compareVerdict(row, true) },
    ],
  });
}

function compareMemory(found) {
  if (found.memory.missing)
    return card("Memory", make("p", { class: "soft" }, `Not compared: ${found.memory.missing}.`));
  return table({
    caption: "Memory",
    rows: found.memory,
    search: false,
    csvName: "memory",
    columns: [
      { key: "of", title: "Of" },
      { key: "a_bytes", title: "A", kind: "bytes", cell: (row) => bytes(row.a_bytes) },
      { key: "b_bytes", title: "B", kind: "bytes", cell: (row) => bytes(row.b_bytes) },
      {
        key: "change_ratio",
        title: "Change",
        kind: "ratio",
        cell: (row) => signedPercent(row.change_ratio),
      },
    ],
  });
}

function compareChange(row) {
  if (row.missing) return missing(row.missing);
  const className = row.is_significant
    ? row.change_ratio > 0
      ? "changed-more"
      : "changed-less"
    : null;
  return make("span", { class: className }, signedPercent(row.change_ratio));
}

function compareVerdict(row, isJudged) {
  if (row.missing || !row.is_significant) return "";
  return isJudged
    ? badge(row.change_ratio > 0 ? "critical" : "good", row.change_ratio > 0 ? "more" : "less")
    : badge("info", "not judged");
}
