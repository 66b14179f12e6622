r"""The LaTeX that this package writes, as MathML Core, which browsers draw themselves.

Defines `mathml`, for a formula on one line, and `formula`, for one that may be broken at its marks (those of
`mha_sym.render.formulas.breaks`) wherever the page is too narrow.  Both know the commands that
`mha_sym.render.formulas.scripts`, `mha_sym.render.prose` and `mha_sym.proof.cards` write, and refuse others.  What
stands between `BEGIN` and `END` is of the class ``new``.  Few formulas are many: what was drawn is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile

from mha_sym.errors import Problem
from mha_sym.render.formulas.breaks import MARK, level_of
from mha_sym.render.formulas.latex_width import BEGIN, END
from mha_sym.render.formulas.scripts import GREEK
from mha_sym.render.pictures.parts import escaped

#: what stands before an operator, so that it is one between two operands
OPERAND, OPERATOR = True, False

#: a box that begins with fewer signs is no wider than the space that its other lines would leave
HANGS = 8

#: where a formula among words may be broken
ALLOW = r"\allowbreak"

_TOKEN = re.compile(r"\\[A-Za-z]+\s*|\\.|:=|\d+(?:\.\d+)?|\s+|.", re.DOTALL)

_LETTERS = {rf"\{name}": sign for name, sign in GREEK.items()} | {r"\varphi": "φ", r"\dots": "…"}
_BINARY = {
    "+": "+", "-": "−", "=": "=", "<": "<", ">": ">", ":=": "≔", r"\le": "≤", r"\ge": "≥", r"\cdot": "·",
    r"\times": "×", r"\mid": "∣",
}  # fmt: skip
_CLOSE_UP = {"/": "/", "*": "*", "|": "|", ".": ".", ":": ":", "!": "!", "?": "?"}
_OPEN = {"(": "(", "[": "[", r"\{": "{", r"\lfloor": "⌊"}
_SHUT = {")": ")", "]": "]", r"\}": "}", r"\rfloor": "⌋"}
_HEIGHTS = {r"\bigl": "1.2em", r"\bigr": "1.2em", r"\Bigl": "1.8em", r"\Bigr": "1.8em"}
_SPACES = {r"\,": ".167em", r"\;": ".278em", r"\ ": ".333em", r"\enspace": ".5em"}
_NAMES = {r"\max": "max", r"\exp": "exp", r"\bmod": "mod"}
_SCRIPTS = ("_", "^", "'")
_SILENT = {r"\textstyle", r"\displaystyle", r"\relax"}
_SIGNS = {
    r"\textbackslash": "\\", r"\textasciitilde": "~", r"\textasciicircum": "^", r"\textless": "<", r"\textgreater": ">",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Node:
    """An element, what to say instead of it, and whether an operand ends here; ``level`` only if it is a mark."""

    xml: str
    alt: str
    operand: bool = OPERAND
    level: int = -1


@lru_cache(maxsize=1 << 12)
def mathml(latex: str, *, display: bool = False) -> str:
    r"""The formula as one ``math`` element, with its text as ``alttext``.

    Raises:
        Problem: for a command that is not known, or braces that do not match.

    Example:
        >>> mathml(r"x_{r}")
        '<math alttext="x_r"><msub><mi>x</mi><mi>r</mi></msub></math>'
    """
    return _math([node for node in _Reader(latex).all() if node.level < 0], display)


@lru_cache(maxsize=1 << 12)
def formula(latex: str, *, display: bool = True) -> str:
    r"""The formula as boxes in boxes of ``math`` elements: outer marks are broken at before inner ones.

    Example:
        >>> from mha_sym.render.formulas.breaks import mark
        >>> formula(f"a {mark(0)}+ b").count("<math")
        2
    """
    return _boxes(list(_Reader(latex).all()), display)


def _boxes(nodes: Sequence[Node], display: bool) -> str:
    levels = {node.level for node in nodes if node.level >= 0}
    if not levels:
        return _math(nodes, display)
    outer, parts = min(levels), [list[Node]()]
    for node in nodes:
        if node.level == outer:
            parts.append([])
        else:
            parts[-1].append(node)
    return "".join(_part(part, display) for part in parts if part)


def _part(nodes: Sequence[Node], display: bool) -> str:
    """A box; it is of the class ``long`` if its lines after the first are to stand further in."""
    outer = min((node.level for node in nodes if node.level >= 0), default=None)
    first = "".join(node.alt for node in takewhile(lambda node: node.level != outer, nodes))
    name = "part" if outer is None or len(first) < HANGS else "part long"
    return f'<span class="{name}">{_boxes(nodes, display)}</span>'


def _math(nodes: Sequence[Node], display: bool) -> str:
    style = ' displaystyle="true"' if display else ""
    alt = re.sub(r"\s+", " ", "".join(node.alt for node in nodes)).strip()
    return f'<math{style} alttext="{escaped(alt)}">{"".join(node.xml for node in nodes)}</math>'


def _leaf(tag: str, text: str, attributes: str = "") -> str:
    return f"<{tag}{attributes}>{escaped(text)}</{tag}>"


def _operator(text: str, before: str = "", after: str = "", form: str = "") -> str:
    spaces = f' lspace="{before}" rspace="{after}"' if before else ""
    return _leaf("mo", text, (f' form="{form}"' if form else "") + spaces)


@lru_cache(maxsize=1 << 10)
def _sign(token: str, after: bool) -> Node | None:
    """A sign that takes nothing with it, ``after`` an operand or not; there are few, and formulas are made of them."""
    if token in _BINARY:
        form = "infix" if after else "prefix"
        return Node(_operator(_BINARY[token], form=form), _spaced(_BINARY[token], after), OPERATOR)
    if token in _OPEN:
        return Node(_leaf("mo", _OPEN[token], ' form="prefix" stretchy="false"'), _OPEN[token], OPERATOR)
    if token in _SHUT:
        return Node(_leaf("mo", _SHUT[token], ' form="postfix" stretchy="false"'), _SHUT[token])
    if token in (",", ";"):
        return Node(_operator(token, "0", ".167em"), token, OPERATOR)
    if token in _CLOSE_UP:
        return Node(_operator(_CLOSE_UP[token], "0", "0"), _CLOSE_UP[token], OPERATOR)
    if token in _SPACES:
        return Node(f'<mspace width="{_SPACES[token]}"/>', " ", after)
    if token[0].isdigit():
        return Node(_leaf("mn", token), token)
    if token in _LETTERS or (token.isalpha() and len(token) == 1):
        letter = _LETTERS.get(token, token)
        return Node(_leaf("mi", letter), letter)
    if token == r"\sum":
        return Node('<mo form="prefix" lspace="0" rspace=".167em">∑</mo>', "Σ", OPERATOR)
    if token in _NAMES:
        return Node(_named(_NAMES[token]), f" {_NAMES[token]} " if token == r"\bmod" else _NAMES[token], OPERATOR)
    return None


class _Reader:
    """Reads one formula from left to right."""

    def __init__(self, latex: str) -> None:
        self.latex = latex
        self.tokens = [token.rstrip() if token[0] == "\\" and len(token) > 2 else token for token in _split(latex)]
        self.place = 0

    def all(self) -> Iterator[Node]:
        """Everything; what is left over is an error."""
        yield from self.row()
        if self.place < len(self.tokens):
            raise self._problem(self.tokens[self.place])

    def row(self) -> list[Node]:
        """Nodes up to the end or to a closing brace, with scripts put on what they belong to."""
        found: list[Node] = []
        new, after = 0, OPERATOR
        while self.place < len(self.tokens) and self.tokens[self.place] != "}":
            token = self.tokens[self.place]
            self.place += 1
            if token in (BEGIN, END):
                new += 1 if token == BEGIN else -1
            elif token == ALLOW or MARK.match(token):
                found.append(_mark(token))
            elif not (token.isspace() or token in _SILENT):
                node = self._scripts(self._node(token, after))
                found.append(_new(node) if new else node)
                after = node.operand
        return found

    # ------------------------------------------------------------ one thing

    def _node(self, token: str, after: bool) -> Node:
        return _sign(token, after) or self._word(token)

    def _word(self, token: str) -> Node:
        if token in _HEIGHTS:
            return self._high(_HEIGHTS[token], token.endswith("l"))
        if token in _SIGNS:
            self._argument()
            return Node(_leaf("mtext", _SIGNS[token]), _SIGNS[token])
        if token[0] == "\\" and len(token) == 2:
            return Node(_leaf("mtext", token[1]), token[1])
        return self._built(token)

    def _built(self, token: str) -> Node:
        match token:
            case "{":
                self.place -= 1
                return _row(self._argument())
            case r"\frac" | r"\tfrac":
                above, below = _row(self._argument()), _row(self._argument())
                style = ' displaystyle="false"' if token == r"\tfrac" else ""
                return Node(f"<mfrac{style}>{above.xml}{below.xml}</mfrac>", f"{_held(above)}/{_held(below)}")
            case r"\sqrt":
                inside = _row(self._argument())
                return Node(f"<msqrt>{inside.xml}</msqrt>", f"√{_held(inside)}")
            case r"\operatorname" | r"\mathrm" | r"\mathit" | r"\mathsf":
                return _upright(self._text(), token == r"\mathit")
            case r"\text":
                text = self._text()
                return Node(_leaf("mtext", text.replace(" ", "\N{NO-BREAK SPACE}")), text)
        raise self._problem(token)

    def _high(self, height: str, opens: bool) -> Node:
        """A parenthesis of a given height."""
        token = self.tokens[self.place]
        self.place += 1
        sign, form = (_OPEN if opens else _SHUT).get(token, token), "prefix" if opens else "postfix"
        size = f' form="{form}" stretchy="true" symmetric="true" minsize="{height}" maxsize="{height}"'
        return Node(_leaf("mo", sign, size), sign, OPERATOR if opens else OPERAND)

    def _argument(self) -> list[Node]:
        """What stands in braces, or the next thing alone."""
        while self.tokens[self.place : self.place + 1] and self.tokens[self.place].isspace():
            self.place += 1
        token = self.tokens[self.place] if self.place < len(self.tokens) else ""
        self.place += 1
        if token != "{":
            if not token or token == "}":
                raise self._problem(token)
            return [self._node(token, OPERATOR)]
        found = [node for node in self.row() if node.level < 0]
        if self.place >= len(self.tokens):
            raise self._problem("{")
        self.place += 1
        return found

    def _text(self) -> str:
        """The words in braces."""
        end = self.place
        while end < len(self.tokens) and self.tokens[end] != "}":
            end += 1
        if end == len(self.tokens) or self.tokens[self.place] != "{":
            raise self._problem("{")
        words = "".join(token[1:] if token[0] == "\\" else token for token in self.tokens[self.place + 1 : end])
        self.place = end + 1
        return words

    def _scripts(self, base: Node) -> Node:
        """The node with the primes and the scripts that follow it."""
        if self.place >= len(self.tokens) or self.tokens[self.place] not in _SCRIPTS:
            return base
        below = above = None
        primes = 0
        while self.place < len(self.tokens) and self.tokens[self.place] in _SCRIPTS:
            sign = self.tokens[self.place]
            self.place += 1
            if sign == "'":
                primes += 1
            elif sign == "_":
                below = _row(self._argument())
            else:
                above = _row(self._argument())
        return _scripted(base, below, above, primes)

    def _problem(self, token: str) -> Problem:
        return Problem(f"{token or 'the end'} is not expected here", where=f"the formula {self.latex}")


def _split(latex: str) -> list[str]:
    return _TOKEN.findall(latex)


def _mark(token: str) -> Node:
    return Node("", "", OPERAND, 0 if token == ALLOW else level_of(token))


def _new(node: Node) -> Node:
    """The node in the class ``new``, too."""
    return replace(node, xml=re.sub(r'^<(\w+)(?: class="(\w+)")?', _in_class, node.xml))


def _in_class(found: re.Match[str]) -> str:
    return f'<{found[1]} class="new{" " + found[2] if found[2] else ""}"'


def _row(nodes: Sequence[Node]) -> Node:
    """Several nodes as one."""
    if len(nodes) == 1:
        return nodes[0]
    return Node(f"<mrow>{''.join(node.xml for node in nodes)}</mrow>", "".join(node.alt for node in nodes))


def _held(node: Node) -> str:
    """What to say, in parentheses if it is more than one thing."""
    text = node.alt.strip()
    return text if re.fullmatch(r"\w+|√\w+|[^\s+−/]+", text) else f"({text})"


def _spaced(sign: str, between: bool) -> str:
    return f" {sign} " if between else sign


def _named(name: str) -> str:
    """A function or an operator with a name."""
    if name == "mod":
        return _operator(name, ".222em", ".222em", "infix")
    limits = ' movablelimits="true"' if name == "max" else ""
    return _leaf("mo", name, f' form="prefix" lspace="0" rspace="{".167em" if name == "max" else "0"}"{limits}')


def _upright(text: str, slanted: bool) -> Node:
    """A word as a name; a letter alone would be slanted, and a word would not."""
    if text.isdigit():
        return Node(_leaf("mn", text), text)
    style = ' mathvariant="normal"' if len(text) == 1 and not slanted else ' class="it"' if slanted and text[1:] else ""
    return Node(_leaf("mi", text, style), text)


def _scripted(base: Node, below: Node | None, above: Node | None, primes: int) -> Node:
    alt = base.alt + (f"_{_short(below)}" if below else "") + "'" * primes + (f"^{_short(above)}" if above else "")
    if primes:
        prime = Node(_leaf("mo", "′" * primes, ' form="postfix" lspace="0" rspace="0"'), "")
        above = _row([prime, above]) if above else prime
    if below is None and above is None:
        return base
    limits = base.xml.startswith("<mo") and ("∑" in base.xml or "max" in base.xml)
    tag = ("munder" if limits else "msub") if above is None else "msup" if below is None else "msubsup"
    inside = "".join(node.xml for node in (base, below, above) if node is not None)
    return Node(f"<{tag}>{inside}</{tag}>", alt + (" " if limits else ""), base.operand)


def _short(node: Node) -> str:
    text = node.alt.strip()
    return text if re.fullmatch(r"[\w,]+|\([^()]*\)", text) else f"({text})"
