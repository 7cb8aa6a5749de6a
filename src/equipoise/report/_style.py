"""How a report looks: one style sheet, light and dark, screen and paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1c1e21; --soft: #5c636e; --paper: #fdfdfc; --card: #f4f5f4; --line: #dcdfe2;
  --accent: #1f6f9f; --mark: #fdf1d8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4e6e9; --soft: #a0a7b1; --paper: #15171a; --card: #1e2125; --line: #343940;
    --accent: #6fb7e0; --mark: #3a3019;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 2.5rem 1.5rem 4rem; max-width: 62rem;
  background: var(--paper); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
}
h1 { margin: 0; font-size: 2rem; line-height: 1.2; letter-spacing: -0.01em; }
h2 {
  margin: 3rem 0 0.75rem; padding-top: 1.25rem; border-top: 1px solid var(--line);
  font-size: 1.4rem; line-height: 1.25;
}
p { margin: 0.75rem 0; max-width: 46rem; }
a { color: var(--accent); }
.lead { margin-top: 0.5rem; color: var(--soft); font-size: 1.1rem; }
nav ol { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; margin: 1.25rem 0 0; padding: 0; }
nav li { list-style-position: inside; color: var(--soft); }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
code { padding: 0.1em 0.3em; border-radius: 4px; background: var(--card); font-size: 0.88em; }
pre {
  margin: 0.75rem 0; padding: 0.9rem 1.1rem; overflow-x: auto;
  border: 1px solid var(--line); border-radius: 8px; background: var(--card);
  font-size: 0.86rem; line-height: 1.5;
}
pre code { padding: 0; background: none; font-size: inherit; }
.facts { display: flex; flex-wrap: wrap; gap: 0.75rem; margin: 1rem 0; padding: 0; }
.facts div {
  flex: 1 1 9rem; padding: 0.7rem 1rem; border-radius: 8px; background: var(--card);
}
.facts dt { color: var(--soft); font-size: 0.82rem; }
.facts dd { margin: 0; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
.scroll { margin: 1rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.93rem; font-variant-numeric: tabular-nums; }
caption { padding-bottom: 0.4rem; color: var(--soft); text-align: left; font-size: 0.88rem; }
th, td { padding: 0.35rem 1.25rem 0.35rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 1.5px solid var(--ink); font-weight: 600; vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); }
td.number { white-space: nowrap; }
td:first-child:not(.number) { min-width: 6rem; }
tr.differs td, tr.alike td { overflow-wrap: anywhere; }
tr.differs td { background: var(--mark); }
tr.differs td:first-child { padding-left: 0.5rem; white-space: nowrap; }
th.number, td.number { text-align: right; padding: 0.35rem 0 0.35rem 1.25rem; }
th.number:first-child, td.number:first-child { padding-left: 0; }
th.number + th:not(.number), td.number + td:not(.number) { padding-left: 1.75rem; }
.figures { display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; align-items: flex-end; }
figure { margin: 1rem 0; max-width: 100%; }
figure svg, figure img { display: block; max-width: 100%; height: auto; }
figure svg { fill: currentColor; }
figure img { border-radius: 8px; background: #fff; }
figcaption {
  contain: inline-size; /* as wide as the picture, so that pictures stand side by side */
  max-width: 40rem; margin-top: 0.35rem; color: var(--soft); font-size: 0.88rem;
}
details { margin: 0.75rem 0; }
summary { cursor: pointer; color: var(--accent); }
footer { margin-top: 3.5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
footer, footer table { color: var(--soft); font-size: 0.88rem; }
footer h2 { margin: 0 0 0.5rem; padding: 0; border: 0; font-size: 1rem; color: var(--ink); }
@media print {
  body { max-width: none; padding: 0; }
  nav { display: none; }
  figure, table, pre { break-inside: avoid; }
}
"""
