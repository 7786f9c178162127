// The report's sections on where runs come from and what they said; and, of the live page, the list of runs and its clock.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportRunsScript = R"js("use strict";
// Runs below those that they began from. `nodes`: runs, or what the live page knows of all of them.
const drawLineage = nodes => {
  const children = new Map(), known = new Set(nodes.map(n => n.real));
  for (const n of nodes) {
    const above = n.origin && known.has(n.origin.run) && n.origin.run !== n.real ? n.origin.run : "";
    children.set(above, [...(children.get(above) || []), n]);
  }
  const differences = run => {
    if (!run || !run.origin || !run.origin.config) return [];
    const before = new Map(run.origin.config), now = new Map(run.config), keys = [...new Set([...now.keys(), ...before.keys()])];
    const rows = keys.filter(k => !/^run\.(name|output_dir)$/.test(k) && k !== "model.init.from" && before.get(k) !== now.get(k));
    rows.sort((a, b) => b.startsWith("data.") - a.startsWith("data."));
    if (!rows.length) return [el("span", { class: "unit" }, "same configuration")];
    const table = el("table", {}, el("tr", {}, el("th", {}, "key"), el("th", {}, "there"), el("th", {}, "here")), ...rows.map(k => el("tr", {}, el("td", {}, k), el("td", { class: "value" }, before.get(k) ?? "–"), el("td", { class: "value" }, now.get(k) ?? "–"))));
    return [el("details", {}, el("summary", {}, `${rows.length} key${rows.length > 1 ? "s differ" : " differs"}` + (rows[0].startsWith("data.") ? ", data among them" : "")), table)];
  };
  const seen = new Set();
  const branch = n => {
    if (seen.has(n.real)) return el("li");
    seen.add(n.real);
    const from = n.origin ? ` began from ${n.origin.checkpoint ? n.origin.checkpoint + " of " : ""}${n.origin.run || n.origin.path}` : "";
    const below = children.get(n.real) || [];
    return el("li", {}, el("b", {}, n.name), el("span", { class: "unit" }, from + " "), ...differences(view.runs.find(r => r.real === n.real)), ...(below.length ? [el("ul", {}, ...below.map(branch))] : []));
  };
  const roots = (children.get("") || []).filter(n => n.origin || children.has(n.real));
  $("lineage").hidden = !roots.length;
  $("tree").replaceChildren(...roots.map(branch));
};

const drawLogs = () => {
  const said = view.runs.filter(run => run.log), host = $("logs");
  const before = host.lastElementChild, atEnd = !before || before.scrollTop + before.clientHeight >= before.scrollHeight - 4;
  $("log").hidden = !said.length;
  host.replaceChildren(...said.flatMap(run => [...(view.many ? [el("h3", {}, run.name)] : []), el("pre", {}, run.log)]));
  if (atEnd) for (const pre of host.querySelectorAll("pre")) pre.scrollTop = pre.scrollHeight;
};
)js";

const char* const kReportLiveScript = R"js("use strict";
// Asks for the list of runs and for the data of those that are chosen, every two seconds. The choice stands in the address.
(() => {
const EVERY = 2000, FIRST = 4;
let chosen = null, list = [], before = "";
const readChoice = () => { const p = new URLSearchParams(location.hash.slice(1)); chosen = p.has("run") ? p.getAll("run") : null; };
const writeChoice = () => { const p = new URLSearchParams(); chosen.forEach(id => p.append("run", id)); history.replaceState(null, "", "#" + p); };
const note = text => { $("live").textContent = text; };
const drawList = () => {
  const box = item => {
    const input = el("input", { type: "checkbox", "aria-label": "Show " + item.name });
    input.checked = chosen.includes(item.id);
    input.disabled = !!item.error;
    input.addEventListener("change", () => { chosen = input.checked ? [...chosen, item.id] : chosen.filter(id => id !== item.id); writeChoice(); ask(); });
    return input;
  };
  const status = item => item.error ? el("span", { class: "pill failed" }, "cannot be read") : item.status ? el("span", { class: "pill " + item.status }, item.status) : "";
  const of = item => item.step === null ? "" : group(item.step) + (item.total_steps ? " of " + group(item.total_steps) : "");
  $("list").replaceChildren(el("table", {}, el("tr", {}, ...["", "run", "", "step", "training loss", "held-out loss", "written"].map(t => el("th", {}, t))),
    ...list.map(item => el("tr", {}, el("td", {}, box(item)), el("td", {}, item.id === item.name ? item.name : `${item.name} (${item.id})`), el("td", {}, status(item)), el("td", { class: "value" }, of(item)),
      el("td", { class: "value" }, finite(item.loss) ? item.loss.toFixed(4) : ""), el("td", { class: "value" }, finite(item.eval_loss) ? item.eval_loss.toFixed(4) : ""), el("td", { class: "value" }, item.error || item.updated || "")))));
};
let asked = 0;
const ask = async () => {
  const number = ++asked;
  try {
    const answer = async path => { const r = await fetch(path, { cache: "no-store" }); if (!r.ok) throw new Error(await r.text()); return r.json(); };
    const all = await answer("runs.json");
    const ids = new Set(all.runs.filter(item => !item.error).map(item => item.id));
    if (chosen === null && ids.size) {
      chosen = [...ids].slice(0, FIRST);
    }
    const wanted = (chosen || []).filter(id => ids.has(id)), query = new URLSearchParams(wanted.map(id => ["run", id]));
    const data = await answer("data.json?" + query);
    if (number !== asked || view.busy) return;
    const text = JSON.stringify([all, data]);
    note(all.runs.length ? "" : `No runs in ${all.folder} yet; this page goes on looking.`);
    if (text === before) return;
    before = text;
    list = all.runs;
    chosen = chosen || [];
    $("overview").hidden = false;
    $("folder").textContent = all.folder;
    drawList();
    show({ ...data, list: list.filter(item => !item.error) });
    document.title = `${all.folder} · mstrain`;
  } catch (error) {
    note(`No answer from mstrain watch: ${error.message}`);
  }
};
addEventListener("hashchange", () => { readChoice(); before = ""; ask(); });
readChoice();
ask();
setInterval(ask, EVERY);
})();
)js";

}  // namespace mstrain
