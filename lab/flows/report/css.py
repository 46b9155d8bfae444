"""How the page looks, on a screen and on A4; no font, picture or script from elsewhere."""

CSS = """
:root { --ink: #1f2328; --quiet: #59636e; --line: #d8dce2; --pale: #f5f6f8; --good: #00664a; --bad: #a4001c;
  --open: #7a4b00; --accent: #0072b2; }
* { box-sizing: border-box; }
html { color-scheme: light; }
body { margin: 0 auto; padding: 2rem 1.5rem 3rem; max-width: 54rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem; padding-top: .7rem; border-top: 1px solid var(--line); }
p { margin: .4rem 0 .8rem; }
.what { color: var(--quiet); margin: 0 0 .3rem; font-size: .95rem; }
.lead { color: var(--quiet); font-size: .95rem; max-width: 46rem; }
.verdict { display: flex; gap: 1rem; align-items: center; border: 1px solid var(--line);
  border-left: .5rem solid var(--tone); border-radius: .4rem; padding: 1rem 1.2rem; margin: .6rem 0 1rem; }
.verdict .mark { flex: none; width: 3rem; height: 3rem; border-radius: 50%; background: var(--tone);
  color: #fff; font-size: 1.7rem; line-height: 3rem; text-align: center; }
.verdict p { margin: .25rem 0 0; }
.good { --tone: var(--good); } .bad { --tone: var(--bad); } .open { --tone: var(--open); }
.plain { --tone: var(--accent); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.4rem, 1fr)); gap: .7rem;
  margin: 1rem 0; }
.facts div { background: var(--pale); border: 1px solid var(--line); border-radius: .4rem;
  padding: .6rem .8rem; }
.facts dt { color: var(--quiet); font-size: .85rem; }
.facts dd { margin: 0; font-size: 1.2rem; font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; }
.facts small { display: block; color: var(--quiet); font-size: .8rem; font-weight: 400; }
figure { margin: .6rem 0 1rem; }
figure img { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .93rem; margin: .4rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: .38rem .6rem; border-bottom: 1px solid var(--line); }
thead th { background: var(--pale); font-weight: 600; }
tbody th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.mark { white-space: nowrap; font-weight: 600; }
td.mark.yes { color: var(--good); } td.mark.no { color: var(--bad); }
code { font: .9em ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  overflow-wrap: anywhere; }
.missing li { white-space: pre-line; overflow-wrap: anywhere; }
.missing { background: #fff8e6; border: 1px solid #e3c98b; border-radius: .4rem; padding: .5rem 1rem; }
footer { margin-top: 2.5rem; padding-top: .6rem; border-top: 1px solid var(--line); color: var(--quiet);
  font-size: .85rem; }
@page { size: A4; margin: 15mm 15mm 17mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 9.5pt; line-height: 1.4; }
  h1 { font-size: 17pt; }
  h2 { break-after: avoid; margin-top: 1rem; }
  section, figure, tr, .verdict, .facts div, .missing { break-inside: avoid; }
  figure { margin: .3rem 0 .5rem; }
  figure img { width: 82%; }
  p { margin: .25rem 0 .5rem; }
  .facts { grid-template-columns: repeat(5, 1fr); gap: .4rem; }
  .facts div { padding: .4rem .5rem; }
  .facts dd { font-size: 1.05rem; }
  table { margin: .2rem 0 .6rem; font-size: .88rem; }
  td, th { padding: .2rem .5rem; }
  footer { break-before: avoid; margin-top: 1.2rem; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; }
  .verdict .mark, .facts div, thead th, .missing {
    -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""
