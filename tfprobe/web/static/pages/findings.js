// All findings, the most important first; `finding=RULE` in the address scrolls one into view.
import { count, percent, time } from "../parts/amounts.js";
import { card } from "../parts/controls.js";
import { fill, make } from "../parts/elements.js";
import { wholeFinding } from "../parts/finding.js";

export const findingsPage = {
  name: "findings",
  title: "Findings",
  async show(place, { ask, link, args }) {
    const found = await ask("findings");
    const list = make("div", { class: "finding-list" });
    place.append(
      make("h1", {}, "Findings"),
      make("p", {}, findingsSummary(found)),
      list,
      findingsUnchecked(found),
    );
    let target = args.finding;

    function draw(now) {
      fill(
        list,
        now.findings.map((each, at) =>
          wholeFinding(each, link, { id: `finding-${at}`, isTarget: each.rule === target }),
        ),
      );
    }

    function reveal() {
      const wanted = target && list.querySelector(`[data-rule="${CSS.escape(target)}"]`);
      wanted?.scrollIntoView({ block: "start" });
      wanted?.focus({ preventScroll: true });
    }

    draw(found);
    return {
      shown: reveal,
      turn(changed) {
        target = changed.finding;
        for (const each of list.children)
          each.toggleAttribute("data-sought", each.dataset.rule === target);
        reveal();
      },
      async update() {
        draw(await ask("findings"));
      },
    };
  },
};

function findingsSummary(found) {
  if (!found.findings.length)
    return found.missing
      ? `There is no data to check: ${found.missing}.`
      : "No optimization was found.";
  const facts = [
    found.findings.length === 1 ? "1 finding" : `${count(found.findings.length)} findings`,
  ];
  if (!found.together.missing)
    facts.push(
      `together at most ${percent(found.together.high_ratio)} of the time (${time(found.together.high_ns)} of ${time(found.together.of_ns)})`,
    );
  if (found.findings.length > 1) facts.push("gains overlap: do not add them");
  return `${facts.join("; ")}.${found.missing ? ` Note: ${found.missing}.` : ""}`;
}

function findingsUnchecked(found) {
  if (!found.unchecked.length) return null;
  const rules = found.unchecked.length === 1 ? "1 rule" : `${count(found.unchecked.length)} rules`;
  const rows = found.unchecked.map((each) =>
    make("li", {}, make("span", { class: "mono" }, each.rule), ": ", make("bdi", {}, each.reason)),
  );
  return card(
    "",
    make(
      "details",
      {},
      make("summary", {}, `${rules} could not be checked, and why`),
      make("ul", { class: "plain-list" }, rows),
    ),
  );
}
