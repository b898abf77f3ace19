// SPDX-License-Identifier: Apache-2.0
// Tables and charts of a modelled kernel. Rows are those of report_page.data_of.
"use strict";
(() => {
  const data = page.data();
  const { make, time, count, brief, plotText, hoverText } = page;
  const total = Math.max(1, data.total);
  const us = (cycles) => cycles / data.clockMhz;
  const byId = (id) => document.getElementById(id);
  const CAUSES = { busy: page.colour("point"), ...timeline.CAUSES };
  const SAID = { busy: "busy", data: "waits for data", flag: "waits for a flag", barrier: "waits for a barrier", end: "done" };

  function percent(share) {
    const value = 100 * share;
    if (value === 0) return "0 %";
    if (Math.abs(value) < 0.1) return value < 0 ? "> −0.1 %" : "< 0.1 %";
    return `${value.toFixed(Math.abs(value) >= 99.95 ? 0 : 1).replace("-", "−")} %`;
  }
  const figure = page.figure;
  function bytes(given) {
    if (given === null) return "";
    for (const [size, name] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) if (given >= size) return `${figure(given / size)} ${name}`;
    return `${count(given)} B`;
  }

  // Columns of tables.
  const column = (title, of, extra = {}) => ({ title, value: of, text: (row) => String(of(row) ?? ""), ...extra });
  const short = (most, kind) => (title, of) => column(title, of, {
    class: kind,
    cell: (row) => {
      const whole = String(of(row) ?? "");
      const cut = page.shortened(whole, most);
      return cut === whole ? whole : make("span", { title: whole }, cut);
    },
  });
  const name = short(34, "name");
  const line = short(30, "line");
  const cycles = (of, title = "cycles") => column(title, of, { class: "right", text: (row) => count(of(row)) });
  const micros = (of, title = "µs") => column(title, of, { class: "right", text: (row) => time(us(of(row))) });
  const number = (title, of) => column(title, of, { class: "right", text: (row) => (of(row) === null || of(row) === undefined ? "" : count(of(row))) });
  const share = (of, title, most = 1, kind = "") => column(title, of, {
    class: "state", text: (row) => (of(row) === null ? "" : percent(of(row))),
    cell: (row) => {
      if (of(row) === null) return "";
      const bar = make("span", { class: `share ${kind}`.trim() });
      bar.style.width = `${Math.max(0, Math.min(70, (70 * of(row)) / most)).toFixed(1)}px`;
      const words = make("span", {}, percent(of(row)));
      words.style.cssText = "display:inline-block;min-width:52px;text-align:right";
      return make("span", {}, words, bar);
    },
  });

  // ------------------------------------------------------------------ stalls

  function ledger(place) {
    const kinds = ["busy", "data", "flag", "barrier", "end"].filter((_, at) => data.ledger.some((row) => row[at + 1] > 0));
    const all = ["busy", "data", "flag", "barrier", "end"];
    const legend = make("div", { class: "tl-legend" });
    for (const kind of kinds) {
      const swatch = make("i");
      swatch.style.background = CAUSES[kind];
      legend.append(make("span", {}, swatch, SAID[kind]));
    }
    const body = make("tbody");
    const order = new Map((data.timeline ? data.timeline.lanes : []).map((lane, at) => [lane.pipe, at]));
    const sorted = data.ledger.slice().sort((a, b) => (order.get(a[0]) ?? 1e9) - (order.get(b[0]) ?? 1e9));
    for (const row of sorted.slice(0, 500)) {
      const bar = make("div", { class: "stack", role: "img", "aria-label": all.map((kind, at) => `${SAID[kind]} ${percent(row[at + 1] / total)}`).join(", ") });
      all.forEach((kind, at) => {
        if (!row[at + 1]) return;
        const piece = make("span", { title: `${SAID[kind]}: ${count(row[at + 1])} cycles, ${time(us(row[at + 1]))} µs, ${percent(row[at + 1] / total)}` });
        piece.style.width = `${(100 * row[at + 1]) / total}%`;
        piece.style.background = CAUSES[kind];
        bar.append(piece);
      });
      body.append(make("tr", {}, make("td", { class: "name" }, row[0]), make("td", { class: "bar-cell" }, bar),
        ...kinds.map((kind) => {
          const value = row[all.indexOf(kind) + 1];
          return make("td", { class: value ? "right" : "right zero", "data-kind": kind, "data-cycles": value }, value ? percent(value / total) : "–");
        })));
    }
    const head = make("tr", {}, make("th", {}, make("span", {}, "pipe")), make("th", {}), ...kinds.map((kind) => make("th", { class: "right" }, make("span", {}, kind))));
    place.append(legend, make("div", { class: "scroll", id: "ledger-bars" }, make("table", { class: "bars", id: "ledger-pipes" }, make("thead", {}, head), body)));
    if (sorted.length > 500) place.append(make("p", { class: "about" }, `and ${count(sorted.length - 500)} more pipes`));

    const waits = data.stalls.filter((row) => row[1] !== "end");
    if (!waits.length) return;
    place.append(make("h3", { class: "sub" }, "What is waited for"));
    const most = Math.max(...waits.map((row) => row[2] / total));
    const target = make("div", { id: "stalls" });
    place.append(target);
    page.table(target, {
      rows: waits, noun: "causes", sort: 1, down: true, perPage: 15,
      columns: [
        name("pipe", (row) => row[0]), cycles((row) => row[2]), share((row) => row[2] / total, "of the time", most),
        number("times", (row) => row[3]),
        name("before", (row) => row[8]), line("line", (row) => row[9]),
        column("waits for", (row) => row[1]),
        column("what", (row) => row[4], { class: "wide" }),
        name("by", (row) => row[5]), name("on", (row) => row[6]), line("its line", (row) => row[7]),
      ],
    });
  }

  // ------------------------------------------------------------------ critical path, what if

  function critical(place) {
    // Of many parts the small ones as one row, so that the large ones can be seen.
    const isSmall = (row) => row[3] < total / 1000;
    const small = data.critical.parts.filter(isSmall);
    const parts = small.length < 2 ? data.critical.parts : data.critical.parts.filter((row) => !isSmall(row));
    if (small.length > 1) {
      const sum = (at) => small.reduce((n, row) => n + row[at], 0);
      parts.push([`${count(small.length)} others below 0.1 %`, "", "", sum(3), sum(4)]);
    }
    page.table(place, {
      rows: parts, noun: "parts", sort: 3, down: true, perPage: 12,
      columns: [
        name("instruction", (row) => row[0]), name("pipe", (row) => row[1]), line("line", (row) => row[2]), cycles((row) => row[3]),
        share((row) => row[3] / total, "of the time", parts.length ? parts[0][3] / total : 1), number("count", (row) => row[4]),
      ],
    });
  }

  function gains(place) {
    const rows = data.gains;
    const most = Math.max(1e-9, ...rows.map((row) => row[5] / total));
    page.table(place, {
      rows, noun: "changes", sort: -1, perPage: 12, rowClass: (row) => (row[6] ? "best" : ""),
      columns: [
        column("change", (row) => row[3], { text: (row) => row[3][0].toUpperCase() + row[3].slice(1) }),
        micros((row) => row[4], "then µs"), cycles((row) => row[4], "cycles"),
        share((row) => row[5] / total, "gain", most, "of-gain"),
      ],
    });
  }

  // ------------------------------------------------------------------ pipes and instructions

  const notMeasured = (row) => {
    const all = Object.entries(row[5]);
    const sum = all.reduce((n, [, value]) => n + value, 0);
    const rest = all.filter(([origin]) => origin !== "measured").map(([origin, value]) => `${value === sum ? "" : `${percent(value / sum)} `}${origin.replace(/_/g, " ")}`);
    return sum && !rest.length ? "measured" : rest.join(", ");
  };

  function statistics(place) {
    const measured = data.comparison ? new Map(data.comparison.rows.map((row) => [row[0], row])) : null;
    const columns = (title) => [
      name(title, (row) => row[0]), micros((row) => row[1]), cycles((row) => row[1]), share((row) => row[1] / total, "busy"),
      number("bytes", (row) => row[2]),
      column("B / cycle", (row) => (row[2] && row[1] ? row[2] / row[1] : null), { class: "right", text: (row) => (row[2] && row[1] ? figure(row[2] / row[1]) : "") }),
      number("operations", (row) => row[3]), number("count", (row) => row[4]), column("cost", notMeasured),
    ];
    const pipes = columns("pipe");
    if (measured) {
      const of = (row, at) => measured.get(row[0])?.[at] ?? null;
      pipes.splice(3, 0,
        column("measured µs", (row) => of(row, 2), { class: "right", text: (row) => time(of(row, 2)) }),
        column("ratio", (row) => of(row, 3), { class: "right", text: (row) => (of(row, 3) === null ? "" : of(row, 3).toFixed(2)) }));
    }
    const first = make("div", { id: "pipe-table" });
    const second = make("div", { id: "instruction-table" });
    const pie = make("div", { id: "pie-plot" });
    place.append(first, make("div", { class: "with-pie" }, second, make("div", {}, make("h3", { class: "sub" }, "Busy cycles by instruction"), pie)));
    page.table(first, { rows: data.pipes, columns: pipes, noun: "pipes", sort: 2, down: true, perPage: 15 });
    page.table(second, { rows: data.instructions, columns: columns("instruction"), noun: "instructions", sort: 2, down: true, perPage: 15 });
    const sum = data.instructions.reduce((n, row) => n + row[1], 0);
    const large = data.instructions.filter((row, at) => at < 9 && row[1] > 0);
    const rest = sum - large.reduce((n, row) => n + row[1], 0);
    const colourOf = timeline.view() ? timeline.view().colourOf : new Map();
    const slices = large.map((row) => [row[0], row[1], colourOf.get(row[0]) || "#8d98a6"]);
    if (rest > 0) slices.push(["others", rest, "#c9d1da"]);
    if (!slices.length) return;
    page.draw(pie, [{
      type: "pie", hole: 0.45, sort: false, direction: "clockwise", labels: slices.map((row) => plotText(page.shortened(row[0], 40))), values: slices.map((row) => row[1]),
      marker: { colors: slices.map((row) => row[2]), line: { color: "#fff", width: 1 } },
      texttemplate: slices.map((row) => (row[1] / sum >= 0.05 ? "%{label}<br>%{percent}" : "")), textposition: "inside", insidetextorientation: "horizontal",
      hovertemplate: "%{label}: %{value:,} cycles, %{percent}<extra></extra>",
    }], { margin: { l: 4, r: 4, t: 4, b: 4 }, uniformtext: { mode: "hide", minsize: 9 } }, 260);
  }

  // ------------------------------------------------------------------ comparison

  function comparison(place) {
    page.table(place, {
      rows: data.comparison.rows, noun: "rows", sort: 1, down: true, perPage: 30,
      columns: [
        name("pipe", (row) => row[0]),
        column("predicted µs", (row) => row[1], { class: "right", text: (row) => time(row[1]) }),
        column("measured µs", (row) => row[2], { class: "right", text: (row) => time(row[2]) }),
        column("measured / predicted", (row) => row[3], { class: "right", text: (row) => (row[3] === null ? "" : row[3].toFixed(3)) }),
        column("difference µs", (row) => (row[1] === null || row[2] === null ? null : row[2] - row[1]), {
          class: "right", text: (row) => (row[1] === null || row[2] === null ? "" : `${row[2] < row[1] ? "−" : "+"}${time(Math.abs(row[2] - row[1]))}`),
        }),
      ],
    });
  }

  // ------------------------------------------------------------------ roofline

  // Where a logarithmic axis has its labels.
  function decades(low, high) {
    const step = Math.max(1, Math.ceil((high - low) / 6));
    for (const digits of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 8]]) {
      const out = [];
      for (let power = Math.floor(low); power <= Math.ceil(high) && out.length < 80; power += step) {
        for (const digit of digits) if (digit * 10 ** power >= 10 ** low && digit * 10 ** power <= 10 ** high) out.push(digit * 10 ** power);
      }
      if (out.length >= 3) return out;
    }
    return [10 ** low, 10 ** ((low + high) / 2), 10 ** high];
  }

  function coreChoice(list, changed) {
    if (list.length < 2) return null;
    return page.selector("core", list.map((core, at) => [at, core || "(no core)"]), 0, (value) => changed(Number(value))).element;
  }

  const pathText = (path) => path.replace("_TO_", "→");

  function roofline(place) {
    const plot = make("div", { id: "roofline-plot" });
    const table = make("div", { id: "roofline-table" });
    const select = coreChoice(data.roofline.map((core) => core.core), (at) => show(data.roofline[at]));
    const about = make("p", { class: "about" });
    if (select) place.append(make("div", { class: "controls" }, select));
    place.append(about, make("div", { class: "with-roof" }, plot, table));
    show(data.roofline[0]);

    function show(core) {
      const rate = core.peak ? `${figure(core.rate)} of ${figure(core.peak)} operations per cycle (${percent(core.rate / core.peak)})` : `${figure(core.rate)} operations per cycle`;
      const limit = core.bound ? `bound by ${core.bound === "compute" ? "computing" : pathText(core.bound)}${core.utilisation === null ? "" : ` at ${percent(core.utilisation)} of its best rate`}` : "";
      const words = core.operations ? [rate, core.intensity === null ? "" : `${figure(core.intensity)} operations per byte of GM`, limit] : [limit];
      const said = words.filter(Boolean).join(", ");
      about.textContent = said ? `${said[0].toUpperCase()}${said.slice(1)}.` : "";
      table.replaceChildren();
      const rows = core.paths.map((path) => [pathText(path[0]), path[1], path[2], path[3], path[4], "B"]);
      if (core.operations) rows.push(["computing", core.operations, core.rate, core.peak, core.peak ? core.rate / core.peak : null, "op"]);
      page.table(table, {
        rows, noun: "paths", sort: 4, down: true, perPage: 20,
        columns: [
          name("path", (row) => row[0]),
          column("bytes / operations", (row) => row[1], { class: "right", text: (row) => count(row[1]) }),
          column("per cycle", (row) => row[2], { class: "right", text: (row) => `${figure(row[2])} ${row[5]}` }),
          column("at best", (row) => row[3], { class: "right", text: (row) => (row[3] === null ? "" : `${figure(row[3])} ${row[5]}`) }),
          share((row) => row[4], "of the best", Math.max(1e-9, ...rows.map((row) => row[4] || 0))),
        ],
      });
      const used = core.paths.filter((path) => path[1] > 0 && core.operations > 0);
      plot.hidden = !used.length;
      if (!used.length) return;
      const intensity = used.map((path) => core.operations / path[1]);
      const knees = used.filter((path) => path[3] && core.peak).map((path) => core.peak / path[3]);
      const low = Math.log10(Math.min(...intensity, ...knees)) - 0.7;
      const high = Math.log10(Math.max(...intensity, ...knees)) + 0.7;
      const ceiling = core.peak || Math.max(...used.map((path, at) => (path[3] || 0) * intensity[at]), core.rate);
      const bottom = Math.log10(core.rate) - 0.7;
      const traces = [];
      if (core.peak) {
        traces.push({
          type: "scatter", mode: "lines", x: [10 ** low, 10 ** high], y: [core.peak, core.peak], line: { color: page.colour("ink"), width: 2 },
          hovertemplate: `computing: at best ${figure(core.peak)} operations per cycle<extra></extra>`,
        });
      }
      used.forEach((path, at) => {
        const colour = timeline.PALETTE[at % timeline.PALETTE.length];
        const label = plotText(pathText(path[0]));
        if (path[3]) {
          const knee = ceiling / path[3];
          const begin = Math.min(10 ** low, knee);
          const xs = [];
          for (let k = 0; k <= 20; k += 1) xs.push(10 ** (Math.log10(begin) + (k / 20) * Math.log10(knee / begin)));
          traces.push({
            type: "scatter", mode: "lines", x: xs, y: xs.map((value) => value * path[3]), line: { color: colour, width: 1.5 },
            hovertemplate: `${label}: at best ${figure(path[3])} bytes per cycle<extra></extra>`,
          });
        }
        traces.push({
          type: "scatter", mode: "markers", name: label, showlegend: true, x: [intensity[at]], y: [core.rate], marker: { size: 10, color: colour, line: { width: 1, color: "#fff" } },
          hovertemplate: `<b>${label}</b><br>${figure(intensity[at])} operations per byte<br>${figure(core.rate)} operations per cycle${path[4] === null ? "" : `<br>${percent(path[4])} of the path's best rate`}<extra></extra>`,
        });
      });
      // Of points at one place the first is drawn largest, so that a ring of each can be seen.
      const points = traces.filter((trace) => trace.mode === "markers");
      points.forEach((trace, at) => {
        const same = points.slice(at + 1).filter((other) => Math.abs(Math.log10(other.x[0] / trace.x[0])) < 0.01).length;
        trace.marker.symbol = ["circle", "diamond", "square", "triangle-up", "cross", "star"][at % 6];
        trace.marker.size = 10 + 7 * Math.min(same, 5);
      });
      for (const trace of traces) if (!trace.name) trace.showlegend = false;
      page.draw(plot, traces, {
        showlegend: true, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 11 } }, margin: { l: 56, r: 14, t: 34, b: 44 },
        xaxis: page.axis("operations per byte", { type: "log", range: [low, high], tickvals: decades(low, high), ticktext: decades(low, high).map(brief) }),
        yaxis: page.axis("operations per cycle", { type: "log", range: [bottom, Math.log10(ceiling) + 0.3], tickvals: decades(bottom, Math.log10(ceiling) + 0.3), ticktext: decades(bottom, Math.log10(ceiling) + 0.3).map(brief) }),
      }, 320);
    }
  }

  // ------------------------------------------------------------------ memory

  function memory(place) {
    const cores = [...new Set(data.memory.map((use) => use.core))];
    const grid = make("div", { class: "plots" });
    const select = coreChoice(cores, (at) => show(cores[at]));
    if (select) place.append(make("div", { class: "controls" }, select));
    place.append(grid);
    show(cores[0]);

    function show(core) {
      grid.replaceChildren();
      for (const use of data.memory.filter((one) => one.core === core)) {
        const plot = make("div");
        const over = use.capacity !== null && use.peak > use.capacity;
        const of = use.capacity === null ? "" : ` of ${bytes(use.capacity)} (${percent(use.peak / use.capacity)})`;
        const about = make("div", { class: over ? "memory-about over" : "memory-about" }, `peak ${bytes(use.peak)}${of} at ${time(us(use.at))} µs`);
        const block = make("div", { class: "memory", "data-memory": use.memory, "data-peak": use.peak }, make("h3", {}, use.memory), about, plot);
        for (const [text, size, versions] of use.largest) block.append(make("div", { class: "memory-about" }, `${bytes(size)}: ${versions > 1 ? `${count(versions)} × ` : ""}${text}`));
        grid.append(block);
        chart(plot, use, over);
      }
    }

    function chart(plot, use, over) {
      const xs = [];
      const ys = [];
      for (let at = 0; at < use.points.length; at += 2) {
        xs.push(us(use.points[at]));
        ys.push(use.points[at + 1]);
      }
      if (xs.length) { xs.push(us(total)); ys.push(ys[ys.length - 1]); }
      // The capacity is in the picture where that leaves something to see of the use.
      const near = use.capacity !== null && use.capacity <= use.peak * 8;
      const most = Math.max(near ? use.capacity : 0, use.peak, 1) * 1.12;
      const unit = most >= 2 ** 20 ? [2 ** 20, "MiB"] : most >= 2 ** 10 ? [2 ** 10, "KiB"] : [1, "B"];
      const traces = [{
        type: "scatter", mode: "lines", x: xs, y: ys.map((value) => value / unit[0]), line: { shape: "hv", width: 1, color: over ? page.colour("bad") : page.colour("point") }, fill: "tozeroy",
        fillcolor: over ? "rgba(179,38,30,0.14)" : "rgba(59,111,182,0.16)", hovertemplate: `%{x:,.4~f} µs: %{y:,.4~r} ${unit[1]}<extra></extra>`,
      }];
      const lines = near ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: use.capacity / unit[0], y1: use.capacity / unit[0], line: { color: page.colour("bad"), width: 1.5, dash: "dash" } }] : [];
      const words = near ? [{ xref: "paper", x: 1, y: use.capacity / unit[0], text: "capacity", showarrow: false, xanchor: "right", yanchor: "bottom", font: { size: 11, color: page.colour("bad") } }] : [];
      page.draw(plot, traces, {
        xaxis: page.axis("µs", { range: [0, us(total)], nticks: 5, exponentformat: "none", separatethousands: true }), yaxis: page.axis(unit[1], { exponentformat: "none", range: [0, most / unit[0]], nticks: 4 }), shapes: lines, annotations: words,
        margin: { l: 48, r: 8, t: 8, b: 36 },
      }, 170);
    }
  }

  // ------------------------------------------------------------------ costs

  function origins(place) {
    page.table(place, {
      rows: data.origins, noun: "rows", sort: 5, down: true, perPage: 20,
      columns: [
        name("instruction or path", (row) => row[0]), column("origin", (row) => row[1], { text: (row) => row[1].replace(/_/g, " ") }),
        name("pipe", (row) => row[2]), line("line", (row) => row[3]), number("count", (row) => row[4]), cycles((row) => row[5]),
        share((row) => row[5] / total, "of the time"),
      ],
    });
  }

  // ------------------------------------------------------------------ all of it

  const root = document.documentElement;
  if (byId("timeline") && data.timeline) timeline.show(byId("timeline"), data);
  const parts = { ledger, critical, gains, statistics, comparison, roofline, memory, origins };
  for (const [id, part] of Object.entries(parts)) {
    const place = byId(id);
    if (place) part(place);
  }
  // From here on all but the charts can be used.
  root.dataset.interactiveMs = String(Math.round(performance.now()));
  page.whenIdle(() => {
    root.dataset.readyMs = String(Math.round(performance.now()));
    root.dataset.ready = "yes";
  });
})();
