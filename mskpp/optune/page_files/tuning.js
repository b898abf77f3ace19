// SPDX-License-Identifier: Apache-2.0
// The charts and tables of a tuning. A trial is a place in the columns of data.trials.
"use strict";
(() => {
  const DRAWN = 3000; // points of a chart; a browser stays quick with them
  const CELLS_WITH_TEXT = 160;
  const data = page.data();
  const { make, time, brief, count, hoverText, plotText } = page;
  const T = data.trials;
  const places = T.number.map((_, at) => at);
  const measured = places.filter((at) => T.time[at] !== null);
  const failed = places.filter((at) => T.time[at] === null && T.ending[at] !== data.notTried);
  const bestTime = measured.reduce((least, at) => Math.min(least, T.time[at]), Infinity);
  const worstTime = measured.reduce((most, at) => Math.max(most, T.time[at]), 0);
  const placeOf = new Map(places.map((at) => [T.number[at], at]));
  const tied = new Set(data.ties);
  const colours = { point: page.colour("point"), best: page.colour("best"), median: page.colour("median"), bad: page.colour("bad") };
  const notes = data.leftOut;
  const logTime = bestTime > 0 && worstTime / bestTime > 12;

  const byId = (id) => document.getElementById(id);
  const textOf = (parameter, at) => (parameter.codes[at] < 0 ? "" : parameter.texts[parameter.codes[at]]);

  // The slot of a trial in the charts of a parameter; -1 where it has none.
  const slotOf = (parameter, at) => (parameter.codes[at] < 0 ? -1 : parameter.slots[parameter.codes[at]]);

  // At most DRAWN of these places, evenly chosen, with the best always among them.
  function drawn(list) {
    if (list.length <= DRAWN) return list;
    const out = [];
    for (let k = 0; k < DRAWN; k += 1) out.push(list[Math.floor((k * list.length) / DRAWN)]);
    const best = list.find((at) => T.number[at] === data.best);
    if (best !== undefined && !out.includes(best)) out.push(best);
    return out;
  }
  // The tied ones come last, and so lie on top.
  const points = drawn(measured).sort((a, b) => Number(tied.has(T.number[a])) - Number(tied.has(T.number[b])) || a - b);
  const crosses = drawn(failed);
  if (points.length < measured.length || crosses.length < failed.length) {
    notes.push(`Charts draw ${count(points.length + crosses.length)} of the ${count(measured.length + failed.length)} points that the table has.`);
  }

  // What a point says: number, time with its bounds, configuration.
  const hovers = new Map();
  function hover(at) {
    if (hovers.has(at)) return hovers.get(at);
    const lines = [];
    if (T.time[at] === null) {
      lines.push(`<b>No.${T.number[at]}: ${plotText(T.ending[at])}</b>`, hoverText(T.texts[T.reason[at]], 90, 4));
    } else {
      const bounds = T.low[at] !== null && T.samples[at] >= data.fewSamples ? ` (${time(T.low[at])} to ${time(T.high[at])})` : "";
      lines.push(`<b>No.${T.number[at]}: ${time(T.time[at])} µs</b>${bounds}${T.known[at] ? ", known before" : ""}`);
      if (T.predicted[at] !== null) lines.push(`predicted ${time(T.predicted[at])} µs`);
    }
    for (const parameter of data.parameters.slice(0, 10)) {
      if (parameter.codes[at] >= 0) lines.push(`${hoverText(parameter.name, 60, 1)} = ${hoverText(textOf(parameter, at), 90, 3)}`);
    }
    const text = lines.filter(Boolean).join("<br>");
    hovers.set(at, text);
    return text;
  }

  function dots(list, x, y, changes = {}) {
    return {
      type: "scatter", mode: "markers", x, y, text: list.map(hover), hovertemplate: "%{text}<extra></extra>",
      marker: {
        size: list.map((at) => (T.number[at] === data.best ? 10 : 7)),
        color: list.map((at) => (tied.has(T.number[at]) ? colours.best : colours.point)),
        opacity: list.map((at) => (tied.has(T.number[at]) ? 1 : list.length > 400 ? 0.45 : 0.7)),
        line: { width: 0 },
      },
      ...changes,
    };
  }

  function legend(...entries) {
    const out = make("div", { class: "legend" });
    for (const [mark, kind, text] of entries) out.append(make("span", { "data-mark": mark, class: kind }, text));
    return out;
  }

  // Zero has no place on a logarithmic axis.
  const timeChoice = (changed) =>
    !(bestTime > 0) ? "" : page.choice("time axis", [["linear", "linear"], ["log", "logarithmic"]], logTime ? "log" : "linear", (value) => changed(value === "log"));

  // ------------------------------------------------------------------ progress

  function progress(place) {
    let by = data.timed ? "elapsed" : "count";
    let log = logTime;
    const plot = make("div", { id: "progress-plot" });
    const controls = make("div", { class: "controls" });
    if (data.timed) {
      controls.append(page.choice("over", [["elapsed", "time elapsed"], ["count", "trials ended"]], by, (value) => { by = value; show(); }));
    }
    if (measured.length) controls.append(timeChoice((value) => { log = value; show(); }));
    const entries = measured.length ? [["●", "", "configuration"]] : [];
    if (T.known.some(Boolean)) entries.push(["○", "", "known before, not measured now"]);
    if (measured.length) entries.push(["●", "of-best", tied.size > 1 ? "best, and ties" : "best"], ["━", "of-best", "best so far"]);
    if (failed.length) entries.push(["×", "of-bad", "failure"]);
    controls.append(make("span", { class: "spring" }), legend(...entries));
    place.append(controls, plot);

    function show() {
      const traces = [];
      const x = T[by];
      if (data.steps.length) {
        const column = by === "elapsed" ? 1 : 0;
        const stepX = data.steps.map((step) => step[column]);
        const stepY = data.steps.map((step) => step[2]);
        const ends = by === "elapsed" ? Math.max(data.seconds || 0, ...places.map((at) => T.elapsed[at] || 0)) : data.counted;
        traces.push({
          type: "scatter", mode: "lines", x: [...stepX, ends], y: [...stepY, stepY[stepY.length - 1]],
          line: { shape: "hv", color: colours.best, width: 2 }, hoverinfo: "skip",
        });
        const all = dots(points, points.map((at) => x[at]), points.map((at) => T.time[at]));
        all.marker.symbol = points.map((at) => (T.known[at] ? "circle-open" : "circle"));
        all.marker.line = { width: points.map((at) => (T.known[at] ? 1.5 : 0)) };
        traces.push(all);
      }
      if (crosses.length) {
        traces.push(dots(crosses, crosses.map((at) => x[at]), crosses.map(() => (measured.length ? 0.035 : 0.2)), {
          yaxis: "y2", marker: { size: 8, symbol: "x-thin", color: colours.bad, line: { width: 1.6, color: colours.bad } },
        }));
      }
      // Room at the bottom for the crosses.
      let y = page.axis("", { visible: false });
      if (measured.length) {
        const [low, high] = log ? [Math.log10(bestTime), Math.log10(worstTime)] : [bestTime, worstTime];
        const span = high - low || Math.abs(high) * 0.1 || 1;
        y = page.timeAxis("time (µs)", log, [low - span * (failed.length ? 0.14 : 0.07), high + span * 0.07]);
      }
      const title = by === "elapsed" ? "seconds since the search began" : "trials ended";
      page.draw(plot, traces, {
        xaxis: page.axis(title, { rangemode: "tozero" }),
        yaxis: y,
        yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true },
      }, measured.length ? 360 : 150);
    }
    show();
  }

  // ------------------------------------------------------------------ parameters

  // How much the best times of a name's values differ: the factor between the largest and the least.
  function effect(parameter) {
    const bests = parameter.values.map((value) => value[4]).filter((best) => best !== null && best > 0);
    return bests.length ? Math.max(...bests) / Math.min(...bests) : 1;
  }

  // A little to the side, the same each time, so that points of one value do not hide each other.
  const aside = (at) => ((((T.number[at] + 1) * 0.6180339887) % 1) - 0.5) * 0.34;

  // Of many numbers some that have room for their labels: a sixth of the axis each.
  function apart(values, log) {
    const at = (value) => (log ? Math.log10(value[1]) : value[1]);
    const room = (at(values[values.length - 1]) - at(values[0])) / 6;
    const out = [];
    for (const value of values) {
      if (!out.length || at(value) - at(out[out.length - 1]) >= room * 0.999) out.push(value);
    }
    return out;
  }

  function effects(place) {
    let log = logTime;
    // One range for all, so that plots can be compared.
    const range = () => {
      const [low, high] = log ? [Math.log10(bestTime), Math.log10(worstTime)] : [bestTime, worstTime];
      const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
      return [low - room, high + room];
    };
    const controls = make("div", { class: "controls" }, timeChoice((value) => { log = value; show(); }), make("span", { class: "spring" }));
    controls.append(legend(["●", "", "configuration"], ["◆", "of-best", "best of the value"], ["▬", "of-median", "median of the value"]));
    const grid = make("div", { class: "plots" });
    place.append(controls, grid);
    const plots = data.parameters.slice(0, data.plots).map((parameter, at) => {
      const plot = make("div", { id: `effect-plot-${at}` });
      const size = parameter.values.length > 1 ? `best times differ by a factor of ${effect(parameter).toFixed(2)}` : "one value only";
      grid.append(make("div", {}, make("h3", {}, parameter.name), make("div", { class: "effect-size" }, size), plot));
      return [parameter, plot];
    });
    if (data.parameters.length > plots.length) notes.push(`Plots of ${count(data.parameters.length - plots.length)} more parameters.`);

    function show() {
      for (const [parameter, plot] of plots) one(parameter, plot);
    }

    function one(parameter, plot) {
      const { values, numbers, numeric, ranges } = parameter;
      const mine = points.filter((at) => slotOf(parameter, at) >= 0);
      const x = mine.map((at) => (numeric ? numbers[parameter.codes[at]] : slotOf(parameter, at) + aside(at)));
      const good = values.map((value, slot) => [...value, numeric ? value[1] : slot]).filter((value) => value[4] !== null);
      const label = ([text, , tried, done, best, median]) =>
        `<b>${hoverText(text)}</b><br>best ${time(best)} µs, median ${time(median)} µs<br>${count(done)} measured of ${count(tried)} tried`;
      const said = { text: good.map(label), hovertemplate: "%{text}<extra></extra>" };
      const goodX = good.map((value) => value[6]);
      const lines = numeric && good.length > 1 ? "lines+markers" : "markers";
      const bars = { symbol: "line-ew", size: ranges ? 7 : 15, color: colours.median, line: { width: 2.5, color: colours.median } };
      const traces = [
        dots(mine, x, mine.map((at) => T.time[at])),
        { type: "scatter", mode: lines, x: goodX, y: good.map((value) => value[5]), line: { color: colours.median, width: 1, dash: "dot" }, marker: bars, ...said },
        {
          type: "scatter", mode: lines, x: goodX, y: good.map((value) => value[4]), line: { color: colours.best, width: 1.5 },
          marker: { symbol: "diamond", size: ranges ? 6 : 9, color: colours.best, line: { width: 1, color: "#fff" } }, ...said,
        },
      ];
      traces[0].marker.color = colours.point;
      traces[0].marker.size = 6;
      traces[0].marker.opacity = mine.length > 400 ? 0.3 : 0.5;
      let axis;
      if (numeric) {
        axis = page.axis("", { type: parameter.log ? "log" : "linear", exponentformat: "none" });
        if (values.length <= 10) {
          axis.tickvals = values.map((value) => value[1]);
          axis.ticktext = values.map((value) => plotText(page.shortened(value[0], 12)));
        } else if (!ranges) {
          const shown = apart(values, parameter.log);
          axis.tickvals = shown.map((value) => value[1]);
          axis.ticktext = shown.map((value) => plotText(page.shortened(value[0], 12)));
        } else if (parameter.log) {
          axis.dtick = Math.log10(2) * Math.max(1, Math.ceil(Math.log2(values[values.length - 1][1] / values[0][1]) / 8));
        }
        // A little room at both ends.
        const scale = parameter.log ? Math.log10 : (number) => number;
        const [low, high] = [scale(values[0][1]), scale(values[values.length - 1][1])];
        const room = (high - low) * 0.08 || 0.5;
        axis.range = [low - room, high + room];
      } else {
        axis = page.placesAxis("", values.map((value) => value[0]), values.length > 6 ? 14 : 20, 270);
      }
      page.draw(plot, traces, { xaxis: axis, yaxis: page.timeAxis("time (µs)", log, range()), margin: { l: 52, r: 12, t: 10, b: 34 } }, 250);
    }
    show();
  }

  // ------------------------------------------------------------------ pairs

  function pair(place) {
    const all = data.parameters.slice(0, data.paired);
    if (data.parameters.length > all.length) notes.push(`The map of two parameters offers the first ${all.length} of ${count(data.parameters.length)}.`);
    const ranked = all.map((parameter, at) => [(parameter.values.length > 1 ? effect(parameter) : 0) * (parameter.ranges ? 1e-6 : 1), at]).sort((a, b) => b[0] - a[0]);
    // First those that matter most; ranges of numbers after the others.
    let [across, up] = [ranked[0][1], ranked[1][1]].sort((a, b) => a - b);
    const options = all.map((parameter, at) => [at, page.shortened(page.clean(parameter.name), 40)]);
    const plot = make("div", { id: "pair-plot" });
    // The same name twice makes no map: the other one takes the place it leaves.
    const first = page.selector("across", options, across, (value) => {
      const old = across;
      across = Number(value);
      if (up === across) { up = old; second.select.value = String(up); }
      show();
    });
    const second = page.selector("upward", options, up, (value) => {
      const old = up;
      up = Number(value);
      if (across === up) { across = old; first.select.value = String(across); }
      show();
    });
    place.append(make("div", { class: "controls" }, first.element, second.element, make("span", { class: "spring" }), failed.length ? legend(["×", "of-bad", "all failed"]) : ""), plot);

    function show() {
      const [a, b] = [all[across], all[up]];
      const none = () => b.values.map(() => a.values.map(() => null));
      const best = none();
      const whose = none();
      const [cells, times, numbers] = data.pairs[`${Math.min(across, up)},${Math.max(across, up)}`];
      cells.forEach((cell, k) => {
        const width = all[Math.max(across, up)].values.length;
        const [first, last] = [Math.floor(cell / width), cell % width];
        const [x, y] = across < up ? [first, last] : [last, first];
        best[y][x] = times[k];
        whose[y][x] = numbers[k];
      });
      // Of the best of a cell, also where the table does not have it.
      const said = (number, x, y) => {
        if (number === null) return "";
        if (placeOf.has(number)) return hover(placeOf.get(number));
        const figure = best[y][x] === null ? "failed" : `${time(best[y][x])} µs`;
        return [`<b>No.${number}: ${figure}</b>`, ...[[a, x], [b, y]].map(([p, slot]) => `${hoverText(p.name, 60, 1)} = ${hoverText(p.values[slot][0], 90, 3)}`)].join("<br>");
      };
      const flat = best.flat().filter((value) => value !== null);
      const [low, high] = [flat.reduce((m, v) => Math.min(m, v), Infinity), flat.reduce((m, v) => Math.max(m, v), -Infinity)];
      const log = low > 0 && high / low > 8;
      const ticks = flat.length ? scaleTicks(low, high, log) : [];
      const xs = a.values.map((_, at) => at);
      const ys = b.values.map((_, at) => at);
      const few = xs.length * ys.length <= CELLS_WITH_TEXT;
      const traces = [{
        type: "heatmap", x: xs, y: ys, z: best.map((row) => row.map((v) => (v === null || !log ? v : Math.log10(v)))),
        text: best.map((row) => row.map((v) => (v === null ? "" : v < 100 ? v.toFixed(2) : brief(v)))),
        texttemplate: few ? "%{text}" : "", customdata: whose.map((row, y) => row.map((number, x) => said(number, x, y))),
        hovertemplate: "%{customdata}<extra></extra>", hoverongaps: false, xgap: 2, ygap: 2,
        colorscale: [[0, "#0b3c73"], [0.25, "#2f6db3"], [0.5, "#7fabd8"], [0.75, "#c3d8ee"], [1, "#eef4fb"]],
        colorbar: {
          title: { text: "best time (µs)", side: "right", font: { size: 12, color: page.colour("soft") } }, thickness: 12, outlinewidth: 0,
          tickvals: ticks.map((v) => (log ? Math.log10(v) : v)), ticktext: ticks.map(brief),
        },
      }];
      const lost = [];
      const winner = [];
      whose.forEach((row, y) => row.forEach((number, x) => {
        if (number === null) return;
        if (best[y][x] === null) lost.push([x, y, said(number, x, y)]);
        if (number === data.best) winner.push([x, y]);
      }));
      if (lost.length) {
        traces.push({
          type: "scatter", mode: "markers", x: lost.map((c) => c[0]), y: lost.map((c) => c[1]), text: lost.map((c) => c[2]),
          hovertemplate: "%{text}<extra></extra>", marker: { symbol: "x-thin", size: 10, line: { width: 1.8, color: colours.bad } },
        });
      }
      page.draw(plot, traces, {
        xaxis: page.placesAxis(page.shortened(page.clean(a.name), 60), a.values.map((value) => value[0]), 22, 960, { showline: false, ticks: "" }),
        yaxis: page.placesAxis(page.shortened(page.clean(b.name), 60), b.values.map((value) => value[0]), 26, 480, { side: "left", showline: false, ticks: "" }),
        // The cell of the best has a frame.
        shapes: winner.map(([x, y]) => ({ type: "rect", x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5, line: { color: colours.best, width: 3 } })),
        margin: { l: 60, r: 10, t: 10, b: 44 },
      }, Math.min(620, Math.max(240, 110 + 46 * ys.length)));
    }
    show();
  }

  // About six round figures between two, by factors or by steps.
  function scaleTicks(low, high, log) {
    const out = [];
    if (log) {
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        for (const lead of [1, 2, 5]) out.push(lead * 10 ** power);
      }
    } else {
      const raw = (high - low) / 5 || high / 5 || 1;
      const unit = 10 ** Math.floor(Math.log10(raw));
      const step = unit * [1, 2, 5, 10].find((lead) => lead * unit >= raw * 0.999);
      for (let k = Math.ceil(low / step); k <= high / step && out.length < 20; k += 1) out.push(k * step);
    }
    const inside = out.filter((v) => v >= low * 0.999 && v <= high * 1.001);
    return inside.length ? inside : [low];
  }

  // ------------------------------------------------------------------ prediction

  function prediction(place) {
    const both = points.filter((at) => T.predicted[at] !== null);
    const x = both.map((at) => T.predicted[at]);
    const y = both.map((at) => T.time[at]);
    let log = logTime && x.every((value) => value > 0);
    const plot = make("div", { id: "prediction-plot" });
    place.append(make("div", { class: "controls" }, [...x, ...y].some((value) => value <= 0) ? "" : page.choice("axes", [["linear", "linear"], ["log", "logarithmic"]], log ? "log" : "linear", (value) => { log = value === "log"; show(); }),
      make("span", { class: "spring" }), legend(["●", "", "configuration"], ["●", "of-best", tied.size > 1 ? "best, and ties" : "best"], ["┄", "of-median", "prediction = measurement"])), plot);

    function show() {
      const least = (list) => list.reduce((m, v) => Math.min(m, v), Infinity);
      const most = (list) => list.reduce((m, v) => Math.max(m, v), -Infinity);
      const padded = (list) => {
        const [low, high] = log ? [Math.log10(least(list)), Math.log10(most(list))] : [least(list), most(list)];
        const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
        return [low - room, high + room];
      };
      const traces = [dots(both, x, y)];
      // Equality is a line only where both are of one size; else it would be far from all points.
      const [from, to] = [Math.max(least(x), least(y)), Math.min(most(x), most(y))];
      if (from < to) {
        traces.unshift({ type: "scatter", mode: "lines", x: [from, to], y: [from, to], hoverinfo: "skip", line: { color: colours.median, width: 1.2, dash: "dot" } });
      }
      page.draw(plot, traces, { xaxis: page.timeAxis("predicted (µs)", log, padded(x)), yaxis: page.timeAxis("measured (µs)", log, padded(y)) }, 360);
    }
    show();
  }

  // ------------------------------------------------------------------ tables

  let trialTable = null;

  function failures(place) {
    page.table(place, {
      rows: data.causes,
      noun: "causes",
      down: true,
      perPage: 20,
      columns: [
        { title: "count", class: "right", value: (row) => row.count, text: (row) => count(row.count) },
        { title: "ending", class: "state", value: (row) => row.ending, text: (row) => row.ending },
        { title: "cause", class: "mono wide", value: (row) => row.reason, text: (row) => row.reason || "(no reason given)" },
        {
          title: "configurations", value: (row) => row.numbers[0], text: (row) => row.numbers.map((number) => `No.${number}`).join(" "),
          cell: (row) => {
            const text = row.numbers.map((number) => `No.${number}`).join(", ") + (row.count > row.numbers.length ? ", …" : "");
            const show = () => {
              trialTable.choose(row.ending);
              trialTable.filter(row.reason.length > 200 ? "" : row.reason.includes('"') ? row.reason : `"${row.reason}"`);
              byId("s-trials").scrollIntoView();
            };
            return make("span", {}, `${text} `, make("button", { type: "button", class: "link for-screen", onclick: show }, "show"));
          },
        },
      ],
      detail: (row) => make("div", {}, `Log of No.${row.numbers[0]}:`, make("pre", {}, row.log || "(no log)")),
    });
  }

  function trials(place) {
    const number = (field, title, text, extra = {}) => ({ title, class: "right", value: (at) => T[field][at], text: (at) => (T[field][at] === null ? "" : text(T[field][at])), ...extra });
    const relative = (at) => (T.time[at] === null || !(bestTime > 0) ? null : T.time[at] / bestTime);
    const columns = [
      number("number", "No.", String),
      { title: "ending", value: (at) => T.ending[at], text: (at) => T.ending[at] + (T.known[at] ? ", known before" : ""), cell: (at) => make("span", { class: "state" }, T.ending[at] + (T.known[at] ? ", known before" : "")) },
      number("time", "time (µs)", time),
      {
        title: "× best", class: "state", value: relative, text: (at) => (relative(at) === null ? "" : relative(at).toFixed(2)),
        cell: (at) => {
          if (relative(at) === null) return "";
          const width = worstTime > 0 ? Math.max(2, Math.round((60 * T.time[at]) / worstTime)) : 2;
          const bar = make("span", { class: "bar" });
          bar.style.width = `${width}px`;
          return make("span", {}, make("span", { class: "relative right" }, relative(at).toFixed(2)), bar);
        },
      },
    ];
    columns.push({
      title: "samples", class: "right", value: (at) => T.samples[at] || null, text: (at) => (T.samples[at] ? count(T.samples[at]) : ""),
    });
    if (T.predicted.some((value) => value !== null)) columns.push(number("predicted", "predicted (µs)", time));
    for (const parameter of data.parameters) {
      const plain = parameter.numeric;
      columns.push({
        title: page.shortened(page.clean(parameter.name), 30),
        class: plain ? "mono short right" : "mono short",
        value: (at) => (parameter.codes[at] < 0 ? null : plain ? parameter.numbers[parameter.codes[at]] : textOf(parameter, at)),
        text: (at) => textOf(parameter, at),
        cell: (at) => {
          const text = textOf(parameter, at);
          const short = page.shortened(page.clean(text), 44);
          return short === text ? text : make("span", { title: text }, short);
        },
      });
    }
    if (failed.length) {
      columns.push({
        title: "reason", class: "wide", value: (at) => T.texts[T.reason[at]], text: (at) => T.texts[T.reason[at]],
        cell: (at) => page.shortened(T.texts[T.reason[at]], 160),
      });
    }
    const endings = [...new Set(T.ending)].sort();
    trialTable = page.table(place, {
      rows: places,
      columns,
      noun: "configurations",
      sort: measured.length ? 2 : 0,
      rowClass: (at) => (tied.has(T.number[at]) ? "best" : T.time[at] === null && T.ending[at] !== data.notTried ? "bad" : ""),
      groups: endings.length > 1 ? { label: "ending", of: (at) => T.ending[at], options: endings } : null,
      detail,
    });
  }

  function detail(at) {
    const list = make("dl");
    const row = (name, text) => list.append(make("dt", {}, name), make("dd", {}, text));
    for (const parameter of data.parameters) if (parameter.codes[at] >= 0) row(parameter.name, textOf(parameter, at));
    if (T.time[at] !== null && T.low[at] !== null && T.samples[at]) {
      const bounds = T.samples[at] >= data.fewSamples ? `${time(T.low[at])} to ${time(T.high[at])}` : "-";
      row("bounds (µs)", `${bounds}, ${count(T.samples[at])} ${T.samples[at] === 1 ? "sample" : "samples"}`);
    }
    if (T.compile[at]) row("compiling", `${T.compile[at].toFixed(2)} s`);
    if (T.elapsed[at]) row("ended after", `${T.elapsed[at].toFixed(2)} s`);
    const reason = T.texts[T.reason[at]];
    if (reason) row("reason", reason);
    const log = T.texts[T.log[at]];
    return make("div", {}, list, log ? make("pre", {}, log) : "");
  }

  // ------------------------------------------------------------------ all of it

  const parts = { progress, effect: effects, pair, prediction, trials, failures };
  for (const [id, part] of Object.entries(parts)) {
    const place = byId(id);
    if (place) part(place);
  }
  // What the charts left out joins what the data did.
  const said = byId("left-out");
  const list = said ? said.querySelector("ul") : make("ul");
  for (const note of notes.slice(list.children.length)) list.append(make("li", {}, note));
  if (!said && notes.length) document.querySelector("footer").prepend(make("div", { class: "note", id: "left-out" }, "Not on this page:", list));
  document.documentElement.dataset.ready = "yes";
})();
