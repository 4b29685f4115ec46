// The tree at the selected step: per node and component where its slots are, who holds it, and what this step changed.
const FEW = 48;

class TreeView {
  constructor(host, onNode) {
    this.host = host;
    this.onNode = onNode;
    this.all = false;
  }
  draw(world, step, focus) {
    const ghosts = new Map();
    for (const [name, change] of Object.entries(step.changes)) {
      if (+name !== 0 && !world.nodes.has(+name) && change.parent) {
        ghosts.set(+name, Object.fromEntries(Object.entries(change).map(([f, p]) => [f, p[0]]).filter((p) => p[1] !== null)));
      }
    }
    const children = world.children(ghosts);
    const shown = this.choose(world, step, focus, children, ghosts);
    const rows = [];
    const visit = (node, depth, trail) => {
      const kids = (children.get(node) || []).filter((n) => shown.has(n));
      const hidden = (children.get(node) || []).length - kids.length;
      rows.push(this.row(node, depth, trail, world, step, ghosts, focus, hidden));
      kids.forEach((kid, i) => visit(kid, depth + 1, [...trail, i < kids.length - 1]));
    };
    visit(0, 0, []);
    const heads = ["Node", "Device", "Host", "Held and marked"].map((h) => el("span", { role: "columnheader" }, h));
    this.host.replaceChildren(el("div", { role: "table", class: "grid", "aria-label": `Tree after step ${step.seq}` },
      el("div", { role: "row", class: "head" }, heads), rows));
    const total = world.nodes.size, left = total + ghosts.size - shown.size;
    byId("tree-note").textContent = `${total} node${total === 1 ? "" : "s"}${DATA.hidden ? `, ${DATA.hidden.toLocaleString("en")} more are not on this page` : ""}`;
    const button = byId("all");
    button.hidden = total <= FEW;
    button.textContent = this.all ? "Show what matters here" : `Show ${left.toLocaleString("en")} more nodes`;
  }
  /** In a large tree: what the step, the filter and the violation are about, what is held, their paths and children. */
  choose(world, step, focus, children, ghosts) {
    const everything = new Set([...world.nodes.keys(), ...ghosts.keys()]);
    if (this.all || everything.size <= FEW) return everything;
    const found = new Set([0]);
    const seeds = [...stepNodes(step), ...focus.nodes, ...(WRONG.has(step.pos) ? WRONG.get(step.pos).nodes : [])];
    for (const holder of focus.holders) for (const nodes of (world.held.get(holder) || new Map()).values()) seeds.push(...[...nodes].slice(0, 40));
    for (const node of seeds) for (const n of ghosts.has(node) ? [node, ...world.path(ghosts.get(node).parent)] : world.path(node)) found.add(n);
    for (const node of [...found]) {
      for (const kid of (children.get(node) || []).slice(0, node === 0 ? 4 : 3)) if (found.size < 2 * FEW) found.add(kid);
    }
    return found;
  }
  row(node, depth, trail, world, step, ghosts, focus, hidden) {
    const ghost = ghosts.has(node), flat = ghosts.get(node) || world.nodes.get(node) || {};
    const change = ghost ? {} : step.changes[node] || {};
    const born = change.parent && change.parent[0] === null, moved = change.parent && change.parent[0] !== null;
    const classes = ["row"];
    if (Object.keys(change).length || ghost) classes.push("touched");
    if (ghost) classes.push("gone");
    if (focus.nodes.has(node)) classes.push("focus");
    if (WRONG.has(step.pos) && WRONG.get(step.pos).nodes.includes(node)) classes.push("accused");
    const guides = trail.map((more, i) => el("i", { class: i === trail.length - 1 ? (more ? "tee" : "ell") : more ? "bar" : "gap", "aria-hidden": "true" }));
    const name = el("button", {
      type: "button", class: "node", title: node === 0 ? "The root" : `Filter by node ${node}`,
      "aria-pressed": focus.nodes.has(node) ? "true" : "false", onclick: () => this.onNode(node),
    }, node === 0 ? "root" : String(node), DATA.names[node] ? el("small", {}, ` ${DATA.names[node]}`) : null);
    const cells = [
      el("span", { role: "rowheader", class: "name" }, guides, name, away(` level ${depth}`),
        born ? el("em", { class: "news" }, "new") : moved ? el("em", { class: "news" }, `below ${change.parent[1]}`) : null,
        ghost ? el("em", { class: "news" }, "gone") : null, hidden > 0 ? el("small", {}, `+${hidden}`) : null),
      el("span", { role: "cell", class: "tier", "data-tier": "device" }, this.chips(flat, change, "D", "lock", born)),
      el("span", { role: "cell", class: "tier", "data-tier": "host" }, this.chips(flat, change, "H", "host_lock", born)),
      el("span", { role: "cell", class: "marks" }, this.marks(flat, change)),
    ];
    return el("div", { role: "row", class: classes.join(" "), "data-node": String(node), "aria-level": String(depth + 1) }, cells);
  }
  chips(flat, change, letter, lock, born) {
    return DATA.components.map((c) => {
      const [was, is] = tiers(change[c], flat[c], letter);
      const count = `${lock}.${c}`, locks = flat[count] || 0, lockChange = change[count];
      if (!is && !was && !locks && !lockChange) return el("span", { class: "chip none", "aria-hidden": "true" });
      const coming = is === letter.toLowerCase(), gone = !is;
      const state = gone ? (was ? "given up" : "not there") : coming ? "bytes on their way" : "";
      const classes = ["chip", c, gone ? "ghost" : coming ? "coming" : "there"];
      if (was !== is && !born) classes.push("changed");
      const parts = [el("b", {}, c.toUpperCase()), state ? away(` ${state}`) : null];
      if (locks || lockChange) {
        const before = lockChange ? lockChange[0] || 0 : locks;
        parts.push(el("span", { class: `lock${lockChange ? " changed" : ""}${locks ? "" : " off"}`, title: lockChange ? `locks: ${before} → ${locks}` : `locks: ${locks}` },
          icon("lock"), away(" locks "), String(locks)));
      }
      return el("span", { class: classes.join(" "), title: `${c.toUpperCase()} on the ${letter === "D" ? "device" : "host"}${state ? ", " + state : ""}` }, parts);
    });
  }
  marks(flat, change) {
    const found = [];
    const badge = (field, kind, tell, mark) => {
      const now = flat[field], pair = change[field];
      if (now === undefined && !(pair && pair[0] !== null)) return;
      const off = now === undefined;
      found.push(el("span", { class: `badge ${kind}${off ? " off" : ""}${pair ? " changed" : ""}` }, mark ? icon(mark) : null, tell(off ? pair[0] : now), off ? away(" no more") : null));
    };
    badge("pin", "pin", (h) => `pinned by ${h}`, "pin");
    badge("mark", "mark", (h) => `marked by ${h}`);
    badge("duplicate", "dup", () => "duplicate");
    badge("stored", "stored", () => "stored");
    return found;
  }
}
/** What a component's tiers say of one tier, before and after: its letter (small: bytes on their way) or "". */
function tiers(pair, now, letter) {
  const find = (text) => [...(text || "")].find((t) => t.toUpperCase() === letter) || "";
  return pair ? [find(pair[0]), find(pair[1])] : [find(now), find(now)];
}
