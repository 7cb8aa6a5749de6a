// Figures: curves with a readout of values, simplices with a draggable policy, and scatter plots.
import { fmt, h, keep, s } from "/static/ui.js";

const LEFT = 74, BOTTOM = 42, TOP = 10, RIGHT = 26;

/** Redraw a figure when its width changes, so that its text keeps its size. */
function sized(svg, draw) {
  const size = { W: 560, H: 320 };
  new ResizeObserver(([{ contentRect: { width } }]) => requestAnimationFrame(() => {
    if (!width || Math.round(width) === size.W) return;
    size.W = Math.round(width); size.H = Math.round(Math.min(380, Math.max(220, 0.56 * width)));
    svg.setAttribute("viewBox", `0 0 ${size.W} ${size.H}`);
    draw();
  })).observe(svg);
  svg.setAttribute("viewBox", `0 0 ${size.W} ${size.H}`);
  return size;
}

const cut = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);

function ticks(low, high, log, most = 7) {
  if (log) {
    const found = [];
    for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++) found.push(10 ** k);
    const inside = found.filter((t) => t >= low * 0.999 && t <= high * 1.001);
    const every = Math.ceil(inside.length / most);
    return inside.length > 1 ? inside.filter((_, i) => i % every === 0) : [low, ...inside.filter((t) => t > low * 1.5 && t < high / 1.5), high];
  }
  const span = high - low || 1, raw = span / Math.min(5, most), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) found.push(Math.abs(t) < step * 1e-9 ? 0 : t);
  return found;
}

/** Curves: `series` is [{name, x, y, low, high}]. Point at a curve for values, click a name to hide it, drag to zoom. */
export function lines({ title, xlabel = "", ylabel = "", log = true }) {
  const legend = h("ul", { class: "legend" });
  const readout = h("p", { class: "readout", "aria-live": "polite" }, "Point at the curves or use the arrow keys to read values. Drag, or press + and −, to zoom.");
  const reset = h("button", { type: "button", hidden: true, onclick: () => { zoom = null; draw(); } }, "Reset zoom");
  const svg = s("svg", { role: "img", "aria-label": title, tabindex: 0 });
  const size = sized(svg, () => draw());
  const box = h("figure", { class: "picture", hidden: true }, h("h2", {}, title), svg, legend, h("div", { class: "row" }, readout, reset));
  const hidden = new Set(), entries = new Map();
  let series = [], zoom = null, place = null;

  function draw() {
    const { W, H } = size;
    reset.hidden = zoom === null;
    const shown = series.filter((one) => !hidden.has(one.name));
    const usable = shown.map((one) => ({ ...one, points: one.x.map((x, i) => [x, one.y[i], i]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)) }));
    const all = usable.flatMap((one) => one.points).filter(([x]) => !zoom || (x >= zoom[0] && x <= zoom[1]));
    svg.replaceChildren();
    if (!all.length) { svg.append(s("text", { x: W / 2, y: H / 2, "text-anchor": "middle", class: "soft" }, "No data yet.")); return; }
    const xs = all.map(([x]) => x), ys = all.map(([, y]) => y);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const logX = log && x0 > 0 && x1 > 5 * x0, logY = log && y0 > 0 && y1 > 3 * y0;
    const bands = usable.flatMap((one) => (one.low ? one.points.filter(([x]) => x >= x0 && x <= x1).flatMap(([, , i]) => [one.low[i], one.high[i]]) : [])).filter((y) => Number.isFinite(y) && (!logY || y > y0 / 10));
    [y0, y1] = [Math.min(y0, ...bands), Math.max(y1, ...bands)];
    if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
    if (y0 === y1) { const m = Math.abs(y0) * 0.1 || 0.5; y0 -= m; y1 += m; }
    const sx = (x) => LEFT + (W - LEFT - RIGHT) * (logX ? Math.log(x / x0) / Math.log(x1 / x0) : (x - x0) / (x1 - x0));
    const sy = (y) => H - BOTTOM - (H - BOTTOM - TOP) * (logY ? Math.log(Math.max(y, y0 / 10) / y0) / Math.log(y1 / y0) : (y - y0) / (y1 - y0));
    place = { sx, usable, back: (px) => { const t = (px - LEFT) / (W - LEFT - RIGHT); return logX ? x0 * (x1 / x0) ** t : x0 + t * (x1 - x0); } };
    for (const t of ticks(x0, x1, logX, Math.max(2, Math.floor(W / 80)))) svg.append(s("line", { class: "gridline", x1: sx(t), x2: sx(t), y1: TOP, y2: H - BOTTOM }),
      s("text", { x: sx(t), y: H - BOTTOM + 16, "text-anchor": "middle" }, fmt(t, 3)));
    for (const t of ticks(y0, y1, logY)) svg.append(s("line", { class: "gridline", x1: LEFT, x2: W - RIGHT, y1: sy(t), y2: sy(t) }),
      s("text", { x: LEFT - 6, y: sy(t) + 4, "text-anchor": "end" }, fmt(t, 3)));
    svg.append(s("text", { class: "soft", x: (LEFT + W) / 2, y: H - 4, "text-anchor": "middle" }, xlabel),
      s("text", { class: "soft", x: 12, y: H / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${H / 2})` }, ylabel));
    const clip = s("svg", { x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - BOTTOM - TOP, viewBox: `${LEFT} ${TOP} ${W - LEFT - RIGHT} ${H - BOTTOM - TOP}` });
    usable.forEach((one) => {
      const colour = `c${series.findIndex((other) => other.name === one.name) % 7}`;
      if (one.low && one.points.length > 1) clip.append(s("path", { class: `band ${colour}`, d: "M" + [
        ...one.points.map(([x, , i]) => `${sx(x)},${sy(one.high[i])}`), ...[...one.points].reverse().map(([x, , i]) => `${sx(x)},${sy(one.low[i])}`)].join("L") + "Z" }));
      clip.append(s("path", { class: `line ${colour}`, d: "M" + one.points.map(([x, y]) => `${sx(x).toFixed(1)},${sy(y).toFixed(1)}`).join("L") }));
      if (one.points.length < 3) one.points.forEach(([x, y]) => clip.append(s("circle", { class: colour, fill: "var(--c)", cx: sx(x), cy: sy(y), r: 3 })));
    });
    svg.append(clip, s("line", { class: "axis rule", y1: TOP, y2: H - BOTTOM, display: "none" }), s("rect", { class: "brush", y: TOP, height: H - BOTTOM - TOP, width: 0, x: 0 }));
  }

  const at = (event) => { const r = svg.getBoundingClientRect(); return ((event.clientX - r.left) / r.width) * size.W; };
  let from = null, cursor = LEFT;
  function tell(px) {
    cursor = px;
    const rule = svg.querySelector(".rule");
    rule.removeAttribute("display"); rule.setAttribute("x1", px); rule.setAttribute("x2", px);
    const told = place.usable.filter((one) => one.points.length).map((one) => {
      const near = one.points.reduce((a, b) => (Math.abs(place.sx(b[0]) - px) < Math.abs(place.sx(a[0]) - px) ? b : a));
      return `${one.name}: ${fmt(near[1])} at ${fmt(near[0])}`;
    });
    readout.textContent = told.join(" · ");
  }
  svg.addEventListener("pointermove", (event) => {
    if (!place) return;
    const px = at(event), brush = svg.querySelector(".brush");
    if (from !== null) { brush.setAttribute("x", Math.min(from, px)); brush.setAttribute("width", Math.abs(px - from)); }
    tell(px);
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], near = { "+": 0.25, "-": 1 }[event.key];
    if (!place || !(step || near || (event.key === "Escape" && zoom))) return;
    event.preventDefault();
    if (near) { const wide = near * (size.W - LEFT - RIGHT); zoom = [place.back(cursor - wide), place.back(cursor + wide)]; draw(); }
    if (event.key === "Escape") { zoom = null; draw(); }
    tell(Math.min(size.W - RIGHT, Math.max(LEFT, cursor + (step ?? 0) * (size.W / 40))));
  });
  svg.addEventListener("pointerdown", (event) => { from = at(event); svg.setPointerCapture(event.pointerId); });
  svg.addEventListener("pointercancel", () => { from = null; draw(); }); // a finger that scrolls the page
  svg.addEventListener("pointerup", (event) => {
    if (from !== null && place && Math.abs(at(event) - from) > 8) zoom = [place.back(Math.min(from, at(event))), place.back(Math.max(from, at(event)))];
    from = null; draw();
  });
  svg.addEventListener("dblclick", () => { zoom = null; draw(); });

  // An entry of the legend stays the same element while its curve grows.
  function entry(name, i) {
    const key = `${i} ${name}`;
    if (!entries.has(key)) {
      const button = h("button", { type: "button", "aria-pressed": String(!hidden.has(name)), title: "Show or hide", onclick: () => {
        hidden.has(name) ? hidden.delete(name) : hidden.add(name); button.setAttribute("aria-pressed", String(!hidden.has(name))); draw(); } }, h("span", { class: `swatch c${i % 7}` }), name);
      entries.set(key, h("li", {}, button));
    }
    return entries.get(key);
  }

  box.show = (found) => {
    series = found;
    box.hidden = false;
    keep(legend, series.map((one, i) => entry(one.name, i)));
    svg.setAttribute("aria-label", `${title}: ` + series.map((one) => `${one.name} ends at ${fmt(one.y.at(-1))}`).join("; "));
    draw();
  };
  return box;
}

const TOPPED = [[180, 22], [30, 282], [330, 282]];
const FLAT = [[30, 60], [330, 60]];

/** The policies of one player: a triangle for three actions, a segment for two, with a draggable dot. */
export function simplex({ title, actions, replies, onDrag }) {
  const corners = actions.length === 3 ? TOPPED : FLAT;
  const height = actions.length === 3 ? 310 : 105;
  const at = (p) => [0, 1].map((k) => corners.reduce((sum, c, a) => sum + c[k] * p[a], 0));
  const svg = s("svg", { viewBox: `0 0 360 ${height}`, role: "img", "aria-label": title, class: "dragged" });
  const regions = s("g"), stars = s("g", { "pointer-events": "none" }), path = s("polyline", { class: "path" });
  const handle = s("circle", { class: "handle", r: 8 });
  const edge = actions.length === 3 ? s("polygon", { class: "edge", points: corners.join(" ") }) : s("line", { class: "edge", x1: 30, x2: 330, y1: 60, y2: 60 });
  svg.append(regions, edge, ...corners.map((c, a) => s("text", {
    x: c[0], y: actions.length === 3 ? (a ? c[1] + 18 : c[1] - 8) : c[1] + 32, "text-anchor": "middle" }, cut(actions[a]), s("title", {}, actions[a]))), path, handle, stars);
  const legend = h("ul", { class: "legend" });
  const box = h("figure", { class: "picture small" }, h("h2", {}, title), svg, legend);

  box.regions = (found) => {
    regions.replaceChildren();
    if (!found) return;
    const n = found.edge, d = found.best.map(() => "");
    const cells = [];
    if (actions.length === 2) for (let i = 0; i < 4 * n; i++) cells.push([[i / (4 * n), 1 - i / (4 * n)], [(i + 1) / (4 * n), 1 - (i + 1) / (4 * n)]]);
    else for (let i = 0; i < n; i++) for (let j = 0; j < n - i; j++) {
      const full = (a, b) => [a / n, b / n, 1 - (a + b) / n];
      cells.push([full(i + 1, j), full(i, j + 1), full(i, j)]);
      if (i + j < n - 1) cells.push([full(i + 1, j), full(i, j + 1), full(i + 1, j + 1)]);
    }
    cells.forEach((cell, k) => {
      const points = cell.map(at);
      d[found.best[k]] += actions.length === 3 ? `M${points.map((p) => p.map((v) => v.toFixed(2))).join("L")}Z`
        : `M${points[0][0]},46H${points[1][0]}V74H${points[0][0]}Z`;
    });
    const used = [...new Set(found.best)].sort((a, b) => a - b);
    regions.append(...used.map((a) => s("path", { class: `region c${a % 7}`, d: d[a] })));
    legend.replaceChildren(h("li", {}, "Best response:"), ...used.map((a) => h("li", {}, h("span", { class: `swatch c${a % 7}` }), replies[a])));
  };
  box.point = (p) => { const [x, y] = at(p); handle.setAttribute("cx", x); handle.setAttribute("cy", y); };
  box.stars = (found) => stars.replaceChildren(...found.map((p) => {
    const [x, y] = at(p);
    return s("path", { class: "star", d: star(x, y, 9) });
  }));
  box.path = (found) => path.setAttribute("points", found.map((p) => at(p).map((v) => v.toFixed(1)).join(",")).join(" "));

  const policyAt = (event) => {
    const r = svg.getBoundingClientRect();
    const x = ((event.clientX - r.left) / r.width) * 360, y = ((event.clientY - r.top) / r.height) * height;
    let p;
    if (actions.length === 2) p = [(330 - x) / 300, (x - 30) / 300];
    else { const top = (282 - y) / 260, right = (x - 30 - 150 * top) / 300; p = [top, 1 - top - right, right]; }
    p = p.map((v) => Math.min(1, Math.max(0, v)));
    const sum = p.reduce((a, b) => a + b);
    return p.map((v) => v / sum);
  };
  let dragging = false;
  svg.addEventListener("pointerdown", (event) => { dragging = true; svg.setPointerCapture(event.pointerId); onDrag(policyAt(event)); });
  svg.addEventListener("pointermove", (event) => { if (dragging) onDrag(policyAt(event)); });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { dragging = false; });
  return box;
}

function star(x, y, r) {
  const points = [];
  for (let k = 0; k < 10; k++) { const a = (Math.PI * k) / 5 - Math.PI / 2, q = k % 2 ? r * 0.42 : r; points.push(`${(x + q * Math.cos(a)).toFixed(1)},${(y + q * Math.sin(a)).toFixed(1)}`); }
  return `M${points.join("L")}Z`;
}

/** Equilibria plotted by aggregate and welfare: points [{x, y, text, stable, chosen}]. */
export function scatter({ title, xlabel, ylabel }) {
  const svg = s("svg", { role: "img", "aria-label": title });
  const size = sized(svg, () => draw());
  const readout = h("p", { class: "readout" });
  const box = h("figure", { class: "picture" }, h("h2", {}, title), svg, readout);
  let points = [];
  box.show = (found) => {
    points = found;
    svg.setAttribute("aria-label", `${title}: ${points.map((p) => p.text).join("; ")}`);
    draw();
  };
  function draw() {
    const { W, H } = size;
    if (!points.length) { svg.replaceChildren(); return; }
    const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
    let [x0, x1, y0, y1] = [Math.min(0, ...xs), Math.max(1, ...xs), Math.min(...ys), Math.max(...ys)];
    if (y1 - y0 < 1e-12) { y0 -= 0.5; y1 += 0.5; }
    const pad = (y1 - y0) * 0.1; y0 -= pad; y1 += pad;
    const sx = (x) => LEFT + (W - LEFT - RIGHT) * ((x - x0) / (x1 - x0)), sy = (y) => H - BOTTOM - (H - BOTTOM - TOP) * ((y - y0) / (y1 - y0));
    svg.replaceChildren(
      ...ticks(x0, x1, false, Math.max(2, Math.floor(W / 80))).flatMap((t) => [s("line", { class: "gridline", x1: sx(t), x2: sx(t), y1: TOP, y2: H - BOTTOM }), s("text", { x: sx(t), y: H - BOTTOM + 16, "text-anchor": "middle" }, fmt(t, 3))]),
      ...ticks(y0, y1).flatMap((t) => [s("line", { class: "gridline", x1: LEFT, x2: W - RIGHT, y1: sy(t), y2: sy(t) }), s("text", { x: LEFT - 6, y: sy(t) + 4, "text-anchor": "end" }, fmt(t, 3))]),
      s("text", { class: "soft", x: (LEFT + W) / 2, y: H - 4, "text-anchor": "middle" }, xlabel),
      s("text", { class: "soft", x: 12, y: H / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${H / 2})` }, ylabel),
      ...points.map((p) => {
        const mark = p.best ? s("path", { class: "star", d: star(sx(p.x), sy(p.y), 12) }) : s("circle", { class: "c0", cx: sx(p.x), cy: sy(p.y), r: 7, fill: p.stable ? "var(--c)" : "var(--paper)", stroke: "var(--c)", "stroke-width": 2.5 });
        mark.append(s("title", {}, p.text));
        mark.addEventListener("pointerenter", () => { readout.textContent = p.text; });
        return mark;
      }));
    readout.textContent = "Filled points are stable, open points are not. The star marks the largest welfare. Point at an equilibrium to see its numbers.";
  }
  return box;
}
