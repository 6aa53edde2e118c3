// Curves of the report: draws, zooms, and shows values. Needs nothing but this page; every text
// from the data goes into textContent, never into markup.
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 58, right: 10, top: 10, bottom: 22 };
  const held = document.getElementById("data");
  if (!held) return;
  const data = JSON.parse(held.textContent);
  const hidden = new Set();
  const charts = [];

  const make = (name, attributes, parent) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (parent) parent.append(element);
    return element;
  };
  const look = (run) => `s${run % 8} d${run % 4}`;
  const words = (value) => {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "inf" : "-inf";
    const whole = String(value);
    return whole.length <= 10 ? whole : String(Number(value.toPrecision(8)));
  };
  const tickWords = (value) => {
    const size = Math.abs(value);
    if (value !== 0 && (size >= 1e6 || size < 1e-4)) return value.toExponential(1).replace("e+", "e");
    return String(Number(value.toPrecision(6)));
  };

  // Round numbers between two ends, about so many.
  const ticks = (low, high, wanted, whole) => {
    if (!(high > low)) return [low];
    let step = 10 ** Math.floor(Math.log10((high - low) / wanted));
    for (const factor of [1, 2, 5, 10]) {
      if ((high - low) / (step * factor) <= wanted) { step *= factor; break; }
    }
    if (whole) step = Math.max(1, Math.round(step));
    const found = [];
    for (let at = Math.ceil(low / step); at * step <= high && found.length < 50; at++) found.push(at * step);
    return found;
  };
  const logTicks = (low, high) => {
    const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
    if (last - first < 1) return ticks(low, high, 4, false).filter((one) => one > 0);
    const stride = Math.ceil((last - first + 1) / 6);
    const found = [];
    for (let power = first; power <= last; power += stride) found.push(10 ** power);
    return found;
  };

  // The index, in ascending xs, of the first value that is not less.
  const firstAt = (xs, x) => {
    let [low, high] = [0, xs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] < x) low = middle + 1; else high = middle;
    }
    return low;
  };
  const nearest = (xs, x) => {
    const after = firstAt(xs, x);
    if (after === 0) return 0;
    if (after === xs.length) return after - 1;
    return x - xs[after - 1] <= xs[after] - x ? after - 1 : after;
  };

  class Chart {
    constructor(figure, chart) {
      this.figure = figure;
      this.plot = figure.querySelector(".plot");
      this.readout = figure.querySelector(".readout");
      this.curves = chart.curves.map((curve) => ({ run: curve.run, x: curve.x, y: curve.y.map(Number_) }));
      this.whole = this.span();
      this.view = this.whole.slice();
      this.log = false;
      this.at = null;
      this.svg = make("svg", { "aria-hidden": "true" }, this.plot);
      this.tip = document.createElement("div");
      this.tip.className = "tip";
      this.tip.hidden = true;
      this.plot.append(this.tip);
      this.buttons(chart);
      this.listen();
      new ResizeObserver(() => this.draw()).observe(this.plot);
      this.draw();
    }

    get shown() { return this.curves.filter((curve) => !hidden.has(curve.run)); }

    span() {
      const ends = this.curves.flatMap((curve) => [curve.x[0], curve.x[curve.x.length - 1]]);
      return [Math.min(...ends), Math.max(...ends)];
    }

    buttons() {
      this.logButton = this.figure.querySelector("button.log");
      this.resetButton = this.figure.querySelector("button.reset");
      this.logButton.disabled = !this.curves.some((curve) => curve.y.some((y) => y > 0 && Number.isFinite(y)));
      this.logButton.addEventListener("click", () => this.setLog(!this.log));
      this.resetButton.addEventListener("click", () => this.zoom(this.whole));
    }

    listen() {
      const plot = this.plot;
      plot.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        this.start = this.place(event);
        plot.setPointerCapture(event.pointerId);
      });
      plot.addEventListener("pointermove", (event) => {
        this.at = this.value(this.place(event));
        this.drag = this.start === undefined ? null : [this.start, this.place(event)];
        this.hover(false);
      });
      plot.addEventListener("pointerup", (event) => this.drop(this.place(event)));
      plot.addEventListener("pointercancel", () => { this.start = undefined; this.drag = null; this.hover(false); });
      plot.addEventListener("pointerleave", () => { this.at = null; this.hover(false); });
      plot.addEventListener("dblclick", () => this.zoom(this.whole));
      plot.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
      plot.addEventListener("keydown", (event) => this.key(event));
      plot.addEventListener("blur", () => { this.at = null; this.hover(false); });
    }

    place(event) { return event.clientX - this.plot.getBoundingClientRect().left; }

    value(place) {
      const [low, high] = this.view;
      const share = (place - MARGIN.left) / Math.max(1, this.width - MARGIN.left - MARGIN.right);
      return low + Math.min(1, Math.max(0, share)) * (high - low);
    }

    drop(place) {
      const start = this.start;
      this.start = undefined;
      this.drag = null;
      if (start !== undefined && Math.abs(place - start) > 6) {
        this.zoom([this.value(Math.min(start, place)), this.value(Math.max(start, place))]);
      } else this.hover(true);
    }

    // A page must still scroll: the wheel zooms after a click on the chart, or with Ctrl.
    wheel(event) {
      if (!event.ctrlKey && document.activeElement !== this.plot) return;
      event.preventDefault();
      this.scale(this.value(this.place(event)), event.deltaY > 0 ? 1.25 : 0.8);
    }

    scale(about, factor) {
      const [low, high] = this.view;
      this.zoom([about - (about - low) * factor, about + (high - about) * factor]);
    }

    key(event) {
      const xs = [...new Set(this.shown.flatMap((curve) => curve.x))].sort((a, b) => a - b);
      if (!xs.length || event.ctrlKey || event.metaKey || event.altKey) return;
      const now = this.at === null ? xs.length - 1 : nearest(xs, this.at);
      const far = event.shiftKey ? 10 : 1;
      const moves = { ArrowLeft: now - far, ArrowRight: now + far, Home: 0, End: xs.length - 1 };
      const middle = this.at === null ? (this.view[0] + this.view[1]) / 2 : this.at;
      if (event.key in moves) {
        this.at = xs[Math.min(xs.length - 1, Math.max(0, moves[event.key]))];
        this.show(this.at);
        this.hover(true);
      } else if (event.key === "+" || event.key === "=") this.scale(middle, 0.5);
      else if (event.key === "-") this.scale(middle, 2);
      else if (event.key === "0" || event.key === "Escape") this.zoom(this.whole);
      else if (event.key === "l" && !this.logButton.disabled) this.setLog(!this.log);
      else return;
      event.preventDefault();
    }

    // Move the view so that x is in it.
    show(x) {
      const [low, high] = this.view;
      if (x < low) this.zoom([x, x + high - low]);
      else if (x > high) this.zoom([x - (high - low), x]);
    }

    setLog(on) {
      this.log = on;
      this.logButton.setAttribute("aria-pressed", String(on));
      this.draw();
    }

    zoom(view, alone) {
      const together = document.getElementById("together");
      if (!alone && together && together.checked) {
        for (const chart of charts) if (chart !== this) chart.zoom(view, true);
      }
      const [least, most] = this.whole;
      const [low, high] = [Math.max(least, view[0]), Math.min(most, view[1])];
      // Never nearer than the distance of two epochs, or nothing is left to see.
      this.view = high - low >= Math.min(1, most - least) ? [low, high] : this.view;
      const zoomed = this.view[0] > least || this.view[1] < most;
      this.resetButton.disabled = !zoomed;
      this.figure.dataset.view = this.view.join(" ");
      this.draw();
    }

    usable(y) { return Number.isFinite(y) && (!this.log || y > 0); }

    // What of a curve is in view, with one point more on each side.
    part(curve) {
      const from = Math.max(0, firstAt(curve.x, this.view[0]) - 1);
      const to = Math.min(curve.x.length, firstAt(curve.x, this.view[1] + 1e-9) + 1);
      return [from, to];
    }

    domain() {
      let [low, high] = [Infinity, -Infinity];
      for (const curve of this.shown) {
        const [from, to] = this.part(curve);
        for (let at = from; at < to; at++) {
          if (!this.usable(curve.y[at])) continue;
          low = Math.min(low, curve.y[at]);
          high = Math.max(high, curve.y[at]);
        }
      }
      if (low > high) return this.log ? [1, 10] : [0, 1];
      if (this.log) return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.05, high * (high / low) ** 0.05];
      const pad = low === high ? Math.abs(low) * 0.1 || 1 : (high / 20 - low / 20);
      return [low - pad, high + pad];
    }

    draw() {
      const box = this.plot.getBoundingClientRect();
      [this.width, this.height] = [box.width, box.height];
      if (!(this.width > MARGIN.left + 20)) return;
      const [low, high] = this.domain();
      const [left, right] = [MARGIN.left, this.width - MARGIN.right];
      const [top, bottom] = [MARGIN.top, this.height - MARGIN.bottom];
      const [first, last] = this.view;
      this.toX = (x) => (last > first ? left + (x - first) / (last - first) * (right - left) : (left + right) / 2);
      const warp = this.log ? Math.log10 : (y) => y / 2;
      this.toY = (y) => bottom - (warp(y) - warp(low)) / (warp(high) - warp(low)) * (bottom - top);
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      this.axes(low, high, left, right, top, bottom);
      const identity = `clip-${charts.indexOf(this)}-${this.figure.dataset.chart}`;
      const clip = make("clipPath", { id: identity }, this.svg);
      make("rect", { x: left - 1, y: top - 6, width: right - left + 2, height: bottom - top + 12 }, clip);
      const inside = make("g", { "clip-path": `url(#${identity})` }, this.svg);
      for (const curve of this.shown) this.line(curve, inside, bottom);
      this.over = make("g", {}, this.svg);
      this.hover(false);
    }

    axes(low, high, left, right, top, bottom) {
      for (const y of this.log ? logTicks(low, high) : ticks(low, high, 5, false)) {
        make("path", { d: `M${left} ${this.toY(y)}H${right}`, class: "grid" }, this.svg);
        make("text", { x: left - 6, y: this.toY(y) + 4, "text-anchor": "end" }, this.svg).textContent = tickWords(y);
      }
      for (const x of ticks(this.view[0], this.view[1], Math.max(2, (right - left) / 80), true)) {
        const near = this.toX(x) > right - 14 ? "end" : "middle";
        make("path", { d: `M${this.toX(x)} ${bottom}v4`, class: "grid" }, this.svg);
        make("text", { x: this.toX(x), y: bottom + 16, "text-anchor": near }, this.svg).textContent = tickWords(x);
      }
      make("path", { d: `M${left} ${top}V${bottom}H${right}`, class: "grid" }, this.svg);
    }

    // Of each pixel's points the least and the greatest: no peak is lost, and nothing is slow.
    line(curve, parent, bottom) {
      const [from, to] = this.part(curve);
      const parts = [];
      const odd = [];
      let pen = false;
      let at = from;
      while (at < to) {
        const column = Math.round(this.toX(curve.x[at]));
        let [end, least, most, broken] = [at, -1, -1, false];
        for (; end < to && Math.round(this.toX(curve.x[end])) === column; end++) {
          const y = curve.y[end];
          if (!this.usable(y)) { broken = true; if (!Number.isFinite(y)) odd.push(curve.x[end]); continue; }
          if (least < 0 || y < curve.y[least]) least = end;
          if (most < 0 || y > curve.y[most]) most = end;
        }
        if (least < 0) pen = false;
        else for (const one of least === most ? [least] : [Math.min(least, most), Math.max(least, most)]) {
          parts.push(`${pen ? "L" : "M"}${this.toX(curve.x[one]).toFixed(1)} ${this.toY(curve.y[one]).toFixed(1)}`);
          pen = !(broken && one === Math.max(least, most));
        }
        at = end;
      }
      make("path", { d: parts.join(""), class: `curve ${look(curve.run)}` }, parent);
      if (to - from <= 60) for (let one = from; one < to; one++) if (this.usable(curve.y[one])) {
        make("circle", { cx: this.toX(curve.x[one]), cy: this.toY(curve.y[one]), r: 2.4, class: `dot s${curve.run % 8}` }, parent);
      }
      // Where a value is no number: a small cross on the axis.
      const crosses = [...new Set(odd.map((x) => Math.round(this.toX(x))))];
      if (crosses.length) make("path", { d: crosses.map((x) => `M${x - 3} ${bottom - 3}l6 6m0-6l-6 6`).join(""), class: `odd s${curve.run % 8}` }, parent);
    }

    // The line under the pointer, and what each run has there.
    hover(tell) {
      if (!this.over) return;
      this.over.replaceChildren();
      this.tip.hidden = true;
      if (this.drag) {
        const [low, high] = [Math.min(...this.drag), Math.max(...this.drag)];
        make("rect", { x: low, y: MARGIN.top, width: high - low, height: this.height - MARGIN.top - MARGIN.bottom, class: "select" }, this.over);
      }
      const rows = this.at === null ? [] : this.rows();
      if (!rows.length) return;
      const x = rows[0].x;
      make("path", { d: `M${this.toX(x)} ${MARGIN.top}V${this.height - MARGIN.bottom}`, class: "cross" }, this.over);
      for (const row of rows) if (this.usable(row.y)) {
        make("circle", { cx: this.toX(x), cy: this.toY(row.y), r: 4, class: `dot s${row.run % 8}` }, this.over);
      }
      this.tell(x, rows);
      const there = this.toX(x);
      this.tip.style.left = there < this.width / 2 ? `${there + 12}px` : "auto";
      this.tip.style.right = there < this.width / 2 ? "auto" : `${this.width - there + 12}px`;
      if (tell) this.readout.textContent = this.tip.textContent;
    }

    rows() {
      const all = this.shown.map((curve) => ({ curve, at: nearest(curve.x, this.at) }));
      if (!all.length) return [];
      const distance = (one) => Math.abs(one.curve.x[one.at] - this.at);
      const best = all.reduce((one, other) => (distance(other) < distance(one) ? other : one));
      const x = best.curve.x[best.at];
      return all.filter((one) => one.curve.x[one.at] === x).map((one) => ({ x, run: one.curve.run, y: one.curve.y[one.at] }));
    }

    tell(x, rows) {
      const line = (...parts) => {
        const row = document.createElement("div");
        row.append(...parts);
        return row;
      };
      const several = this.curves.length > 1 || data.runs.length > 1;
      const lines = rows.map((row) => {
        const value = document.createElement("strong");
        value.textContent = ` ${words(row.y)}`;
        if (!several) return line(value);
        const key = make("svg", { viewBox: "0 0 18 8" });
        make("path", { d: "M0 4H18", class: `curve ${look(row.run)}` }, key);
        const who = document.createElement("span");
        who.className = "who";
        who.textContent = data.runs[row.run];
        return line(key, who, value);
      });
      this.tip.replaceChildren(line(`epoch ${x}`), ...lines);
      this.tip.hidden = false;
    }
  }

  // What JSON has no number for is text: nan, inf, -inf.
  const Number_ = (value) => (typeof value === "number" ? value : { inf: Infinity, "-inf": -Infinity }[value] ?? NaN);

  for (const figure of document.querySelectorAll("figure[data-chart]")) {
    charts.push(new Chart(figure, data.charts[Number(figure.dataset.chart)]));
  }
  for (const button of document.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const run = Number(button.dataset.run);
      if (!hidden.delete(run)) hidden.add(run);
      button.setAttribute("aria-pressed", String(!hidden.has(run)));
      for (const chart of charts) chart.draw();
    });
  }
  // On paper nothing can be opened.
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
  document.documentElement.dataset.ready = "yes";
})();
