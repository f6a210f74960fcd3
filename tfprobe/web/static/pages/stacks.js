// What Python ran, as sampled from outside: a flame graph of a phase, of steps, or of a thread.
import { count, percent, time } from "../parts/amounts.js";
import { choose, tabs } from "../parts/controls.js";
import { fill, make } from "../parts/elements.js";
import { flame } from "../parts/flame.js";

export const stacksPage = {
  name: "stacks",
  title: "Stacks",
  async show(place, { ask, args, go }) {
    const found = await ask("stacks", { process: args.process === "0" ? "" : args.process });
    place.append(make("h1", {}, "Stacks"));
    if (found.missing) {
      const why = found.refusals.length ? found.refusals.join("; ") : found.missing;
      place.append(make("p", {}, `There are no stacks: ${why}.`));
      return {};
    }
    const process = found.processes[found.process];
    const part = found.parts.find((each) => stacksKey(each) === args.part) ?? found.parts[0];
    const drawing = make("section", { class: "card" });
    place.append(
      make(
        "div",
        { class: "row" },
        found.processes.length > 1
          ? choose({
              label: "Process",
              options: found.processes.map((each, at) => [at, each.name]),
              value: found.process,
              onChange: (at) => go({ process: at === "0" ? "" : at, part: "", find: "" }),
            })
          : null,
        choose({
          label: "Of",
          options: found.parts.map((each) => [stacksKey(each), stacksTitle(each)]),
          value: stacksKey(part),
          onChange: (key) => go({ part: key === stacksKey(found.parts[0]) ? "" : key, find: "" }),
        }),
      ),
      make("p", { class: "soft" }, formatStacks(process, part)),
      drawing,
    );
    if (found.refusals.length)
      place.append(
        make("p", { class: "soft small" }, `Some could not be read: ${found.refusals.join("; ")}.`),
      );
    drawStacks(drawing, part, args, go);
    return {};
  },
};

function stacksKey(part) {
  return `${part.kind}:${part.name}`;
}

function stacksTitle(part) {
  return part.kind === "thread" ? `thread ${part.name}` : part.name;
}

function formatStacks(process, part) {
  const { least_rate_per_s: least, most_rate_per_s: most } = process;
  const rate = least === most ? count(most) : `${count(least)} to ${count(most)}`;
  const facts = [
    `${time(part.total_ns)}, about ${count(part.samples)} of ${count(process.samples)} samples`,
    `${rate} a second over ${time(process.sampled_ns)}`,
  ];
  if (part.no_python_ns)
    facts.push(`${percent(part.no_python_ns / part.total_ns)} without a Python frame`);
  if (process.errors) facts.push(`${count(process.errors)} samples failed`);
  return `${facts.join("; ")}.`;
}

function drawStacks(place, part, args, go) {
  const root = {
    name: stacksTitle(part),
    value: part.total_ns,
    children: part.calls.map(stacksNode),
  };
  const shapes = [
    ["icicle", "Icicle"],
    ["flame", "Flame graph"],
  ];
  place.append(
    tabs({
      label: "Shape of the drawing",
      options: shapes,
      value: args.shape ?? "icicle",
      onChange: (shape) => go({ shape: shape === "icicle" ? "" : shape }, { keep: true }),
      show: (shape, panel) => {
        if (!root.value)
          return fill(panel, make("p", { class: "empty" }, "No stack was sampled in it."));
        return flame(panel, root, {
          label: `Python of ${root.name}`,
          inverted: shape === "icicle",
          search: args.find ?? "",
          onSearch: (find) => go({ find }, { keep: true }),
          tip: (node) =>
            node.call
              ? [
                  ["own time", time(node.call.self_ns)],
                  ["line", `${node.call.file}:${node.call.line}`],
                ]
              : [],
          csvName: "stacks",
        });
      },
    }),
  );
}

function stacksNode(call) {
  const file = call.file.split("/").pop();
  return {
    name: `${call.function} ${file}:${call.line}`,
    value: call.total_ns,
    call,
    children: call.calls.map(stacksNode),
  };
}
