// The report's curves as SVG, with a reading under the pointer and zoom by dragging; and what all parts of its script share.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportChartScript = R"js("use strict";
const $ = id => document.getElementById(id);
const el = (tag, attrs = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k === "class" ? node.className = v : node.setAttribute(k, v);
  node.append(...children);
  return node;
};
const svg = (tag, attrs = {}, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attrs)) node.setAttribute(k, v);
  if (text !== undefined) node.textContent = text;
  return node;
};
const colour = i => `var(--c${i % 8})`;
const swatch = i => el("i", { class: "swatch", style: `background:${colour(i)}` });
const finite = v => typeof v === "number" && isFinite(v);

// What is shown, and how; outlives new data. Runs are hidden by their real path.
const view = { runs: [], many: false, hidden: new Set(), smooth: null, logLoss: false, zoom: null, busy: false, redraw: () => {} };

// Numbers for people.
const group = v => Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, ",");
const short = v => {
  const a = Math.abs(v), units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [n, u] of units) if (a >= n) return trim((v / n).toPrecision(3)) + u;
  return a === 0 ? "0" : a < 0.01 ? trim(v.toExponential(1).replace(/e.*/, "")) + "e−" + v.toExponential(1).split("e-")[1] : trim(v.toPrecision(3));
};
const trim = s => s.includes(".") && !s.includes("e") ? s.replace(/\.?0+$/, "") : s;
const bytes = v => v >= 1e9 ? (v / 1e9).toFixed(2) + " GB" : (v / 1e6).toFixed(1) + " MB";
const duration = s => s >= 3600 ? `${Math.floor(s / 3600)} h ${Math.round(s % 3600 / 60)} min` : s >= 60 ? `${Math.floor(s / 60)} min ${Math.round(s % 60)} s` : `${s.toFixed(1)} s`;

const smoothed = ys => {
  if (view.smooth === 0) return ys;
  let mean = 0, weight = 0;
  return ys.map(y => {
    if (!finite(y)) return y;
    mean = view.smooth * mean + (1 - view.smooth) * y;
    weight = view.smooth * weight + (1 - view.smooth);
    return mean / weight;
  });
};

const niceTicks = (lo, hi, count) => {
  const raw = (hi - lo) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map(m => m * power).find(s => s >= raw * 0.999);
  const out = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; ++i) out.push(i * step);
  return out;
};
const logTicks = (lo, hi) => {
  const fine = hi / lo < 100 ? [1, 1.5, 2, 3, 4, 5, 7] : [1, 3], out = [];
  for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); ++p)
    for (const m of fine) if (m * 10 ** p >= lo * 0.999 && m * 10 ** p <= hi * 1.001) out.push(m * 10 ** p);
  return out.length >= 2 ? out : niceTicks(lo, hi, 5);
};

// 1, 10, 100, …; where there are few, 2 and 5 of each as well.
const decades = (lo, hi) => {
  const out = [], fine = hi / lo < 1e4 ? [1, 2, 5] : [1];
  for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); ++p)
    for (const m of fine) if (m * 10 ** p >= lo * 0.999 && m * 10 ** p <= hi * 1.001) out.push(m * 10 ** p);
  return out;
};

const changesOf = run => (run.run.history || []).map(start => ({ at: start.step, text: (start.changes || [])
  .filter(c => !/^(run|log|profile|checkpoint|eval)\./.test(c.key)).map(c => `${c.key}: ${c.before}, now ${c.now}`).join("\n") }))
  .filter(c => c.text).map(c => ({ at: c.at, text: `step ${group(c.at)}\n${c.text}` }));
// chart: {spec, host, index}. spec: title; series(): lines of {run, name, xs, ys, raw, of, colour, dots, dashes}, raw values standing
// faintly behind; zero, log(), digits; over: another x axis than steps, logarithmic: {name, range(series), marks(run)}.
const drawChart = (chart) => {
  const tip = $("tip"), { runs, many } = view;
  const { spec, host } = chart;
  const width = Math.max(host.clientWidth, 260), height = spec.height || 210;
  const pad = { left: 52, right: 14, top: 10, bottom: 26 };
  const isHidden = i => view.hidden.has(runs[i].real);
  const series = spec.series().filter(s => !isHidden(s.run) && s.xs.length);
  host.replaceChildren();
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${spec.title} over ${spec.over ? spec.over.name : "steps"}` });
  host.append(root);
  if (!series.length) { root.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no data yet")); return; }
  const over = spec.over, g = over ? Math.log : v => v, xText = over ? short : group;
  const [x0, x1] = over ? over.range(series) : view.zoom || [0, Math.max(1, ...series.map(s => s.xs[s.xs.length - 1]))];
  let lo = Infinity, hi = -Infinity;
  for (const s of series) s.xs.forEach((x, i) => {
    if (x < x0 || x > x1) return;
    for (const y of [s.ys[i], s.raw ? s.raw[i] : s.ys[i]]) if (finite(y)) { lo = Math.min(lo, y); hi = Math.max(hi, y); }
  });
  if (!isFinite(lo)) { lo = 0; hi = 1; }
  const log = spec.log && spec.log() && lo > 0;
  if (spec.zero && !view.zoom) lo = Math.min(lo, 0);
  if (hi - lo < 1e-12 * Math.max(1, Math.abs(hi))) { const d = Math.abs(hi) || 1; lo -= spec.zero ? 0 : d * 0.1; hi += d * 0.1; }
  const f = log ? Math.log : v => v, margin = (f(hi) - f(lo)) * 0.05;
  const bottom = f(lo) - (spec.zero && lo === 0 ? 0 : margin), top = f(hi) + margin;
  const X = x => pad.left + (g(x) - g(x0)) / (g(x1) - g(x0)) * (width - pad.left - pad.right);
  const Y = y => height - pad.bottom - (f(y) - bottom) / (top - bottom) * (height - pad.top - pad.bottom);
  const yTicks = log ? logTicks(Math.exp(bottom), Math.exp(top)) : niceTicks(bottom, top, height > 300 ? 6 : 4);
  for (const t of yTicks) {
    root.append(svg("line", { class: "grid", x1: pad.left, x2: width - pad.right, y1: Y(t), y2: Y(t) }));
    root.append(svg("text", { x: pad.left - 8, y: Y(t) + 4, "text-anchor": "end" }, short(t)));
  }
  for (const t of over ? decades(x0, x1) : niceTicks(x0, x1, width > 700 ? 9 : 5)) {
    const anchor = X(t) > width - pad.right - 14 ? "end" : "middle";
    root.append(svg("text", { x: X(t), y: height - 7, "text-anchor": anchor }, short(t)));
  }
  root.append(svg("line", { class: "axis", x1: pad.left, x2: width - pad.right, y1: height - pad.bottom, y2: height - pad.bottom }));
  const id = `clip${chart.index}`;
  const clip = svg("clipPath", { id });
  clip.append(svg("rect", { x: pad.left - 3, y: 0, width: width - pad.left - pad.right + 6, height: height - pad.bottom + 3 }));
  const plot = svg("g", { "clip-path": `url(#${id})` });
  root.append(clip, plot);
  // A line where the run went on with other values, or what else the chart marks.
  runs.forEach((run, i) => isHidden(i) || (over ? over.marks(run) : changesOf(run)).forEach(({ at, text, strong }) => {
    if (at < x0 || at > x1) return;
    const mark = svg("line", { class: "change", x1: X(at), x2: X(at), y1: pad.top, y2: height - pad.bottom, stroke: many ? colour(i) : strong ? "var(--c1)" : "var(--ink-3)", "stroke-width": strong ? 1.5 : 1, "stroke-dasharray": "2 3" });
    mark.append(svg("title", {}, text));
    root.append(mark);
  }));
  // Means over other predictions are another curve.
  const path = (xs, ys, of) => {
    let d = "", pen = false;
    xs.forEach((x, i) => { if (of && i && of[i] !== of[i - 1]) pen = false; finite(ys[i]) && !(log && ys[i] <= 0) ? (d += (pen ? "L" : "M") + X(x).toFixed(1) + " " + Y(ys[i]).toFixed(1), pen = true) : pen = false; });
    return d;
  };
  const line = (s, ys, opacity, strokeWidth) => plot.append(svg("path", { d: path(s.xs, ys, s.of), fill: "none", stroke: s.colour, "stroke-width": strokeWidth,
    opacity, "stroke-linejoin": "round", "stroke-linecap": "round", ...(s.dashes ? { "stroke-dasharray": s.dashes } : {}) }));
  for (const s of series) {
    if (s.raw && view.smooth) line(s, s.raw, 0.22, 1.2);
    line(s, s.ys, 1, s.dots ? 1.6 : 2);
    if (s.dots || s.xs.length === 1) s.xs.forEach((x, i) => finite(s.ys[i]) && plot.append(svg("circle", { cx: X(x), cy: Y(s.ys[i]), r: 3, fill: s.colour, stroke: "var(--card)", "stroke-width": 1 })));
  }
  const cursor = svg("g", { visibility: "hidden" }), brush = svg("rect", { fill: "var(--c0)", opacity: 0.12, visibility: "hidden", y: pad.top, height: height - pad.top - pad.bottom });
  root.append(brush, cursor);
  const at = event => {
    const share = (event.clientX - root.getBoundingClientRect().left - pad.left) / (width - pad.left - pad.right), x = g(x0) + share * (g(x1) - g(x0));
    return over ? Math.exp(x) : x;
  };
  const nearest = (s, x) => {
    let a = 0, b = s.xs.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; s.xs[m] < x ? a = m : b = m; }
    return Math.abs(s.xs[a] - x) <= Math.abs(s.xs[b] - x) ? a : b;
  };
  let from = null;
  root.addEventListener("pointermove", event => {
    const x = Math.min(x1, Math.max(x0, at(event)));
    if (from !== null) { const a = X(Math.min(from, x)), b = X(Math.max(from, x)); brush.setAttribute("x", a); brush.setAttribute("width", b - a); brush.setAttribute("visibility", "visible"); }
    const main = series[0], step = main.xs[nearest(main, x)];
    cursor.replaceChildren(svg("line", { class: "cursor", x1: X(step), x2: X(step), y1: pad.top, y2: height - pad.bottom }));
    tip.replaceChildren(el("div", {}, el("b", {}, (over ? over.name : "step") + " " + xText(step))));
    for (const s of series) {
      const i = nearest(s, step);
      if (!finite(s.ys[i])) continue;
      cursor.append(svg("circle", { cx: X(s.xs[i]), cy: Y(s.ys[i]), r: 4, fill: s.colour, stroke: "var(--card)", "stroke-width": 1.5 }));
      const label = [many ? runs[s.run].name : "", s.name || (many ? "" : spec.title.toLowerCase())].filter(Boolean).join(" · ");
      const exact = s.raw ? s.raw[i] : s.ys[i];
      tip.append(el("div", {}, el("i", { style: `background:${s.colour}` }), el("span", { class: "name" }, label + (s.xs[i] !== step ? ` at ${xText(s.xs[i])}` : "")), el("b", {}, spec.digits(exact))));
    }
    cursor.setAttribute("visibility", "visible");
    tip.style.display = "block";
    tip.style.left = Math.min(event.clientX + 16, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.max(8, Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)) + "px";
  });
  const leave = () => { cursor.setAttribute("visibility", "hidden"); tip.style.display = "none"; };
  root.addEventListener("pointerleave", leave);
  root.addEventListener("pointerdown", event => { if (!over && event.button === 0 && event.pointerType === "mouse") { from = at(event); view.busy = true; root.setPointerCapture(event.pointerId); } });
  root.addEventListener("pointerup", event => {
    if (from === null) return;
    const to = at(event), a = Math.max(0, Math.min(from, to)), b = Math.max(from, to);
    from = null; view.busy = false; brush.setAttribute("visibility", "hidden");
    if (X(b) - X(a) > 8) { view.zoom = [a, Math.min(b, x1)]; leave(); view.redraw(); }
  });
  root.addEventListener("dblclick", () => { view.zoom = null; leave(); view.redraw(); });
};
)js";

}  // namespace mstrain
