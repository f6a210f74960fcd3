// Make one of the parts in an empty page, of rows whose first names are hostile. `told` is what it
// calls back; `formatted` writes numbers, each given as its kind and its value.
async ([part, hostile, many]) => {
  const module = (name) => import(`/tfprobe/web/static/parts/${name}.js`);
  const [{ make, fill }, { table }, { lines }, charts, { flame }, amounts] = await Promise.all(
    ["elements", "table", "lines", "charts", "flame", "amounts"].map(module),
  );
  const formatters = {
    time: amounts.time,
    bytes: amounts.bytes,
    rate: amounts.byteRate,
    flops: (value) => amounts.large(value, "FLOP"),
    large: amounts.large,
    count: amounts.count,
    ordinal: amounts.ordinal,
    digits: amounts.digits,
    plain: amounts.plainNumber,
    percent: amounts.percent,
    signed: amounts.signedPercent,
  };
  window.formatted = (cases) => cases.map(([kind, value]) => formatters[kind](value));
  const place = make("div", { class: "page", id: "made" });
  fill(document.querySelector("main"), place);
  const rows = Array.from({ length: many }, (_, at) => ({
    name: hostile[at] ?? `op ${at}`,
    total_ns: at % 7 ? 1000 * at : null,
    share: 1 / (at + 1),
  }));
  const told = [];
  window.told = told;
  const parts = {
    table: () =>
      place.append(
        table({
          caption: "Ops",
          csvName: "ops",
          rows,
          sort: "-total_ns",
          onSort: (sort) => told.push(sort),
          onFilter: (text) => told.push(text),
          onOpen: (row) => told.push(row.name),
          columns: [
            { key: "name", title: "Op" },
            { key: "total_ns", title: "Time", kind: "time", missing: () => "not told" },
            { key: "share", title: "Share", kind: "ratio", bar: true },
          ],
        }),
      ),
    lines: () =>
      lines(place, {
        label: "Step time",
        csvName: "steps",
        outliers: [3],
        onPick: (at) => told.push(at),
        onZoom: (...range) => told.push(range),
        x: { title: "step", kind: "count", values: rows.slice(0, 50).map((_, at) => at) },
        series: [
          {
            name: hostile[0],
            kind: "time",
            values: rows.slice(0, 50).map((_, at) => 1e6 + at),
            colour: "on",
          },
          {
            name: "memory",
            kind: "bytes",
            values: rows.slice(0, 50).map((_, at) => 1024 * at),
            colour: "after",
          },
        ],
      }),
    flame: () =>
      flame(place, tree(), {
        label: "Scopes",
        inverted: true,
        onOpen: (node) => told.push(node.name),
      }),
    charts: () => {
      charts.treemap(place, { label: "Map", root: tree() });
      charts.bars(place, {
        label: "Bars",
        x: { title: "step", values: hostile },
        series: [{ name: hostile[1], values: [1, 2, 3] }],
      });
      charts.heatmap(place, {
        label: "Heat",
        x: { title: "step", values: hostile },
        y: { title: "rank", values: hostile },
        cells: [
          [0, 0, 5e6],
          [1, 1, null],
        ],
      });
      charts.stack(place, {
        label: "Stack",
        bars: [{ name: hostile[0], parts: [{ name: hostile[1], value: 3, colour: "on" }] }],
        onOpen: (part) => told.push(part.name),
      });
    },
  };
  function tree() {
    return {
      name: "all",
      value: 100,
      children: [
        { name: hostile[0], value: 60, children: [{ name: "inner", value: 40 }] },
        { name: hostile[1], value: 40, children: [] },
      ],
    };
  }
  parts[part]();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
};
