"""What the report looks like: its style sheet, and the few lines of script that filter the list of episodes."""

from __future__ import annotations

#: The page reaches for nothing: no script, style, font or picture of others can be loaded.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)

STYLE = """
:root { color-scheme: light dark; --text: #1d2127; --soft: #57606a; --ground: #ffffff; --raised: #f5f6f8;
  --edge: #d0d5db; --bad: #b3261e; --good: #1a6e37; --c0: #0b62a8; --c1: #b8560b; --c2: #00795c; --c3: #a0387f;
  --c4: #7a6a00; --c5: #5a4fcf; --c6: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7eb; --soft: #a3abb5; --ground: #14171b;
  --raised: #1d2127; --edge: #3a414a; --bad: #ff8a80; --good: #7bd69a; --c0: #6cb6f5; --c1: #f2a35e; --c2: #4fc9a7;
  --c3: #e58cc8; --c4: #d8c64a; --c5: #a9a2ff; --c6: #9aa3ad; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 60rem; background: var(--ground); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .25rem 0 .75rem; } .soft { color: var(--soft); } .bad { color: var(--bad); } .good { color: var(--good); }
a { color: var(--c0); } nav { display: flex; flex-wrap: wrap; gap: 0 1rem; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
dl.facts div { background: var(--raised); border: 1px solid var(--edge); border-radius: .4rem; padding: .5rem .75rem; }
dl.facts dt { color: var(--soft); font-size: .85rem; }
dl.facts dd { margin: 0; font-size: 1.1rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font-size: 12px; }
.grid { stroke: var(--edge); stroke-width: 1; } .line { fill: none; stroke: var(--c); stroke-width: 2; }
.whisker { fill: none; stroke: var(--text); stroke-width: 1.5; }
.fill { fill: var(--c); } .band { fill: var(--c); opacity: .18; }
.c0 { --c: var(--c0); } .c1 { --c: var(--c1); } .c2 { --c: var(--c2); } .c3 { --c: var(--c3); }
.c4 { --c: var(--c4); } .c5 { --c: var(--c5); } .c6 { --c: var(--c6); }
.legend { font-size: .85rem; color: var(--soft); } .key { margin-right: 1rem; white-space: nowrap; }
.swatch { display: inline-block; width: .8rem; height: .8rem; border-radius: .15rem; background: var(--c);
  margin-right: .35rem; vertical-align: -.05rem; }
details { border: 1px solid var(--edge); border-radius: .4rem; margin: .4rem 0; }
summary { cursor: pointer; padding: .4rem .75rem; background: var(--raised); border-radius: .4rem; }
details > div { padding: .25rem .75rem .75rem; overflow-x: auto; }
summary:focus-visible, select:focus-visible, a:focus-visible { outline: 2px solid var(--c0); outline-offset: 2px; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .2rem .75rem .2rem 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
pre { margin: .15rem 0 .5rem; padding: .5rem .75rem; background: var(--raised); border-radius: .3rem;
  white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; line-height: 1.4; }
.role { font-size: .8rem; color: var(--soft); margin: .5rem 0 0; }
.assistant + pre { border-left: 3px solid var(--c0); }
.tool + pre { border-left: 3px solid var(--c2); } .tag { font-size: .8rem; border: 1px solid var(--edge);
  border-radius: .8rem; padding: 0 .5rem; margin-left: .4rem; color: var(--soft); display: inline-block; }
.facts-line { font-size: .85rem; }
select { font: inherit; padding: .2rem .4rem; background: var(--raised); color: var(--text);
  border: 1px solid var(--edge); border-radius: .3rem; }
[hidden] { display: none; }
@media (max-width: 40rem) { svg text { font-size: 20px; } svg .axis { display: none; } }
@media print { details > div { display: block; } nav, .filter { display: none; } }
"""

SCRIPT = """
const filter = document.getElementById('filter'), count = document.getElementById('count');
if (filter) {
  filter.closest('.filter').hidden = false;
  const show = () => {
    let shown = 0;
    for (const episode of document.querySelectorAll('.episode')) {
      const fits = !filter.value || episode.dataset.kinds.split(' ').includes(filter.value);
      episode.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown + ' shown';
  };
  filter.addEventListener('change', show);
  show();
}
"""


def page(title: str, body: str) -> str:
    """A whole document; `title` and `body` are HTML."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head>"
        f"<body>{body}<script>{SCRIPT}</script></body></html>\n"
    )
