// The report's section on layers: a map of norms, one row a parameter, one column a look.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportLayersScript = R"js(
let layersShow = "gradient";
const drawLayers = () => {
  const section = $("layers"), looked = view.runs.filter(run => run.layers);
  section.hidden = !looked.length;
  if (!looked.length) return;
  for (const what of ["gradient", "weight"]) $("layers-" + what).setAttribute("aria-pressed", layersShow === what);
  $("layers-map").replaceChildren(...looked.flatMap(run => {
    const { names, step } = run.layers, norms = run.layers[layersShow], all = norms.flat().filter(v => finite(v) && v > 0).map(Math.log10);
    const lo = Math.min(...all), hi = Math.max(...all), row = 13, left = 230, width = Math.max($("layers-map").clientWidth, 400), cell = (width - left) / step.length;
    const shade = v => finite(v) && v > 0 ? `color-mix(in srgb, var(--c1) ${Math.round(100 * (hi > lo ? (Math.log10(v) - lo) / (hi - lo) : 0.5))}%, var(--c0))` : "var(--grid)";
    const root = svg("svg", { viewBox: `0 0 ${width} ${row * names.length + 18}`, height: row * names.length + 18, role: "img", "aria-label": `${layersShow} norms of ${names.length} parameters at ${step.length} steps` });
    names.forEach((name, i) => {
      root.append(svg("text", { x: left - 8, y: i * row + 10, "text-anchor": "end" }, name.length > 36 ? "…" + name.slice(-35) : name));
      step.forEach((s, j) => {
        const v = (norms[j] || [])[i], box = svg("rect", { x: left + j * cell, y: i * row, width: cell + 0.3, height: row - 1, fill: shade(v) });
        box.append(svg("title", {}, `${name}\nstep ${group(s)}: ${finite(v) ? v.toPrecision(4) : "no number"}`));
        root.append(box);
      });
    });
    root.append(svg("text", { x: left, y: names.length * row + 14 }, "step " + group(step[0])), svg("text", { x: width, y: names.length * row + 14, "text-anchor": "end" }, group(step[step.length - 1])));
    const note = `from ${short(10 ** lo)} (blue) to ${short(10 ** hi)} (orange), by their logarithms`;
    return [...(view.many ? [el("h3", {}, run.name)] : []), root, el("p", { class: "note" }, all.length ? note : "")];
  }));
};
for (const what of ["gradient", "weight"]) $("layers-" + what).addEventListener("click", () => { layersShow = what; drawLayers(); });
)js";

}  // namespace mstrain
