// SPDX-License-Identifier: Apache-2.0
// What every page does: elements, figures, charts, tables. Texts reach the page by textContent or plotText() only.
"use strict";
const page = (() => {
  const PRINTED_ROWS = 500;
  const FEW_ROWS = 10; // of a table that needs no filter
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();

  function data() {
    return JSON.parse(document.getElementById("page-data").textContent);
  }

  // An element with attributes; "on..." attributes are listeners, children are texts or elements.
  function make(name, attributes = {}, ...children) {
    const out = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
      else out.setAttribute(key, value === true ? "" : value);
    }
    out.append(...children.filter((child) => child !== null));
    return out;
  }

  // ------------------------------------------------------------------ texts and figures

  // Three decimals as in the console; without them where they are noise, more where there would be nothing.
  function time(us) {
    if (us === null || us === undefined) return "";
    if (us !== 0 && Math.abs(us) < 0.01) return String(Number(us.toPrecision(4)));
    const digits = Math.abs(us) < 100000 ? 3 : 0;
    return us.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }

  function count(number) {
    return number.toLocaleString("en-US");
  }

  // Four digits, for rates.
  function figure(number) {
    return Number(number.toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 6 });
  }

  // A few digits, for axes and marks where room is short.
  function brief(number) {
    if (number >= 10000) return Number(number.toPrecision(3)).toLocaleString("en-US", { notation: "compact" });
    return String(Number(number.toPrecision(3)));
  }

  const clean = (text) => text.replace(/\s+/g, " ").trim();

  function shortened(text, most) {
    const letters = Array.from(text);
    if (letters.length <= most) return text;
    const tail = Math.floor((most - 1) / 2);
    return letters.slice(0, most - 1 - tail).join("") + "…" + letters.slice(letters.length - tail).join("");
  }

  // Short labels that still tell long texts apart. Where it helps, what all of them begin and end with is left out;
  // frame then says what that is: {short: ["64, 64", "128, 64"], frame: "Shape<…, 256>"}.
  function labels(texts, most) {
    const cleaned = texts.map(clean);
    if (cleaned.length < 2 || cleaned.every((text) => Array.from(text).length <= Math.min(most, 12))) {
      return { short: cleaned.map((text) => shortened(text, most)), frame: "" };
    }
    const model = cleaned[0];
    const shortest = Math.min(...cleaned.map((text) => text.length));
    const end = (text, back) => text[text.length - 1 - back];
    let first = 0;
    let last = 0;
    while (first < shortest && cleaned.every((text) => text[first] === model[first])) first += 1;
    while (first > 0 && /[^ ,;<>(){}[\]=]/.test(model[first - 1])) first -= 1; // whole words and numbers only
    while (last < shortest - first && cleaned.every((text) => end(text, last) === end(model, last))) last += 1;
    while (last > 0 && /[^ ,;<>(){}[\]=]/.test(end(model, last - 1))) last -= 1;
    const inner = cleaned.map((text) => text.slice(first, text.length - last).trim());
    if (first + last < 4 || inner.some((text) => !text)) return { short: cleaned.map((text) => shortened(text, most)), frame: "" };
    const frame = shortened(model.slice(0, first), 24) + "…" + shortened(model.slice(model.length - last), 24);
    return { short: inner.map((text) => shortened(text, most)), frame };
  }

  // For the chart library, which reads a little HTML in its texts, and formulas between dollar signs.
  function plotText(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
  }

  // A text of many characters as lines for a hover box.
  function hoverText(text, width = 90, most = 12) {
    const lines = [];
    for (const line of text.split("\n")) {
      const letters = Array.from(line);
      for (let at = 0; at === 0 || at < letters.length; at += width) {
        if (lines.length === most) return lines.concat("…").join("<br>");
        lines.push(plotText(letters.slice(at, at + width).join("")));
      }
    }
    return lines.join("<br>");
  }

  // ------------------------------------------------------------------ charts

  const charts = [];

  // Where the chart library runs later, what is to be drawn until then.
  const library = document.getElementById("page-library");
  let waiting = library ? new Map() : null;

  function loadCharts() {
    if (!waiting) return;
    const script = make("script");
    script.textContent = library.textContent;
    document.head.append(script);
    const drawings = [...waiting.values()];
    waiting = null;
    for (const drawing of drawings) drawing();
  }

  // Runs the library when the browser has time for it, and then calls. Small pages do not put it
  // off: they may be pictured or printed as soon as they are loaded. A page that is not seen has no frames.
  function whenIdle(then) {
    let ran = false;
    const run = () => {
      if (ran) return;
      ran = true;
      loadCharts();
      then();
    };
    const isSmall = document.getElementById("page-data").textContent.length < 500000;
    if (isSmall || document.hidden) window.addEventListener("load", run);
    requestAnimationFrame(() => setTimeout(() => (window.requestIdleCallback ? requestIdleCallback(run, { timeout: 300 }) : run()), 0));
    setTimeout(run, 2000);
  }

  function axis(title, changes = {}) {
    return {
      title: { text: plotText(title), standoff: 8, font: { size: 12, color: colour("soft") } },
      gridcolor: "#edf0f4",
      linecolor: "#c9d1da",
      showline: true,
      zeroline: false,
      automargin: true,
      ticks: "outside",
      ticklen: 4,
      tickcolor: "#c9d1da",
      ...changes,
    };
  }

  // An axis of named places 0, 1, 2, ... with short labels, which are tilted where they need more than room pixels.
  function placesAxis(title, texts, most, room, changes = {}) {
    const { short, frame } = labels(texts, most);
    const longest = Math.max(0, ...short.map((text) => text.length));
    const every = Math.max(1, Math.ceil((short.length * 17) / room)); // lines of text beside each other
    const shown = texts.map((_, at) => at).filter((at) => at % every === 0);
    return axis([title, frame].filter(Boolean).join(": "), {
      type: "linear",
      tickvals: shown,
      ticktext: shown.map((at) => plotText(short[at])),
      range: [-0.6, texts.length - 0.4],
      showgrid: false,
      tickangle: changes.side === "left" || (longest + 1) * 6.6 * short.length < room ? 0 : -40,
      ...changes,
    });
  }

  // An axis of times. A logarithmic one over few decades is labelled at 2 and 5 as well; range is in powers of ten.
  function timeAxis(title, log, range = null, changes = {}) {
    const given = { exponentformat: "none", ...(range ? { range } : {}), ...changes };
    if (!log) return axis(title, { type: "linear", ...given });
    const decades = range ? range[1] - range[0] : 1;
    return axis(title, { type: "log", dtick: decades > 2.2 ? Math.ceil(decades / 6) : "D2", ...given });
  }

  // Draws into an element, or draws it anew.
  function draw(element, traces, layout, height) {
    element.classList.add("plot");
    element.style.height = `${height}px`;
    const whole = {
      height,
      autosize: true,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: style.getPropertyValue("--sans"), size: 12, color: colour("ink") },
      margin: { l: 56, r: 14, t: 12, b: 44 },
      hovermode: "closest",
      hoverlabel: { bgcolor: "#ffffff", bordercolor: "#c9d1da", align: "left", font: { size: 12, color: colour("ink") } },
      modebar: { bgcolor: "rgba(255,255,255,0.85)", color: "#a3acb8", activecolor: colour("point") },
      showlegend: false,
      ...layout,
    };
    const config = {
      responsive: true,
      displaylogo: false,
      displayModeBar: "hover",
      showSendToCloud: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], // those that stay on this machine
    };
    if (waiting) {
      waiting.set(element, () => { if (element.isConnected) draw(element, traces, layout, height); });
      return null;
    }
    if (!charts.includes(element)) charts.push(element);
    return Plotly.react(element, traces, whole, config);
  }

  // ------------------------------------------------------------------ choices

  // Buttons of which one is pressed. options: [[value, text], ...]
  function choice(label, options, chosen, changed) {
    const buttons = options.map(([value, text]) =>
      make("button", { type: "button", "data-value": value, onclick: () => press(value) }, text),
    );
    function press(value) {
      buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === value)));
      changed(value);
    }
    buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(options[at][0] === chosen)));
    return make("span", { class: "of-choice" }, label, make("span", { class: "choice", role: "group", "aria-label": label }, ...buttons));
  }

  // A list to select from. options: [[value, text], ...]
  function selector(label, options, chosen, changed) {
    const select = make("select", { "aria-label": label, onchange: () => changed(select.value) });
    for (const [value, text] of options) select.append(make("option", { value: String(value) }, text));
    select.value = String(chosen);
    return { element: make("label", {}, label, select), select };
  }

  // ------------------------------------------------------------------ tables

  // A table that sorts by its heads, filters by words or quoted phrases, all of which must occur, and shows some rows at a time.
  //   columns: {title, value(row) for sorting, text(row), class, cell(row) for more than a text}
  //   detail(row): an element shown below the row on request, or null
  //   groups: {label, of(row), options} to select one group of rows
  class Table {
    constructor(place, { rows, columns, detail = null, groups = null, rowClass = () => "", sort = 0, down = false, perPage = 50, noun = "rows" }) {
      Object.assign(this, { rows, columns, detail, groups, rowClass, perPage, noun });
      this.sortBy = sort;
      this.down = down;
      this.first = 0;
      this.group = "";
      this.words = [];
      this.open = new Set();
      this.search = make("input", {
        type: "search", placeholder: 'Filter: words, or "a phrase"', "aria-label": "Filter the rows",
        oninput: () => this.filter(this.search.value),
      });
      const controls = make("div", { class: "controls" }, this.search);
      if (groups) {
        const given = selector(groups.label, [["", "all"], ...groups.options.map((o) => [o, o])], "", (value) => this.choose(value));
        this.select = given.select;
        controls.append(given.element);
      }
      this.status = make("span", { class: "status", "aria-live": "polite" });
      this.back = make("button", { type: "button", onclick: () => this.turn(-1) }, "‹ previous");
      this.forth = make("button", { type: "button", onclick: () => this.turn(1) }, "next ›");
      controls.append(make("span", { class: "spring" }), this.status, make("span", { class: "pager" }, this.back, " ", this.forth));
      this.heads = columns.map((column, at) => {
        const button = make("button", { type: "button", onclick: () => this.sort(at) }, column.title);
        return make("th", { class: column.class, scope: "col" }, button);
      });
      this.body = make("tbody");
      const head = make("thead", {}, make("tr", {}, detail ? make("th", { class: "for-screen" }) : "", ...this.heads));
      controls.hidden = rows.length <= FEW_ROWS && !groups;
      place.append(controls, make("div", { class: "scroll" }, make("table", {}, head, this.body)));
      this.keys = null;
      this.show();
    }

    sort(at) {
      this.down = this.sortBy === at ? !this.down : false;
      this.sortBy = at;
      this.first = 0;
      this.keys = null;
      this.show();
    }

    filter(text) {
      const found = text.toLowerCase().matchAll(/"([^"]*)"|\S+/g);
      this.words = Array.from(found, (match) => match[1] ?? match[0]).filter(Boolean);
      if (this.search.value !== text) this.search.value = text;
      this.first = 0;
      this.keys = null;
      this.show();
    }

    choose(group) {
      this.group = group;
      this.select.value = group;
      this.first = 0;
      this.keys = null;
      this.show();
    }

    turn(pages) {
      this.first = Math.max(0, this.first + pages * this.perPage);
      this.show();
    }

    // The rows that pass, in order; those without a value come last whatever the direction.
    passing() {
      if (this.keys) return this.keys;
      const has = (row) => {
        if (this.group && this.groups.of(row) !== this.group) return false;
        if (!this.words.length) return true;
        const text = this.columns.map((column) => column.text(row)).join("\n").toLowerCase();
        return this.words.every((word) => text.includes(word));
      };
      const value = this.sortBy < 0 ? () => 0 : this.columns[this.sortBy].value; // below 0: as they were given
      const sign = this.down ? -1 : 1;
      const none = (key) => key === null || key === undefined || key === "";
      const order = (a, b) => {
        if (none(a[0]) || none(b[0])) return Number(none(a[0])) - Number(none(b[0])) || a[2] - b[2];
        const both = typeof a[0] === "number" && typeof b[0] === "number";
        const by = both ? a[0] - b[0] : String(a[0]).localeCompare(String(b[0]), "en", { numeric: true });
        return sign * by || a[2] - b[2];
      };
      this.keys = this.rows.filter(has).map((row, at) => [value(row), row, at]).sort(order).map((key) => key[1]);
      return this.keys;
    }

    show(most = this.perPage) {
      const rows = this.passing();
      if (this.first >= rows.length) this.first = 0;
      const shown = rows.slice(this.first, this.first + most);
      this.heads.forEach((head, at) => {
        if (at === this.sortBy) head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
      });
      this.body.replaceChildren(...shown.flatMap((row) => this.line(row)));
      if (!shown.length) this.body.append(make("tr", {}, make("td", { class: "empty", colspan: this.columns.length + 1 }, "No row has all of these words.")));
      const of = rows.length === this.rows.length ? "" : ` (of ${count(this.rows.length)})`;
      const range = rows.length ? `${count(this.first + 1)}–${count(this.first + shown.length)} of ` : "";
      this.status.textContent = `${range}${count(rows.length)} ${this.noun}${of}`;
      this.back.disabled = this.first === 0;
      this.forth.disabled = this.first + shown.length >= rows.length;
    }

    line(row) {
      const cells = this.columns.map((column) =>
        make("td", { class: column.class }, column.cell ? column.cell(row) : column.text(row)),
      );
      const out = [make("tr", { class: this.rowClass(row) || null }, ...cells)];
      if (!this.detail) return out;
      const open = this.open.has(row);
      const change = () => {
        if (open) this.open.delete(row);
        else this.open.add(row);
        this.show();
      };
      const sign = make("button", { type: "button", class: "opener", "aria-label": "details", "aria-expanded": String(open), onclick: change }, open ? "▾" : "▸");
      out[0].prepend(make("td", { class: "for-screen" }, sign));
      if (open) out.push(make("tr", { class: "detail" }, make("td", { colspan: cells.length + 1 }, this.detail(row))));
      return out;
    }
  }

  // ------------------------------------------------------------------ paper

  const tables = [];

  function table(place, options) {
    const out = new Table(place, options);
    tables.push(out);
    return out;
  }

  function fit() {
    for (const element of charts) if (element.isConnected) Plotly.relayout(element, { width: element.clientWidth, autosize: false });
  }

  window.addEventListener("beforeprint", () => {
    loadCharts();
    document.body.classList.add("printing");
    for (const each of tables) each.show(PRINTED_ROWS);
    fit();
  });
  window.addEventListener("afterprint", () => {
    document.body.classList.remove("printing");
    for (const each of tables) each.show();
    for (const element of charts) if (element.isConnected) Plotly.relayout(element, { width: null, autosize: true });
  });

  return { data, make, colour, time, count, figure, brief, labels, shortened, clean, plotText, hoverText, axis, placesAxis, timeAxis, draw, whenIdle, choice, selector, table };
})();
