"""How much room a formula in LaTeX needs, about: enough to choose between a fraction and a product.

Defines `latex_width`, in widths of the letter M, and the marks `BEGIN` and `END`.  It knows the commands that
`mha_sym.render.formulas.scripts` writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from mha_sym.render.formulas.breaks import plain

#: widths of signs with the space around them; letters and what is not here are as wide as `LETTER`
SIGNS = {
    "[": 0.28, "]": 0.28, "(": 0.39, ")": 0.39, ",": 0.45, ";": 0.45, "+": 1.22, "-": 1.22, "=": 1.34, "<": 1.34,
    "/": 0.5, ":": 0.6, "'": 0.28, " ": 0.0,
    r"\sum": 1.6, r"\max": 2.2, r"\exp": 2.0, r"\le": 1.34, r"\bmod": 3.2, r"\cdot": 0.72, r"\times": 1.22,
    r"\mid": 0.8, r"\dots": 1.3, r"\,": 0.17, r"\lfloor": 0.45, r"\rfloor": 0.45, r"\sqrt": 0.85,
    r"\Bigl": 0.3, r"\Bigr": 0.3, r"\bigl": 0.1, r"\bigr": 0.1, r"\operatorname": 0.17,
    r"\mathrm": 0.0, r"\mathit": 0.0, r"\allowbreak": 0.0, r"\new": 0.0, r"\old": 0.0,
}  # fmt: skip
LETTER, SCRIPT = 0.54, 0.72

#: around what a step changed; they have no width, and mean nothing in Unicode
BEGIN, END = "\ue030", "\ue031"

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.")


def latex_width(text: str) -> float:
    r"""The width of a formula.

    Example:
        >>> round(latex_width(r"\frac{a}{b + c}"), 1), round(latex_width("x_{r}"), 2)
        (2.5, 0.93)
    """
    return _whole(plain(text).replace(BEGIN, "").replace(END, ""))


@lru_cache(maxsize=1 << 12)
def _whole(text: str) -> float:
    return _width(iter(_TOKEN.findall(text)))


def _width(tokens: Iterator[str]) -> float:
    """The width up to the end, or to the brace that closes what was opened before."""
    width = 0.0
    for token in tokens:
        if token == "}":
            break
        if token == "{":
            width += _width(tokens)
        elif token in ("^", "_"):
            width += SCRIPT * _argument(tokens)
        elif token in (r"\frac", r"\tfrac"):
            width += 0.24 + max(_argument(tokens), _argument(tokens))
        else:
            width += SIGNS.get(token, LETTER)
    return width


def _argument(tokens: Iterator[str]) -> float:
    token = next(tokens, "")
    return _width(tokens) if token == "{" else SIGNS.get(token, LETTER)
