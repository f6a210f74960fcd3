// Ask a running job to record its next steps, and show which processes do.
import { count } from "./amounts.js";
import { ApiError, post } from "./data.js";
import { fill, make } from "./elements.js";

const DEFAULT_STEPS = 5;
const MOST_NAMED = 5;

/** The button and dialog of a run: an element with `run(id)`, which hides it for "". */
export function recordButton() {
  const steps = make("input", {
    type: "number",
    id: "record-steps",
    min: 1,
    max: 1000000,
    step: 1,
    value: DEFAULT_STEPS,
    required: true,
  });
  const status = make("div", { class: "record-told", role: "status" });
  const send = make("button", { type: "submit", class: "main" }, "Record");
  let run = "";
  const dialog = make(
    "dialog",
    { class: "keys", "aria-labelledby": "record-title" },
    make("h2", { id: "record-title" }, "Record steps"),
    make(
      "p",
      { class: "soft" },
      "All processes of the run will trace their next steps, which makes each of them a little slower.",
    ),
    make(
      "form",
      { onsubmit: ask },
      make(
        "div",
        { class: "row" },
        make("label", { for: "record-steps" }, "How many"),
        steps,
        send,
        make("button", { type: "button", onclick: () => dialog.close() }, "Close"),
      ),
    ),
    status,
  );
  const button = make("button", { type: "button", hidden: true, onclick: open }, "Record steps");
  const element = make("span", {}, button, dialog);
  element.run = (id) => {
    run = id;
    button.hidden = !id;
  };
  return element;

  function open() {
    fill(status);
    dialog.showModal();
    steps.select();
  }

  async function ask(event) {
    event.preventDefault();
    send.disabled = true;
    fill(status, make("p", {}, "Requested. A process answers between two steps …"));
    try {
      const found = await post(`run/${encodeURIComponent(run)}/sample`, {
        steps: steps.valueAsNumber,
      });
      fill(
        status,
        recordAnswers(found).map((sentence) => make("p", {}, make("bdi", {}, sentence))),
      );
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(status, make("p", { class: "trouble" }, error.message));
    } finally {
      send.disabled = false;
    }
  }
}

/** Which processes accepted, which have not answered yet, and why others refuse. */
function recordAnswers({ steps, processes }) {
  const what = steps === 1 ? "the next step" : `the next ${count(steps)} steps`;
  const groups = new Map();
  for (const process of processes) {
    const key =
      process.answer === "taken"
        ? "taken"
        : process.answer === "no answer"
          ? "none"
          : (process.why ?? process.answer);
    groups.set(key, [
      ...(groups.get(key) ?? []),
      process.pid === null ? process.process : `pid ${process.pid}`,
    ]);
  }
  return [...groups].map(([key, who]) => {
    const more = who.length - MOST_NAMED;
    const named = who.slice(0, MOST_NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
    if (key === "taken") return `Recording ${what}: ${named}.`;
    if (key === "none") return `No answer yet: ${named}. The request stands until the next step.`;
    return `${named}: ${key}.`;
  });
}
