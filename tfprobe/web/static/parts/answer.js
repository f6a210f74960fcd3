// Where a step goes: the sentence, the bar of before, on and after, the table of parts.
import { percent, time } from "./amounts.js";
import { stack } from "./charts.js";
import { partColour } from "./colours.js";
import { nameOf, swatch } from "./controls.js";
import { make } from "./elements.js";

// A smaller part is not mentioned.
const LEAST_TOLD = 0.01;
const LEAST_SHOWN = 0.001;

/** A sentence on what most of the time is spent on, and what comes next. */
export function formatAnswer(answer) {
  if (!answer.length) return "The traced steps took no time.";
  const [first, ...others] = answer;
  const next = others.slice(0, 2).filter((each) => each.share_ratio >= LEAST_TOLD);
  return `${[`${percent(first.share_ratio)} of the time it ${first.does}`, ...next.map((each) => `${percent(each.share_ratio)} it ${each.does}`)].join("; ")}.`;
}

/** Draw the groups of a document as two bars: before, on, after and other, and their parts. */
export function groupsBar(place, groups, { label = "Where a step goes" } = {}) {
  const whole = groups.map((each) => ({
    name: each.group,
    value: each.time_ns,
    colour: each.group,
  }));
  const parts = groups.flatMap((each) =>
    each.parts.map((part) => ({
      name: part.label,
      value: part.time_ns,
      colour: partColour(part.part),
    })),
  );
  return stack(place, {
    label,
    bars: [
      { name: "in short", parts: whole },
      { name: "in parts", parts },
    ],
  });
}

/** Make the table of groups and parts; `cycle_ns`, if known, adds the time per step. */
export function groupsTable(groups, cycle_ns) {
  const headings = ["", "share", ...(cycle_ns ? ["in a step"] : []), "in all"];
  const numbers = (each) => [
    make("td", { class: "numeric" }, percent(each.share_ratio)),
    cycle_ns ? make("td", { class: "numeric" }, time(each.share_ratio * cycle_ns)) : null,
    make("td", { class: "numeric" }, time(each.time_ns)),
  ];
  const rows = groups.flatMap((group) => [
    make(
      "tr",
      { class: "group" },
      make("th", { scope: "row" }, swatch(group.group), group.group),
      numbers(group),
    ),
    ...group.parts
      .filter((part) => part.share_ratio >= LEAST_SHOWN)
      .map((part) =>
        make(
          "tr",
          {},
          make("td", { class: "part" }, swatch(partColour(part.part)), part.label),
          numbers(part),
        ),
      ),
  ]);
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
    make("tbody", {}, rows),
  );
}

/** Make the list of what time was spent on, each with its source line. */
export function causesList(causes) {
  return make(
    "ul",
    { class: "plain-list" },
    causes.map((each) =>
      make(
        "li",
        {},
        swatch(partColour(each.part)),
        `${each.label} `,
        make(
          "span",
          { class: "number soft" },
          `${time(each.duration_ns)}${each.share_ratio === undefined ? "" : `, ${percent(each.share_ratio)}`} `,
        ),
        nameOf(each.what),
        each.file
          ? [
              " ",
              make(
                "bdi",
                { class: "mono soft", title: `${each.file}:${each.line}` },
                `${shortPath(each.file)}:${each.line}`,
              ),
            ]
          : null,
      ),
    ),
  );
}

/** The end of a path, for an installed file its package, as `page.short_path` writes it. */
export function shortPath(path) {
  const inside = path.split(/\/(?:site|dist)-packages\//).at(-1);
  const parts = inside.split("/");
  if (inside === path || parts.length <= 2) return parts.slice(-2).join("/");
  return [parts[0], ...(parts.length > 3 ? ["…"] : []), ...parts.slice(-2)].join("/");
}
