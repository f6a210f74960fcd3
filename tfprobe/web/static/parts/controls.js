// Small components for every page: cards, figures, badges, choosers, tabs.
import { here } from "./address.js";
import { NOTHING, time } from "./amounts.js";
import { fill, make } from "./elements.js";

let controlNumber = 0;

/** A new id that connects a label to its control. */
export function freshId(stem = "part") {
  controlNumber += 1;
  return `${stem}-${controlNumber}`;
}

/** A box with a heading: `card("Where a step goes", …)`. Without a heading: `card("", …)`. */
export function card(heading, ...children) {
  return make("section", { class: "card" }, heading ? make("h2", {}, heading) : null, ...children);
}

/** A name from a recording: cut to the available width, in full in its title. */
export function nameOf(text, attributes = {}) {
  const whole = String(text ?? "");
  return make(
    "bdi",
    { class: "cut", title: whole.slice(0, 2000), ...attributes },
    whole.slice(0, 2000),
  );
}

/**
 * A name for a link: visible and readable by a screen reader, though the name may be empty or
 * blank.
 */
export function called(text) {
  return /\S/.test(text ?? "") ? text : "(no name)";
}

/** A dash with the reason why there is no value. */
export function missing(reason) {
  return make(
    "span",
    { class: "missing", title: reason || "not known", tabindex: "0" },
    NOTHING,
    make("span", { class: "hidden-text" }, ` (${reason || "not known"})`),
  );
}

/**
 * A word in a pill: `badge("critical")`, `badge("running", "since 3 min")`; known words have
 * colours.
 */
export function badge(word, text = word) {
  return make(
    "span",
    {
      class: `badge badge-${String(word)
        .toLowerCase()
        .replace(/[^a-z]/g, "")}`,
    },
    text,
  );
}

/**
 * One amount with its name: `keyFigure("Steps", count(300), "3 traced")`; put several into
 * `figures(…)`.
 */
export function keyFigure(label, value, hint = "") {
  return make(
    "div",
    { class: "figure" },
    make("dt", {}, label),
    make("dd", {}, value, hint ? make("div", { class: "hint" }, hint) : null),
  );
}

export function figures(...each) {
  return make("dl", { class: "figures" }, ...each);
}

/** The square of a colour of base.css, for legends: `swatch("part-idle")`. */
export function swatch(colourName) {
  return make("span", {
    class: "swatch",
    "aria-hidden": "true",
    style: { background: `var(--${colourName})` },
  });
}

/**
 * A select with its label:
 * `choose({ label: "By", options: [["time", "time"], …], value, onChange })`.
 */
export function choose({ label, options, value, onChange }) {
  const select = make(
    "select",
    { onchange: () => onChange(select.value) },
    options.map(([each, text]) =>
      make("option", { value: each, selected: String(each) === String(value) }, text),
    ),
  );
  return make("label", { class: "choose" }, make("span", {}, label), select);
}

/** A check box with its label: `check({ label: "With shapes", value: true, onChange })`. */
export function check({ label, value, onChange }) {
  const box = make("input", {
    type: "checkbox",
    checked: Boolean(value),
    onchange: () => onChange(box.checked),
  });
  return make("label", { class: "choose" }, box, make("span", {}, label));
}

/**
 * The choice of a loop, by its index in the document's `works`; nothing if there is only one.
 * `workChooser(context, found.works, found.work)`: changes `work` in the address.
 */
export function workChooser(context, works, chosen) {
  if (!works || works.length < 2) return null;
  return choose({
    label: "Work",
    value: chosen ?? here().args.work ?? works[0].at,
    options: works.map((work) => [work.at, workLabel(work)]),
    onChange: (work) => context.go({ ...here().args, work }),
  });
}

/** The one-line name of a loop: its kind, its name, its process, its time. */
export function workLabel(work) {
  const name = work.name && work.name !== work.kind ? ` ${work.name.slice(0, 80)}` : "";
  const sampled = work.captures ? "" : ", not traced";
  return `${work.kind}${name} · ${work.process_label ?? `process ${work.process}`} · ${time(work.total_ns)}${sampled}`;
}

/**
 * Tabs: `tabs({ label: "Views", options: [["table", "Table"], …], value, onChange, show })`.
 * `show(value, panel)` fills the panel of a tab whenever it is selected.
 */
export function tabs({ label, options, value, onChange, show }) {
  const panel = make("div", { class: "tab-panel", role: "tabpanel", id: freshId("panel") });
  const buttons = options.map(([each, text]) =>
    make(
      "button",
      {
        type: "button",
        role: "tab",
        id: freshId("tab"),
        "data-value": each,
        "aria-controls": panel.id,
        onclick: () => turn(each, true),
      },
      text,
    ),
  );

  function turn(chosen, isReported) {
    for (const button of buttons) {
      const is = button.dataset.value === String(chosen);
      button.setAttribute("aria-selected", String(is));
      button.tabIndex = is ? 0 : -1;
      if (is) panel.setAttribute("aria-labelledby", button.id);
    }
    show?.(chosen, fill(panel));
    if (isReported) onChange?.(chosen);
  }

  function walk(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const at = buttons.findIndex((button) => button.tabIndex === 0);
    const next = buttons[(at + by + buttons.length) % buttons.length];
    next.focus();
    turn(next.dataset.value, true);
    event.preventDefault();
  }

  const known = options.some(([each]) => String(each) === String(value));
  turn(known ? value : options[0][0], false);
  return make(
    "div",
    {},
    make("div", { class: "tabs", role: "tablist", "aria-label": label, onkeydown: walk }, buttons),
    panel,
  );
}

/** A button that puts a text on the clipboard: `copyButton(() => text, "Copy the command")`. */
export function copyButton(text, label = "Copy") {
  const said = make("span", { role: "status" });
  const button = make("button", { type: "button", class: "copy", onclick: copy }, label, said);
  async function copy() {
    const whole = typeof text === "function" ? text() : text;
    fill(said, (await copied(whole)) ? "✓" : "— select the text and copy it");
    setTimeout(() => fill(said), 2000);
  }
  return button;
}

/** Put a text on the clipboard; false if the browser does not allow it. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages that come neither from this machine nor by https have no clipboard API, but the old
    // command still works.
    const area = make("textarea", { readonly: true, class: "hidden-text" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
