// The report's section "Where the time goes": parts of a step, then operations or layers against the machine's limits; and what
// each rank takes.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportProfileScript = R"js(
// Fills `section` from runs with a profile or several ranks. `el` makes elements, `many` says that there are several runs.
const drawProfiles = (section, runs, many, el) => {
  const ranksOf = run => run.run.ranks || [];
  const profiled = runs.filter(run => run.profile || ranksOf(run).length);
  section.hidden = !profiled.length;
  section.replaceChildren();
  if (!profiled.length) return;
  const MAX_ROWS = 14, GIGA = 1e9;
  const three = v => v >= 1000 ? Math.round(v).toString() : v === 0 ? "0" : v < 0.01 ? "< 0.01" : (+v.toPrecision(3)).toString();
  const percent = v => (v * 100).toFixed(v < 0.0995 ? 1 : 0) + " %";
  const sum = list => list.reduce((a, b) => ({ calls: a.calls + b.calls, seconds: a.seconds + b.seconds, flops: a.flops + b.flops, bytes: a.bytes + b.bytes }), { calls: 0, seconds: 0, flops: 0, bytes: 0 });
  const colours = { forward: "var(--c0)", backward: "var(--c1)", optimizer: "var(--c2)", other: "var(--c4)", "outside kernels": "var(--ink-3)" };
  let layers = false;

  const bar = p => {
    const outside = { name: "outside kernels", seconds: Math.max(0, p.step_seconds - sum(p.parts).seconds) };
    const order = Object.keys(colours), parts = [...p.parts, outside].filter(part => part.seconds > 0.0005 * p.step_seconds);
    parts.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name));
    const host = el("div", { class: "stack", role: "img", "aria-label": parts.map(part => `${part.name} ${percent(part.seconds / p.step_seconds)}`).join(", ") });
    const legend = el("div", { class: "legend stack-legend" });
    for (const part of parts) {
      const share = part.seconds / p.step_seconds;
      host.append(el("i", { style: `width:${(share * 100).toFixed(3)}%;background:${colours[part.name]}`, title: `${part.name} ${percent(share)}` }));
      legend.append(el("span", {}, el("i", { class: "box", style: `background:${colours[part.name]}` }), `${part.name} ${percent(share)}`));
    }
    return [host, legend];
  };

  const table = p => {
    const all = layers ? p.layers : p.operations, shown = all.length > MAX_ROWS ? all.slice(0, MAX_ROWS - 1) : all;
    const rows = shown.length < all.length ? [...shown, { name: `${all.length - shown.length} more`, ...sum(all.slice(shown.length)), faint: true }] : [...shown];
    const { flops_per_second: peak, bytes_per_second: copy } = p.limits;
    const longest = Math.max(...rows.map(r => r.seconds)) / p.step_seconds || 1;
    const head = (text, note) => el("th", {}, text, ...(note ? [el("small", {}, note)] : []));
    const out = el("table", { class: "figures" }, el("tr", {}, head(layers ? "Layer" : "Operation"), head("Calls"), head("Milliseconds"), el("th", { class: "share" }, "Share of the step"),
      head("GFLOP/s"), head("of limit", three(peak / GIGA)), head("GB/s"), head("of limit", three(copy / GIGA))));
    const row = (r, last) => {
      const flops = r.seconds > 0 ? r.flops / r.seconds : 0, bytes = r.seconds > 0 ? r.bytes / r.seconds : 0;
      const compute = peak > 0 ? flops / peak : 0, memory = copy > 0 ? bytes / copy : 0, share = r.seconds / p.step_seconds;
      const rate = (value, of, nearer) => value > 0 ? [el("td", {}, three(value / GIGA)), el("td", { class: nearer ? "nearer" : "" }, of > 0 ? percent(of) : "–")] : [el("td", {}, "–"), el("td", {}, "–")];
      out.append(el("tr", { class: last ? "last" : r.faint ? "faint" : "" }, el("td", {}, r.name), el("td", {}, r.calls === undefined ? "" : three(r.calls)), el("td", {}, three(r.seconds * 1e3)),
        el("td", { class: "share" }, el("span", {}, percent(share)), ...(last ? [] : [el("i", { style: `width:${(share / longest * 100).toFixed(2)}%` })])),
        ...(r.flops === undefined ? [el("td"), el("td"), el("td"), el("td")] : [...rate(flops, compute, compute >= memory), ...rate(bytes, memory, memory > compute)])));
    };
    rows.forEach(r => row(r, false));
    const kernels = sum(all);
    if (p.step_seconds > kernels.seconds) row({ name: "outside kernels", seconds: p.step_seconds - kernels.seconds, faint: true }, false);
    row({ name: "whole step", ...kernels, seconds: p.step_seconds }, true);
    return el("div", { class: "scroll" }, out);
  };

  const caption = p => `Mean of step${p.steps > 1 ? `s ${p.first_step} to ${p.first_step + p.steps - 1}` : ` ${p.first_step}`} on ${p.threads} thread${p.threads > 1 ? "s" : ""}. ` +
    `Limits, measured by the run itself: ${three(p.limits.flops_per_second / GIGA)} GFLOP/s in the product of two f32 matrices of ${p.limits.product_size} × ${p.limits.product_size}, ` +
    `${three(p.limits.bytes_per_second / GIGA)} GB/s read and written in a copy of ${Math.round(p.limits.copied_bytes / 2 ** 20)} MiB. ` +
    `Tensors that are still in the processor’s caches move faster than that. profile.json shows every kernel in ui.perfetto.dev or chrome://tracing.`;

  // A rank a row: a step's time by kind, and memory.
  const KINDS = { products: "var(--c0)", others: "var(--c1)", exchanges: "var(--c2)", waiting: "var(--c3)", bubbles: "var(--c4)", outside: "var(--ink-3)" };
  const NAMES = { products: "Products", others: "Other kernels", exchanges: "Exchanges", waiting: "Waiting for ranks", bubbles: "Bubbles", outside: "Outside kernels" };
  const ranksTable = run => {
    const times = (run.profile && run.profile.ranks) || [], memory = ranksOf(run), count = Math.max(times.length, memory.length);
    if (!count) return [];
    const cell = text => el("td", {}, text), milliseconds = v => cell(three(v * 1e3)), kinds = Object.keys(KINDS);
    const head = [["Rank"], ...(times.length ? [["Step"], ...kinds.map(k => [NAMES[k], "ms"]), ["Hidden exchanges", "ms"]] : []), ...(memory.length ? [["Memory, peak"], ["planned"], ["before the run"]] : [])];
    const table = el("table", { class: "figures" }, el("tr", {}, ...head.map(([text, unit]) => el("th", {}, text, ...(unit ? [el("small", {}, unit)] : [])))));
    for (let rank = 0; rank < count; ++rank) {
      const t = times[rank], m = memory[rank], row = el("tr", {}, cell(String(rank)));
      if (t) {
        const all = { ...t, outside: Math.max(0, run.profile.step_seconds - t.products - t.others - t.exchanges - t.waiting - t.bubbles) };
        const stack = el("div", { class: "stack" }, ...kinds.map(k => el("i", { style: `width:${(all[k] / run.profile.step_seconds * 100).toFixed(2)}%;background:${KINDS[k]}`, title: `${NAMES[k]} ${percent(all[k] / run.profile.step_seconds)}` })));
        row.append(el("td", { style: "min-width:8em" }, stack), ...kinds.map(k => milliseconds(all[k])), milliseconds(t.hidden));
      } else if (times.length) row.append(...Array.from({ length: kinds.length + 2 }, () => cell("")));
      if (m) row.append(cell(bytes(m.peak_memory_bytes)), cell(bytes(m.planned_memory_bytes)), cell(bytes(m.memory_before_bytes)));
      table.append(row);
    }
    return [el("h3", {}, "By rank"), el("div", { class: "scroll" }, table)];
  };

  // What ranks do when, planned above measured, on one scale.
  const WORKS = { F: ["forward", "var(--c0)"], B: ["backward", "var(--c1)"], W: ["weights’ gradients", "var(--c5)"], U: ["update", "var(--c2)"], X: ["exchange", "var(--c3)"], O: ["other", "var(--c4)"] };
  const ROW = 22;
  const gantt = (timeline, name, longest) => {
    const width = Math.max(320, Math.min(host.clientWidth || 900, 1400)), left = 52, top = 4, axis = top + timeline.ranks.length * ROW;
    const X = t => left + t / longest * (width - left - 12), mark = [];
    const root = svg("svg", { viewBox: `0 0 ${width} ${axis + 22}`, height: axis + 22, role: "img", "aria-label": `${name}: what each rank does in a step of ${three(timeline.seconds * 1e3)} ms` });
    for (const t of niceTicks(0, longest, 6)) {
      root.append(svg("line", { class: "grid", x1: X(t), x2: X(t), y1: top, y2: axis }), svg("text", { x: X(t), y: axis + 15, "text-anchor": "middle" }, `${three(t * 1e3)}${t ? "" : " ms"}`));
    }
    timeline.ranks.forEach((bars, rank) => {
      const y = top + rank * ROW;
      root.append(svg("text", { x: left - 8, y: y + 15, "text-anchor": "end" }, `rank ${rank}`));
      for (const [kind, chunk, micro, begin, end] of bars) {
        const [word, fill] = WORKS[kind], known = micro >= 0, wide = X(end) - X(begin);
        const rect = svg("rect", { x: X(begin).toFixed(2), y: y + 2, width: Math.max(0.5, wide).toFixed(2), height: ROW - 4, fill, stroke: "var(--card)", "stroke-width": known ? 0.75 : 0 });
        rect.append(svg("title", {}, `rank ${rank}: ${word}${known ? ` of micro-batch ${micro}` : ""}${chunk >= 0 ? `, part ${chunk} of the model` : ""}\n${three(begin * 1e3)} to ${three(end * 1e3)} ms`));
        root.append(rect);
        if (known && wide > 9 * String(micro).length + 2) root.append(svg("text", { class: "on-bar", x: X(begin) + wide / 2, y: y + 15, "text-anchor": "middle" }, String(micro)));
      }
    });
    return [el("h3", {}, `${name}: ${three(timeline.seconds * 1e3)} ms`), root];
  };
  const gantts = run => {
    const shown = run.profile ? [["Planned", run.profile.planned], ["Measured", run.profile.measured]].filter(([, t]) => t) : [];
    if (!shown.length) return [];
    const longest = Math.max(...shown.map(([, t]) => t.seconds)), used = new Set(shown.flatMap(([, t]) => t.ranks.flat().map(bar => bar[0])));
    const legend = el("div", { class: "legend stack-legend" }, ...Object.keys(WORKS).filter(k => used.has(k)).map(k => el("span", {}, el("i", { class: "box", style: `background:${WORKS[k][1]}` }), WORKS[k][0])));
    return [...shown.flatMap(([name, t]) => gantt(t, `What ranks do in a step, ${name.toLowerCase()}`, longest)), legend,
      el("p", { class: "note" }, "Where a row is empty the rank waits. Numbers are micro-batches. Measured: the step of median length.")];
  };

  const buttons = [["By operation", false], ["By layer", true]].map(([text, value]) => {
    const button = el("button", { type: "button" }, text);
    button.addEventListener("click", () => { layers = value; draw(); });
    return [button, value];
  });
  const host = el("div");
  section.append(el("div", { class: "card-head" }, el("h2", {}, "Where the time goes"), el("span", { class: "spacer" }), ...(runs.some(run => run.profile) ? buttons.map(([button]) => button) : [])), host);
  const draw = () => {
    buttons.forEach(([button, value]) => button.setAttribute("aria-pressed", value === layers));
    host.replaceChildren(...profiled.flatMap(run => [...(many ? [el("h3", {}, run.name)] : []), ...(run.profile ? [...bar(run.profile), table(run.profile), el("p", { class: "note" }, caption(run.profile))] : []), ...ranksTable(run), ...gantts(run)]));
  };
  draw();
};
)js";

}  // namespace mstrain
