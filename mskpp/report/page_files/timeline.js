// SPDX-License-Identifier: Apache-2.0
// The timeline: lanes of pipes on a canvas. Instructions that are narrower than a pixel are drawn together as what most
// of the pixel is, the paler the less of it is busy. Times are cycles.
"use strict";
const timeline = (() => {
  const LANE = 24; // height of a lane, of its bar, of the head of a core
  const BAR = 17;
  const HEAD = 20;
  const GUTTER = 128; // where the names of the lanes stand
  const OVERVIEW = 40;
  const AXIS = 20;
  const MOST_HEIGHT = 560;
  const LEAST_SPAN = 8; // cycles over the whole width
  const PALETTE = [
    "#3b6fb6", "#e08a2e", "#2f9e77", "#8b62b8", "#b3a02a", "#3fa3c4", "#b8567a", "#6f8f3a", "#6470cf", "#9c6a44", "#4f8f8b", "#c07f9f",
  ];
  const FLAG = "#8d98a6";
  const PALE = "#dde3ea";
  const CRITICAL = "#c4161c";
  const CAUSES = { data: "#c98a00", flag: "#7d6bb0", barrier: "#a34f4f", end: "#b7c0cb" };
  const ORIGINS = {
    measured: "#2f9e77", interpolated: "#3b6fb6", below_table: "#3fa3c4", beyond_table: "#e08a2e", theoretical: "#8d98a6", inherited: "#b3a02a", user: "#8b62b8",
  };
  const SHADES = 6;

  // ------------------------------------------------------------------ columns of numbers

  function bytesOf(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let at = 0; at < raw.length; at += 1) out[at] = raw.charCodeAt(at);
    return out;
  }

  // Numbers of 7 bits a byte, the lowest first.
  function numbers(text, count, signed) {
    const bytes = bytesOf(text);
    const out = new Float64Array(count);
    let at = 0;
    for (let k = 0; k < count; k += 1) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let weight = 128; byte > 127; weight *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * weight;
      }
      out[k] = !signed ? value : value % 2 ? -(value + 1) / 2 : value / 2;
    }
    return out;
  }

  // The lanes with their instructions; lanes and kinds are those of data.timeline.
  function read(given) {
    const { kept, kinds, texts } = given;
    const kind = numbers(given.kind, kept, false);
    const gap = numbers(given.gap, kept, true);
    const columns = ["duration", "work", "slack"].map((name) => {
      const column = numbers(given[name], kept, true);
      const last = new Float64Array(kinds.length);
      for (let at = 0; at < kept; at += 1) column[at] = last[kind[at]] += column[at];
      return column;
    });
    let first = 0;
    return given.lanes.map((lane, place) => {
      const end = first + lane.kept;
      const out = { pipe: lane.pipe, all: lane.all, place, kind: Uint32Array.from(kind.subarray(first, end)), longest: 0 };
      const cut = lane.pipe.lastIndexOf("PIPE-");
      out.core = cut > 0 ? lane.pipe.slice(0, cut).replace(/[-_]$/, "") : "";
      out.short = cut < 0 ? lane.pipe : lane.pipe.slice(cut + 5);
      [out.duration, out.work, out.slack] = columns.map((column) => column.subarray(first, end));
      out.start = new Float64Array(lane.kept);
      out.end = new Float64Array(lane.kept);
      let time = 0;
      for (let at = 0; at < lane.kept; at += 1) {
        out.start[at] = time + gap[first + at];
        time = out.end[at] = out.start[at] + out.duration[at];
        if (out.duration[at] > out.longest) out.longest = out.duration[at];
      }
      out.busy = given.busy ? numbers(given.busy[place], 1000, false) : null;
      first = end;
      return out;
    });
  }

  // The first place of a sorted column with at least this value.
  function firstFrom(column, value) {
    let low = 0;
    let high = column.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // ------------------------------------------------------------------ the view

  function show(place, data) {
    const { make, count, time } = page;
    const given = data.timeline;
    const total = Math.max(1, data.total);
    const lanes = read(given);
    const whole = given.kept === given.count;
    const text = (at) => given.texts[at];
    const kinds = given.kinds.map(([name, kind, origin, line]) => ({ name: text(name), kind: text(kind), origin: text(origin), line: text(line) }));
    const isFlag = (kind) => kind.kind !== "move" && kind.kind !== "computation";
    const us = (cycles) => cycles / data.clockMhz;

    // Colours by name, those with the most cycles first.
    const cyclesOf = new Map();
    for (const lane of lanes) {
      for (let at = 0; at < lane.kind.length; at += 1) {
        const kind = kinds[lane.kind[at]];
        if (!isFlag(kind)) cyclesOf.set(kind.name, (cyclesOf.get(kind.name) || 0) + lane.duration[at]);
      }
    }
    const names = [...cyclesOf.keys()].sort((a, b) => cyclesOf.get(b) - cyclesOf.get(a));
    const colourOf = new Map(names.map((name, at) => [name, PALETTE[at % PALETTE.length]]));

    // Causes of waiting by who waits where.
    const stalls = new Map();
    for (const row of data.stalls) {
      const key = row[1] === "end" ? `${row[0]}\n` : `${row[0]}\n${row[8]}\n${row[9]}`;
      if (!stalls.has(key)) stalls.set(key, []);
      stalls.get(key).push(row);
    }
    const stallsAt = (lane, at) => stalls.get(at < lane.kind.length ? `${lane.pipe}\n${kinds[lane.kind[at]].name}\n${kinds[lane.kind[at]].line}` : `${lane.pipe}\n`) || [];

    // ---------------------------------------------------------------- colours

    let by = "name";
    let only = ""; // the one name that keeps its colour
    let colours = []; // what a number of a colour means
    let ofKind = null; // the number of a kind's colour; null where it is the slack that decides
    let shades = [];
    function recolour() {
      const numbered = new Map();
      const number = (colour) => {
        if (!numbered.has(colour)) numbered.set(colour, numbered.size);
        return numbered.get(colour);
      };
      number(CRITICAL);
      number(PALE);
      number(FLAG);
      ofKind = Uint8Array.from(kinds, (kind) => {
        if (only && kind.name !== only) return number(PALE);
        if (by === "origin") return number(isFlag(kind) ? FLAG : ORIGINS[kind.origin] || FLAG);
        return number(isFlag(kind) ? FLAG : colourOf.get(kind.name));
      });
      colours = [...numbered.keys()];
      shades = colours.map((colour) => Array.from({ length: SHADES + 1 }, (_, shade) => mixed(colour, 0.22 + (0.78 * shade) / SHADES)));
      showLegend();
    }
    function mixed(colour, share) {
      const part = (from) => Math.round(255 + (parseInt(colour.slice(from, from + 2), 16) - 255) * share);
      return `rgb(${part(1)},${part(3)},${part(5)})`;
    }

    // ---------------------------------------------------------------- elements

    const legend = make("div", { class: "tl-legend" });
    const canvas = make("canvas", {
      id: "timeline-canvas", tabindex: "0", role: "img",
      "aria-label": "Timeline of the instructions on each pipe; the tables below have its figures",
    });
    const top = make("canvas", { id: "timeline-top", "aria-hidden": "true" });
    const space = make("div", { class: "tl-space" }, canvas);
    const view = make("div", { class: "tl-view" }, space);
    const tip = make("div", { id: "timeline-tip", role: "status", hidden: true });
    const status = make("span", { class: "tl-span" });
    const chosen = make("div", { id: "timeline-chosen" }, "Click an instruction to keep its figures here.");
    const button = (label, title, action) => make("button", { type: "button", title, "aria-label": title, onclick: action }, label);
    const controls = make("div", { class: "controls" },
      page.choice("colour", [["name", "instruction"], ["origin", "cost origin"], ["slack", "critical path"]], by, (value) => { by = value; recolour(); request(); }),
      make("span", { class: "spring" }), status,
      make("span", { class: "choice" },
        button("−", "zoom out (−)", () => zoom(1.6, middle())), button("+", "zoom in (+)", () => zoom(1 / 1.6, middle())),
        button("fit", "the whole timeline (0)", () => { look(0, total); })));
    const box = make("div", { class: "tl" }, top, view, tip);
    const hint = make("p", { class: "about tl-hint" }, "Drag to move, Ctrl + wheel to zoom (after a click on the timeline the wheel alone), Shift + drag to zoom to a part, double click to zoom to an instruction. Keys: + − 0, ← →, [ ] for the next instruction on the pipe.");
    place.append(controls, box, legend, chosen, hint);

    function showLegend() {
      const entry = (name, colour, press) => {
        const swatch = make("i");
        swatch.style.background = colour;
        if (!press) return make("span", {}, swatch, name);
        return make("button", { type: "button", "aria-pressed": String(only === name), title: "show this one alone", onclick: press }, swatch, page.shortened(name, 36));
      };
      const out = [];
      if (by === "origin") {
        const used = new Set(kinds.filter((kind) => !isFlag(kind)).map((kind) => kind.origin));
        for (const origin of used) out.push(entry(origin.replace(/_/g, " "), ORIGINS[origin] || FLAG));
      } else if (by === "name") {
        for (const name of names.slice(0, 24)) {
          out.push(entry(name, colourOf.get(name), () => { only = only === name ? "" : name; recolour(); request(); }));
        }
        if (names.length > 24) out.push(make("span", {}, `and ${count(names.length - 24)} more`));
      } else {
        out.push(entry("no slack: on a critical path", CRITICAL), entry("could end later", PALE));
      }
      if (kinds.some(isFlag) && by !== "slack") out.push(entry("flags", FLAG));
      if (by !== "slack") {
        const line = make("i", { class: "thin" });
        line.style.background = CRITICAL;
        out.push(make("span", {}, line, "critical"));
      }
      if (whole) {
        for (const cause of ["data", "flag", "barrier"]) {
          if (!data.ledger.some((row) => row[{ data: 2, flag: 3, barrier: 4 }[cause]])) continue;
          const line = make("i", { class: "thin" });
          line.style.background = CAUSES[cause];
          out.push(make("span", {}, line, `waits for ${cause === "data" ? "data" : `a ${cause}`}`));
        }
      }
      legend.replaceChildren(...out);
    }

    // ---------------------------------------------------------------- where things are

    const rows = [];
    let height = 4;
    let core = "";
    for (const lane of lanes) {
      if (lane.core !== core) {
        core = lane.core;
        rows.push({ core, y: height, h: HEAD });
        height += HEAD;
      }
      rows.push({ lane, y: height, h: LANE });
      height += LANE;
    }
    height += 4;
    const seen = Math.min(height, MOST_HEIGHT);
    view.style.height = `${seen}px`;
    view.style.boxSizing = "content-box"; // the borders must not make it scroll
    view.style.overflowY = height <= MOST_HEIGHT ? "hidden" : "auto";
    space.style.height = `${height}px`;
    let from = 0;
    let to = total;
    let width = 600; // of the instructions, in pixels
    let wheel = false; // after a click the wheel zooms
    let hit = null; // {lane, at} under the pointer, or chosen below
    let kept = null;
    let part = null; // of a drag with Shift: from and to in pixels
    const scale = () => width / (to - from);
    const x = (cycle) => GUTTER + (cycle - from) * scale();
    const cycleAt = (px) => from + (px - GUTTER) / scale();
    const middle = () => (from + to) / 2;

    function look(a, b) {
      let span = Math.min(total, Math.max(Math.min(LEAST_SPAN, total), b - a));
      from = Math.max(0, Math.min(total - span, a + (b - a - span) / 2));
      to = from + span;
      request();
    }
    function zoom(factor, around) {
      const span = (to - from) * factor;
      const left = (around - from) / (to - from);
      if (span >= total) look(0, total);
      else {
        const size = Math.max(span, Math.min(LEAST_SPAN, total));
        const begin = Math.max(0, Math.min(total - size, around - left * size));
        look(begin, begin + size);
      }
    }

    // ---------------------------------------------------------------- drawing

    let asked = false;
    function request() {
      if (asked) return;
      asked = true;
      requestAnimationFrame(() => { asked = false; draw(); });
    }

    function fitted(element, w, h) {
      const ratio = Math.min(window.devicePixelRatio || 1, 2);
      if (element.width !== Math.round(w * ratio) || element.height !== Math.round(h * ratio)) {
        element.width = Math.round(w * ratio);
        element.height = Math.round(h * ratio);
        element.style.width = `${w}px`;
        element.style.height = `${h}px`;
      }
      const context = element.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, w, h);
      return context;
    }

    const weights = new Float64Array(256);
    // The instructions of a lane between two times, into a box.
    function drawLane(context, lane, left, y, w, h, begin, end, marks) {
      const { start, end: ends, kind, slack, duration } = lane;
      const perCycle = w / (end - begin);
      const touched = [];
      let column = -1;
      let cover = 0;
      let critical = false;
      // Equal columns beside each other are one rectangle.
      let runFrom = 0;
      let runTo = 0;
      let runStyle = "";
      let redFrom = 0;
      let redTo = 0;
      const strip = marks ? 3 : Math.max(1, h / 4);
      const put = (a, b, style) => {
        if (style === runStyle && a <= runTo + 0.01) { runTo = Math.max(runTo, b); return; }
        if (runStyle) { context.fillStyle = runStyle; context.fillRect(left + runFrom, y, runTo - runFrom, h); }
        [runFrom, runTo, runStyle] = [a, b, style];
      };
      const red = (a, b) => {
        if (by === "slack") return;
        if (redTo > redFrom && a <= redTo + 0.5) { redTo = Math.max(redTo, b); return; }
        if (redTo > redFrom) reds.push(redFrom, redTo);
        [redFrom, redTo] = [a, b];
      };
      const reds = [];
      const flush = () => {
        if (column < 0) return;
        let best = touched[0];
        for (const c of touched) if (weights[c] > weights[best]) best = c;
        put(column, column + 1, shades[best][Math.min(SHADES, Math.round(cover * SHADES))]);
        if (critical) red(column, column + 1);
        for (const c of touched) weights[c] = 0;
        touched.length = 0;
        column = -1;
        cover = 0;
        critical = false;
      };
      const first = firstFrom(start, begin - lane.longest);
      for (let at = first; at < start.length && start[at] <= end; at += 1) {
        const a = (start[at] - begin) * perCycle;
        const b = (ends[at] - begin) * perCycle;
        if (b < 0) continue;
        const colour = by === "slack" ? (slack[at] === 0 ? 0 : 1) : ofKind[kind[at]];
        if (b - a >= 1.5) {
          flush();
          const [p, q] = [Math.max(a, 0), Math.min(b, w)];
          // A hair between neighbours, where there is room for it.
          const wide = q - p >= 4;
          put(p, wide ? q - 0.7 : q, shades[colour][SHADES]);
          if (wide) runTo -= 0.02;
          if (slack[at] === 0) red(p, q);
          if (marks && whole && q - p >= 42) marks.push(at, p, q);
          continue;
        }
        const mine = a < 0 ? 0 : a | 0;
        if (mine >= w) break;
        if (mine !== column) { flush(); column = mine; }
        if (!weights[colour]) touched.push(colour);
        weights[colour] += Math.max(duration[at] * perCycle, 1e-6);
        cover += (b - a);
        if (slack[at] === 0) critical = true;
      }
      flush();
      put(-1, -1, "");
      if (redTo > redFrom) reds.push(redFrom, redTo);
      context.fillStyle = CRITICAL;
      for (let at = 0; at < reds.length; at += 2) context.fillRect(left + reds[at], y + h - strip, reds[at + 1] - reds[at], strip);
    }

    // What the pipe waits for, as thin lines between instructions.
    function drawGaps(context, lane, y) {
      const perCycle = scale();
      const { start, end } = lane;
      const first = Math.max(0, firstFrom(start, from - lane.longest) - 1);
      const least = 3 / perCycle;
      for (let at = first; at <= start.length; at += 1) {
        const a = at ? end[at - 1] : 0;
        const b = at < start.length ? start[at] : total;
        if (a > to) break;
        if (b - a < least || b < from) continue;
        const why = stallsAt(lane, at);
        if (!why.length || why[0][1] === "end") continue;
        context.fillStyle = CAUSES[why[0][1]];
        const [p, q] = [Math.max(x(a), GUTTER), Math.min(x(b), GUTTER + width)];
        context.fillRect(p + 1, y + BAR / 2 - 1, q - p - 2, 1.5);
      }
    }

    function drawBusy(context, lane, left, y, w, h, begin, end) {
      for (let px = 0; px < w; px += 2) {
        const share = lane.busy[Math.min(999, Math.floor(((begin + ((px + 1) / w) * (end - begin)) / total) * 1000))] / 1000;
        if (share > 0) { context.fillStyle = `rgba(141,152,166,${0.55 * share})`; context.fillRect(left + px, y, 2, h); }
      }
    }

    const font = (size, weight = "") => `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`.trim();
    let overview = null;
    let overviewKey = "";

    function drawTop() {
      const context = fitted(top, GUTTER + width + 1, OVERVIEW + AXIS);
      const key = [width, by, only].join();
      if (key !== overviewKey) {
        overviewKey = key;
        overview = make("canvas");
        const ratio = Math.min(window.devicePixelRatio || 1, 2);
        overview.width = Math.round(width * ratio);
        overview.height = Math.round(OVERVIEW * ratio);
        const own = overview.getContext("2d");
        own.scale(ratio, ratio);
        const shown = lanes.slice(0, 20);
        const room = (OVERVIEW - 6) / shown.length;
        shown.forEach((lane, at) => {
          if (lane.busy) drawBusy(own, lane, 0, 3 + at * room, width, Math.max(room - 1, 1), 0, total);
          drawLane(own, lane, 0, 3 + at * room, width, Math.max(Math.min(room - 1, 12), 1), 0, total, null);
        });
      }
      context.fillStyle = "#f7f9fb";
      context.fillRect(GUTTER, 0, width, OVERVIEW);
      context.drawImage(overview, GUTTER, 0, width, OVERVIEW);
      const [a, b] = [GUTTER + (from / total) * width, GUTTER + (to / total) * width];
      if (to - from < total) {
        context.fillStyle = "rgba(245,247,250,0.72)";
        context.fillRect(GUTTER, 0, a - GUTTER, OVERVIEW);
        context.fillRect(b, 0, GUTTER + width - b, OVERVIEW);
        context.strokeStyle = page.colour("point");
        context.lineWidth = 1.5;
        context.strokeRect(a, 0.75, Math.max(b - a, 2), OVERVIEW - 1.5);
      }
      context.font = font(11);
      context.fillStyle = page.colour("soft");
      context.textBaseline = "middle";
      context.fillText(`whole, ${time(us(total))} µs`, 4, OVERVIEW / 2);
      context.fillText("µs", 4, OVERVIEW + AXIS / 2);
      // Round times at least 80 pixels from each other.
      const raw = us((80 / width) * (to - from));
      const unit = 10 ** Math.floor(Math.log10(raw));
      const step = unit * [1, 2, 5, 10].find((lead) => lead * unit >= raw * 0.999);
      const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
      ticks = [];
      for (let k = Math.ceil(us(from) / step - 1e-9) + 0; k * step <= us(to) + 1e-12 && ticks.length < 200; k += 1) {
        const px = x(k * step * data.clockMhz);
        ticks.push(px);
        const label = (k * step + 0).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
        const size = context.measureText(label).width;
        context.fillStyle = "#c9d1da";
        context.fillRect(px, OVERVIEW + AXIS - 4, 1, 4);
        context.fillStyle = page.colour("soft");
        context.fillText(label, Math.max(GUTTER, Math.min(px - size / 2, GUTTER + width - size)), OVERVIEW + AXIS / 2 - 1);
      }
    }
    let ticks = [];

    function draw() {
      width = Math.max(120, Math.floor(view.clientWidth - GUTTER - 1));
      drawTop();
      const offset = view.scrollTop;
      const context = fitted(canvas, GUTTER + width + 1, seen);
      context.fillStyle = "#eef1f5";
      for (const px of ticks) context.fillRect(px, 0, 1, seen);
      context.textBaseline = "middle";
      for (const row of rows) {
        const y = row.y - offset;
        if (y + row.h < 0 || y > seen) continue;
        if (!row.lane) {
          context.fillStyle = "#f4f6f9";
          context.fillRect(0, y, GUTTER + width, row.h - 2);
          context.fillStyle = page.colour("ink");
          context.font = font(12, "600");
          context.fillText(page.shortened(row.core, 60), 6, y + (row.h - 2) / 2);
          continue;
        }
        const lane = row.lane;
        const inner = y + (LANE - BAR) / 2;
        context.save();
        context.beginPath();
        context.rect(GUTTER, y, width, LANE);
        context.clip();
        const marks = [];
        if (lane.busy) drawBusy(context, lane, GUTTER, inner, width, BAR, from, to);
        if (whole) drawGaps(context, lane, inner);
        drawLane(context, lane, GUTTER, inner, width, BAR, from, to, marks);
        context.font = font(11);
        for (let at = 0; at < marks.length; at += 3) {
          const kind = kinds[lane.kind[marks[at]]];
          const pale = (only && kind.name !== only) || (by === "slack" && lane.slack[marks[at]] !== 0);
          context.fillStyle = pale ? page.colour("soft") : "#ffffff";
          label(context, kind.name.replace(/^MOV-/, "").replace(/_TO_/, "→"), GUTTER + marks[at + 1] + 4, inner + BAR / 2 - 1, marks[at + 2] - marks[at + 1] - 8);
        }
        for (const [picked, colour] of [[kept, "#1b2430"], [hit, "#5b6776"]]) {
          if (!picked || picked.lane !== lane || picked.at === null) continue;
          const [a, b] = [x(lane.start[picked.at]), x(lane.end[picked.at])];
          context.strokeStyle = colour;
          context.lineWidth = 1.5;
          context.strokeRect(a - 0.5, inner - 1, Math.max(b - a, 2) + 1, BAR + 2);
        }
        context.restore();
        context.fillStyle = page.colour("ink");
        context.font = font(12);
        label(context, lane.short, lane.core ? 14 : 6, y + LANE / 2, 66);
        const busy = busyOf.get(lane.pipe);
        context.fillStyle = page.colour("soft");
        context.font = font(11);
        const share = busy === undefined ? "" : percent(busy / total);
        context.fillText(share, GUTTER - 8 - context.measureText(share).width, y + LANE / 2);
      }
      if (part) {
        context.fillStyle = "rgba(59,111,182,0.16)";
        context.fillRect(Math.min(...part), 0, Math.abs(part[1] - part[0]), seen);
      }
      status.textContent = `${time(us(from))} – ${time(us(to))} µs (${count(Math.round(to - from))} cycles)`;
      canvas.dataset.from = String(from);
      canvas.dataset.to = String(to);
    }

    function label(context, given, px, y, room) {
      if (room < 14) return;
      let shown = given;
      if (context.measureText(shown).width > room) {
        const letter = context.measureText("M0_a").width / 4;
        const most = Math.floor(room / letter);
        if (most < 3) return;
        shown = `${given.slice(0, most - 1)}…`;
      }
      context.fillText(shown, px, y, room);
    }

    const busyOf = new Map(data.ledger.map((row) => [row[0], row[1]]));

    // ---------------------------------------------------------------- what is under the pointer

    function laneAt(y) {
      const inside = y + view.scrollTop;
      const row = rows.find((one) => inside >= one.y && inside < one.y + one.h);
      return row && row.lane ? row.lane : null;
    }

    // The instruction at a place, else the gap; of several within a pixel the longest.
    function find(px, y) {
      const lane = laneAt(y);
      if (!lane || px < GUTTER || px > GUTTER + width) return null;
      const cycle = cycleAt(px);
      if (cycle < 0 || cycle > total) return null;
      const near = 1.5 / scale();
      let best = -1;
      let several = 0;
      const first = firstFrom(lane.start, cycle - near - lane.longest);
      for (let at = first; at < lane.start.length && lane.start[at] <= cycle + near; at += 1) {
        if (lane.end[at] < cycle - near) continue;
        several += 1;
        const over = lane.start[at] <= cycle && cycle < lane.end[at];
        const bestOver = best >= 0 && lane.start[best] <= cycle && cycle < lane.end[best];
        if (best < 0 || (over && !bestOver) || (over === bestOver && lane.duration[at] > lane.duration[best])) best = at;
      }
      if (best >= 0) {
        // Of those that share a pixel nothing is under the pointer more than the others.
        const narrow = lane.duration[best] * scale() < 1.5;
        return { lane, at: best, several: narrow ? several : 1, next: null };
      }
      if (!whole) return null;
      const next = firstFrom(lane.start, cycle);
      return { lane, at: null, several: 0, next };
    }

    const percent = (share) => (share >= 0.9995 || share === 0 ? `${(100 * share).toFixed(0)} %` : share < 0.001 ? "<0.1 %" : `${(100 * share).toFixed(1)} %`);

    function causeText(row) {
      const by = row[5] ? `${row[5]} on ${row[6]}${row[7] ? ` (${row[7]})` : ""}` : "";
      if (row[1] === "end") return "nothing left to do";
      if (row[1] === "data") return `data: ${row[4]}, written by ${by}`;
      return row[1] === "flag" ? `a flag: ${by}` : `a barrier${by ? `: ${by}` : ""}`;
    }

    // Lines about an instruction or a gap: [name, text], ...
    function about({ lane, at, several, next }) {
      if (at === null) {
        const a = next ? lane.end[next - 1] : 0;
        const b = next < lane.start.length ? lane.start[next] : total;
        const out = [["", `${lane.pipe} waits`], ["cycles", `${count(b - a)} (${time(us(b - a))} µs), ${count(a)} to ${count(b)}`]];
        const why = stallsAt(lane, next);
        for (const row of why.slice(0, 3)) out.push([why.length > 1 ? "waits here for" : "for", causeText(row)]);
        if (next < lane.start.length) out.push(["before", nameLine(kinds[lane.kind[next]])]);
        return out;
      }
      const kind = kinds[lane.kind[at]];
      const [a, b, d] = [lane.start[at], lane.end[at], lane.duration[at]];
      const out = [["", kind.name], ["pipe", lane.pipe], ["cycles", `${count(d)} (${time(us(d))} µs), ${count(a)} to ${count(b)}`]];
      const rate = d > 0 ? `, ${page.figure(lane.work[at] / d)} per cycle` : "";
      if (kind.kind === "move") out.push(["moves", `${count(lane.work[at])} bytes${rate}`]);
      if (kind.kind === "computation") out.push(["computes", `${count(lane.work[at])} operations${rate}`]);
      if (!isFlag(kind)) out.push(["cost", kind.origin.replace(/_/g, " ")]);
      if (kind.line) out.push(["line", kind.line]);
      out.push(["slack", lane.slack[at] === 0 ? "none: on a critical path" : `could end ${count(lane.slack[at])} cycles later`]);
      const idle = whole ? a - (at ? lane.end[at - 1] : 0) : 0;
      if (idle > 0) {
        const why = stallsAt(lane, at);
        out.push(["idle before", `${count(idle)} cycles${why.length === 1 ? `, for ${causeText(why[0])}` : ""}`]);
        if (why.length > 1) for (const row of why.slice(0, 2)) out.push(["waits here for", causeText(row)]);
      }
      if (several > 1) out.push(["", `the longest of ${count(several)} instructions here; zoom in for the others`]);
      return out;
    }
    const nameLine = (kind) => `${kind.name}${kind.line ? ` (${kind.line})` : ""}`;

    function listed(lines) {
      const list = make("dl");
      for (const [name, words] of lines.slice(1)) list.append(make("dt", {}, name), make("dd", {}, words));
      return [make("b", {}, lines[0][1]), list];
    }

    function point(event) {
      const frame = canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    }

    function hover(event) {
      const [px, y] = point(event);
      const found = find(px, y);
      const same = found && hit && found.lane === hit.lane && found.at === hit.at && found.next === hit.next;
      hit = found;
      if (!same) request();
      tip.hidden = !found;
      if (!found) return;
      if (!same) tip.replaceChildren(...listed(about(found)));
      const frame = box.getBoundingClientRect();
      const left = event.clientX - frame.left;
      tip.style.left = `${left + 16 + tip.offsetWidth > frame.width ? Math.max(0, left - tip.offsetWidth - 12) : left + 16}px`;
      tip.style.top = `${event.clientY - frame.top + 18}px`;
    }

    function keep(found) {
      kept = found && found.at !== null ? { lane: found.lane, at: found.at } : null;
      chosen.replaceChildren(...(found ? listed(about(found)) : ["Click an instruction to keep its figures here."]));
      request();
    }

    // Brings an instruction into view.
    function bring(lane, at) {
      const [a, b] = [lane.start[at], lane.end[at]];
      if (a < from || b > to) {
        const span = Math.max(to - from, (b - a) * 1.5);
        look((a + b) / 2 - span / 2, (a + b) / 2 + span / 2);
      }
      keep({ lane, at, several: 1, next: null });
    }

    // ---------------------------------------------------------------- pointer, wheel, keys

    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      const [px, y] = point(event);
      canvas.setPointerCapture(event.pointerId);
      drag = { px, y, from, to, scroll: view.scrollTop, moved: false, part: event.shiftKey };
      wheel = true;
      canvas.focus({ preventScroll: true });
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) { hover(event); return; }
      const [px, y] = point(event);
      if (Math.abs(px - drag.px) + Math.abs(y - drag.y) > 3) drag.moved = true;
      if (!drag.moved) return;
      tip.hidden = true;
      if (drag.part) {
        part = [drag.px, px].map((at) => Math.max(GUTTER, Math.min(GUTTER + width, at)));
        request();
        return;
      }
      const shift = ((px - drag.px) / width) * (drag.to - drag.from);
      const begin = Math.max(0, Math.min(total - (drag.to - drag.from), drag.from - shift));
      look(begin, begin + (drag.to - drag.from));
      view.scrollTop = drag.scroll - (y - drag.y);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!drag) return;
      const [px, y] = point(event);
      if (part && Math.abs(part[1] - part[0]) > 3) look(cycleAt(Math.min(...part)), cycleAt(Math.max(...part)));
      else if (!drag.moved) keep(find(px, y));
      part = null;
      drag = null;
      request();
    });
    canvas.addEventListener("pointercancel", () => { drag = null; part = null; request(); });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; hit = null; request(); });
    canvas.addEventListener("dblclick", (event) => {
      const found = find(...point(event));
      if (!found || found.at === null) { zoom(0.25, cycleAt(point(event)[0])); return; }
      const [a, b] = [found.lane.start[found.at], found.lane.end[found.at]];
      const room = Math.max(4, (b - a) * 1.5);
      look(a - room, b + room);
    });
    canvas.addEventListener("blur", () => { wheel = false; });
    canvas.addEventListener("wheel", (event) => {
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 200 : 1;
      const zooms = event.ctrlKey || event.metaKey || event.altKey || (wheel && !event.shiftKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX));
      if (zooms) {
        event.preventDefault();
        zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY * unit * 0.002))), Math.max(from, Math.min(to, cycleAt(point(event)[0]))));
        tip.hidden = true;
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
        event.preventDefault();
        const shift = ((event.deltaX || event.deltaY) * unit * (to - from)) / width;
        const begin = Math.max(0, Math.min(total - (to - from), from + shift));
        look(begin, begin + (to - from));
      }
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const span = to - from;
      const move = (share) => {
        const begin = Math.max(0, Math.min(total - span, from + share * span));
        look(begin, begin + span);
      };
      const next = (step) => {
        if (!kept) return;
        const at = kept.at + step;
        if (at >= 0 && at < kept.lane.start.length) bring(kept.lane, at);
      };
      const actions = {
        "+": () => zoom(1 / 1.6, middle()), "=": () => zoom(1 / 1.6, middle()), w: () => zoom(1 / 1.6, middle()),
        "-": () => zoom(1.6, middle()), s: () => zoom(1.6, middle()), 0: () => look(0, total),
        ArrowLeft: () => move(-0.2), a: () => move(-0.2), ArrowRight: () => move(0.2), d: () => move(0.2),
        Home: () => look(0, span), End: () => look(total - span, total), "]": () => next(1), "[": () => next(-1), Escape: () => keep(null),
      };
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    });
    view.addEventListener("scroll", request);
    // On the overview: there, or a part of it.
    let brush = null;
    const overviewCycle = (event) => Math.max(0, Math.min(total, ((event.clientX - top.getBoundingClientRect().left - GUTTER) / width) * total));
    top.addEventListener("pointerdown", (event) => {
      top.setPointerCapture(event.pointerId);
      brush = overviewCycle(event);
      if (to - from < total) look(brush - (to - from) / 2, brush + (to - from) / 2);
    });
    top.addEventListener("pointermove", (event) => {
      if (brush === null) return;
      const now = overviewCycle(event);
      if (to - from >= total && Math.abs(now - brush) < total * 0.005) return;
      if (event.shiftKey || to - from >= total) look(Math.min(now, brush), Math.max(now, brush));
      else look(now - (to - from) / 2, now + (to - from) / 2);
    });
    top.addEventListener("pointerup", () => { brush = null; });
    new ResizeObserver(request).observe(view);
    window.addEventListener("beforeprint", draw);

    recolour();
    draw();
    shown = { look, lanes, kinds, x, y: (lane) => rows.find((row) => row.lane === lanes[lane]).y - view.scrollTop + LANE / 2, draw, colourOf };
    return shown;
  }

  let shown = null;
  return { show, numbers, CAUSES, PALETTE, view: () => shown };
})();
