// The report's page put together: which curves there are, the figures above them, configuration, machine, text, theme.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportScript = R"js("use strict";
const show = (() => {
const DASHES = ["5 4", "2 3", "9 3 2 3", "1 4"];
const of = f => view.runs.flatMap(f);
const trainSeries = (key, smooth) => () => of((run, i) => ({
  run: i, name: "", xs: run.train.step, raw: smooth && view.smooth ? run.train[key] : null, ys: smooth ? smoothed(run.train[key]) : run.train[key], colour: colour(i) }));
// One line for all held-out data, and one for each set of it that has a name.
const heldSeries = key => () => of((run, i) => run.eval.map((e, k) => ({
  run: i, name: e.set || (run.eval.length > 1 ? "all held out" : "held out"), xs: e.step, ys: e[key], of: e.eval_predictions,
  colour: colour(view.many ? i : k + 1), dots: true, dashes: view.many ? DASHES[k % DASHES.length] : k > 1 ? DASHES[k % DASHES.length] : undefined })).filter(s => s.xs.length));
const lossSeries = () => [...trainSeries("loss", true)().map(s => ({ ...s, name: "training", raw: view.runs[s.run].train.loss })), ...heldSeries("eval_loss")()];
const scaled = (key, factor) => () => trainSeries(key)().map(s => ({ ...s, ys: s.ys.map(y => finite(y) ? y * factor : y) }));
const measured = key => () => view.runs.some(run => run.eval.some(e => (e[key] || []).some(finite)));
const trained = key => () => view.runs.some(run => (run.train[key] || []).some(finite));
// Numbers that only some rows have.
const known = s => { const at = s.ys.map((y, i) => i).filter(i => finite(s.ys[i])); return { ...s, xs: at.map(i => s.xs[i]), ys: at.map(i => s.ys[i]) }; };
const noted = key => () => trainSeries(key)().map(known);
const matched = () => view.runs.some(run => run.matches.step.length > 0);
const matchSeries = (key, name, k) => of((run, i) => [known({
  run: i, name, xs: run.matches.step, ys: run.matches[key], colour: colour(view.many ? i : k), dots: true, dashes: view.many && k ? DASHES[k] : undefined })]).filter(s => s.xs.length);
// The learning-rate finder's curve lies over rates.
const found = run => run.find_lr || null;
const rates = {
  name: "learning rate",
  range: series => [Math.min(...series.map(s => s.xs[0])), Math.max(...series.map(s => s.xs[s.xs.length - 1]))],
  marks: run => found(run) && finite(run.find_lr.suggestion) ? [{ at: run.find_lr.suggestion, strong: true, text: `falls fastest at ${run.find_lr.suggestion.toPrecision(3)}` }] : [],
};
const specs = [
  { title: "Loss over learning rate", unit: "the mark: where it falls fastest", wide: true, height: 300, over: rates, shown: () => view.runs.some(found), digits: v => v.toFixed(4),
    series: () => of((run, i) => found(run) ? [{ run: i, name: "smoothed", xs: run.find_lr.lr, raw: run.find_lr.loss, ys: run.find_lr.smoothed, colour: colour(i) }] : []) },
  { title: "Loss", unit: () => view.runs.some(run => !run.parts) ? "nats per prediction" : "mean of an iteration", series: lossSeries, wide: true, height: 330, log: () => view.logLoss, digits: v => v.toFixed(4), main: true,
    shown: () => !view.runs.length || view.runs.some(run => !found(run)) },
  { title: "Return", unit: "mean of the last 100 episodes; dots: evaluations, from the least to the most", wide: true, height: 300, shown: trained("episode_return"), digits: v => v.toPrecision(5),
    series: () => [...trainSeries("episode_return")(), ...["eval_return", "eval_return_least", "eval_return_most"].flatMap((key, k) => of((run, i) => ({
      run: i, name: ["evaluation", "least", "most"][k], xs: run.returns.step, ys: run.returns[key], colour: colour(view.many ? i : 1), dots: k === 0, dashes: k ? DASHES[1] : undefined })))].filter(s => s.xs.length) },
  { title: "Strength", unit: "Elo, where all games were won or lost its bound; against UCT, and above the untrained network by matches of each self with the one before", wide: true, height: 300, shown: matched, digits: v => v.toFixed(0),
    series: () => [...matchSeries("match_elo", "against UCT", 0), ...matchSeries("elo", "above the untrained", 1)] },
  { title: "Score against UCT", unit: "points of a game", series: () => matchSeries("match_score", "", 0), shown: matched, digits: v => v.toFixed(3) },
  { title: "Length of games", unit: "moves of self-play", series: noted("game_length"), shown: trained("game_length"), digits: short },
  { title: "Entropy of the search", unit: "nats, of the policies that are learned", series: noted("policy_entropy"), shown: trained("policy_entropy"), digits: v => v.toPrecision(4) },
  { title: "Age of what is learned from", unit: "iterations since a position was played, in the mean", series: noted("replay_age"), shown: trained("replay_age"), zero: true, digits: v => v.toFixed(2) },
  { title: "Evaluator in use", unit: "share of its threads' time in self-play", series: noted("evaluator_busy"), shown: trained("evaluator_busy"), zero: true, digits: v => (v * 100).toFixed(0) + " %" },
  { title: "Length of episodes", unit: "steps, mean of the last 100", series: trainSeries("episode_length"), shown: trained("episode_length"), zero: true, digits: short },
  { title: "Entropy of the policy", unit: "nats", series: trainSeries("entropy"), shown: trained("entropy"), digits: v => v.toPrecision(4) },
  { title: "Divergence of policies", unit: "nats, in an iteration", series: trainSeries("kl"), shown: trained("kl"), zero: true, digits: v => v.toPrecision(3) },
  { title: "Perplexity", unit: "held out", series: heldSeries("eval_perplexity"), shown: measured("eval_perplexity"), digits: v => v.toPrecision(4) },
  { title: "Bits per byte", unit: "held out", series: heldSeries("eval_bits_per_byte"), shown: measured("eval_bits_per_byte"), digits: v => v.toFixed(4) },
  { title: "Accuracy", unit: () => trained("accuracy")() ? "of a step; dots: held out" : "held out", shown: () => trained("accuracy")() || measured("eval_accuracy")(), digits: v => (v * 100).toFixed(2) + " %",
    series: () => [...noted("accuracy")(), ...heldSeries("eval_accuracy")()] },
  { title: "AUC", unit: "held out", series: () => [...heldSeries("eval_auc")(), ...heldSeries("eval_gauc")().map(s => ({ ...s, name: `${s.name}, of groups` }))], shown: measured("eval_auc"), digits: v => v.toFixed(4) },
  { title: "Normalized entropy", unit: "held out; 1: as good as the mean", series: heldSeries("eval_normalized_entropy"), shown: measured("eval_normalized_entropy"), digits: v => v.toFixed(4) },
  { title: "Calibration", unit: "held out; 1: as many clicks as foretold", series: heldSeries("eval_calibration"), shown: measured("eval_calibration"), digits: v => v.toFixed(4) },
  { title: "Margin", unit: "of rewards, chosen above rejected, of a step; dots: held out", shown: () => trained("margin")() || measured("eval_margin")(), digits: v => v.toPrecision(4),
    series: () => [...noted("margin")(), ...heldSeries("eval_margin")()] },
  { title: "Rewards of answers", unit: "of a step; dots: held out", shown: () => trained("chosen_reward")() || measured("eval_chosen_reward")(), digits: v => v.toPrecision(4),
    series: () => ["chosen", "rejected"].flatMap((which, k) => [...noted(which + "_reward")(), ...heldSeries(`eval_${which}_reward`)()].map(s => ({ ...s, name: `${which}, ${s.dots ? "held out" : "steps"}`, colour: colour(view.many ? s.run : k) }))) },
  { title: "Exact match", unit: "held out, of whole targets", series: heldSeries("eval_exact_match"), shown: measured("eval_exact_match"), digits: v => (v * 100).toFixed(2) + " %" },
  { title: "Reward", unit: "mean of what answers earn; dots: held out, of greedy answers", shown: () => trained("reward")() || measured("eval_reward")(), digits: v => v.toPrecision(4),
    series: () => [...noted("reward")(), ...heldSeries("eval_reward")()] },
  { title: "Throughput", unit: () => [...new Set(view.runs.map(run => `${unitOf(run.run)}s per second`))].join(", "), series: trainSeries("rate"), zero: true, digits: short },
  { title: "Learning rate", unit: "", series: trainSeries("lr"), zero: true, digits: v => v.toPrecision(4) },
  { title: "Gradient norm", unit: "before clipping", series: trainSeries("grad_norm", true), zero: true, digits: v => v.toPrecision(4) },
  { title: "Step time", unit: "milliseconds", series: scaled("step_seconds", 1000), zero: true, digits: short },
  { title: "Processors in use", unit: "mean since the point before", series: trainSeries("busy_processors"), shown: trained("busy_processors"), zero: true, digits: v => v.toFixed(2) },
  { title: "Memory", unit: "MB resident", series: scaled("resident_bytes", 1e-6), shown: trained("resident_bytes"), zero: true, digits: v => v.toFixed(1) },
];

// What agents measure by names of their own.
const partSpecs = new Map();
const partSpec = name => {
  if (!partSpecs.has(name)) partSpecs.set(name, { title: name.replaceAll("_", " "), unit: "mean of an iteration", digits: v => v.toPrecision(4),
    series: () => of((run, i) => run.parts && run.parts[name] ? [known({ run: i, name: "", xs: run.train.step, ys: run.parts[name], colour: colour(i) })] : []) });
  return partSpecs.get(name);
};
const parts = () => [...new Set(view.runs.flatMap(run => Object.keys(run.parts || {})))].map(partSpec);

// Charts stay where they are while their data change.
let charts = [];
const drawCharts = () => {
  const shown = [...specs.filter(spec => !spec.shown || spec.shown()), ...parts()];
  if (shown.length !== charts.length || shown.some((spec, i) => charts[i].spec !== spec)) {
    charts = shown.map((spec, index) => ({ spec, host: el("div"), unit: el("span", { class: "unit" }), index }));
    $("charts").replaceChildren(...charts.map(({ spec, host, unit }) => el("div", { class: "card" + (spec.wide ? " wide" : "") },
      el("div", { class: "card-head" }, el("h2", {}, spec.title), unit, ...(spec.main ? [legend, el("span", { class: "spacer" }), slider, log] : [])), host)));
  }
  charts.forEach(chart => { chart.unit.textContent = typeof chart.spec.unit === "function" ? chart.spec.unit() : chart.spec.unit; });
  charts.forEach(drawChart);
};
const legend = el("div", { class: "legend" });
const range = el("input", { type: "range", min: 0, max: 0.98, step: 0.01, "aria-label": "Smoothing" });
const slider = el("label", { class: "control" }, "Smoothing", range);
const log = el("button", { type: "button", "aria-pressed": "false" }, "Log scale");
range.addEventListener("input", () => { view.smooth = +range.value; drawCharts(); });
log.addEventListener("click", () => { view.logLoss = !view.logLoss; log.setAttribute("aria-pressed", view.logLoss); drawCharts(); });
const drawLegend = () => {
  const entry = (c, name, dots) => el("span", {}, el("i", { style: `border-color:${c}`, class: dots ? "dots" : "" }), name);
  const sets = [...new Set(view.runs.flatMap(run => run.eval.filter(e => e.step.length).map((e, k) => `${k} ${e.set || (run.eval.length > 1 ? "all held out" : "held out")}`)))];
  legend.replaceChildren(entry(view.many ? "var(--ink-3)" : colour(0), "training"), ...sets.map(text => {
    const k = +text.split(" ")[0];
    return entry(view.many ? "var(--ink-3)" : colour(k + 1), text.slice(text.indexOf(" ") + 1), true);
  }));
};

// The figures on top.
const last = a => { for (let i = a.length; i-- > 0;) if (finite(a[i])) return a[i]; return null; };
const trainingTime = run => {
  let total = 0, previous = 0;
  run.train.step.forEach((s, i) => { if (finite(run.train.step_seconds[i])) total += (s - previous) * run.train.step_seconds[i]; previous = s; });
  return total;
};
const unitOf = record => record.unit || "token";
const facts = run => {
  const r = run.run, speeds = run.train.rate.filter(finite).sort((a, b) => a - b), out = [], { many } = view;
  const step = Math.max(r.step ?? -1, last(run.train.step) ?? -1);
  if (step >= 0) out.push([group(step), many || !r.total_steps ? "steps" : `of ${group(r.total_steps)} steps`]);
  if (found(run)) out.push([finite(run.find_lr.suggestion) ? run.find_lr.suggestion.toPrecision(2) : "none", "suggested learning rate"]);
  if (last(run.train.loss) !== null) out.push([last(run.train.loss).toFixed(4), "training loss"]);
  for (const e of run.eval) {
    const now = last(e.eval_loss);
    if (now !== null) out.push([now.toFixed(4), (e.set ? `${e.set} loss` : "held-out loss") + (e.best && e.best.value < now ? ` · best ${e.best.value.toFixed(4)} at ${group(e.best.step)}` : "")]);
  }
  if (speeds.length) out.push([short(speeds[speeds.length >> 1]), `${unitOf(r)}s per second`], [duration(trainingTime(run)), "training time"]);
  if (r.parameters) out.push([short(r.parameters), "parameters"]);
  if (r.frozen_parameters) out.push([short(r.frozen_parameters), "parameters stay as they are"]);
  return out;
};
const drawHead = () => {
  const { runs, many } = view;
  $("title").textContent = view.title || (many ? "Comparison of " + runs.length + " runs" : runs.length ? runs[0].name : "No run to show");
  $("runs").replaceChildren();
  $("status").hidden = true;
  if (many) {
    const all = runs.map(facts), names = [...new Set(all.flatMap(f => f.map(([, name]) => name.split(" · ")[0])))];
    const table = el("table", {}, el("tr", {}, el("th", {}, "run"), ...names.map(name => el("th", {}, name))));
    runs.forEach((run, i) => table.append(el("tr", {}, el("td", {}, swatch(i), run.name), ...names.map(name => el("td", { class: "value" }, (all[i].find(([, n]) => n.split(" · ")[0] === name) || ["–"])[0])))));
    $("tiles").className = "card scroll";
    $("tiles").replaceChildren(table);
    runs.forEach((run, i) => {
      const box = el("input", { type: "checkbox" }), name = el("span", {}, el("i", { style: `border-color:${colour(i)}` }), run.name);
      box.checked = !view.hidden.has(run.real);
      box.addEventListener("change", () => { box.checked ? view.hidden.delete(run.real) : view.hidden.add(run.real); drawCharts(); });
      $("runs").append(el("label", {}, box, name));
    });
    return;
  }
  $("tiles").className = "tiles";
  $("tiles").replaceChildren(...runs.flatMap(facts).map(([value, name]) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name))));
  const status = runs.length ? runs[0].run.status : "";
  if (status) { $("status").textContent = status + (runs[0].run.reason ? ": " + runs[0].run.reason : ""); $("status").className = "pill " + status; $("status").hidden = false; }
};

// Generated text.
let texts = [];
const showText = () => { const t = texts[+$("which").value]; $("texts").replaceChildren(...(t ? t.texts : []).map(t => el("pre", {}, el("em", {}, t.prompt), t.text, finite(t.reward) ? el("em", {}, `  earns ${t.reward.toPrecision(4)}`) : ""))); };
const drawTexts = () => {
  const before = texts[+$("which").value], wasLast = !before || before === texts[texts.length - 1];
  texts = view.runs.flatMap(run => run.samples.map(s => ({ key: run.real + s.step, name: run.name, ...s })));
  $("samples").hidden = !texts.length;
  $("which").replaceChildren(...texts.map((s, i) => el("option", { value: i }, (view.many ? s.name + ", " : "") + "step " + group(s.step))));
  const same = texts.findIndex(t => before && t.key === before.key);
  $("which").value = wasLast || same < 0 ? texts.length - 1 : same;
  showText();
};
$("which").addEventListener("change", showText);

// The first samples that a model of images sees.
const drawPictures = () => {
  const runs = view.runs.filter(run => (run.pictures || []).length);
  $("pictures").hidden = !runs.length;
  $("sheets").replaceChildren(...runs.flatMap(run => [...(view.many ? [el("h3", {}, run.name)] : []), el("div", { class: "sheet" },
    ...run.pictures.map(p => el("figure", {}, el("img", { src: "data:image/png;base64," + p.png, alt: p.label }), el("figcaption", {}, p.label))))]));
};

// Configuration by section; several runs side by side.
let only = false;
const heads = first => el("tr", {}, el("th", {}, first), ...view.runs.map((r, i) => el("th", {}, swatch(i), r.name)));
const drawConfig = () => {
  const { runs, many } = view, keys = [...new Set(runs.flatMap(run => run.config.map(([k]) => k)))];
  const maps = runs.map(run => new Map(run.config)), differs = k => many && new Set(maps.map(m => m.get(k))).size > 1;
  const shown = keys.filter(k => !only || differs(k)), host = el("div", many ? { class: "scroll" } : { class: "columns" });
  const row = (k, name) => el("tr", { class: differs(k) ? "differs" : "" }, el("td", {}, name), ...maps.map(m => el("td", { class: "value" }, m.get(k) ?? "–")));
  if (many) host.append(el("table", {}, heads("key"), ...shown.map(k => row(k, k))));
  else for (const section of new Set(shown.map(k => k.split(".")[0])))
    host.append(el("table", {}, el("tr", {}, el("th", { colspan: 2 }, section)), ...shown.filter(k => k.split(".")[0] === section).map(k => row(k, k.slice(section.length + 1) || k))));
  $("only").hidden = !many;
  $("config").replaceChildren(host);
};
$("only").addEventListener("click", () => { only = !only; $("only").setAttribute("aria-pressed", only); drawConfig(); });
const machineOf = r => {
  const facts = r.machine ? [["processor", r.machine.processor], ["processors", r.machine.processors], ["memory", bytes(r.machine.memory_bytes)], ["system", r.machine.system],
    ["compiler", r.machine.compiler], ["mstrain", r.machine.version]] : [];
  const add = (name, value, text) => { if (finite(value)) facts.push([name, text(value)]); };
  add("planned memory", r.planned_memory_bytes, bytes);
  add("peak memory", r.peak_memory_bytes, bytes);
  add("of it before the run", r.memory_before_bytes || NaN, bytes);
  add("processor time", r.processor_seconds, duration);
  add("disk used by the run", r.disk_bytes, bytes);
  add("disk left", r.disk_free_bytes, bytes);
  add(`FLOPs per ${unitOf(r)}`, r.flops_per_unit, short);
  add(`${unitOf(r)}s per step`, r.units_per_step, group);
  add("micro-batch", r.micro_batch, group);
  return facts;
};
const drawMachine = () => {
  const { runs, many } = view, machines = runs.map(run => new Map(machineOf(run.run))), facets = [...new Set(machines.flatMap(m => [...m.keys()]))];
  $("machine").replaceChildren(el("table", {}, ...(many ? [heads("")] : []), ...facets.map(k => el("tr", {}, el("td", {}, k), ...machines.map(m => el("td", { class: "value" }, String(m.get(k) ?? "–")))))));
  $("facts").classList.toggle("pair", !many);
};

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
addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => view.redraw(), 60); });
view.redraw = () => { drawCharts(); drawSweep(view.sweep); };

// Shows `data`, as core/train/report_data.h has it; called again with newer data.
return data => {
  view.runs = data.runs;
  view.many = data.runs.length > 1;
  view.sweep = data.sweep;
  view.title = data.title;
  if (new Set(view.runs.map(r => r.name)).size < view.runs.length) view.runs.forEach(r => { r.name = r.id || r.directory; });
  if (view.smooth === null && view.runs.length) {
    const points = Math.max(...view.runs.map(r => r.train.step.length));
    view.smooth = points > 400 ? 0.9 : points > 100 ? 0.7 : 0.3;
    range.value = view.smooth;
  }
  drawHead();
  drawLegend();
  view.redraw();
  drawProfiles($("profile"), view.runs, view.many, el);
  drawLayers();
  drawEvaluations();
  drawTexts();
  drawPictures();
  drawConfig();
  drawMachine();
  drawLineage(data.list || view.runs);
  drawLogs();
  $("footer").textContent = "Drag over a chart to zoom, double-click to see everything. " + view.runs.map(r => r.directory).join(", ");
};
})();
const given = JSON.parse($("data").textContent);
if (given) show(given);
)js";

}  // namespace mstrain
