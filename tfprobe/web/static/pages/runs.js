// All runs of the directory, newest first.
import { make } from "../parts/elements.js";
import { addressOf } from "../parts/address.js";

export const runsPage = {
  name: "runs",
  title: "Runs",
  async show(place, { ask }) {
    const found = await ask("runs");
    place.append(
      make("h1", {}, "Runs"),
      make("ul", {}, found.runs.map((run) => make("li", {}, make("a", { href: addressOf(run.id, "overview") }, run.id)))),
    );
  },
};
