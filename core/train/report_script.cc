// Behaviour of the report: draws the curves as SVG, with a reading under the pointer, zoom by dragging, smoothing.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportScript = R"js("use strict";
(() => {
const runs = JSON.parse(document.getElementById("data").textContent).runs;
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
const many = runs.length > 1;
if (new Set(runs.map(r => r.name)).size < runs.length) runs.forEach(r => { r.name = r.directory; });
const finite = v => typeof v === "number" && isFinite(v);

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

// State that all charts share.
const points = Math.max(...runs.map(r => r.train.step.length));
const view = { hidden: new Set(), smooth: points > 400 ? 0.9 : points > 100 ? 0.7 : 0.3, logLoss: false, zoom: null };
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

// The lines of a chart: raw values stand faintly behind their smoothed form.
const lossSeries = () => runs.flatMap((run, i) => {
  const out = [{ run: i, name: "training", xs: run.train.step, raw: run.train.loss, ys: smoothed(run.train.loss), colour: colour(many ? i : 0) }];
  if (run.eval.step.length) out.push({ run: i, name: "held out", xs: run.eval.step, ys: run.eval.eval_loss, of: run.eval.eval_predictions, colour: colour(many ? i : 1), dots: true });
  return out;
});
const plain = (key, smooth) => () => runs.map((run, i) => ({
  run: i, name: "", xs: run.train.step, raw: smooth && view.smooth ? run.train[key] : null, ys: smooth ? smoothed(run.train[key]) : run.train[key], colour: colour(i) }));
const held = key => () => runs.map((run, i) => ({ run: i, name: "", xs: run.eval.step, ys: run.eval[key], of: run.eval.eval_predictions, colour: colour(many ? i : 1), dots: true }));
const measured = key => runs.some(run => (run.eval[key] || []).some(finite));
const specs = [
  { title: "Loss", unit: "nats per token", series: lossSeries, wide: true, height: 330, log: () => view.logLoss, digits: v => v.toFixed(4) },
  { title: "Perplexity", unit: "held out", series: held("eval_perplexity"), shown: () => measured("eval_perplexity"), digits: v => v.toPrecision(4) },
  { title: "Bits per byte", unit: "held out", series: held("eval_bits_per_byte"), shown: () => measured("eval_bits_per_byte"), digits: v => v.toFixed(4) },
  { title: "Accuracy", unit: "held out, of the next token", series: held("eval_accuracy"), shown: () => measured("eval_accuracy"), digits: v => (v * 100).toFixed(2) + " %" },
  { title: "Throughput", unit: "tokens per second", series: plain("tokens_per_second"), zero: true, digits: short },
  { title: "Learning rate", unit: "", series: plain("lr"), zero: true, digits: v => v.toPrecision(4) },
  { title: "Gradient norm", unit: "before clipping", series: plain("grad_norm", true), zero: true, digits: v => v.toPrecision(4) },
  { title: "Step time", unit: "milliseconds", series: () => plain("step_seconds")().map(s => ({ ...s, ys: s.ys.map(y => finite(y) ? y * 1000 : y) })), zero: true, digits: v => short(v) },
];

const changesOf = run => (run.run.history || []).map(start => ({ step: start.step, text: (start.changes || [])
  .filter(c => !/^(run|log|profile|checkpoint|eval)\./.test(c.key)).map(c => `${c.key}: ${c.before}, now ${c.now}`).join("\n") })).filter(c => c.text);
const tip = $("tip");
const drawChart = (chart) => {
  const { spec, host } = chart;
  const width = Math.max(host.clientWidth, 260), height = spec.height || 210;
  const pad = { left: 52, right: 14, top: 10, bottom: 26 };
  const series = spec.series().filter(s => !view.hidden.has(s.run) && s.xs.length);
  const shownRuns = runs.map((_, i) => i).filter(i => !view.hidden.has(i));
  host.replaceChildren();
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${spec.title} over steps` });
  host.append(root);
  if (!series.length) { root.append(svg("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no data yet")); return; }
  let [x0, x1] = view.zoom || [0, Math.max(1, ...series.map(s => s.xs[s.xs.length - 1]))];
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
  const X = x => pad.left + (x - x0) / (x1 - x0) * (width - pad.left - pad.right);
  const Y = y => height - pad.bottom - (f(y) - bottom) / (top - bottom) * (height - pad.top - pad.bottom);
  const yTicks = log ? logTicks(Math.exp(bottom), Math.exp(top)) : niceTicks(bottom, top, height > 300 ? 6 : 4);
  for (const t of yTicks) {
    root.append(svg("line", { class: "grid", x1: pad.left, x2: width - pad.right, y1: Y(t), y2: Y(t) }));
    root.append(svg("text", { x: pad.left - 8, y: Y(t) + 4, "text-anchor": "end" }, short(t)));
  }
  for (const t of niceTicks(x0, x1, width > 700 ? 9 : 5)) {
    const anchor = X(t) > width - pad.right - 14 ? "end" : "middle";
    root.append(svg("text", { x: X(t), y: height - 7, "text-anchor": anchor }, short(t)));
  }
  root.append(svg("line", { class: "axis", x1: pad.left, x2: width - pad.right, y1: height - pad.bottom, y2: height - pad.bottom }));
  const id = `clip${chart.index}`;
  const clip = svg("clipPath", { id });
  clip.append(svg("rect", { x: pad.left - 3, y: 0, width: width - pad.left - pad.right + 6, height: height - pad.bottom + 3 }));
  const plot = svg("g", { "clip-path": `url(#${id})` });
  root.append(clip, plot);
  // A line where the run went on with other values.
  shownRuns.forEach(i => changesOf(runs[i]).forEach(change => {
    if (change.step < x0 || change.step > x1) return;
    const mark = svg("line", { class: "change", x1: X(change.step), x2: X(change.step), y1: pad.top, y2: height - pad.bottom, stroke: many ? colour(i) : "var(--ink-3)", "stroke-dasharray": "2 3" });
    mark.append(svg("title", {}, `step ${group(change.step)}\n${change.text}`));
    root.append(mark);
  }));
  // Means over other predictions are another curve.
  const path = (xs, ys, of) => {
    let d = "", pen = false;
    xs.forEach((x, i) => { if (of && i && of[i] !== of[i - 1]) pen = false; finite(ys[i]) && !(log && ys[i] <= 0) ? (d += (pen ? "L" : "M") + X(x).toFixed(1) + " " + Y(ys[i]).toFixed(1), pen = true) : pen = false; });
    return d;
  };
  const line = (s, ys, opacity, strokeWidth) => plot.append(svg("path", { d: path(s.xs, ys, s.of), fill: "none", stroke: s.colour, "stroke-width": strokeWidth,
    opacity, "stroke-linejoin": "round", "stroke-linecap": "round", ...(s.dots && many ? { "stroke-dasharray": "5 4" } : {}) }));
  for (const s of series) {
    if (s.raw && view.smooth) line(s, s.raw, 0.22, 1.2);
    line(s, s.ys, 1, s.dots ? 1.6 : 2);
    if (s.dots || s.xs.length === 1) s.xs.forEach((x, i) => finite(s.ys[i]) && plot.append(svg("circle", { cx: X(x), cy: Y(s.ys[i]), r: 3, fill: s.colour, stroke: "var(--card)", "stroke-width": 1 })));
  }
  const cursor = svg("g", { visibility: "hidden" }), brush = svg("rect", { fill: "var(--c0)", opacity: 0.12, visibility: "hidden", y: pad.top, height: height - pad.top - pad.bottom });
  root.append(brush, cursor);
  const at = event => x0 + (event.clientX - root.getBoundingClientRect().left - pad.left) / (width - pad.left - pad.right) * (x1 - x0);
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
    tip.replaceChildren(el("div", {}, el("b", {}, "step " + group(step))));
    for (const s of series) {
      const i = nearest(s, step);
      if (!finite(s.ys[i])) continue;
      cursor.append(svg("circle", { cx: X(s.xs[i]), cy: Y(s.ys[i]), r: 4, fill: s.colour, stroke: "var(--card)", "stroke-width": 1.5 }));
      const label = [many ? runs[s.run].name : "", s.name || (many ? "" : spec.title.toLowerCase())].filter(Boolean).join(" · ");
      const exact = s.raw ? s.raw[i] : s.ys[i];
      tip.append(el("div", {}, el("i", { style: `background:${s.colour}` }), el("span", { class: "name" }, label + (s.xs[i] !== step ? ` at ${group(s.xs[i])}` : "")), el("b", {}, spec.digits(exact))));
    }
    cursor.setAttribute("visibility", "visible");
    tip.style.display = "block";
    tip.style.left = Math.min(event.clientX + 16, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.max(8, Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)) + "px";
  });
  const leave = () => { cursor.setAttribute("visibility", "hidden"); tip.style.display = "none"; };
  root.addEventListener("pointerleave", leave);
  root.addEventListener("pointerdown", event => { if (event.button === 0 && event.pointerType === "mouse") { from = at(event); root.setPointerCapture(event.pointerId); } });
  root.addEventListener("pointerup", event => {
    if (from === null) return;
    const to = at(event), a = Math.max(0, Math.min(from, to)), b = Math.max(from, to);
    from = null; brush.setAttribute("visibility", "hidden");
    if (X(b) - X(a) > 8) { view.zoom = [a, Math.min(b, x1)]; leave(); drawAll(); }
  });
  root.addEventListener("dblclick", () => { view.zoom = null; leave(); drawAll(); });
};
const charts = [];
const drawAll = () => charts.forEach(drawChart);
)js"
                                  R"js(
// Head of the page.
$("title").textContent = many ? "Comparison of " + runs.length + " runs" : runs[0].name;
const swatch = i => el("i", { class: "swatch", style: `background:${colour(i)}` });
const last = a => { for (let i = a.length; i-- > 0;) if (finite(a[i])) return a[i]; return null; };
const lowest = a => a.reduce((m, v) => finite(v) && (m === null || v < m) ? v : m, null);
const trained = run => {
  let total = 0, previous = 0;
  run.train.step.forEach((s, i) => { if (finite(run.train.step_seconds[i])) total += (s - previous) * run.train.step_seconds[i]; previous = s; });
  return total;
};
const facts = run => {
  const r = run.run, rates = run.train.tokens_per_second.filter(finite).sort((a, b) => a - b), out = [];
  if (r.step !== undefined) out.push([group(r.step), many ? "steps" : `of ${group(r.total_steps)} steps`]);
  if (last(run.train.loss) !== null) out.push([last(run.train.loss).toFixed(4), "training loss"]);
  const held = last(run.eval.eval_loss), best = lowest(run.eval.eval_loss);
  if (held !== null) out.push([held.toFixed(4), "held-out loss" + (best < held ? ` · best ${best.toFixed(4)}` : "")]);
  if (rates.length) out.push([short(rates[rates.length >> 1]), "tokens per second"]);
  if (rates.length) out.push([duration(trained(run)), "training time"]);
  if (r.parameters) out.push([short(r.parameters), "parameters"]);
  return out;
};
if (many) {
  const all = runs.map(facts), rows = [...new Set(all.flatMap(f => f.map(([, name]) => name.split(" · ")[0])))];
  const table = el("table", {}, el("tr", {}, el("th", {}, "run"), ...rows.map(name => el("th", {}, name))));
  runs.forEach((run, i) => table.append(el("tr", {}, el("td", {}, swatch(i), run.name), ...rows.map(name => el("td", { class: "value" }, (all[i].find(([, n]) => n.split(" · ")[0] === name) || ["–"])[0])))));
  $("tiles").className = "card";
  $("tiles").append(table);
  runs.forEach((run, i) => {
    const box = el("input", { type: "checkbox" }), name = el("span", {}, el("i", { style: `border-color:${colour(i)}` }), run.name);
    box.checked = true;
    box.addEventListener("change", () => { box.checked ? view.hidden.delete(i) : view.hidden.add(i); drawAll(); });
    $("runs").append(el("label", {}, box, name));
  });
} else {
  for (const [value, name] of facts(runs[0])) $("tiles").append(el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name)));
  const status = runs[0].run.status;
  if (status) { $("status").textContent = status + (runs[0].run.reason ? ": " + runs[0].run.reason : ""); $("status").classList.add(status); $("status").hidden = false; }
}

specs.filter(spec => !spec.shown || spec.shown()).forEach((spec, index) => {
  const head = el("div", { class: "card-head" }, el("h2", {}, spec.title), el("span", { class: "unit" }, spec.unit));
  const host = el("div");
  if (index === 0) {
    const legend = el("div", { class: "legend" });
    const entry = (c, name, dots) => legend.append(el("span", {}, el("i", { style: `border-color:${c}`, class: dots ? "dots" : "" }), name));
    entry(many ? "var(--ink-3)" : colour(0), "training");
    if (runs.some(r => r.eval.step.length)) entry(many ? "var(--ink-3)" : colour(1), "held out", true);
    const slider = el("input", { type: "range", min: 0, max: 0.98, step: 0.01, value: view.smooth, "aria-label": "Smoothing" });
    slider.addEventListener("input", () => { view.smooth = +slider.value; drawAll(); });
    const log = el("button", { type: "button", "aria-pressed": "false" }, "Log scale");
    log.addEventListener("click", () => { view.logLoss = !view.logLoss; log.setAttribute("aria-pressed", view.logLoss); drawAll(); });
    head.append(legend, el("span", { class: "spacer" }), el("label", { class: "control" }, "Smoothing", slider), log);
  }
  $("charts").append(el("div", { class: "card" + (spec.wide ? " wide" : "") }, head, host));
  charts.push({ spec, host, index });
});

drawProfiles($("profile"), runs, many, el);

// Generated text.
const texts = runs.flatMap(run => run.samples.map(s => ({ run, ...s })));
if (texts.length) {
  $("samples").hidden = false;
  texts.forEach((s, i) => $("which").append(el("option", { value: i }, (many ? s.run.name + ", " : "") + "step " + group(s.step))));
  const show = () => {
    $("texts").replaceChildren(...texts[+$("which").value].texts.map(t => el("pre", {}, el("em", {}, t.prompt), t.text)));
  };
  $("which").value = texts.length - 1;
  $("which").addEventListener("change", show);
  show();
}

// Configuration by section; several runs side by side.
const keys = [...new Set(runs.flatMap(run => run.config.map(([k]) => k)))];
const maps = runs.map(run => new Map(run.config)), differs = k => many && new Set(maps.map(m => m.get(k))).size > 1;
let only = false;
const heads = first => el("tr", {}, el("th", {}, first), ...runs.map((r, i) => el("th", {}, swatch(i), r.name)));
const drawConfig = () => {
  const shown = keys.filter(k => !only || differs(k)), host = el("div", many ? {} : { class: "columns" });
  const row = (k, name) => el("tr", { class: differs(k) ? "differs" : "" }, el("td", {}, name), ...maps.map(m => el("td", { class: "value" }, m.get(k) ?? "–")));
  if (many) host.append(el("table", {}, heads("key"), ...shown.map(k => row(k, k))));
  else for (const section of new Set(shown.map(k => k.split(".")[0])))
    host.append(el("table", {}, el("tr", {}, el("th", { colspan: 2 }, section)), ...shown.filter(k => k.split(".")[0] === section).map(k => row(k, k.slice(section.length + 1) || k))));
  $("config").replaceChildren(host);
};
if (many) {
  $("only").hidden = false;
  $("only").addEventListener("click", () => { only = !only; $("only").setAttribute("aria-pressed", only); drawConfig(); });
}
drawConfig();
const machineOf = r => r.machine ? [["processor", r.machine.processor], ["processors", r.machine.processors], ["memory", bytes(r.machine.memory_bytes)], ["system", r.machine.system],
  ["compiler", r.machine.compiler], ["mstrain", r.machine.version], ["planned memory", bytes(r.planned_memory_bytes)], ["peak memory", bytes(r.peak_memory_bytes)], ...(r.memory_before_bytes ? [["of it before the run", bytes(r.memory_before_bytes)]] : []),
  ["FLOPs per token", short(r.flops_per_token)], ["tokens per step", group(r.tokens_per_step)], ["micro-batch", group(r.micro_batch)]] : [];
const machines = runs.map(run => new Map(machineOf(run.run))), facets = [...new Set(machines.flatMap(m => [...m.keys()]))];
$("machine").append(el("table", {}, ...(many ? [heads("")] : []), ...facets.map(k => el("tr", {}, el("td", {}, k), ...machines.map(m => el("td", { class: "value" }, String(m.get(k) ?? "–")))))));
if (many) $("facts").classList.remove("pair");
$("footer").textContent = "Drag over a chart to zoom, double-click to see everything. " + runs.map(r => r.directory).join(", ");

const setTheme = dark => { document.documentElement.dataset.theme = dark ? "dark" : "light"; $("theme").textContent = dark ? "Light" : "Dark"; };
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = null;
try { chosen = localStorage.getItem("mstrain-theme"); } catch (e) { chosen = null; }
setTheme(chosen ? chosen === "dark" : system.matches);
system.addEventListener("change", () => { if (!chosen) setTheme(system.matches); });
$("theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("mstrain-theme", chosen); } catch (e) { /* a page from a file may have no storage */ }
  setTheme(chosen === "dark");
});
let timer = 0;
addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(drawAll, 60); });
drawAll();
})();
)js";

}  // namespace mstrain
