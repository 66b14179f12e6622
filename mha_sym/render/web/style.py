"""How a page looks: colours for light and for dark pages, and rules for narrow and for wide ones.

Defines `LIGHT`, `DARK`, the pairs of colours that must be told apart (`READ_ON`), and `style`.
"""

from __future__ import annotations

#: ground, tinted ground, text, faint text, lines, links, what a step changed, what is not proved, what is
LIGHT = {
    "ground": "#ffffff", "tint": "#f3f5f8", "ink": "#1a1c21", "faint": "#565d69", "line": "#c9ced6",
    "link": "#1f4fa3", "new": "#a63c00", "alarm": "#b00020", "good": "#1b6338",
}  # fmt: skip
DARK = {
    "ground": "#15171c", "tint": "#20242b", "ink": "#eceef2", "faint": "#a9b0bc", "line": "#454c58",
    "link": "#9dc1ff", "new": "#ffb27a", "alarm": "#ff8f9c", "good": "#8fd6a8",
}  # fmt: skip

#: colours of text, and the grounds on which they stand
READ_ON = tuple((text, on) for text in ("ink", "faint", "link", "new", "alarm", "good") for on in ("ground", "tint"))

_TEXT = 'background:var(--ground);color:var(--ink);font:1rem/1.55 Charter,"Bitstream Charter",Georgia,serif'

_FRAME = f"""
html{{color-scheme:light dark;-webkit-text-size-adjust:100%}}
body{{margin:0;{_TEXT}}}
main{{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 4rem}}
nav{{max-width:64rem;margin:0 auto;padding:.6rem 1rem 0;font-size:.9rem}}
nav.foot{{display:flex;flex-wrap:wrap;gap:.4rem 2rem;justify-content:space-between;padding-bottom:2rem}}
@media print{{html{{font-size:10pt}}nav{{display:none}}main{{padding:0}}}}
"""

_RULES = """
*{box-sizing:border-box}
h1{font-size:1.7rem;line-height:1.25;margin:.4rem 0}
h2{font-size:1.2rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;font-weight:600;margin:0;display:inline}
h3.below{display:block;margin:1.4rem 0 .4rem}
pre{font-size:.8rem;line-height:1.35;margin:0}
.beside{display:flex;flex-wrap:wrap;gap:0 2rem;align-items:flex-start}
.beside>.scroll{max-width:100%}
p,ul,ol{margin:.5rem 0}
p,li,td,dd,.formula{overflow-wrap:break-word}
a{color:var(--link)}
a:focus-visible,summary:focus-visible,.scroll:focus-visible{outline:2px solid var(--link);outline-offset:2px}
code{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:.88em;overflow-wrap:anywhere}
math{font-family:"Latin Modern Math","STIX Two Math","STIX Math","Cambria Math",math;font-size:1.08em}
math .it{font-style:italic}
math .new{color:var(--new)}
.faint,.why,figcaption,.range{color:var(--faint)}
.good{color:var(--good)}
.alarm{color:var(--alarm)}
p.verdict{font-weight:600}
p.verdict.alarm{border:2px solid var(--alarm);padding:.6rem .8rem;border-radius:.3rem}
.statement{background:var(--tint);border-left:4px solid var(--link);padding:.6rem .9rem;margin:1rem 0}
.scroll{overflow-x:auto;overflow-y:hidden}
.part{display:inline-flex;flex-wrap:wrap;align-items:baseline;row-gap:.25rem;max-width:100%}
.one{white-space:nowrap}
.formula>.part{margin-block:.1rem}
.long{padding-inline-start:1.1rem}
.long>:first-child{margin-inline-start:-1.1rem;max-width:calc(100% + 1.1rem)}
.formula>.long:first-child{padding-inline-start:2.5rem}
.formula>.long:first-child>:first-child{margin-inline-start:-2.5rem;max-width:calc(100% + 2.5rem)}
.formula{display:block;overflow-x:auto;overflow-y:hidden;padding-block:.12rem;padding-inline-start:1.4rem;
text-indent:-1.4rem}
.formula>*{text-indent:0}
table{border-collapse:collapse}
caption{text-align:start;color:var(--faint);padding-bottom:.3rem}
th,td{text-align:start;vertical-align:baseline;padding:.12rem 1.2rem .12rem 0;border-bottom:1px solid var(--line)}
th{font-weight:600}
details{border:1px solid var(--line);border-radius:.3rem;margin:.5rem 0;padding:.45rem .8rem}
details:target{border-color:var(--link);scroll-margin-top:1rem}
details[open]>summary{margin-bottom:.5rem}
summary{cursor:pointer}
summary .formula{margin-top:.25rem}
summary .why{display:block;font-size:.92rem}
.number{display:inline-block;min-width:1.5rem;color:var(--faint);font-variant-numeric:tabular-nums}
ol.chain{list-style:none;padding:0;margin:.6rem 0}
ol.chain>li,ul.rows>li{display:grid;grid-template-columns:1.6rem minmax(0,1fr) minmax(0,17rem);column-gap:.6rem;
align-items:baseline;padding:.1rem 0}
ul.rows{list-style:none;padding:0}
ul.rows>li{grid-template-columns:minmax(0,1fr) minmax(0,17rem)}
.why{font-size:.95rem}
.controls{list-style:none;padding:0}
.controls>li{padding:.5rem 0;border-bottom:1px solid var(--line)}
.controls p{margin:.15rem 0}
.checked{font-size:.92rem;color:var(--faint)}
@media(max-width:46rem){
ol.chain>li{grid-template-columns:1.6rem minmax(0,1fr)}
ol.chain>li>.why{grid-column:2}
ul.rows>li{grid-template-columns:minmax(0,1fr)}
h1{font-size:1.4rem}
th,td{padding-right:.7rem}
th:last-child,td:last-child{padding-right:0}
table.signs thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
table.signs tr,table.signs td{display:block;border:0;padding:0}
table.signs tr{border-bottom:1px solid var(--line);padding:.25rem 0}
table.signs td{display:inline-block;padding-right:1rem}
}
@media print{
details{border:0;padding:0}
details::details-content{content-visibility:visible;height:auto}
summary{list-style:none;break-after:avoid}
summary::-webkit-details-marker{display:none}
h1,h2,h3,.range{break-after:avoid}
.chain>li,.rows>li,tr,svg{break-inside:avoid}
.formula,.scroll{overflow:visible}
ol.chain>li{grid-template-columns:1.6rem minmax(0,1fr) 11rem}
ul.rows>li{grid-template-columns:minmax(0,1fr) 11rem}
ol.chain>li>.why{grid-column:auto}
a{color:inherit}
}
"""


def style(scope: str = "") -> str:
    """The rules for a whole page, or for what has the class ``scope`` and stands in a page of others.

    Example:
        >>> "prefers-color-scheme:dark" in style(), style("mha-sym").startswith(".mha-sym{")
        (True, True)
    """
    light, dark = (";".join(f"--{name}:{value}" for name, value in one.items()) for one in (LIGHT, DARK))
    where = f".{scope}" if scope else ":root"
    colours = f"{where}{{{light}}}\n@media(prefers-color-scheme:dark){{{where}{{{dark}}}}}"
    return f"{colours}\n{where}{{{_TEXT};padding:1rem;{_RULES}}}" if scope else f"{colours}{_FRAME}{_RULES}"
