// The card of the timeline page that opens a step, or all steps, in Perfetto.
import { bytes, count } from "../parts/amounts.js";
import { card } from "../parts/controls.js";
import { isFile } from "../parts/data.js";
import { make } from "../parts/elements.js";
import { perfettoIn } from "../parts/perfetto.js";
import { withCode } from "../parts/sentences.js";

/** Offer the trace of one step and of all steps; `signal` closes what is open. */
export function perfettoCard(context, base, signal) {
  if (isFile) {
    return card(
      "Perfetto",
      make(
        "p",
        { class: "soft" },
        withCode(
          "This file does not contain Perfetto: `tfprobe ui` on the run opens this step in it, and `tfprobe export RUN --to chrome` writes a file for Perfetto's own site.",
        ),
      ),
    );
  }
  const place = make("div", {});
  const name = `run/${context.run.split("/").map(encodeURIComponent).join("/")}/trace`;
  let open = null;
  const buttons = [
    perfettoButton("Open in Perfetto", `${name}?capture=${base.capture}`, `step ${base.step}`),
    perfettoButton("All traced steps", name, context.run),
    make(
      "a",
      {
        class: "button",
        href: `/api/${name}?capture=${base.capture}`,
        download: `step-${base.step}.json`,
      },
      "Download the trace",
    ),
  ];
  return card(
    "Perfetto",
    make(
      "p",
      { class: "soft" },
      `Perfetto is served from this machine and contacts no other. The trace of this step has ${slicesText(base.total)}, about ${bytes(base.trace_bytes)}; it goes from the server to this browser and is not stored. The downloaded file also opens in Perfetto's own site and in chrome://tracing.`,
    ),
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

/** The number of slices, in words. */
export function slicesText(number) {
  return number === 1 ? "1 slice" : `${count(number)} slices`;
}
