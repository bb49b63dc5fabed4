#include "tools/report/page_style.h"

namespace tidewheel {
namespace {

// The series' colours are those of Okabe and Ito ("Color Universal Design",
// 2008), which readers with any colour vision tell apart, lighter in the dark.
constexpr absl::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --card: #f6f7f9; --text: #1b1f24; --soft: #57606a;
  --rule: #d0d7de; --warn-back: #fff4e5; --warn: #8a3b00;
  --c1: #0060a8; --c2: #b84a00; --c3: #00795a; --c4: #9c4477; --c5: #5c5c00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #0f1318; --card: #171c23; --text: #e6e9ed; --soft: #a3adb8;
    --rule: #38414c; --warn-back: #33230f; --warn: #ffb977;
    --c1: #5cb3f0; --c2: #f2a05a; --c3: #4fd1a5; --c4: #e69cc4; --c5: #d8d070;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 16px; max-width: 1240px;
  background: var(--back); color: var(--text);
  font: 16px/1.45 system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans",
    sans-serif;
}
/* Names of files are long words. Not in tables: their columns keep words. */
h1, h2, h3, p, li { overflow-wrap: anywhere; }
h1 { font-size: 1.6em; margin: 0 0 .2em; }
h2 { font-size: 1.25em; margin: 1.6em 0 .6em; padding-top: .4em;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1em; margin: 0; }
p { margin: .3em 0; max-width: 75ch; }
p.soft, figcaption p, td.remark { color: var(--soft); font-size: .875em; }
ul.notes { padding-left: 1.2em; max-width: 75ch; }
.warning p { margin: .2em 0; }
.warning { background: var(--warn-back); color: var(--warn);
  border-left: 4px solid var(--warn); padding: .5em .8em; margin: .8em 0;
  overflow-wrap: anywhere; }
.grid { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 460px), 1fr)); }
.cards { display: grid; gap: 10px;
  grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
.card { background: var(--card); border: 1px solid var(--rule);
  border-radius: 6px; padding: .5em .7em; }
.card b { display: block; font-size: 1.3em; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: .875em; overflow-wrap: anywhere; }
figure, .box { margin: 0; background: var(--card);
  border: 1px solid var(--rule); border-radius: 6px; padding: 12px;
  min-width: 0; }
figure.wide { grid-column: 1 / -1; }
figure > svg { display: block; width: 100%; height: auto; margin-top: 6px; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px;
  padding: 0; margin: 6px 0 0; font-size: .875em; }
svg.swatch { width: 26px; height: 12px; vertical-align: -1px; }
svg.patterns { position: absolute; }
.scroll { overflow-x: auto; margin: .8em 0; min-width: 0; }
table { border-collapse: collapse; width: 100%; font-size: .9em; }
caption { text-align: left; font-weight: 600; padding: 0 0 .3em; }
th, td { text-align: left; padding: .2em .5em .2em 0; vertical-align: top;
  border-top: 1px solid var(--rule); font-weight: normal;
  overflow-wrap: break-word; }
td:last-child { overflow-wrap: anywhere; }
thead th { color: var(--soft); border-top: 0; font-size: .9em; }
td.number, th.number { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
table.cells th, table.cells td { padding-right: 1em; }
table.parts { width: auto; margin-top: 8px; }
table.parts td, table.parts th { border-top: 0; padding-right: 1em; }
tr.chosen td, tr.chosen th { font-weight: 700; }
pre { background: var(--card); border: 1px solid var(--rule);
  border-radius: 6px; padding: .7em; overflow-x: auto; font-size: .85em; }
svg text { font: 10px system-ui, "Segoe UI", "Noto Sans", "DejaVu Sans",
  sans-serif; fill: var(--soft); }
svg text.name, svg text.row { fill: var(--text); }
svg text.mark { fill: var(--text); paint-order: stroke; stroke: var(--card);
  stroke-width: 3px; stroke-linejoin: round; }
.grid { stroke: none; }
path.grid { stroke: var(--rule); stroke-width: .6; fill: none; }
path.axis { stroke: var(--soft); stroke-width: 1; fill: none; }
path.mark { stroke: var(--text); stroke-width: 1; stroke-dasharray: 3 3;
  fill: none; }
path.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
.l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); stroke-dasharray: 6 3; }
.l3 { stroke: var(--c3); stroke-dasharray: 2 3; }
.l4 { stroke: var(--c4); stroke-dasharray: 9 3 2 3; }
.l5 { stroke: var(--c5); stroke-dasharray: 12 4; }
path.area + path.line, rect.area + path.line { stroke-dasharray: none;
  stroke-width: 1; }
.area { stroke: none; }
.a1 { fill: url(#fill1); } .a2 { fill: url(#fill2); } .a3 { fill: url(#fill3); }
.a4 { fill: url(#fill4); } .a5 { fill: url(#fill5); }
.f1 { fill: var(--c1); fill-opacity: .75; }
.f2 { fill: var(--c2); fill-opacity: .12; }
.f3 { fill: var(--c3); fill-opacity: .1; }
.f4 { fill: var(--c4); fill-opacity: .2; }
.f5 { fill: var(--c5); fill-opacity: .2; }
.h1 { stroke: none; } .h2 { stroke: var(--c2); stroke-width: .9; }
.h3 { stroke: var(--c3); stroke-width: 1; }
.h4 { stroke: var(--c4); stroke-width: 1.2; }
.h5 { stroke: var(--c5); stroke-width: 1.2; }
.marker { fill: var(--card); stroke-width: 1.6; }
.interval { fill: none; stroke-width: 1; opacity: .8; }
.p1 { stroke: var(--c1); } .p2 { stroke: var(--c2); } .p3 { stroke: var(--c3); }
.p4 { stroke: var(--c4); } .p5 { stroke: var(--c5); }
.p1 .marker { fill: var(--c1); }
.hit rect:not(.area) { fill: transparent; stroke: none; }
.hit rect.area { stroke: var(--text); stroke-width: .6; }
.hit .cursor { stroke: none; }
g.hit text { stroke: none; }
.hit:hover .cursor, .hit.on .cursor { stroke: var(--text); stroke-width: 1; }
.hit:hover .marker, .hit.on .marker { stroke-width: 4; }
#tip { position: fixed; display: none; pointer-events: none; z-index: 1;
  background: var(--text); color: var(--back); border-radius: 4px;
  padding: .35em .6em; font-size: .85em; white-space: pre-line;
  max-width: min(340px, 90vw); font-variant-numeric: tabular-nums; }
@media (max-width: 620px) {
  body { padding: 10px; }
  svg text { font-size: 12px; }
  figure, .box { padding: 8px; }
}
@media print {
  :root {
    --back: #ffffff; --card: #ffffff; --text: #000000; --soft: #333333;
    --rule: #bbbbbb; --warn-back: #ffffff; --warn: #7a3300;
    --c1: #0060a8; --c2: #b84a00; --c3: #00795a; --c4: #9c4477; --c5: #5c5c00;
  }
  @page { margin: 14mm; }
  body { padding: 0; max-width: none; font-size: 11pt;
    print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .grid { grid-template-columns: 1fr 1fr; }
  svg text { font-size: 13px; }
  figure, .box { padding: 8px; }
  figure, .box, .card, tr, .warning { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll, pre { overflow: visible; }
  pre { white-space: pre-wrap; }
  table.cells td.number { white-space: normal; }
  table { font-size: 8.5pt; }
  #tip { display: none !important; }
}
)css";

// Titles become labels, so that the browser does not show them a second time.
constexpr absl::string_view kScript = R"js(
(function () {
  var tip = document.getElementById('tip');
  var shown = null;
  function hide() {
    tip.style.display = 'none';
    if (shown) shown.classList.remove('on');
    shown = null;
  }
  function show(hit, event) {
    if (shown !== hit) {
      hide();
      shown = hit;
      hit.classList.add('on');
      tip.textContent = hit.getAttribute('aria-label');
      tip.style.display = 'block';
    }
    var right = window.innerWidth - tip.offsetWidth - 4;
    var above = event.clientY - tip.offsetHeight - 14;
    tip.style.left =
        Math.max(4, Math.min(event.clientX + 14, right)) + 'px';
    tip.style.top = (above > 4 ? above : event.clientY + 18) + 'px';
  }
  document.querySelectorAll('figure svg title').forEach(function (title) {
    var parent = title.parentNode;
    parent.setAttribute('aria-label', title.textContent);
    if (parent.hasAttribute('aria-labelledby')) {
      var desc = parent.querySelector('desc');
      parent.removeAttribute('aria-labelledby');
      if (desc) parent.setAttribute('aria-describedby', desc.id);
    }
    title.remove();
  });
  document.querySelectorAll('.hit').forEach(function (hit) {
    function onMove(event) { show(hit, event); }
    hit.addEventListener('pointerenter', onMove);
    hit.addEventListener('pointermove', onMove);
    hit.addEventListener('pointerdown', onMove);
    hit.addEventListener('pointerleave', function (event) {
      if (event.pointerType === 'mouse') hide();
    });
  });
  document.addEventListener('pointerdown', function (event) {
    if (!event.target.closest('.hit')) hide();
  });
  window.addEventListener('scroll', hide);
})();
)js";

}  // namespace

absl::string_view PageStyle() { return kStyle; }

absl::string_view PageScript() { return kScript; }

}  // namespace tidewheel
