// The timeline: one lane an operation, bars from its begin over its commit to its end, marks where the tree changes.
const MARK = { grow: "M-3.2 0h6.4M0-3.2v6.4", split: "M-4-4 0 0 4-4M0 0v4.5", evict: "M-4-3h8l-4 6.5z", reset: "M-3-3l6 6m0-6-6 6" };
const ROW = 22, TOP = 26, AXIS = 18;

class Timeline {
  constructor(host, overview, onGo) {
    this.host = host;
    this.onGo = onGo;
    this.ppx = null;
    this.from = FIRST;
    this.overviewHost = overview;
    host.addEventListener("click", (e) => {
      const box = this.drawing && this.drawing.getBoundingClientRect();
      if (!box || e.target.closest("button")) return;
      const pos = Math.floor(this.from + (e.clientX - box.left) / this.ppx);
      onGo(Math.max(FIRST, Math.min(LAST, pos)));
    });
    host.addEventListener("wheel", (e) => {
      const way = e.deltaX || (e.shiftKey ? e.deltaY : 0);
      if (!way || this.shown >= STEPS.length) return;
      e.preventDefault();
      this.from = this.clamp(this.from + Math.round(way / this.ppx) || Math.sign(way));
      this.draw(this.state);
    }, { passive: false });
  }
  clamp(from) { return Math.max(FIRST, Math.min(LAST - this.shown + 1, from)); }
  zoom(factor) {
    this.ppx = Math.max(3, Math.min(60, this.ppx * factor));
    this.zoomed = true;
    this.draw(this.state);
  }
  draw(state) {
    this.state = state;
    const label = this.host.clientWidth < 560 ? 92 : 148;
    const width = Math.max(160, this.host.clientWidth - label - 2);
    if (!this.zoomed) this.ppx = Math.max(width < 400 ? 11 : 15, Math.min(44, width / STEPS.length));
    this.shown = Math.max(1, Math.floor(width / this.ppx));
    const margin = Math.min(6, Math.floor(this.shown / 4));
    if (state.pos < this.from + margin) this.from = state.pos - margin;
    if (state.pos > this.from + this.shown - 1 - margin) this.from = state.pos - this.shown + 1 + margin;
    this.from = this.clamp(this.from);
    const to = Math.min(LAST, this.from + this.shown - 1);
    const lanes = LANES.filter((l) => l.begin <= to && (l.end === null || l.end >= this.from));
    const height = TOP + lanes.length * ROW + AXIS + 4;
    const x = (pos) => (pos - this.from + 0.5) * this.ppx;
    const drawing = svg("svg", { width, height, class: "drawing", "aria-hidden": "true" });
    drawing.append(this.band(x(state.pos), height, "cursor"));
    for (const at of WRONG.keys()) if (at >= this.from && at <= to) drawing.append(this.band(x(at), height, "wrong"));
    for (let i = 0; i <= lanes.length; i++) {
      drawing.append(svg("line", { class: "rule", x1: 0, x2: width, y1: TOP + i * ROW, y2: TOP + i * ROW }));
    }
    for (let pos = this.from; pos <= to; pos++) this.mark(drawing, STEPS[pos - FIRST], x(pos));
    lanes.forEach((lane, i) => this.bar(drawing, lane, x, TOP + i * ROW + ROW / 2, width, to));
    this.axis(drawing, x, to, height);
    this.drawing = drawing;
    const names = el("div", { class: "names", style: `width:${label}px;padding-top:${TOP}px` }, lanes.map((lane) =>
      el("button", {
        type: "button", tabindex: "-1", class: `lane ${css(lane.kind)}${state.holders.has(lane.holder) ? " on" : ""}`,
        title: `Filter by ${lane.kind} ${lane.holder}`, onclick: () => state.toggle(`h${lane.holder}`),
      }, el("i", {}), label < 100 ? `${SHORT[lane.kind]} ${lane.holder}` : `${lane.kind} ${lane.holder}`)));
    this.host.replaceChildren(names, drawing);
    this.host.setAttribute("aria-valuemin", STEPS[0].seq);
    this.host.setAttribute("aria-valuemax", STEPS[STEPS.length - 1].seq);
    const step = STEPS[state.pos - FIRST];
    this.host.setAttribute("aria-valuenow", step.seq);
    this.host.setAttribute("aria-valuetext", `step ${step.seq}: ${step.words}`);
    this.overview(to);
  }
  band(x, height, kind) {
    const wide = Math.max(3, this.ppx);
    const group = svg("g", { class: kind }, svg("rect", { x: x - wide / 2, y: 0, width: wide, height: height - AXIS, rx: 3 }));
    if (kind === "wrong") group.append(svg("line", { x1: x, x2: x, y1: 4, y2: height - AXIS }), svg("text", { x, y: 13 }, "!"));
    return group;
  }
  mark(drawing, step, x) {
    if (step.refused !== undefined) {
      drawing.append(svg("path", { class: "tick refused", d: "M-3-3l6 6m0-6-6 6", transform: `translate(${x} 13)` }));
    } else if (MARK[step.family]) {
      drawing.append(svg("path", { class: `tick ${step.family}`, d: MARK[step.family], transform: `translate(${x} 13)` }));
    } else {
      drawing.append(svg("circle", { class: "tick dot", cx: x, cy: 13, r: 1.3 }));
    }
    const title = svg("title", {}, `${step.seq}: ${step.words}`);
    drawing.lastChild.append(title);
  }
  bar(drawing, lane, x, y, width, to) {
    const open = lane.end === null, kind = css(lane.kind);
    const left = Math.max(-8, x(lane.begin)), right = open ? width + 8 : Math.min(width + 8, x(lane.end));
    const commit = lane.kind === "request" ? lane.begin : lane.commit;
    const group = svg("g", { class: `bar ${kind}${open ? " open" : ""}` });
    const waits = commit === null ? right : Math.max(left, Math.min(right, x(commit)));
    group.append(svg("line", { class: "wait", x1: left, x2: waits, y1: y, y2: y }));
    if (commit !== null && x(commit) < right) {
      const start = Math.max(-8, x(commit)), thick = lane.kind === "request" ? 5 : 10;
      group.append(svg("rect", { class: "move", x: start, y: y - thick / 2, width: Math.max(2, right - start), height: thick, rx: 2.5 }));
    }
    if (lane.begin >= this.from) group.append(svg("circle", { class: "end", cx: x(lane.begin), cy: y, r: 3.4 }));
    if (!open && lane.end <= to) {
      const bad = /fail|abort|nothing/.test(lane.how);
      group.append(bad
        ? svg("path", { class: "end bad", d: "M-3.4-3.4l6.8 6.8m0-6.8-6.8 6.8", transform: `translate(${x(lane.end)} ${y})` })
        : svg("circle", { class: "end full", cx: x(lane.end), cy: y, r: 4.2 }));
    }
    group.append(svg("title", {}, `${lane.kind} ${lane.holder}${lane.how ? ", " + lane.how : ""}`));
    drawing.append(group);
  }
  axis(drawing, x, to, height) {
    const every = [1, 2, 5, 10, 20, 50, 100].find((n) => n * this.ppx >= 34) || 100;
    for (let pos = this.from; pos <= to; pos++) {
      const seq = STEPS[pos - FIRST].seq;
      if (seq % every === 0) drawing.append(svg("text", { class: "label", x: x(pos), y: height - 5 }, String(seq)));
    }
  }
  /** The whole trace in a strip, where the page holds more steps than the lanes can show. */
  overview(to) {
    if (DATA.total <= this.shown) { this.overviewHost.replaceChildren(); return; }
    const width = this.host.clientWidth, height = 34, rows = DATA.overview.rows;
    const count = Math.max(...Object.values(rows).map((r) => r.length)), scale = width / (count * DATA.overview.width);
    const sums = Array.from({ length: count }, (_, i) => Object.values(rows).reduce((s, r) => s + (r[i] || 0), 0));
    const most = Math.max(...sums, 1), columns = svg("g", {});
    const path = (row, tall) => row.map((n, i) => n ? `M${i * width / count} ${height}h${width / count}v${-tall * n / most}h${-width / count}z` : "").join("");
    columns.append(svg("path", { class: "any", d: path(sums, height - 6) }));
    for (const family of ["evict", "refused"]) if (rows[family]) columns.append(svg("path", { class: family, d: path(rows[family], height - 6) }));
    const drawing = svg("svg", { width, height, class: "overview", "aria-hidden": "true" },
      columns,
      svg("rect", { class: "kept", x: FIRST * scale, y: 0, width: Math.max(2, STEPS.length * scale), height }),
      svg("rect", { class: "view", x: this.from * scale, y: 0.5, width: Math.max(3, (to - this.from + 1) * scale), height: height - 1, rx: 2 }));
    for (const at of WRONG.keys()) drawing.append(svg("line", { class: "wrong", x1: at * scale, x2: at * scale, y1: 0, y2: height }));
    drawing.addEventListener("click", (e) => {
      const pos = Math.round((e.clientX - drawing.getBoundingClientRect().left) / scale);
      this.onGo(Math.max(FIRST, Math.min(LAST, pos)));
    });
    this.overviewHost.replaceChildren(drawing);
  }
}
const css = (kind) => "k-" + kind.replace(" ", "-");
const SHORT = { request: "req", backup: "backup", "load-back": "load", prefetch: "prefetch", "storage backup": "store", operation: "op" };
