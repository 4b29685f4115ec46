// Every text on the page against what is behind it: [ratio, text] where it is less than WCAG AA asks for.
(() => {
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return { r: m[0], g: m[1], b: m[2], a: m.length > 3 ? m[3] : 1 }; };
  const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1 });
  const light = (c) => { const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }; return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b); };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a) layers.push(c); if (c.a === 1) break; }
    return layers.reverse().reduce((under, top) => over(top, under), parse(getComputedStyle(document.body).backgroundColor));
  };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || element.closest("script, style, .away, [hidden], :disabled, noscript, dialog:not([open])") || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize), bold = +style.fontWeight >= 700;
    const back = behind(element), svg = element.namespaceURI.includes("svg"), ink = parse(svg ? style.fill : style.color);
    const [a, b] = [light(over(ink, back)), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (size >= 24 || (size >= 18.66 && bold) ? 3 : 4.5)) found.push([Math.round(ratio * 100) / 100, text.slice(0, 60), element.className.toString()]);
  }
  return found;
})()
