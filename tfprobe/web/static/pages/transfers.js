// Data moved per step: over the bus, in collectives, between tasks; and what waits for it.
import { byteRate, bytes, count, percent, plainNumber, time } from "../parts/amounts.js";
import { bars } from "../parts/charts.js";
import {
  card,
  choose,
  figures,
  keyFigure,
  missing,
  nameOf,
  workChooser,
} from "../parts/controls.js";
import { make } from "../parts/elements.js";
import { argsOf, rerender } from "../parts/rerender.js";
import { processName, sentence } from "../parts/sentences.js";
import { table } from "../parts/table.js";

const TRANSFER_DIRECTIONS = {
  host_to_device: "host to device",
  device_to_host: "device to host",
  device_to_device: "device to device",
  memset: "memset",
};
const TRANSFER_BYS = { op: "op", layer: "layer", line: "line of code" };

export const transfersPage = {
  name: "transfers",
  title: "Transfers",
  show: (place, context) =>
    rerender(place, context, {
      name: "transfers",
      query: (args) => argsOf(args, "by", "work"),
      content: (found, args) => transfersContent(found, args, context),
    }),
};

function transfersContent(found, args, context) {
  const { transfers, collectives } = found;
  return [
    make(
      "div",
      { class: "row" },
      make("h1", {}, "Transfers"),
      workChooser(context, found.works, found.work),
      transfers
        ? choose({
            label: "Count by",
            value: found.by,
            options: found.bys.map((by) => [by, TRANSFER_BYS[by]]),
            onChange: (by) => context.go({ ...args, by }),
          })
        : null,
    ),
    make("p", {}, transfersSentence(found)),
    transfersFigures(found),
    transfers ? transfersCopies(found, args, context) : null,
    collectives ? transfersCollectives(found) : null,
    found.sends ? transfersSends(found) : null,
    transfersAbsent(found.missing),
    transfersSyncs(found.syncs),
  ];
}

function transfersSentence({ about, sampled_steps: steps, processes }) {
  const of = `of ${about.kind} ${about.name.slice(0, 200)}`;
  if (!steps) return `No step ${of} was traced; ${count(about.count)} ran.`;
  const ranks = processes > 1 ? ` in ${count(processes)} processes` : "";
  return `A step ${of}, averaged over ${steps === 1 ? "one traced step" : `${count(steps)} traced steps`}${ranks}.`;
}

function transfersFigures({ transfers, collectives, syncs }) {
  const all = [];
  if (transfers) {
    all.push(
      keyFigure(
        "Exposed copies per step",
        time(transfers.exposed_ns_per_step),
        `${percent(transfers.copying.hidden_ratio)} of the copying is hidden by kernels`,
      ),
    );
  }
  if (collectives)
    all.push(
      keyFigure(
        "Collectives",
        percent(collectives.hidden_ratio),
        "of their time is hidden by computation",
      ),
    );
  if (syncs.sync_wait_ratio) {
    all.push(
      keyFigure(
        "Waiting for devices or peers",
        percent(syncs.sync_wait_ratio),
        `of a cycle of ${time(syncs.cycle_ns)}`,
      ),
    );
  }
  return all.length ? figures(...all) : null;
}

function transfersCopies(found, args, context) {
  const { transfers, sampled_steps: steps } = found;
  const box = card(
    "Copies by direction",
    make(
      "p",
      { class: "soft" },
      `On ${transfers.accelerators.map((each) => each.slice(0, 100)).join(", ")}. Amounts are per step.`,
    ),
    table({
      caption: "Directions",
      csvName: "copies-by-direction",
      rows: transfers.directions,
      search: false,
      columns: transfersDirectionColumns(steps),
    }),
  );
  const sized = transfers.sizes.filter((each) => each.count > 0);
  if (sized.length > 1) {
    bars(box, {
      label: "Time of copies by their size",
      kind: "time",
      height: 200,
      x: { title: "size from", values: transfers.sizes.map((each) => bytes(each.least_bytes)) },
      series: [
        {
          name: "time per step",
          values: transfers.sizes.map((each) => each.time_ns / steps),
          colour: "part-host_to_device",
        },
      ],
    });
  }
  return [box, transfersCauses(found, args, context)];
}

function transfersDirectionColumns(steps) {
  const knownCalls = (row) =>
    Object.values(row.calls).reduce((sum, each) => sum + each, 0) - (row.calls.unknown ?? 0);
  const known = (row) =>
    Object.entries(row.host_memory).reduce(
      (sum, [name, each]) => sum + (name === "unknown" ? 0 : each.count),
      0,
    );
  return [
    ...transfersAmounts(steps),
    {
      key: "busy",
      title: "Time",
      kind: "time",
      bar: true,
      value: (row) => row.busy_ns / steps,
    },
    {
      key: "exposed",
      title: "Exposed",
      kind: "time",
      hint: "no kernel ran meanwhile",
      value: (row) => row.exposed_ns / steps,
    },
    {
      key: "hidden_ratio",
      title: "Hidden",
      kind: "ratio",
      bar: true,
      hint: "a kernel of the same device ran meanwhile",
    },
    {
      key: "pageable",
      title: "Pageable",
      kind: "ratio",
      hint: "from memory that the driver has to copy again",
      value: (row) => (known(row) ? (row.host_memory.pageable?.count ?? 0) / known(row) : null),
      missing: () => "the recording has no host memory type",
    },
    {
      key: "synchronous",
      title: "Synchronous",
      kind: "ratio",
      hint: "the caller waited",
      value: (row) => (knownCalls(row) ? (row.calls.synchronous ?? 0) / knownCalls(row) : null),
      missing: () => "the recording does not show whether the caller waited",
    },
  ];
}

function transfersCauses({ transfers, by, sampled_steps: steps }, args, context) {
  const page = by === "op" ? "ops" : by === "layer" ? "scopes" : "code";
  return table({
    caption: `Copies by ${TRANSFER_BYS[by]}`,
    csvName: `copies-by-${by}`,
    rows: transfers.causes,
    of: transfers.causes.length + transfers.more_causes,
    sort: args.sort ?? "-time",
    filter: args.find ?? "",
    onSort: (sort) => context.go({ ...args, sort }, { keep: true }),
    onFilter: (find) => context.go({ ...args, find }, { keep: true }),
    columns: [
      {
        key: "name",
        title: TRANSFER_BYS[by].replace(/^./, (letter) => letter.toUpperCase()),
        cell: (row) =>
          row.name.startsWith("(")
            ? nameOf(row.name)
            : make(
                "a",
                {
                  href: context.link(page, {
                    ...argsOf(args, "work"),
                    ...transfersSearch(row.name, by),
                  }),
                },
                nameOf(row.name),
              ),
      },
      ...transfersAmounts(steps),
      {
        key: "time",
        title: "Time",
        kind: "time",
        bar: true,
        value: (row) => row.time_ns / steps,
      },
      {
        key: "exposed",
        title: "Exposed",
        kind: "time",
        value: (row) => row.exposed_ns / steps,
      },
    ],
  });
}

/** What to search for on another page to find what copied. */
function transfersSearch(name, by) {
  if (by === "line") return { find: name.replace(/:\d+$/, "").split("/").at(-1) };
  return { by: by === "op" ? "name" : by, find: name.slice(0, 500) };
}

function transfersCollectives({ collectives, sampled_steps: steps }) {
  const clock =
    collectives.clock_error_ns === null
      ? ""
      : ` The clocks of these machines were aligned by synchronization events, to within ${time(collectives.clock_error_ns)}.`;
  const why = collectives.ranks_missing
    ? `Moving bytes and waiting for peers cannot be separated: ${collectives.ranks_missing}.`
    : `A rank that arrives early waits for the last one.${clock}`;
  return [
    table({
      caption: "Collectives",
      csvName: "collectives",
      rows: collectives.ops,
      of: collectives.ops.length + collectives.more_ops,
      columns: [
        {
          key: "name",
          title: "Collective",
          value: (row) => (row.name.includes(row.op) ? row.name : `${row.name} (${row.op})`),
        },
        {
          key: "count",
          title: "Runs per step",
          kind: "number",
          value: (row) => row.count / steps,
          cell: (row) => plainNumber(row.count / steps),
        },
        {
          key: "bytes",
          title: "Size",
          kind: "bytes",
          value: (row) => (row.sized ? row.bytes / row.sized : null),
          missing: () => "neither the recording nor the graph has the sizes of these tensors",
        },
        {
          key: "time",
          title: "A run",
          kind: "time",
          value: (row) => row.time_ns / row.count,
        },
        {
          key: "queued",
          title: "Queued",
          kind: "time",
          value: (row) => (row.queued ? row.queued_ns / row.queued : null),
          missing: () => "no launch of it was seen",
        },
        {
          key: "moving",
          title: "Moving bytes",
          kind: "time",
          bar: true,
          colour: "part-collectives",
          value: (row) => (row.matched ? row.moving_ns / row.matched : null),
          missing: () => collectives.ranks_missing,
        },
        {
          key: "waiting",
          title: "Waiting for peers",
          kind: "time",
          bar: true,
          colour: "part-sync_wait",
          value: (row) => (row.matched ? row.waiting_ns / row.matched : null),
          missing: () => collectives.ranks_missing,
        },
        transfersRate(),
      ],
    }),
    card(
      "Who waits for whom",
      make("p", {}, why),
      collectives.ranks ? transfersRanks(collectives) : null,
    ),
  ];
}

function transfersRanks({ ranks, more_ranks: more }) {
  return table({
    caption: "Ranks in collectives",
    csvName: "collectives-by-rank",
    rows: ranks,
    of: ranks.length + more,
    search: ranks.length > 8,
    columns: [
      { key: "rank", title: "Rank", value: processName },
      { key: "matched", title: "Collectives", kind: "count" },
      {
        key: "moving",
        title: "Moving bytes",
        kind: "time",
        bar: true,
        colour: "part-collectives",
        value: (row) => row.moving_ns / row.matched,
      },
      {
        key: "waiting",
        title: "Waiting for peers",
        kind: "time",
        bar: true,
        colour: "part-sync_wait",
        value: (row) => row.waiting_ns / row.matched,
      },
      {
        key: "last",
        title: "Came last",
        kind: "ratio",
        bar: true,
        colour: "critical",
        hint: "the others waited for it",
        value: (row) => row.came_last / row.matched,
      },
    ],
  });
}

function transfersSends({ sends, more_sends: more, sampled_steps: steps }) {
  return table({
    caption: "Between devices and tasks",
    csvName: "sends",
    rows: sends,
    of: sends.length + more,
    columns: [
      { key: "op", title: "Op" },
      { key: "from", title: "From", missing: () => "not in the graph" },
      { key: "to", title: "To", missing: () => "not in the graph" },
      {
        key: "count",
        title: "Runs per step",
        kind: "number",
        value: (row) => row.count / steps,
        cell: (row) => plainNumber(row.count / steps),
      },
      {
        key: "bytes",
        title: "Size",
        kind: "bytes",
        value: (row) => (row.sized ? row.bytes / row.sized : null),
        missing: () => "the recording has no size",
      },
      {
        key: "time",
        title: "A run",
        kind: "time",
        bar: true,
        value: (row) => row.time_ns / row.count,
      },
    ],
  });
}

function transfersSyncs(syncs) {
  const texts = [];
  if (syncs.sync_wait_ratio !== null) {
    texts.push(
      `Of a mean cycle of ${time(syncs.cycle_ns)}, ${percent(syncs.sync_wait_ratio)} is waiting for a device or another process, and ${percent(syncs.collectives_ratio)} collectives that nothing hides.`,
    );
  } else texts.push(sentence(`how long steps wait is unknown: ${syncs.missing.parts}`));
  if (syncs.gaps === null)
    texts.push(
      sentence(`whether Python requests values between steps is unknown: ${syncs.missing.python}`),
    );
  else if (!syncs.calls_per_gap)
    texts.push(
      `Python requests no tensor value between steps, in ${count(syncs.gaps)} gaps that were watched.`,
    );
  else {
    texts.push(
      `Python requests the value of a tensor after ${percent(syncs.gaps_ratio)} of the steps (${count(syncs.gaps)} were watched), ${plainNumber(syncs.calls_per_gap)} times, for ${time(syncs.ns_per_gap)} per step, mostly ${syncs.function}${syncs.source ? ` at ${syncs.source}` : ""}.`,
    );
  }
  return card(
    "Waiting",
    texts.map((each) => make("p", {}, make("bdi", {}, each))),
  );
}

/** Missing data, with reasons, in one place. */
function transfersAbsent(reasons) {
  const names = {
    transfers: "Copies",
    collectives: "Collectives",
    sends: "Between devices and tasks",
  };
  const gone = Object.entries(names).filter(([name]) => reasons[name]);
  if (!gone.length) return null;
  return card(
    "Missing data",
    make(
      "ul",
      {},
      gone.map(([name, title]) => make("li", {}, `${title}: ${reasons[name]}.`)),
    ),
  );
}

/** Which way copies go, and how many, how large and how fast they are, per step. */
function transfersAmounts(steps) {
  return [
    {
      key: "direction",
      title: "Direction",
      value: (row) => TRANSFER_DIRECTIONS[row.direction] ?? row.direction,
    },
    {
      key: "count",
      title: "Copies",
      kind: "number",
      value: (row) => row.count / steps,
      cell: (row) => plainNumber(row.count / steps),
    },
    {
      key: "bytes",
      title: "Size",
      kind: "bytes",
      value: (row) => (row.bytes === null ? null : row.bytes / steps),
      missing: () => "the recording has no sizes of these copies",
    },
    transfersRate(),
  ];
}

function transfersRate() {
  return {
    key: "bytes_per_s",
    title: "Rate",
    kind: "bytes",
    cell: (row) =>
      row.bytes_per_s === null
        ? missing("sizes or times of these are unknown")
        : byteRate(row.bytes_per_s),
  };
}
