// One finding: what it is, its gain, what to do, and links to the evidence.
import { bytes, percent, time } from "./amounts.js";
import { badge, copied, nameOf } from "./controls.js";
import { make } from "./elements.js";
import { gainInterval } from "./gain_interval.js";

/** Make the bars of a gain: what trials measured, else the likely part and the bound. */
export function gainBars(finding) {
  const { gain, measured } = finding;
  if (measured.length) return measured.map((each) => gainInterval(each, each.text));
  if (gain.missing) return null;
  const width = (ratio) => `${(100 * Math.min(Math.max(ratio, 0), 1)).toFixed(2)}%`;
  return make(
    "div",
    { class: "gain-bar", role: "img", "aria-label": finding.gain_text },
    make("i", { class: "gain-high", style: { width: width(gain.high_ratio) } }),
    make("i", { class: "gain-low", style: { width: width(gain.low_ratio) } }),
  );
}

/** Make the list of what to do; a click copies code in it. */
export function actionOf(finding) {
  return make(
    "p",
    { class: "action" },
    make("span", { class: "arrow", "aria-hidden": "true" }, "→ "),
    codeParts(finding.action),
  );
}

/** Make a text of parts, `{ text, is_code }`; a click copies code in it. */
export function codeParts(parts) {
  return parts.map((part) => (part.is_code ? codeOf(part.text) : part.text));
}

/** Make the short form of a finding, for the overview. */
export function shortFinding(finding, link) {
  return make(
    "article",
    { class: "finding" },
    make(
      "h3",
      {},
      badge(finding.severity),
      " ",
      make("a", { href: link("findings", { finding: finding.rule }) }, nameOf(finding.title)),
    ),
    make("p", { class: "soft number-wrap" }, finding.gain_text),
    gainBars(finding),
    actionOf(finding),
  );
}

/** Make a finding with all of its evidence. */
export function wholeFinding(finding, link, { id, isTarget = false } = {}) {
  const who = formatSubject(finding.subject);
  return make(
    "article",
    {
      class: "card finding",
      id,
      tabindex: "-1",
      "data-rule": finding.rule,
      "data-sought": isTarget,
    },
    make(
      "h2",
      {},
      badge(finding.severity),
      " ",
      nameOf(finding.title),
      " ",
      make(
        "a",
        {
          class: "anchor small",
          href: link("findings", { finding: finding.rule }),
          title: "Link to this finding",
        },
        finding.rule,
      ),
    ),
    who ? make("p", { class: "soft" }, nameOf(who)) : null,
    make(
      "p",
      { class: "number-wrap" },
      finding.gain_text,
      finding.measured.length
        ? [" ", make("a", { class: "evidence-link", href: link("trials") }, "Trials")]
        : null,
    ),
    gainBars(finding),
    make("h3", {}, "What to do"),
    actionOf(finding),
    make("h3", {}, "Evidence"),
    make(
      "ul",
      { class: "plain-list evidence" },
      finding.evidence.map((each) => make("li", {}, evidenceOf(each, link))),
    ),
  );
}

function evidenceOf(each, link) {
  const amount =
    each.time_ns !== undefined
      ? time(each.time_ns)
      : each.size_bytes !== undefined
        ? bytes(each.size_bytes)
        : each.ratio !== undefined
          ? percent(each.ratio)
          : "";
  // Steps that are named are links: one link each is enough.
  const isOfSteps =
    each.links.filter((one) => one.page === "steps" && one.args.step !== undefined).length > 1;
  const text =
    each.text === "shown by"
      ? "Full output:"
      : isOfSteps
        ? each.text.replace(/:[\d, ]*$/, ":")
        : each.text;
  return [
    make("bdi", {}, amount ? `${text}:` : text),
    amount ? [" ", make("b", { class: "number" }, amount)] : null,
    each.iterator ? [" ", make("bdi", { class: "mono soft" }, each.iterator)] : null,
    each.source && !each.links.some((one) => one.page === "code")
      ? [" ", make("bdi", { class: "mono soft" }, each.source)]
      : null,
    each.links.map((one) => [
      " ",
      make("a", { href: link(one.page, one.args), class: "evidence-link" }, nameOf(linkLabel(one))),
    ]),
  ];
}

function linkLabel({ page, label }) {
  return label.startsWith("tfprobe ") ? `${page[0].toUpperCase()}${page.slice(1)}` : label;
}

function formatSubject(subject) {
  const work = [subject.kind, subject.name].filter(Boolean).join(" ");
  if (subject.rank !== undefined) return `${work || "process"}, rank ${subject.rank}`;
  if (subject.program)
    return [work, `${subject.program} (pid ${subject.pid})`].filter(Boolean).join(", ");
  return work || (subject.pid === undefined ? "" : `process ${subject.pid}`);
}

/** Make a piece of code that a click copies. */
export function codeOf(text) {
  const said = make("span", { class: "hidden-text", role: "status" });
  const button = make(
    "button",
    { type: "button", class: "code-copy", title: "Copy", onclick: copy },
    make("code", {}, text),
    said,
  );
  async function copy() {
    const done = await copied(text);
    said.textContent = done ? "copied" : "not copied";
    button.dataset.copied = String(done);
    setTimeout(() => {
      said.textContent = "";
      delete button.dataset.copied;
    }, 1500);
  }
  return button;
}
