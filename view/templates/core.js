// The story, and the state of the tree at any step. Nothing from the trace ever becomes markup: only textContent.
const DATA = JSON.parse(document.getElementById("data").textContent);
const STEPS = DATA.steps.map((s, i) => ({
  pos: DATA.first + i, seq: s[0], action: s[1], args: s[2], words: s[3], family: s[4], changes: s[5], held: s[6],
  refused: s[7].refused, tag: s[7].tag,
}));
const LANES = DATA.lanes.map((l) => ({
  holder: l[0], kind: l[1], begin: l[2], commit: l[3], end: l[4], how: l[5], node: l[6],
}));
const LANE_OF = new Map(LANES.map((l) => [l.holder, l]));
const WRONG = new Map(DATA.violations.map((v) => [v.at, v]));
const FIRST = DATA.first, LAST = DATA.first + STEPS.length - 1;
const NODE_ARGS = ["node", "leaf", "parent", "prefix", "top"];

const byId = (id) => document.getElementById(id);

/** An element with properties and children; strings become text. */
function el(tag, props, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter((c) => c !== null && c !== undefined && c !== false));
  return made;
}
const SVG = "http://www.w3.org/2000/svg";
function svg(tag, props, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props || {})) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}
const away = (text) => el("span", { class: "away" }, text);

/** The tree and who holds what, moved from step to step by what changed. */
class World {
  constructor() {
    this.pos = FIRST - 1;
    this.nodes = new Map();
    for (const [node, flat] of Object.entries(DATA.base)) this.nodes.set(+node, { ...flat });
    this.held = new Map();
    for (const [holder, rows] of Object.entries(DATA.baseHeld)) {
      this.held.set(+holder, new Map(Object.entries(rows).map(([r, nodes]) => [r, new Set(nodes)])));
    }
  }
  go(pos) {
    while (this.pos < pos) this.apply(STEPS[++this.pos - FIRST], 1);
    while (this.pos > pos) this.apply(STEPS[this.pos-- - FIRST], 0);
  }
  apply(step, side) {
    for (const [name, change] of Object.entries(step.changes)) {
      const node = +name, flat = this.nodes.get(node) || {};
      for (const [field, pair] of Object.entries(change)) {
        if (pair[side] === null) delete flat[field]; else flat[field] = pair[side];
      }
      if (node !== 0 && flat.parent === undefined) this.nodes.delete(node); else this.nodes.set(node, flat);
    }
    for (const [name, rows] of Object.entries(step.held)) {
      const holder = +name, mine = this.held.get(holder) || new Map();
      for (const [relation, pair] of Object.entries(rows)) {
        const nodes = mine.get(relation) || new Set();
        for (const n of pair[1 - side]) nodes.add(n);
        for (const n of pair[side]) nodes.delete(n);
        if (nodes.size) mine.set(relation, nodes); else mine.delete(relation);
      }
      if (mine.size) this.held.set(holder, mine); else this.held.delete(holder);
    }
  }
  /** node -> children, in order; the ghosts of nodes that this step took away stay under their old parent. */
  children(ghosts) {
    const found = new Map();
    const add = (node, parent) => {
      if (!found.has(parent)) found.set(parent, []);
      found.get(parent).push(node);
    };
    for (const [node, flat] of this.nodes) if (node !== 0) add(node, this.nodes.has(flat.parent) ? flat.parent : 0);
    for (const [node, flat] of ghosts) add(node, this.nodes.has(flat.parent) || ghosts.has(flat.parent) ? flat.parent : 0);
    for (const nodes of found.values()) nodes.sort((a, b) => a - b);
    return found;
  }
  path(node) {
    const found = [];
    while (node !== undefined && this.nodes.has(node)) { found.push(node); node = this.nodes.get(node).parent; }
    return found;
  }
}

const holderName = (holder) => {
  const lane = LANE_OF.get(holder);
  return `${lane ? lane.kind : "operation"} ${holder}`;
};
const stepNodes = (step) => [
  ...NODE_ARGS.map((a) => step.args[a]).filter((n) => n !== undefined), ...Object.keys(step.changes).map(Number),
];
