// Layered drawings of graphs, by dagre and d3: zoom, drag, and keyboard navigation.
import { colour, heat, onColours } from "./colours.js";
import { draw, fill, make } from "./elements.js";

const NODE_HEIGHT = 40;
const LETTER_PX = 7.7;
const NODE_LETTERS = 30;
const NARROWEST = 76;
const WIDEST_LINE = 5;
// Text below this scale is unreadable.
const READABLE = 0.6;
// Larger graphs are laid out by the fast ranking algorithm.
const MANY_NODES = 120;
const NEXT_BY_KEY = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/**
 * Draw nodes in layers, with flows going down: `layered(place, { label, nodes, edges, … })`.
 *
 * `nodes`: `[{ label, note, heat, kind, title }]`, the most important first: two lines of text, 0
 *   to 1, "scope", "op" or "outside"
 * `edges`: `[{ from, to, width, dashed, title }]`: indices of nodes, width from 0 to 1
 * `onChoose(at)`: received the focus or was clicked; `onEnter(at)`: Enter or a double click;
 *   `onLeave()`: Backspace
 * Returns `{ choose(at), whole() }`.
 */
export function layered(place, { label, nodes, edges, height = 560, onChoose, onEnter, onLeave }) {
  const laid = laidOut(nodes, edges);
  const content = draw("g");
  const svg = draw(
    "svg",
    {
      class: "layered",
      role: "group",
      "aria-label": `${label}. Arrows move, Enter opens, Backspace goes back, + and − zoom, 0 shows all.`,
      height,
    },
    content,
  );
  const shapes = nodes.map((node, at) => nodeShape(node, laid.nodes[at], at));
  const lines = edges.map((edge, at) => edgeShape(edge, laid.edges[at]));
  content.append(draw("g", {}, lines), draw("g", {}, shapes));
  let chosen = -1;
  const zoom = d3
    .zoom()
    .scaleExtent([0.05, 4])
    .on("zoom", ({ transform }) => content.setAttribute("transform", transform.toString()));
  const selection = d3.select(svg).call(zoom).on("dblclick.zoom", null);
  const button = (text, title, onclick) =>
    make("button", { type: "button", class: "icon", title, "aria-label": title, onclick }, text);
  place.append(
    make(
      "div",
      { class: "chart-tools" },
      button("+", "Closer", () => scale(1.4)),
      button("−", "Farther", () => scale(1 / 1.4)),
      make("button", { type: "button", onclick: whole }, "All"),
      nodes.some((each) => each.heat > 0) ? scaleLegend() : null,
    ),
    svg,
  );
  svg.addEventListener("keydown", pressed);
  coloured();
  const forget = onColours(coloured);
  const sized = new ResizeObserver(() => {
    if (!svg.isConnected) {
      sized.disconnect();
      forget();
    } else if (svg.clientWidth && !svg.dataset.seen) {
      svg.dataset.seen = "yes";
      whole();
      if (chosen >= 0) bringIntoSight(chosen);
    }
  });
  sized.observe(svg);
  if (shapes.length) shapes[0].setAttribute("tabindex", "0");
  return { choose, whole };

  function nodeShape(node, box, at) {
    const width = box.width;
    const shape = draw(
      "g",
      {
        class: `node node-${node.kind}`,
        transform: `translate(${box.x - width / 2}, ${box.y - NODE_HEIGHT / 2})`,
        tabindex: "-1",
        role: "button",
        "aria-label": node.title.slice(0, 400),
        onclick: () => chosenBy(at),
        ondblclick: () => onEnter?.(at),
        onfocus: () => chosenBy(at),
      },
      draw("title", {}, node.title.slice(0, 2000)),
      node.kind === "scope"
        ? draw("rect", { class: "behind", x: 4, y: 4, width, height: NODE_HEIGHT, rx: 6 })
        : "",
      draw("rect", { class: "box", width, height: NODE_HEIGHT, rx: node.kind === "op" ? 18 : 6 }),
      draw("text", { x: width / 2, y: 17, class: "label" }, shortLabel(node.label)),
      draw("text", { x: width / 2, y: 32, class: "note" }, node.note),
    );
    return shape;
  }

  function edgeShape(edge, points) {
    const path = d3.line().curve(d3.curveBasis)(points.map(({ x, y }) => [x, y]));
    const end = points.at(-1);
    const near = points.at(-2) ?? end;
    const turned = (Math.atan2(end.y - near.y, end.x - near.x) * 180) / Math.PI;
    return draw(
      "g",
      { class: `edge${edge.dashed ? " dashed" : ""}`, "data-from": edge.from, "data-to": edge.to },
      draw("title", {}, edge.title.slice(0, 2000)),
      draw("path", { d: path, "stroke-width": 1 + edge.width * (WIDEST_LINE - 1) }),
      draw("path", { class: "wide", d: path }),
      draw("path", {
        class: "tip-of-edge",
        d: "M0,0L-7,-3.5L-7,3.5Z",
        transform: `translate(${end.x}, ${end.y}) rotate(${turned})`,
      }),
    );
  }

  function coloured() {
    for (const [at, node] of nodes.entries()) {
      shapes[at].querySelector(".box").style.fill =
        node.kind === "outside" || !(node.heat > 0) ? "" : mixedHeat(node.heat);
    }
  }

  function chosenBy(at) {
    if (at === chosen) return;
    choose(at);
    onChoose?.(at);
  }

  function choose(at) {
    if (chosen >= 0) shapes[chosen].classList.remove("chosen");
    for (const shape of shapes) shape.setAttribute("tabindex", "-1");
    chosen = at;
    if (!shapes[at]) return;
    shapes[at].classList.add("chosen");
    shapes[at].setAttribute("tabindex", "0");
    for (const line of lines) {
      const touches = Number(line.dataset.from) === at || Number(line.dataset.to) === at;
      line.classList.toggle("touched", touches);
    }
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = NEXT_BY_KEY[event.key];
    if (direction) walk(direction);
    else if (event.key === "Enter" || event.key === " ") chosen >= 0 && onEnter?.(chosen);
    else if (event.key === "Backspace" || event.key === "Escape") onLeave?.();
    else if (event.key === "+" || event.key === "=") scale(1.4);
    else if (event.key === "-") scale(1 / 1.4);
    else if (event.key === "0") whole();
    else return;
    event.preventDefault();
  }

  function walk(direction) {
    const next = chosen < 0 ? 0 : nextNode(laid.nodes, chosen, direction);
    if (next < 0) return;
    bringIntoSight(next);
    shapes[next].focus({ preventScroll: true });
  }

  function scale(by) {
    selection.call(zoom.scaleBy, by);
  }

  function whole() {
    const [width, tall] = [svg.clientWidth || 900, svg.clientHeight || height];
    const size = Math.min(1.15, (width - 24) / laid.width, (tall - 24) / laid.height);
    // For a graph that is much too large, show the surroundings of its first node, which are
    // readable.
    const readable = Math.max(size, READABLE);
    const first = laid.nodes[0] ?? { x: 0, y: 0 };
    const left = placed(width, laid.width * readable, first.x * readable);
    const top = placed(tall, laid.height * readable, first.y * readable);
    selection.call(zoom.transform, d3.zoomIdentity.translate(left, top).scale(readable));
  }

  function bringIntoSight(at) {
    const { x, y } = laid.nodes[at];
    const [left, top] = d3.zoomTransform(svg).apply([x, y]);
    const inside =
      left > 60 && left < svg.clientWidth - 60 && top > 30 && top < svg.clientHeight - 30;
    if (!inside) selection.call(zoom.translateTo, x, y);
  }
}

/** Where to start drawing in the available space: centred, or so that the focus is visible. */
function placed(room, size, matters) {
  if (size <= room) return (room - size) / 2;
  return Math.min(12, Math.max(room - size - 12, room / 2 - matters));
}

function laidOut(nodes, edges) {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({
    rankdir: "TB",
    nodesep: 22,
    ranksep: 44,
    edgesep: 10,
    marginx: 8,
    marginy: 8,
    ranker: nodes.length > MANY_NODES ? "longest-path" : "network-simplex",
  });
  for (const [at, node] of nodes.entries())
    graph.setNode(String(at), { width: nodeWidth(node), height: NODE_HEIGHT });
  for (const [at, edge] of edges.entries())
    graph.setEdge(
      String(edge.from),
      String(edge.to),
      { weight: 1 + Math.round(3 * edge.width) },
      String(at),
    );
  dagre.layout(graph);
  const { width, height } = graph.graph();
  return {
    width: Number.isFinite(width) ? width : 100,
    height: Number.isFinite(height) ? height : 100,
    nodes: nodes.map((_, at) => graph.node(String(at))),
    edges: edges.map(
      (edge, at) => graph.edge(String(edge.from), String(edge.to), String(at)).points,
    ),
  };
}

function nodeWidth(node) {
  return Math.max(
    NARROWEST,
    22 + LETTER_PX * Math.max(shortLabel(node.label).length, node.note.length * 0.92),
  );
}

function shortLabel(text) {
  if (text.length <= NODE_LETTERS) return text;
  const half = Math.floor(NODE_LETTERS / 2) - 1;
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** The nearest node in a direction, sideways distance counting double; -1 if there is none. */
function nextNode(boxes, from, [right, down]) {
  let best = -1;
  let least = Infinity;
  for (const [at, box] of boxes.entries()) {
    const along = (box.x - boxes[from].x) * right + (box.y - boxes[from].y) * down;
    const aside =
      Math.abs((box.x - boxes[from].x) * down) + Math.abs((box.y - boxes[from].y) * right);
    const far = along + 2 * aside;
    if (at !== from && along > 1 && far < least) [best, least] = [at, far];
  }
  return best;
}

/** Pale enough for text on top. */
function mixedHeat(ratio) {
  return heat(0.08 + 0.47 * ratio);
}

function scaleLegend() {
  const legend = make("span", { class: "scale-of-heat soft small" });
  fill(legend, "less", make("i", { "aria-hidden": "true" }), "more of the time");
  const paint = () =>
    (legend.querySelector("i").style.background =
      `linear-gradient(to right, ${colour("card")}, ${mixedHeat(0)}, ${mixedHeat(0.5)}, ${mixedHeat(1)})`);
  paint();
  return legend;
}
