// The overview: the answer first.
import { make } from "../parts/elements.js";
import { time } from "../parts/amounts.js";

export const overviewPage = {
  name: "overview",
  title: "Overview",
  async show(place, { ask }) {
    const found = await ask("overview");
    const works = found.processes.flatMap((process) => process.work);
    place.append(
      make("h1", {}, (found.run.command ?? []).join(" ")),
      make("p", {}, `${works.length} works, ${time(1000 * works.reduce((sum, work) => sum + (work.total_us ?? 0), 0))}`),
    );
  },
};
