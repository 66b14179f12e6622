r"""Formulas that this package writes in LaTeX, as Typst writes them.

Defines `typst_math`.  It knows the commands that `mha_sym.render.formulas.scripts`, `mha_sym.render.prose` and
`mha_sym.proof.cards` write, and refuses others.  A formula becomes several where it may be broken, at the places that
are marked with ``\cut``, ``\allowbreak`` or the signs of `mha_sym.render.formulas.breaks`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mha_sym.errors import Problem
from mha_sym.render.formulas.breaks import MARK
from mha_sym.render.formulas.scripts import GREEK

_TOKEN = re.compile(r"\\cut\{\d+\}|\\[A-Za-z]+\s*|\\.|:=|\d+(?:\.\d+)?|\s+|.", re.DOTALL)

_SIGNS = {rf"\{name}": sign for name, sign in GREEK.items()} | {
    r"\varphi": "φ", r"\dots": "…", r"\le": "≤", r"\ge": "≥", r"\cdot": "dot.op", r"\times": "×", r"\mid": "∣",
    r"\lfloor": "⌊", r"\rfloor": "⌋", r"\sum": "sum", r"\max": "max", r"\exp": "exp", r"\bmod": "mod", r"\,": "thin",
    r"\;": "med", r"\ ": "space", r"\enspace": "space.en", r"\qquad": "space.quad", r"\surd": '"√"', ":=": "≔",
    r"\textbackslash": r"\\", r"\textasciitilde": r"\~", r"\textasciicircum": r"\^", r"\textless": "<",
    r"\textgreater": ">", r"\to": "→", r"\approx": "≈", r"\ne": "≠", r"\Sigma": "Σ",
}  # fmt: skip
_SILENT = {r"\textstyle", r"\displaystyle", r"\relax", r"\limits"}
_HIGH = {r"\bigl": "1.2em", r"\bigr": "1.2em", r"\Bigl": "1.8em", r"\Bigr": "1.8em"}
_FUNCTIONS = {r"\frac": "frac", r"\tfrac": "inline", r"\sqrt": "sqrt"}
_WORDS = {r"\operatorname": "op", r"\mathrm": "upright", r"\mathit": "italic", r"\mathsf": "sans", r"\text": ""}


def typst_math(latex: str, *, display: bool = False) -> str:
    r"""The formula between dollars, in several pairs of them where it may be broken.

    Raises:
        Problem: for a command that is not known, or braces that do not match.

    Example:
        >>> print(typst_math(r"\frac{W_{Q}^{(r)}}{2}"))
        $frac(attach(W, b: Q, t: \( r \)), 2)$
        >>> print(typst_math(r"a \cut{40}+ b", display=True))
        $display(a)$ $display("" + b)$
    """
    parts = _Reader(latex).parts()
    return " ".join(f"$display({part})$" if display else f"${part}$" for part in parts)


class _Reader:
    """Reads one formula from left to right."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens: list[str] = [t if t.isspace() or len(t) < 3 else t.rstrip() for t in _TOKEN.findall(latex)]
        self.place = 0

    def parts(self) -> list[str]:
        """The formula, cut where it may be broken; a colour goes on in the next part."""
        found, coloured = [""], False
        for piece in self.row():
            if piece in ("new", "old"):
                coloured = piece == "new"
                found[-1] += " #new[$" if coloured else "$]"
            elif piece == "cut":
                found[-1] += "$]" * coloured
                found.append(" #new[$" * coloured)
            else:
                found[-1] += f" {piece}"
        if self.place < len(self.tokens):
            raise self._problem(self.tokens[self.place])
        return [_beginning(part) for part in found if part.strip() not in ("", "#new[$", "#new[$$]")]

    def row(self) -> Iterator[str]:
        """The pieces up to the end or to a closing brace: signs with their scripts, and where something happens."""
        while self.place < len(self.tokens) and self.tokens[self.place] != "}":
            token = self._next()
            if token.isspace() or token in _SILENT:
                continue
            if token in (r"\new", r"\old"):
                yield token[1:]
            elif token == r"\allowbreak" or token.startswith(r"\cut") or MARK.match(token):
                yield "cut"
            else:
                yield self._scripts(self._one(token))

    def _next(self) -> str:
        self.place += 1
        return self.tokens[self.place - 1]

    def _one(self, token: str) -> str:
        """A sign, or what a command makes of its arguments."""
        if token in _SIGNS:
            if token.startswith(r"\text"):
                self._argument()
            return _SIGNS[token]
        if token in _HIGH:
            return f"lr(size: #{_HIGH[token]}, {_literal(self._next())})"
        if token in _FUNCTIONS:
            arguments = [self._argument() for _ in range(1 if token == r"\sqrt" else 2)]
            inside = f"{_FUNCTIONS[token]}({', '.join(arguments)})"
            return f"inline(frac({', '.join(arguments)}))" if token == r"\tfrac" else inside
        if token in _WORDS:
            return f'{_WORDS[token]}("{self._text()}")' if _WORDS[token] else f'"{self._text()}"'
        if token == "{":
            self.place -= 1
            return self._argument()
        if token[0] == "\\" and token[1:].isalpha():
            raise self._problem(token)
        return token if token.isalnum() else _literal(token.removeprefix("\\"))

    def _argument(self) -> str:
        """What stands in braces, or the next thing alone."""
        while self.place < len(self.tokens) and self.tokens[self.place].isspace():
            self.place += 1
        if self.place >= len(self.tokens) or self.tokens[self.place] == "}":
            raise self._problem("")
        token = self._next()
        if token != "{":
            return self._one(token)
        inside = " ".join({"new": "#new[$", "old": "$]", "cut": ""}.get(one, one) for one in self.row())
        if self.place >= len(self.tokens):
            raise self._problem("{")
        self.place += 1
        return inside.strip() or '""'

    def _text(self) -> str:
        """The words in braces, as they stand in a string."""
        if self._next() != "{":
            raise self._problem("{")
        words = ""
        while self.place < len(self.tokens) and self.tokens[self.place] != "}":
            token = self._next()
            words += _SIGNS.get(token, token[1:] if token[0] == "\\" else token)
        if self.place >= len(self.tokens):
            raise self._problem("{")
        self.place += 1
        return words.replace("\\", r"\\").replace('"', r"\"")

    def _scripts(self, base: str) -> str:
        """The sign with its primes and with what stands above and below it."""
        above, below, primes = "", "", ""
        while self.place < len(self.tokens) and self.tokens[self.place] in ("_", "^", "'"):
            sign = self._next()
            if sign == "'":
                primes += " prime"
            elif sign == "_":
                below = self._argument()
            else:
                above = self._argument()
        scripts = [f"b: {below}"] * bool(below) + [f"t: {f'{primes} {above}'.strip()}"] * bool(above or primes)
        return f"attach({base}, {', '.join(scripts)})" if scripts else base

    def _problem(self, token: str) -> Problem:
        return Problem(f"{token or 'the end'} is not expected here", where=f"the formula {self.latex}")


def _beginning(part: str) -> str:
    """A part without space in front; an operator there still stands between two things."""
    part = re.sub(r"^(?: |thin )+", "", part)
    return f'"" {part}' if part[:2] in ("+ ", "- ", "= ") else part


def _literal(sign: str) -> str:
    """A sign that stands for itself."""
    return sign if sign in "+=<>-" or not sign.isascii() else f"\\{sign}"
