// Ties the parts together: the selected step, the filter, keys, the address, light and dark.
const world = new World();
const state = { pos: FIRST, nodes: new Set(), holders: new Set(), shown: STEPS.map((s) => s.pos), toggle: toggleFilter, which: 0 };
const timeline = new Timeline(byId("lanes"), byId("overview"), go);
const tree = new TreeView(byId("tree"), (node) => node !== 0 && toggleFilter(String(node)));
const list = new StepList(byId("list"), go);

function draw() {
  const step = STEPS[state.pos - FIRST];
  world.go(state.pos);
  byId("seq").value = step.seq;
  byId("now").textContent = step.words + (step.refused !== undefined ? " — refused" : "");
  byId("now").classList.toggle("wrong", WRONG.has(state.pos));
  const which = DATA.violations.findIndex((v) => v.at === state.pos);
  if (which >= 0 && which !== state.which) { state.which = which; drawBreach(byId("breach"), which, go, toggleFilter); }
  timeline.draw(state);
  list.draw(state.shown, state.pos);
  tree.draw(world, step, state);
  drawDetail(byId("detail"), step, world, go);
  byId("to-violation").setAttribute("aria-pressed", WRONG.has(state.pos) ? "true" : "false");
  for (const button of document.querySelectorAll("[data-go=first],[data-go=back]")) button.disabled = state.pos <= state.shown[0];
  for (const button of document.querySelectorAll("[data-go=last],[data-go=on]")) button.disabled = state.pos >= state.shown[state.shown.length - 1];
  remember(step);
}
function go(pos) {
  if (pos < FIRST || pos > LAST) return;
  state.pos = pos;
  draw();
}
/** Step on or back among the steps that the filter lets through. */
function move(by) {
  const shown = state.shown;
  let at = shown.findIndex((p) => p >= state.pos);
  if (at < 0) at = shown.length;
  if (by > 0 && shown[at] !== state.pos) by -= 1;
  go(shown[Math.max(0, Math.min(shown.length - 1, at + by))]);
}
const WAYS = {
  first: () => go(state.shown[0]), last: () => go(state.shown[state.shown.length - 1]),
  back: () => move(-1), on: () => move(1), violation: nextViolation,
};

/** To the violation; from there to the next one. */
function nextViolation() {
  const places = DATA.violations.map((v) => v.at).filter((at) => at >= FIRST && at <= LAST);
  if (places.length) go(places[(places.indexOf(state.pos) + 1) % places.length]);
}

function setFilter(text) {
  state.nodes = new Set();
  state.holders = new Set();
  for (const match of text.toLowerCase().matchAll(/(h?)(\d+)/g)) (match[1] ? state.holders : state.nodes).add(+match[2]);
  const any = state.nodes.size + state.holders.size > 0;
  const touches = (s) => stepNodes(s).some((n) => state.nodes.has(n)) || state.holders.has(s.args.holder) || Object.keys(s.held).some((h) => state.holders.has(+h));
  const found = any ? STEPS.filter(touches).map((s) => s.pos) : [];
  state.shown = found.length ? found : STEPS.map((s) => s.pos);
  byId("matches").textContent = !any ? "" : found.length ? `${found.length} of ${STEPS.length} steps` : "no step touches that";
  if (byId("filter").value !== text) byId("filter").value = text;
  draw();
}
function toggleFilter(token) {
  const tokens = byId("filter").value.toLowerCase().match(/h?\d+/g) || [];
  setFilter((tokens.includes(token) ? tokens.filter((t) => t !== token) : [...tokens, token]).join(", "));
}

function remember(step) {
  const hash = new URLSearchParams({ step: step.seq });
  const filter = byId("filter").value.trim();
  if (filter) hash.set("filter", filter);
  try { history.replaceState(null, "", "#" + hash); } catch { /* some viewers do not let a page have an address */ }
}
function recall() {
  const hash = new URLSearchParams(location.hash.slice(1)), seq = Number(hash.get("step"));
  const wanted = hash.has("step") ? STEPS.find((s) => s.seq >= seq) || STEPS[STEPS.length - 1] : null;
  if (wanted) state.pos = wanted.pos;
  setFilter(hash.get("filter") || "");
}

function keys(event) {
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select"), help = byId("help");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !help.open) { setFilter(""); if (typing) event.target.blur(); return; }
  if (typing || help.open) return;
  const letters = byId("keys-on").checked;
  const table = {
    ArrowRight: WAYS.on, ArrowLeft: WAYS.back, Home: WAYS.first, End: WAYS.last, PageDown: () => move(10), PageUp: () => move(-10),
    ...(letters ? { v: WAYS.violation, "/": () => byId("filter").focus(), "?": () => help.showModal(), "+": () => timeline.zoom(1.4), "=": () => timeline.zoom(1.4), "-": () => timeline.zoom(1 / 1.4) } : {}),
  };
  const onList = event.target.closest && event.target.closest("#list, #lanes");
  if (onList) Object.assign(table, { ArrowDown: WAYS.on, ArrowUp: WAYS.back });
  const act = table[event.key];
  if (act) { event.preventDefault(); act(); }
}

const THEMES = [["", "Auto", "as the system"], ["light", "Light", "light"], ["dark", "Dark", "dark"]];
function setTheme(name) {
  const theme = THEMES.find((t) => t[0] === name) || THEMES[0], button = byId("theme");
  if (theme[0]) document.documentElement.dataset.theme = theme[0]; else delete document.documentElement.dataset.theme;
  button.textContent = theme[1];
  button.setAttribute("aria-label", `Colours: ${theme[2]}`);
  try { localStorage.setItem("pinproof-theme", theme[0]); } catch { /* not everywhere is there a store */ }
}

function legend() {
  const kinds = [...new Set(LANES.map((l) => l.kind))];
  byId("legend").append(...kinds.map((k) => el("span", { class: `key ${css(k)}` }, el("i", {}), k)),
    ...[["grow", "grows"], ["split", "split"], ["evict", "evicted, freed"], ["refused", "refused"]].filter(([f]) => f === "refused" ? STEPS.some((s) => s.refused !== undefined) : STEPS.some((s) => s.family === f))
      .map(([f, words]) => el("span", { class: "key" }, svg("svg", { viewBox: "-6 -6 12 12", "aria-hidden": "true" }, svg("path", { class: `tick ${f}`, d: f === "refused" ? "M-3-3l6 6m0-6-6 6" : MARK[f] })), words)));
  const c = DATA.components[0], chip = (kind, extra) => el("span", { class: `chip ${c} ${kind}` }, el("b", {}, c.toUpperCase()), extra || null);
  const lock = el("span", { class: "lock" }, icon("lock"), "2");
  byId("marks").append(el("dl", {}, ...[
    [chip("there"), "its slots are there, and their bytes"], [chip("coming"), "its slots are there, their bytes on their way"],
    [chip("ghost"), "this step gave its slots up"], [chip("there", lock), "two operations hold a lock on them"],
    [el("span", { class: "badge pin" }, icon("pin"), "pinned by 7"), "load-back 7 reads its FULL host slots"],
    [el("span", { class: "badge dup" }, "duplicate"), "FULL is on both tiers and settled"],
  ].map(([mark, words]) => el("div", {}, el("dt", {}, mark), el("dd", {}, words)))));
}

function start() {
  byId("title").textContent = DATA.title;
  byId("facts").append(...DATA.facts.map(([k, v]) => el("span", {}, el("b", {}, k.replaceAll("_", " ")), ` ${v}`)));
  const bad = DATA.violations.length > 0, kept = STEPS.length < DATA.total;
  byId("verdict").className = `verdict ${bad ? "bad" : "good"}`;
  byId("verdict").textContent = bad ? "violated" : "nothing wrong";
  byId("to-violation").hidden = !bad || !STEPS.length;
  const notes = [DATA.note, kept ? `The trace has ${DATA.total.toLocaleString("en")} steps; this page keeps ${STEPS.length.toLocaleString("en")} of them, ${bad ? "around the violation" : "the last ones"}, and an overview of all.` : ""].filter(Boolean);
  byId("note").hidden = !notes.length;
  byId("note").textContent = notes.join(" ");
  drawBreach(byId("breach"), 0, go, toggleFilter);
  let theme = "";
  try { theme = localStorage.getItem("pinproof-theme") || ""; } catch { /* as above */ }
  setTheme(theme);
  byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.findIndex((t) => t[0] === (document.documentElement.dataset.theme || "")) + 1) % 3][0]));
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  if (!STEPS.length) {
    byId("now").textContent = "There are no steps.";
    document.body.classList.add("empty");
    return;
  }
  byId("of").textContent = `of ${STEPS[STEPS.length - 1].seq.toLocaleString("en")}`;
  legend();
  for (const button of document.querySelectorAll("[data-go]")) button.addEventListener("click", WAYS[button.dataset.go]);
  byId("all").addEventListener("click", () => { tree.all = !tree.all; draw(); });
  byId("filter").addEventListener("input", (e) => setFilter(e.target.value));
  byId("seq").addEventListener("change", (e) => {
    const wanted = STEPS.find((s) => s.seq >= +e.target.value) || STEPS[STEPS.length - 1];
    go(wanted.pos);
  });
  document.addEventListener("keydown", keys);
  window.addEventListener("hashchange", recall);
  new ResizeObserver(() => { timeline.draw(state); list.fill(); }).observe(byId("list"));
  window.addEventListener("resize", () => timeline.draw(state));
  if (bad) state.pos = Math.max(FIRST, Math.min(LAST, DATA.violations[0].at));
  recall();
}
start();
