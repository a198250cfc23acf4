"""The one style sheet of the site: readable on a phone and on a desk, by day and by night, without a script."""

STYLE = """\
:root {
  color-scheme: light dark;
  --paper: #fdfdfb; --ink: #1c2024; --muted: #5a6269; --line: #d8dcdf; --tint: #f1f3f2; --link: #0b57a4;
}
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #dfe3e6; --muted: #9aa4ac; --line: #343a40; --tint: #1e2327; --link: #8ab8f0; }
}
* { box-sizing: border-box; }
html { background: var(--paper); color: var(--ink); font: 1.05rem/1.6 system-ui, "Noto Sans", "DejaVu Sans", sans-serif;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1rem; }
body { margin: 0; }
a { color: var(--link); text-underline-offset: 0.15em; }
a:focus-visible, [tabindex]:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; top: 0.5rem; background: var(--paper); padding: 0.4rem 0.8rem; }
header { border-bottom: 1px solid var(--line); }
header div { max-width: 75rem; margin: 0 auto; padding: 0.7rem 1rem; display: flex; gap: 0.3rem 1rem;
  align-items: baseline; justify-content: space-between; flex-wrap: wrap; }
header a { text-decoration: none; }
header .name { font-weight: 650; color: var(--ink); }
.frame { max-width: 75rem; margin: 0 auto; padding: 0 1rem; display: grid; grid-template-columns: minmax(0, 1fr); }
main { min-width: 0; padding: 1rem 0 2rem; overflow-wrap: break-word; }
main > * { max-width: 46rem; }
main > .wide { max-width: none; }
h1, h2, h3, h4 { line-height: 1.25; margin: 2.2em 0 0.6em; text-wrap: balance; }
h1 { font-size: 1.75rem; margin-top: 0.6em; }
h2 { font-size: 1.3rem; padding-top: 0.6em; border-top: 1px solid var(--line); }
h3 { font-size: 1.1rem; }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.88em; }
:not(pre) > code { background: var(--tint); border-radius: 3px; padding: 0.1em 0.25em; overflow-wrap: anywhere; }
pre { background: var(--tint); border-radius: 6px; padding: 0.8rem 1rem; line-height: 1.45; }
.scroll, pre { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92em; line-height: 1.4; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: 0.4rem 0.9rem 0.4rem 0; text-align: left; vertical-align: top;
  max-width: 26rem; }
th { border-bottom-width: 2px; font-weight: 600; }
td code { overflow-wrap: normal; }
td.long { min-width: 11rem; }
math { font-family: "STIX Two Math", "Latin Modern Math", "Cambria Math", math; font-size: 1.06em; }
mtd { padding-block: 0.25ex; }
.formula { margin: 1.4rem 0; }
.formula .scroll { padding: 0.3rem 0; }
.formula math { font-size: 1.12em; }
.formula math[display="block"] { width: max-content; padding-inline: clamp(0rem, 3vw, 1.5rem); }
main > .formula { max-width: none; }
.formula figcaption { max-width: 46rem; }
figcaption { color: var(--muted); font-size: 0.84rem; line-height: 1.45; }
.drawing { margin: 1.6rem 0; }
.drawing img { display: block; width: 100%; min-width: 34rem; height: auto; margin-bottom: 0.5rem; }
data { text-decoration: underline dotted var(--line) 1px; text-underline-offset: 0.25em; }
td data { text-decoration: none; }
.path { color: var(--muted); border-bottom: 1px dotted var(--muted); }
nav ol, nav ul { list-style: none; margin: 0; padding: 0; }
nav h2 { font-size: 0.82rem; text-transform: uppercase; letter-spacing: 0.06em; color: var(--muted); border: 0;
  margin: 1.4rem 0 0.4rem; padding: 0; }
nav li { margin: 0; }
nav li a { display: block; padding: 0.3rem 0; text-decoration: none; line-height: 1.35; }
nav li a[aria-current] { font-weight: 650; color: var(--ink); }
nav .part a { font-size: 0.88rem; padding: 0.15rem 0 0.15rem 0.9rem; color: var(--muted); }
#contents { border-top: 1px solid var(--line); padding: 0 0 2rem; font-size: 0.95rem; }
.turn { display: flex; justify-content: space-between; gap: 1rem; flex-wrap: wrap; margin-top: 3rem;
  padding-top: 1rem; border-top: 1px solid var(--line); }
footer { border-top: 1px solid var(--line); color: var(--muted); font-size: 0.8rem; overflow-wrap: anywhere; }
footer div { max-width: 75rem; margin: 0 auto; padding: 0.8rem 1rem 1.5rem; }
@media (prefers-color-scheme: dark) {
  .drawing img { background: #fdfdfb; border-radius: 6px; padding: 0.6rem; }
}
@media (min-width: 62rem) {
  header .to-contents { display: none; }
  .frame { grid-template-columns: 15rem minmax(0, 1fr); column-gap: 3rem; }
  #contents { grid-column: 1; grid-row: 1; border-top: 0; position: sticky; top: 0; max-height: 100vh;
    overflow-y: auto; }
  main { grid-column: 2; grid-row: 1; }
}
@media print { header, #contents, .turn { display: none; } .scroll, pre { overflow: visible; } }
"""
