"""The style sheet of the page, for light and dark screens."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark;
  --paper: #fbfaf7; --card: #ffffff; --ink: #1d2329; --soft: #667079; --line: #dfdcd3;
  --bar: #c9dbe6; --first: #0b6e8f; --first-fill: #d7edf5; --second: #9a5b00;
  --second-fill: #fbe8c8; --conflict: #cf2f2f; --edge: #30363c; --outside: #f0eee8; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14181c; --card: #1c2228; --ink: #e6e9ec; --soft: #98a3ad; --line: #323a42;
  --bar: #2d4a5c; --first: #6cc4e4; --first-fill: #14394a; --second: #f0b659;
  --second-fill: #47330f; --conflict: #ff6b63; --edge: #c5ccd3; --outside: #20262c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 28px 24px 60px; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 25px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 38px 0 4px; }
p { margin: 4px 0 12px; max-width: 80ch; }
.soft, .note { color: var(--soft); }
code, .mono { font: 13px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 18px 0; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 10px 16px; min-width: 108px; }
.tile b { display: block; font-size: 21px; font-variant-numeric: tabular-nums; }
.card { padding: 14px 18px; margin: 12px 0; }
.card h3 { margin: 0 0 6px; font-size: 16px; }
.card.drawn { border-color: var(--conflict); }
.side { display: inline-block; padding: 0 10px; margin-right: 8px; border-radius: 11px;
  font-size: 13px; border: 1.5px solid; }
.side.first { color: var(--first); background: var(--first-fill); }
.side.second { color: var(--second); background: var(--second-fill); }
.side.clash { color: var(--conflict); }
.side.near { color: var(--soft); border-style: dashed; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; background: var(--card); font-size: 14px; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.bar { height: 7px; border-radius: 4px; background: var(--bar); margin-top: 3px; min-width: 2px; }
summary { cursor: pointer; }
details ul { margin: 4px 0; padding-left: 18px; columns: 2; }
.graph { display: block; margin: 0 auto; max-width: 100%; height: auto; }
.graph text { font: 12px ui-monospace, monospace; fill: var(--ink); }
.graph .place { text-anchor: end; fill: var(--soft); font-size: 11px; }
.graph .op { font-weight: 600; }
.block { fill: var(--card); stroke: var(--line); stroke-width: 1.3; }
.block.outside { fill: var(--outside); stroke-dasharray: 4 3; }
.edge { fill: none; stroke: var(--edge); stroke-width: 1.3; }
.edge.linked { stroke-dasharray: 5 4; }
.head { fill: var(--edge); }
.conflict { stroke: var(--conflict); stroke-width: 2.6; }
.pill rect { stroke-width: 1.5; }
.graph .pill text { text-anchor: middle; font-size: 11px; }
.pill.first rect { fill: var(--first-fill); stroke: var(--first); }
.pill.second rect { fill: var(--second-fill); stroke: var(--second); }
.pill.outside rect { fill: var(--outside); stroke: var(--soft); stroke-dasharray: 3 3; }
.board { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 10px; overflow-x: auto; }
"""
