// The report's section on evaluations of agents: an episode in pictures, values against what came of them, actions.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportAgentsScript = R"js(
let looks = [];
const drawValues = (v, colour) => {
  const width = 460, height = 260, pad = { left: 52, right: 12, top: 10, bottom: 40 }, all = [...v.value, ...v.low, ...v.high, ...v.return];
  let lo = Math.min(...all), hi = Math.max(...all);
  if (hi - lo < 1e-9 * Math.max(1, Math.abs(hi))) { const d = 0.1 * Math.abs(hi) || 1; lo -= d; hi += d; }
  const X = x => pad.left + (x - lo) / (hi - lo) * (width - pad.left - pad.right), Y = y => height - pad.bottom - (y - lo) / (hi - lo) * (height - pad.top - pad.bottom);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": "values against returns" });
  for (const t of niceTicks(lo, hi, 4)) root.append(svg("line", { class: "grid", x1: pad.left, x2: width - pad.right, y1: Y(t), y2: Y(t) }),
    svg("text", { x: pad.left - 8, y: Y(t) + 4, "text-anchor": "end" }, short(t)), svg("text", { x: X(t), y: height - pad.bottom + 16, "text-anchor": "middle" }, short(t)));
  root.append(svg("text", { x: (pad.left + width) / 2, y: height - 6, "text-anchor": "middle" }, "value"), svg("line", { class: "cursor", x1: X(lo), x2: X(hi), y1: Y(lo), y2: Y(hi) }));
  const points = ys => v.value.map((x, i) => `${X(x).toFixed(1)},${Y(ys[i]).toFixed(1)}`);
  root.append(svg("polygon", { points: [...points(v.high), ...points(v.low).reverse()].join(" "), fill: colour, opacity: 0.16 }),
    svg("polyline", { points: points(v.return).join(" "), fill: "none", stroke: colour, "stroke-width": 1.6 }));
  v.value.forEach((x, i) => {
    const dot = svg("circle", { cx: X(x), cy: Y(v.return[i]), r: 3, fill: colour });
    dot.append(svg("title", {}, `value ${x.toPrecision(4)}\nreturn ${v.return[i].toPrecision(4)} (${v.low[i].toPrecision(4)} to ${v.high[i].toPrecision(4)})`));
    root.append(dot);
  });
  return root;
};
const drawActions = (a, colour) => {
  const rows = a.numbers ? a.counts : [a.counts], width = 460, left = 70, row = a.numbers ? Math.max(14, Math.min(60, 220 / rows.length)) : 220;
  const root = svg("svg", { viewBox: `0 0 ${width} ${row * rows.length + 20}`, height: row * rows.length + 20, role: "img", "aria-label": "how often actions were taken" });
  rows.forEach((counts, i) => {
    const total = counts.reduce((x, y) => x + y, 0) || 1, most = Math.max(...counts) || 1, bar = (width - left) / counts.length, bottom = (i + 1) * row;
    counts.forEach((n, j) => {
      const tall = n / most * (row - 4), box = svg("rect", { x: left + j * bar, y: bottom - tall, width: Math.max(0.5, bar - 1), height: tall, fill: colour, opacity: 0.8 });
      const what = a.numbers ? [a.low[i] + (a.high[i] - a.low[i]) * j / counts.length, a.low[i] + (a.high[i] - a.low[i]) * (j + 1) / counts.length].map(short).join(" to ")
        : a.each > 1 ? `actions ${j * a.each} to ${(j + 1) * a.each - 1}` : `action ${j}`;
      box.append(svg("title", {}, `${what}: ${group(n)}, ${(100 * n / total).toFixed(1)} %`));
      root.append(box);
      if (!a.numbers && counts.length <= 16) root.append(svg("text", { x: left + (j + 0.5) * bar, y: bottom + 14, "text-anchor": "middle" }, `${j * a.each}`));
    });
    root.append(svg("line", { class: "axis", x1: left, x2: width, y1: bottom, y2: bottom }));
    if (a.numbers) root.append(svg("text", { x: left - 6, y: bottom - 2, "text-anchor": "end" }, rows.length > 1 ? `number ${i}` : "action"));
  });
  if (a.numbers && rows.length === 1) root.append(svg("text", { x: left, y: row + 14 }, short(a.low[0])), svg("text", { x: width, y: row + 14, "text-anchor": "end" }, short(a.high[0])));
  return root;
};
const showLook = () => {
  const look = looks[+$("look").value];
  if (!look) return;
  const part = (name, note, body) => el("div", {}, el("h3", {}, name), body, el("p", { class: "note" }, note));
  const { values: v, actions: a } = look, tint = colour(look.run);
  $("looks").replaceChildren(...(look.strip ? [el("div", { class: "scroll" }, el("img", { src: "data:image/png;base64," + look.strip, alt: "moments of an episode" })),
    el("p", { class: "note" }, `One episode, in front of step${look.at.length > 1 ? "s" : ""} ${look.at.map(group).join(", ")}. ${look.note || ""}`)] : []), el("div", { class: "charts" },
      ...(v ? [part("Value against return", `Of ${group(v.count)} steps: the mean of the discounted rewards that followed, and from a tenth to nine tenths of them, by what the agent took them to be worth`
        + (finite(v.explained) ? `; values tell ${(100 * v.explained).toFixed(1)} % of their variance.` : "."), drawValues(v, tint))] : []),
      ...(a ? [part("Actions", a.numbers > a.counts.length ? `The first ${a.counts.length} of ${a.numbers} numbers.` : a.numbers > 1 ? "Each number from its least to its greatest." : "How often each was taken.", drawActions(a, tint))] : [])));
};
const drawEvaluations = () => {
  const before = looks[+$("look").value], wasLast = !before || before === looks[looks.length - 1];
  looks = view.runs.flatMap((run, i) => (run.evaluations || []).map(e => ({ key: run.real + e.step, run: i, name: run.name, ...e })));
  $("evaluations").hidden = !looks.length;
  $("look").replaceChildren(...looks.map((e, i) => el("option", { value: i }, (view.many ? e.name + ", " : "") + "step " + group(e.step))));
  const same = looks.findIndex(e => before && e.key === before.key);
  $("look").value = wasLast || same < 0 ? looks.length - 1 : same;
  showLook();
};
$("look").addEventListener("change", showLook);
)js";

}  // namespace mstrain
