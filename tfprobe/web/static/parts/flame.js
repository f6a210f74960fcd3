// Flame graphs and icicles, by d3-flame-graph.
import { percent, written } from "./amounts.js";
import { chartBox, dataOf } from "./chart_box.js";
import { colour, isStill, nameColour } from "./colours.js";
import { fill, make } from "./elements.js";
import { hideTip, showTip } from "./tip.js";

const FRAME_PX = 19;
const LEAST_FRAME_PX = 1.5;
// The library recurses; no call stack in Python is deeper than this.
const DEEPEST = 900;
const FRAME_CHARACTERS = 300;

/**
 * Draw a tree of amounts: `flame(place, { name, value, children }, { label, kind, inverted, … })`.
 *
 * A node's `value` includes that of its children; nodes may carry anything else the page needs.
 * `label`: what it shows; `kind`: the kind of the values, "time" by default
 * `inverted`: true for an icicle, the root on top
 * `onOpen(node)`: selected by click or Enter, and zoomed to; `onSearch(text)`: for the address
 * `onWhole()`: the whole was requested, by the button or Escape, on a page that draws parts of it
 * `tip(node)`: pairs of texts besides amount and share; `colour(node)`: a name of base.css
 * `search`: the text that is highlighted at first; `csvName`: the file of its table
 * Returns `{ search(text), reset(), update(root), destroy() }`.
 */
export function flame(
  place,
  root,
  {
    label,
    kind = "time",
    inverted = false,
    onOpen,
    onSearch,
    onWhole,
    tip,
    colour: colourOf,
    search = "",
    csvName,
  } = {},
) {
  let shown = framed(root);
  let walked = null;
  let svg = null;
  let chart = null;
  const box = make("input", {
    type: "search",
    placeholder: "Mark",
    "aria-label": `Mark in ${label}`,
    value: search,
    oninput: () => mark(box.value, true),
  });
  const found = make("span", { class: "soft", role: "status" });
  const said = make("div", { class: "chart-said", role: "status" });
  const element = make(
    "div",
    { class: "chart" },
    make(
      "div",
      { class: "chart-tools" },
      box,
      found,
      make("button", { type: "button", onclick: reset }, "Whole"),
    ),
  );
  place.append(element);
  const drawing = chartBox(
    element,
    {
      label: `${label}. Arrows move, Enter zooms, Escape shows the whole.`,
      className: inverted ? "flame flame-down" : "flame",
    },
    begin,
  );
  Object.assign(drawing.box, { tabIndex: 0 });
  drawing.box.addEventListener("keydown", pressed);
  element.append(said);
  const data = dataOf(element, label, {
    columns: () => flameColumns(kind),
    rows: () => flameRows(shown),
    csvName,
  });
  return {
    element,
    search: (text) => mark(text, false),
    reset,
    update(newRoot) {
      shown = framed(newRoot);
      walked = null;
      drawing.redraw();
      data.refresh();
    },
    destroy() {
      drawing.destroy();
      element.remove();
    },
  };

  function begin(place) {
    const width = () => Math.max(200, place.clientWidth - 2);
    chart = flamegraph
      .default()
      .width(width())
      .resetHeightOnZoom(true)
      .cellHeight(FRAME_PX)
      .minFrameSize(LEAST_FRAME_PX)
      .inverted(inverted)
      .selfValue(false)
      .sort((one, other) => other.value - one.value || (one.data.name < other.data.name ? -1 : 1))
      .transitionDuration(isStill() ? 0 : 200)
      .getName((node) => String(node.data.name).slice(0, FRAME_CHARACTERS))
      .setSearchMatch((node, text) => node.data.searched.includes(text))
      .setSearchHandler((_, sum, total) =>
        fill(found, box.value ? `${percent(total ? sum / total : 0)} marked` : ""),
      )
      .setColorMapper((node) =>
        node.highlight
          ? colour("mark")
          : colour(colourOf?.(node.data.node) ?? nameColour(node.data.name), 0.42),
      )
      .tooltip(flameTip())
      .onClick((node) => opened(node));
    d3.select(place).datum(shown).call(chart);
    svg = place.querySelector("svg");
    svg.setAttribute("aria-hidden", "true");
    walked = null;
    if (box.value) mark(box.value, false);
    if (!inverted) place.scrollTop = place.scrollHeight;
    return {
      resize: () => chart.width(width()).update(),
      end: () => {
        chart.destroy();
        chart = null;
      },
    };
  }

  function flameTip() {
    const shownTip = () => shownTip;
    shownTip.show = (event, node) => {
      showTip(event.clientX, event.clientY, node.data.whole, pairsOf(node));
      return shownTip;
    };
    shownTip.hide = () => {
      hideTip();
      return shownTip;
    };
    shownTip.destroy = hideTip;
    return shownTip;
  }

  function pairsOf(node) {
    const value = node.data.value;
    return [
      ["amount", written(value, kind)],
      ["share", percent(shown.value ? value / shown.value : null)],
      ...(tip?.(node.data.node) ?? []),
    ];
  }

  function opened(node) {
    hideTip();
    walkTo(node);
    onOpen?.(node.data.node);
  }

  function mark(text, isReported) {
    box.value = text;
    if (chart) {
      if (text.trim()) chart.search(text.trim().toLowerCase());
      else {
        chart.clear();
        fill(found);
      }
    }
    if (isReported) onSearch?.(text);
  }

  function reset() {
    chart?.resetZoom();
    onWhole?.();
  }

  function rootNode() {
    return d3.select(drawing.box).datum();
  }

  function pressed(event) {
    if (!chart || event.target !== drawing.box || event.ctrlKey || event.metaKey || event.altKey)
      return;
    const step = {
      ArrowUp: inverted ? "out" : "in",
      ArrowDown: inverted ? "in" : "out",
      ArrowLeft: "before",
      ArrowRight: "after",
    }[event.key];
    if (step) walkTo(nextFrame(walked ?? rootNode(), walked ? step : ""));
    else if (event.key === "Enter") walked && chart.zoomTo(walked);
    else if (event.key === "Escape" || event.key === "0") reset();
    else return;
    event.preventDefault();
  }

  function walkTo(node) {
    walked = node;
    for (const frame of drawing.box.querySelectorAll(".walked")) frame.classList.remove("walked");
    d3.select(drawing.box)
      .selectAll("g.frame")
      .filter((each) => each === node)
      .classed("walked", true)
      .each(function seen() {
        this.scrollIntoView({ block: "nearest" });
      });
    const facts = pairsOf(node)
      .map((pair) => pair.join(" "))
      .join(", ");
    fill(said, make("bdi", {}, `${node.data.name}: ${facts}`));
  }
}

/**
 * The library's node: what is drawn, what is searched, and the page's own node. Deeper nodes are
 * left out.
 */
function framed(root) {
  const top = flameNode(root);
  const left = [[top, 1]];
  while (left.length) {
    const [frame, depth] = left.pop();
    if (depth >= DEEPEST) continue;
    for (const child of frame.node.children ?? []) {
      const inner = flameNode(child);
      frame.children.push(inner);
      left.push([inner, depth + 1]);
    }
  }
  return top;
}

function flameNode(node) {
  const whole = String(node.name);
  return {
    name: whole.slice(0, FRAME_CHARACTERS),
    whole,
    searched: whole.toLowerCase(),
    value: node.value,
    node,
    children: [],
  };
}

function nextFrame(node, step) {
  const row = (node.parent?.children ?? [node]).filter((each) => each.value > 0);
  const at = row.indexOf(node);
  const inner = (node.children ?? []).filter((each) => each.value > 0);
  return { in: inner[0], out: node.parent, before: row[at - 1], after: row[at + 1] }[step] ?? node;
}

function flameColumns(kind) {
  return [
    { key: "name", title: "Name" },
    { key: "value", title: "Amount", kind, bar: true },
    { key: "depth", title: "Depth", kind: "count" },
  ];
}

function flameRows(root) {
  const rows = [];
  const left = [[root, 0]];
  while (left.length) {
    const [frame, depth] = left.pop();
    rows.push({ name: frame.whole, value: frame.value, depth });
    for (const child of frame.children) left.push([child, depth + 1]);
  }
  return rows.sort((one, other) => other.value - one.value);
}
