// The list of steps, what this step changed, and the violation in words.
const LINE = 30;

class StepList {
  constructor(host, onGo) {
    this.host = host;
    this.onGo = onGo;
    this.space = el("div", { class: "space" });
    host.append(this.space);
    host.addEventListener("scroll", () => this.fill());
  }
  draw(shown, pos) {
    this.shown = shown;
    this.pos = pos;
    this.space.style.height = `${shown.length * LINE}px`;
    const at = shown.indexOf(pos), top = at * LINE, host = this.host;
    if (at >= 0 && (top < host.scrollTop + LINE || top > host.scrollTop + host.clientHeight - 2 * LINE)) {
      host.scrollTop = top - host.clientHeight / 2 + LINE / 2;
    }
    this.fill();
  }
  fill() {
    const from = Math.max(0, Math.floor(this.host.scrollTop / LINE) - 6);
    const to = Math.min(this.shown.length, from + Math.ceil(this.host.clientHeight / LINE) + 14);
    const rows = [];
    for (let i = from; i < to; i++) {
      const step = STEPS[this.shown[i] - FIRST], on = step.pos === this.pos;
      const classes = ["line", step.family];
      if (on) classes.push("on");
      if (WRONG.has(step.pos)) classes.push("wrong");
      if (step.refused !== undefined) classes.push("refused");
      rows.push(el("div", {
        role: "option", id: `line-${step.pos}`, class: classes.join(" "), style: `top:${i * LINE}px`, title: step.words,
        "aria-selected": on ? "true" : "false", "aria-setsize": this.shown.length, "aria-posinset": i + 1,
        onclick: () => this.onGo(step.pos),
      }, el("span", { class: "seq" }, String(step.seq)), el("span", { class: "what" }, step.words),
      step.refused !== undefined ? el("em", {}, "refused") : null, WRONG.has(step.pos) ? el("em", { class: "bad" }, "violation") : null));
    }
    this.space.replaceChildren(...rows);
    this.host.setAttribute("aria-activedescendant", `line-${this.pos}`);
  }
}

const FIELD = {
  parent: "parent", pin: "load_back_pending_id", mark: "write_through_pending_id", duplicate: "tracked as a duplicate",
  stored: "stored",
};
const TIER = { D: "device", d: "device (on its way)", H: "host", h: "host (on its way)" };
function valueWords(field, value) {
  if (value === null || value === undefined) return field.includes("lock.") ? "0" : field === "duplicate" || field === "stored" ? "no" : "none";
  if (DATA.components.includes(field)) return [...String(value)].map((t) => TIER[t] || t).join(" and ");
  if (field === "parent") return value === 0 ? "root" : `node ${value}`;
  if (field === "pin" || field === "mark") return holderName(value);
  if (field === "duplicate" || field === "stored") return "yes";
  return String(value);
}
function fieldWords(field) {
  if (DATA.components.includes(field)) return field.toUpperCase();
  const [name, component] = field.split(".");
  if (component) return `${component.toUpperCase()} ${name === "lock" ? "device locks" : "host locks"}`;
  return FIELD[field] || field;
}

function drawDetail(host, step, world, go) {
  const parts = [el("p", { class: "words" }, step.words)];
  if (step.refused !== undefined) parts.push(el("p", { class: "refusal" }, el("b", {}, "Refused. "), step.refused));
  if (step.tag) parts.push(el("p", { class: "tag" }, step.tag));
  const changed = Object.entries(step.changes);
  parts.push(el("h3", {}, "What changed"));
  if (!changed.length) parts.push(el("p", { class: "soft" }, "Nothing that can be seen in the tree."));
  else {
    const rows = changed.slice(0, 60).flatMap(([node, change]) => [
      el("dt", {}, node === "0" ? "root" : `node ${node}`),
      ...Object.entries(change).map(([field, pair]) => el("dd", {}, el("span", { class: "field" }, fieldWords(field)),
        el("span", {}, el("span", { class: "was" }, valueWords(field, pair[0])), " → ", el("span", { class: "is" }, valueWords(field, pair[1])))))]);
    parts.push(el("dl", { class: "changes" }, rows));
    if (changed.length > 60) parts.push(el("p", { class: "soft" }, `… and ${changed.length - 60} more nodes`));
  }
  const active = LANES.filter((l) => l.begin <= step.pos && (l.end === null || l.end > step.pos));
  parts.push(el("h3", {}, "Under way"));
  if (!active.length) parts.push(el("p", { class: "soft" }, "No operation: nobody holds anything."));
  const mine = step.args.holder;
  active.sort((a, b) => (b.holder === mine) - (a.holder === mine) || a.begin - b.begin);
  for (const lane of active.slice(0, 12)) parts.push(operation(lane, step, world, go));
  if (active.length > 12) parts.push(el("p", { class: "soft" }, `… and ${active.length - 12} more`));
  const raw = { seq: step.seq, action: step.action, args: step.args };
  if (step.refused !== undefined) Object.assign(raw, { outcome: "refused", reason: step.refused });
  parts.push(el("details", {}, el("summary", {}, "As an event"), el("pre", {}, JSON.stringify(raw, null, 1))));
  host.replaceChildren(...parts);
}
function operation(lane, step, world, go) {
  const stage = lane.kind === "request" ? "at work" : lane.commit !== null && lane.commit <= step.pos ? "bytes are moving" : "before its commit";
  const rows = [...(world.held.get(lane.holder) || [])].map(([relation, nodes]) => {
    const listed = [...nodes].sort((a, b) => a - b);
    const told = listed.slice(0, 12).map((n) => (n === 0 ? "root" : n)).join(", ") + (listed.length > 12 ? ` … (${listed.length})` : "");
    return el("li", { title: DATA.relations[relation] }, el("code", {}, relation), ` ${told}`);
  });
  return el("div", { class: `operation ${css(lane.kind)}` },
    el("p", {}, el("i", { "aria-hidden": "true" }), el("b", {}, `${lane.kind} ${lane.holder}`), lane.node ? ` at node ${lane.node}` : "", el("span", { class: "soft" }, ` · ${stage}, since step `),
      lane.begin >= FIRST ? el("button", { type: "button", class: "link", onclick: () => go(lane.begin) }, String(STEPS[lane.begin - FIRST].seq)) : "before"),
    rows.length ? el("ul", {}, rows) : null);
}

function drawBreach(host, which, go, toggle) {
  const v = DATA.violations[which];
  if (!v) return;
  host.hidden = false;
  const step = v.at >= FIRST && v.at <= LAST ? STEPS[v.at - FIRST] : null;
  const facts = v.facts.map((f) => el("li", {}, linked(f.words, toggle)));
  const parts = [
    el("div", { class: "lead" }, el("h2", { id: "breach-title" }, v.title),
      step ? el("button", { type: "button", class: "alarm", onclick: () => go(v.at) }, `at step ${step.seq}`) : null,
      DATA.violations.length > 1 ? el("span", { class: "soft" }, `${which + 1} of ${DATA.violations.length}; v goes to the next`) : null),
    step ? el("p", { class: "did" }, step.words, step.refused !== undefined ? " — refused" : "", ".") : null,
    el("dl", {},
      el("div", {}, el("dt", {}, "Rule"), el("dd", {}, v.words, " ", el("code", { class: "id" }, v.rule))),
      v.conjunct ? el("div", {}, el("dt", {}, "False here"), el("dd", {}, el("code", { class: "false" }, v.conjunct))) : null,
      facts.length ? el("div", {}, el("dt", {}, v.kind === "permissiveness" ? "As it is" : "Because"), el("dd", {}, el("ul", {}, facts))) : null,
      v.source ? el("div", {}, el("dt", {}, "From"), el("dd", {}, v.source)) : null,
      DATA.reproduce ? el("div", {}, el("dt", {}, "Again"), el("dd", { class: "again" }, el("code", {}, DATA.reproduce), copyButton(DATA.reproduce))) : null),
  ];
  if (v.differences.length) {
    const rows = v.differences.map((d) => el("tr", {}, el("th", { scope: "row" }, `node ${d.node}`), el("td", {}, d.field), el("td", { class: "is" }, d.expected), el("td", { class: "was" }, d.observed)));
    parts.push(el("div", { class: "scroll" }, el("table", { class: "differences" }, el("thead", {}, el("tr", {}, ["Node", "Field", ...(v.kind === "divergence" ? ["The other trace", "This trace"] : ["Protocol says", "Target says"])].map((h) => el("th", { scope: "col" }, h)))), el("tbody", {}, rows))));
  }
  host.replaceChildren(...parts.filter(Boolean));
}
/** Text whose nodes can be picked. */
function linked(text, toggle) {
  return text.split(/(node \d+)/).map((part) => {
    const found = /^node (\d+)$/.exec(part);
    if (!found || found[1] === "0") return part;
    return el("button", { type: "button", class: "link", title: `Filter by node ${found[1]}`, onclick: () => toggle(found[1]) }, part);
  });
}
function copyButton(text) {
  const button = el("button", { type: "button", class: "ghost" }, "Copy");
  button.addEventListener("click", () => {
    const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = "Copy"; }, 1500); };
    const fall = () => {
      const area = el("textarea", { class: "away" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
      done();
    };
    if (navigator.clipboard && window.isSecureContext) navigator.clipboard.writeText(text).then(done, fall); else fall();
  });
  return button;
}
