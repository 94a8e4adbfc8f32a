"""How a page of results looks: light and dark, on a phone, on a screen and on paper.

Pictures take ``--paper`` and ``--line`` from here (`gibbs_dp.plotting.inline_svg`).
"""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2024; --soft: #5c656e;
  --line: #d9dee3; --card: #f4f6f8; --mark: #0072b2; --alarm: #b3401a; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15181b; --ink: #e4e7ea; --soft: #a2abb4; --line: #363c43; --card: #1f2428;
    --mark: #56b4e9; --alarm: #f0915f; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-top: .9rem;
  border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
ul { max-width: 46rem; }
li { margin: .3rem 0; }
.what, figcaption, dd, footer { color: var(--soft); }
.verdict { font-size: 1.2rem; line-height: 1.45; margin: 1.2rem 0; padding: .8rem 1rem;
  max-width: none; background: var(--card); border-left: .3rem solid var(--mark); }
.verdict.warned, .warning { border-left: .3rem solid var(--alarm); }
.warning { margin: .8rem 0; padding: .4rem .9rem; background: var(--card); }
.warning p { max-width: none; }
table { font-size: .92rem; }
.facts table { width: 100%; }
.facts th, .facts td { white-space: normal !important; vertical-align: top; }
.facts th { min-width: 8rem; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.5rem; align-items: flex-start; }
figure { margin: 0; flex: 1 1 20rem; min-width: 0; max-width: 29rem; }
svg { display: block; width: 100%; height: auto; }
dt { font-weight: 600; margin-top: .6rem; }
dd { margin: 0; max-width: 46rem; }
footer { margin-top: 2.5rem; font-size: .9rem; }
@media print {
  :root { color-scheme: light; --paper: #ffffff; --ink: #000000; --soft: #444444; --line: #cccccc;
    --card: #ffffff; --mark: #0072b2; --alarm: #b3401a; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  div { overflow: visible !important; }
  table { font-size: 8pt; }
  th, td { white-space: normal !important; overflow-wrap: normal; padding: .15em .4em !important; }
  .warning, figure, tr, dd { break-inside: avoid; }
  h2, dt { break-after: avoid; }
}
"""
"""Of every page."""
