// Where the wall time of a run went: the sentence, the strip of its phases, the table of parts.
import { percent, time } from "./amounts.js";
import { shortPath } from "./answer.js";
import { card, nameOf, swatch } from "./controls.js";
import { make } from "./elements.js";
import { withCode } from "./sentences.js";

const ACCOUNT_NAMED = 3;
const ACCOUNT_NAMED_RATIO = 0.03;
const ACCOUNT_SHOWN_RATIO = 0.005;
const ACCOUNT_COLOURS = {
  interpreter_start: "part-idle",
  imports: "series-9",
  preparation: "series-5",
  compile: "part-compile",
  warm_up: "series-8",
  productive: "on",
  input_wait: "part-input_wait",
  evaluation: "after",
  checkpoints: "part-checkpoints",
  callbacks: "part-callbacks",
  epoch_ends: "series-10",
  python_between_steps: "series-2",
  garbage_collection: "series-6",
  recording: "part-recording",
  waiting_for_others: "part-sync_wait",
  idle: "part-idle",
  not_known: "other",
};

/** Make the card of an account from the document `shares`. */
export function accountCard(found) {
  if (found.missing)
    return card("Where the time went", make("p", {}, `Not known: ${found.missing}.`));
  const shown = found.parts.filter((each) => each.ratio >= ACCOUNT_SHOWN_RATIO);
  const hidden = 1 - shown.reduce((sum, each) => sum + each.ratio, 0);
  return card(
    "Where the time went",
    make("p", { class: "answer" }, formatAccount(found)),
    found.strip ? accountStrip(found) : null,
    accountTable(shown),
    hidden > 0.0005
      ? make(
          "p",
          { class: "soft small" },
          withCode(`and ${percent(hidden)} in smaller parts; \`tfprobe report --json\` has all.`),
        )
      : null,
  );
}

/** One line on how much of the time was productive, and where most of the rest went. */
export function formatAccount(found) {
  const rest = found.parts
    .filter((each) => each.part !== found.productive)
    .sort((one, other) => other.ns - one.ns);
  const went = rest.filter((each) => each.ratio >= ACCOUNT_NAMED_RATIO).slice(0, ACCOUNT_NAMED);
  const others = went
    .map((each) => `${percent(each.ratio)} went to ${each.went_to}${accountWhere(each)}`)
    .join(", ");
  const of = `${time(found.wall_ns)}${found.processes > 1 ? ` in ${found.processes} processes` : ""}`;
  if (!found.steps) return `No step was completed in ${of}; ${others}.`;
  const good = found.parts.find((each) => each.part === found.productive)?.ratio ?? 0;
  return `${[`${percent(good)} of ${of} were productive steps`, others].filter(Boolean).join("; ")}.`;
}

/** The place that accounts for more than half of a part, in brackets. */
function accountWhere(part) {
  const first = part.of[0];
  if (!first || first.part_ratio <= 0.5) return "";
  return ` (${[first.source ? accountPlace(first.source) : "", first.what].filter(Boolean).join(", ")})`;
}

function accountPlace(source) {
  const at = source.lastIndexOf(":");
  return `${shortPath(source.slice(0, at))}${source.slice(at)}`;
}

function accountStrip(found) {
  const label = Object.fromEntries(found.parts.map((each) => [each.part, each.label]));
  const width = (run) => `${(run.slices / found.strip.slices) * 100}%`;
  return make(
    "div",
    {
      class: "life",
      role: "img",
      "aria-label": found.parts.map((each) => `${each.label} ${time(each.ns)}`).join(", "),
    },
    found.strip.runs.map((run) =>
      make("i", {
        title: label[run.part] ?? run.part,
        style: { width: width(run), background: `var(--${ACCOUNT_COLOURS[run.part] ?? "other"})` },
      }),
    ),
  );
}

function accountTable(shown) {
  const headings = ["part", "most of it", "time", "share"];
  const row = (each) => [
    make("th", { scope: "row" }, swatch(ACCOUNT_COLOURS[each.part] ?? "other"), each.label),
    make("td", { class: "account-items" }, accountItems(each)),
    make("td", { class: "numeric" }, time(each.ns)),
    make("td", { class: "numeric" }, percent(each.ratio)),
  ];
  return make(
    "table",
    { class: "facts-table account-table" },
    make(
      "thead",
      {},
      make(
        "tr",
        {},
        headings.map((each, at) =>
          make("th", { scope: "col", class: at > 1 ? "numeric" : null }, each),
        ),
      ),
    ),
    make(
      "tbody",
      {},
      shown.map((each) => make("tr", { "data-part": each.part }, row(each))),
    ),
  );
}

function accountItems(part) {
  return part.of
    .slice(0, 2)
    .map((item, at) => [
      at ? ", " : "",
      part.of.length > 1
        ? make("span", { class: "number soft" }, `${percent(item.part_ratio)} `)
        : null,
      item.what ? nameOf(item.what) : null,
      item.source
        ? make(
            "bdi",
            { class: "mono soft", title: item.source },
            `${item.what ? " " : ""}${accountPlace(item.source)}`,
          )
        : null,
    ]);
}
