"""Parts of SVG pictures: escaped text, elements, the frame with title and description, and how axes and heads look.

Defines `Picture`, `element`, `label`, and the looks `AXES` and `HEADS`.  A look is a colour, a pattern and a line style
together, so that nothing rests on colour alone; each colour is given for light and for dark pages.  What is drawn is
decided in `mha_sym.render.pictures.svg` and `mha_sym.render.pictures.cells`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

#: what XML cannot hold, whatever the escape
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: a shape or a product axis, which no line end should cut, and the space that holds it together
_BRACKETS, _GLUE = re.compile(r"\([^()]{1,24}\)"), "\N{NO-BREAK SPACE}"

#: ground, text, faint lines and the mark of what is wrong, on light and on dark pages
LIGHT = {"ground": "#ffffff", "ink": "#1a1c21", "line": "#6b7280", "wrong": "#b00020"}
DARK = {"ground": "#15171c", "ink": "#f2f3f6", "line": "#9aa2b1", "wrong": "#ff8f9c"}

#: the width of a character, as a part of the size of the letters, on the safe side of common sans-serif fonts
_ADVANCE, _BOLD = 0.56, 0.66


@dataclass(frozen=True, slots=True)
class Look:
    """How one axis or one head is drawn: fills on light and dark pages, a pattern, and the dashes of its line."""

    light: str
    dark: str
    pattern: str
    dashes: str


#: patterns as what is drawn in a square of side 6
PATTERNS = {
    "plain": "",
    "level": '<path d="M0 3H6"/>',
    "upright": '<path d="M3 0V6"/>',
    "rising": '<path d="M-1 1L1 -1M0 6L6 0M5 7L7 5"/>',
    "falling": '<path d="M-1 5L1 7M0 0L6 6M5 -1L7 1"/>',
    "dots": '<circle cx="3" cy="3" r=".8"/>',
    "grid": '<path d="M0 3H6M3 0V6"/>',
    "crossed": '<path d="M0 6L6 0M0 0L6 6"/>',
    "rings": '<circle cx="3" cy="3" r="1.9"/>',
}

#: the looks of axes: the letters that the language fixes, then others in the order in which they come
AXES = {
    "b": Look("#dcdfe4", "#454a53", "plain", "1 3"),
    "t": Look("#b9d9f6", "#1c4e7d", "level", "none"),
    "s": Look("#bfe8cf", "#1b5a3a", "upright", "9 3"),
    "m": Look("#dccbf6", "#533a82", "dots", "2 2"),
    "h": Look("#ffd2a3", "#7c4410", "rising", "10 3 2 3"),
    "k": Look("#f9c6dd", "#7c2951", "falling", "5 3"),
    "v": Look("#efe59c", "#5d5510", "crossed", "8 2 2 2 2 2"),
}
_OTHERS = (
    Look("#c6eeee", "#125a5a", "grid", "4 2"),
    Look("#e9d5c3", "#5f4733", "rings", "7 2 1 2"),
    Look("#d5e7b4", "#405a1b", "level", "3 4"),
)

#: the looks of heads 0, 1, ..., shades of the colour of their axis; after the last they begin again
HEADS = (
    Look("#fff4e6", "#33261a", "plain", "none"),
    Look("#f6ab5c", "#8a531a", "rising", "none"),
    Look("#ffd9ad", "#5c3c1a", "dots", "none"),
    Look("#e69244", "#9a5f20", "grid", "none"),
    Look("#fbe7c3", "#45301c", "falling", "none"),
    Look("#f3bd82", "#74481a", "level", "none"),
)


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """The look of each axis, by name: the same in every picture for the letters of the language.

    Example:
        >>> looks_of(["t", "past", "h"])["h"] == AXES["h"]
        True
    """
    found: dict[str, Look] = {}
    others = 0
    for name in dict.fromkeys(names):
        found[name] = AXES.get(name) or _OTHERS[others % len(_OTHERS)]
        others += name not in AXES
    return found


def escaped(text: str) -> str:
    """Text as it may stand in an element or an attribute.

    Example:
        >>> escaped('a < "b"') == 'a &lt; &quot;b&quot;'
        True
    """
    return escape(_FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


def element(tag: str, inner: str = "", **attributes: str | float) -> str:
    """One element; an underscore at the end of a name is dropped, and one inside it stands for a hyphen.

    Example:
        >>> element("rect", x=1, width=2.50, class_="a")
        '<rect x="1" width="2.5" class="a"/>'
    """
    told = "".join(f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"' for name, value in attributes.items())
    return f"<{tag}{told}>{inner}</{tag}>" if inner else f"<{tag}{told}/>"


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def label(text: str, x: float, y: float, size: float = 12, width: float = 0, **attributes: str | float) -> str:
    """A line of text; one that would be wider than ``width`` is pressed together to fit."""
    if width and len(text) * size * _advance(attributes.get("class_") == "bold") > width:
        attributes |= {"textLength": width, "lengthAdjust": "spacingAndGlyphs"}
    return element("text", escaped(text), x=x, y=y, font_size=size, **attributes)


def _advance(bold: bool) -> float:
    return _BOLD if bold else _ADVANCE


def folded(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """Text in lines of at most ``width``; a word that is wider stands alone, and what is in brackets is one word.

    Example:
        >>> folded("split the last axis", 80, 12)
        ['split the', 'last axis']
    """
    most = width / (size * _advance(bold))
    lines: list[str] = []
    for word in filter(None, _BRACKETS.sub(lambda found: found[0].replace(" ", _GLUE), text).split(" ")):
        if lines and len(lines[-1]) + 1 + len(word) <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


@dataclass
class Picture:
    """A picture that is being drawn: what is on it, its title, and its description for those who do not see it.

    Every name inside is made of ``id``, which follows from title, description and ``key``, so that several pictures can
    stand in one page, equal ones if they have different keys; the style counts inside the picture only.
    """

    title: str
    desc: str
    looks: Sequence[tuple[str, Look]]
    key: str = ""
    parts: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The name of the picture in a page."""
        told = "\n".join([self.title, self.desc, self.key, *(name for name, _ in self.looks)])
        return "mha-" + hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:10]

    def add(self, *parts: str) -> None:
        """Draw on top of what is there."""
        self.parts += parts

    def patch(self, name: str, x: float, y: float, width: float, height: float, band: float = 0, **more: str) -> None:
        """A field in the look of that name; its pattern fills it, or only a band of that height at its foot."""
        css = self._css(name)
        self.add(element("rect", x=x, y=y, width=width, height=height, class_=f"fill {css}", **more))
        if dict(self.looks)[name].pattern != "plain":
            low = band or height
            url = f"url(#{self.id}-{css})"
            self.add(element("rect", x=x, y=y + height - low, width=width, height=low, fill=url))

    def thread(self, name: str, d: str) -> None:
        """A line in the look of that name, along a path: dashes on a ribbon of the colour."""
        self.add(element("path", d=d, class_=f"ribbon {self._css(name)}-line"))
        self.add(element("path", d=d, class_="thread", stroke_dasharray=dict(self.looks)[name].dashes))

    def _css(self, name: str) -> str:
        return f"look{[one for one, _ in self.looks].index(name)}"

    def svg(self, width: float, height: float) -> str:
        """The whole picture as one element, with everything that it needs inside."""
        name = self.id
        head = [
            element("title", escaped(self.title), id=f"{name}-title"),
            element("desc", escaped(self.desc), id=f"{name}-desc"),
            element("style", self._style()),
            element("defs", "".join(self._pattern(one, look) for one, look in self.looks)) if self.looks else "",
            element("rect", class_="ground", width=width, height=height),
        ]
        return element(
            "svg", "\n" + "\n".join([*head, *self.parts]) + "\n",
            xmlns="http://www.w3.org/2000/svg", id=name, role="img", aria_labelledby=f"{name}-title {name}-desc",
            viewBox=f"0 0 {_value(width)} {_value(height)}", width=width, height=height,
            style="max-width:100%;height:auto",
        )  # fmt: skip

    def _pattern(self, name: str, look: Look) -> str:
        drawn = PATTERNS[look.pattern]
        if not drawn:
            return ""
        return element(
            "pattern", drawn, id=f"{self.id}-{self._css(name)}", width=6, height=6, patternUnits="userSpaceOnUse",
            class_="pattern",
        )  # fmt: skip

    def _style(self) -> str:
        root = f"#{self.id}"
        rules = [
            f"{root} text{{font-family:system-ui,'DejaVu Sans',Arial,sans-serif}}",
            f"{root} .bold{{font-weight:600}}",
            f"{root} .thread{{fill:none;stroke-width:1.6}}",
            f"{root} .ribbon{{fill:none;stroke-width:7}}",
            f"{root} .halo{{paint-order:stroke;stroke-width:4;stroke-linejoin:round}}",
            f"{root} .frame{{fill:none;stroke-width:1.4}}",
            f"{root} .mark{{fill:none;stroke-width:2.2}}",
            f"{root} .pattern *{{fill:none;stroke-width:.9;stroke-opacity:.55}}",
            *self._scheme(LIGHT, "light"),
        ]
        return "\n".join([*rules, "@media (prefers-color-scheme:dark){", *self._scheme(DARK, "dark"), "}"])

    def _scheme(self, colours: dict[str, str], scheme: str) -> list[str]:
        root = f"#{self.id}"
        return [
            f"{root} .ground{{fill:{colours['ground']}}}",
            f"{root} .halo{{stroke:{colours['ground']}}}",
            f"{root} text{{fill:{colours['ink']}}}",
            f"{root} .thread,{root} .frame,{root} .pattern *{{stroke:{colours['ink']}}}",
            f"{root} .faint{{stroke:{colours['line']};fill:none}}",
            f"{root} .mark{{stroke:{colours['wrong']}}}",
            f"{root} text.wrong{{fill:{colours['wrong']}}}",
            *(
                f"{root} .{css}{{fill:{colour}}}{root} .{css}-line{{stroke:{colour}}}"
                for css, colour in ((self._css(name), getattr(look, scheme)) for name, look in self.looks)
            ),
        ]
