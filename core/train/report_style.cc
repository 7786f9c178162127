// Look of the report. Colours are given once for each theme; the curves' colours keep their order and stay apart for
// colour-blind readers in both.
#include "core/train/report.h"

namespace mstrain {

const char* const kReportStyle = R"css(
:root {
  color-scheme: light;
  --page: #f6f7f9; --card: #ffffff; --ink: #16191d; --ink-2: #59626e; --ink-3: #8a939e;
  --line: #e2e6ea; --grid: #edf0f2; --good: #14805e; --warn: #a15c00; --shadow: 0 1px 2px #1a1f2a12, 0 4px 16px #1a1f2a0a;
  --c0: #2563d9; --c1: #d9480f; --c2: #0b8a7d; --c3: #b0268a; --c4: #8a6d00; --c5: #6741d9; --c6: #5c6670; --c7: #c2255c;
}
:root[data-theme="dark"] {
  color-scheme: dark;
  --page: #0f1216; --card: #171b21; --ink: #e9edf1; --ink-2: #a3adb8; --ink-3: #737d88;
  --line: #2a3038; --grid: #21272e; --good: #3fbf94; --warn: #e0a046; --shadow: 0 1px 2px #00000040;
  --c0: #6ea0ff; --c1: #ff8a4c; --c2: #38c2b0; --c3: #ee78c8; --c4: #d9b63b; --c5: #a58bff; --c6: #a9b3bd; --c7: #ff7a9c;
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-font-smoothing: antialiased;
}
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 64px; }
header { display: flex; flex-wrap: wrap; align-items: center; gap: 12px 16px; margin-bottom: 20px; }
h1 { font-size: 24px; line-height: 1.2; font-weight: 650; letter-spacing: -0.015em; margin: 0; }
h2 { font-size: 15px; font-weight: 600; margin: 0; }
.pill { font-size: 12px; font-weight: 600; padding: 2px 10px; border-radius: 99px; border: 1px solid currentColor; }
.pill.finished { color: var(--good); } .pill.running { color: var(--c0); } .pill.interrupted, .pill.stopped, .pill.left { color: var(--warn); } .pill.failed { color: var(--bad, #c0392b); }
.spacer { flex: 1; }
button, select {
  font: inherit; font-size: 13px; color: var(--ink-2); background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 4px 11px; cursor: pointer;
}
button:hover { color: var(--ink); } button[aria-pressed="true"] { color: var(--ink); border-color: var(--ink-3); }
button:focus-visible, input:focus-visible, select:focus-visible { outline: 2px solid var(--c0); outline-offset: 1px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin-bottom: 16px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; box-shadow: var(--shadow); }
.tile { padding: 12px 16px; }
.tile b { display: block; font-size: 21px; font-weight: 640; letter-spacing: -0.01em; line-height: 1.3; }
.tile span { font-size: 12.5px; color: var(--ink-2); }
.card { padding: 16px 18px; margin-bottom: 16px; min-width: 0; }
.card-head { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 14px; margin-bottom: 8px; min-height: 30px; }
.unit { color: var(--ink-3); font-size: 12.5px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 14px; font-size: 12.5px; color: var(--ink-2); }
.legend i { display: inline-block; width: 16px; height: 0; border-top: 2.5px solid; margin-right: 6px; vertical-align: middle; border-radius: 2px; }
.legend i.dots { border-top-style: dotted; border-top-width: 4px; }
.legend label { cursor: pointer; } .legend input { display: none; } .legend input:not(:checked) + span { opacity: 0.35; text-decoration: line-through; }
.control { font-size: 12.5px; color: var(--ink-2); display: flex; align-items: center; gap: 8px; }
input[type="range"] { width: 92px; accent-color: var(--c0); }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 16px; }
.charts .card { margin: 0; } .wide { grid-column: 1 / -1; } .below { margin-top: 16px; }
svg { display: block; width: 100%; overflow: visible; touch-action: pan-y; }
svg text { font: 11.5px system-ui, "Segoe UI", Roboto, Arial, sans-serif; fill: var(--ink-3); font-variant-numeric: tabular-nums; }
svg text.on-bar { fill: var(--card); }
.grid { stroke: var(--grid); } .axis { stroke: var(--line); } .cursor { stroke: var(--ink-3); stroke-dasharray: 3 3; }
.tip {
  position: fixed; z-index: 9; pointer-events: none; display: none; background: var(--card); color: var(--ink); border: 1px solid var(--line); border-radius: 9px;
  box-shadow: 0 6px 24px #0000002e; padding: 8px 11px; font-size: 12.5px; font-variant-numeric: tabular-nums; max-width: 340px;
}
.tip div { display: flex; gap: 8px; align-items: center; white-space: nowrap; } .tip .name { color: var(--ink-2); flex: 1; overflow: hidden; text-overflow: ellipsis; }
.tip i { width: 9px; height: 9px; border-radius: 3px; flex: none; } .tip b { font-weight: 600; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { text-align: left; font-weight: 600; color: var(--ink-2); padding: 3px 14px 7px 0; }
td { padding: 3px 14px 3px 0; vertical-align: top; border-top: 1px solid var(--grid); }
td:first-child { color: var(--ink-2); white-space: nowrap; }
td.value, pre { font-family: ui-monospace, "SF Mono", "Cascadia Code", "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
td.value { font-size: 12.5px; overflow-wrap: anywhere; } tr.differs td.value { color: var(--warn); font-weight: 600; }
.columns { columns: 2; column-gap: 36px; } .columns table { break-inside: avoid; margin-bottom: 14px; }
.pair { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 1fr); gap: 16px; align-items: start; }
.pair .card { margin: 0; }
.swatch { display: inline-block; width: 9px; height: 9px; border-radius: 3px; margin-right: 7px; }
pre { margin: 8px 0 0; padding: 12px 14px; font-size: 12.5px; line-height: 1.55; background: var(--page); border: 1px solid var(--line); border-radius: 8px; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 420px; overflow: auto; }
pre em { font-style: normal; color: var(--ink-3); }
.stack { display: flex; gap: 2px; height: 14px; border-radius: 7px; overflow: hidden; margin: 4px 0 8px; }
.stack i { display: block; min-width: 1px; } .stack-legend { margin-bottom: 12px; }
.legend i.box { width: 9px; height: 9px; border: 0; border-radius: 3px; vertical-align: baseline; }
.scroll { overflow-x: auto; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(104px, 1fr)); gap: 10px; } .sheet figure { margin: 0; }
.sheet img { width: 100%; aspect-ratio: 1; image-rendering: pixelated; border-radius: 6px; display: block; } .sheet figcaption { font-size: 12px; color: var(--ink-2); overflow-wrap: anywhere; }
.figures { font-variant-numeric: tabular-nums; white-space: nowrap; }
.figures th, .figures td { text-align: right; padding-left: 10px; } .figures th:first-child, .figures td:first-child { text-align: left; padding-left: 0; }
.figures th { vertical-align: bottom; } .figures small { font-weight: 400; color: var(--ink-3); margin-left: 5px; }
.figures td:first-child { color: var(--ink); } .figures .faint td { color: var(--ink-3); } .figures .last td { font-weight: 600; border-top-color: var(--ink-3); }
.figures .nearer { font-weight: 600; }
.figures .share { text-align: left; width: 26%; padding-left: 24px; }
.share i { display: inline-block; height: 7px; border-radius: 2px; background: var(--c0); opacity: 0.75; vertical-align: middle; min-width: 1px; max-width: calc(100% - 62px); }
.share span { display: inline-block; width: 48px; margin-right: 10px; text-align: right; }
h3 { font-size: 13.5px; font-weight: 600; margin: 14px 0 6px; }
.note { color: var(--ink-2); font-size: 12.5px; margin: 10px 0 0; max-width: 90ch; }
#coordinates text { paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
.tree, .tree ul { margin: 4px 0; padding-left: 20px; } .tree { padding-left: 4px; list-style: none; }
details { margin: 4px 0 8px; } summary { cursor: pointer; color: var(--ink-2); font-size: 12.5px; }
footer { color: var(--ink-3); font-size: 12.5px; margin-top: 24px; }
@media (max-width: 820px) { main { padding: 18px 14px 40px; } .charts, .pair { grid-template-columns: minmax(0, 1fr); } .columns { columns: 1; } }
@media print { button, .control { display: none !important; } .card, .tile { box-shadow: none; break-inside: avoid; } }
)css";

const char* const kReportBody = R"html(<main>
<header><h1 id="title"></h1><span id="status" class="pill" hidden></span><span class="spacer"></span>
<div id="runs" class="legend"></div><button id="theme" type="button" aria-label="Switch between light and dark">Dark</button></header>
<p id="live" class="note"></p>
<section id="overview" class="card" hidden><div class="card-head"><h2>Runs in <span id="folder"></span></h2></div><div id="list" class="scroll"></div></section>
<section id="tiles" class="tiles"></section>
<section id="sweep" class="card" hidden><div class="card-head"><h2>Sweep</h2><span id="sweep-about" class="unit"></span></div><div id="coordinates"></div><div id="sweep-table" class="scroll"></div></section>
<section id="charts" class="charts"></section>
<section id="profile" class="card below" hidden></section>
<section id="layers" class="card below" hidden><div class="card-head"><h2>Layers</h2><span class="unit">norms of parameters</span><span class="spacer"></span><button id="layers-gradient" type="button">Gradients</button><button id="layers-weight" type="button">Weights</button></div><div id="layers-map"></div></section>
<section id="evaluations" class="card below" hidden><div class="card-head"><h2>Evaluations</h2><span class="spacer"></span><select id="look" aria-label="Step"></select></div><div id="looks"></div></section>
<section id="pictures" class="card below" hidden><div class="card-head"><h2>Samples as they enter the model</h2></div><div id="sheets"></div></section>
<section id="samples" class="card below" hidden><div class="card-head"><h2>Generated text</h2><span class="spacer"></span><select id="which" aria-label="Step"></select></div><div id="texts"></div></section>
<section id="facts" class="pair below"><div class="card"><div class="card-head"><h2>Configuration</h2><span class="spacer"></span>
<button id="only" type="button" aria-pressed="false" hidden>Only differences</button></div><div id="config"></div></div>
<div class="card"><div class="card-head"><h2>Machine and plan</h2></div><div id="machine"></div></div></section>
<section id="lineage" class="card below" hidden><div class="card-head"><h2>Lineage</h2></div><ul id="tree" class="tree"></ul></section>
<section id="log" class="card below" hidden><div class="card-head"><h2>Log</h2></div><div id="logs"></div></section>
<footer id="footer"></footer>
</main><div id="tip" class="tip"></div>)html";

}  // namespace mstrain
