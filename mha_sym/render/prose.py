"""Sentences with formulas in them: finding the formulas, and writing them in Unicode or LaTeX.

The words of theorems are plain text such as ``split W_Q into (h, d_k)``.  Defines `pieces`, which tells formulas from
words, and `unicode_prose`, `latex_prose` and `markdown_prose`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from mha_sym.render.formulas.scripts import GREEK, SUPERSCRIPT, latex_escape, latex_name


@dataclass(frozen=True)
class Piece:
    """A stretch of a sentence: words, or a formula."""

    text: str
    formula: bool


#: what a label in parentheses may be: without spaces, or a sum as in W_Q^(h - 1)
_INSIDE = r"(?:[^()\s]*|\w+ [-+] \d+)"
_LABEL = rf"(?:\^\({_INSIDE}\)|\^T\b|\^\d+)"
#: a letter, or a short word with something below it: longer ones are names of claims, in words
_LETTER = rf"\b[A-HJ-Zb-hj-z]\b|(?<=\()a\b(?=\)| \+)|\b[Ii]\b(?={_LABEL}|\[)|\b(?:{'|'.join(GREEK)})\b"
_NAME = rf"(?:(?!mha_sym\b)[A-Za-z]{{1,4}}_[A-Za-z0-9]+(?![_A-Za-z0-9])|{_LETTER})(?!')"
_ATOM = rf"(?:{_NAME}(?:\[[^\]]*\])?{_LABEL}*|\d+[a-z]\b|\d+(?:\.\d+)?|sqrt\([\w*/ ]+\)|\.\.\.)"
_WORD = r"(?:Concat|softmax|layer|exp)(?=\()"
#: matrices that stand without a space between them: (XW)U, X(WU), QK^T
_RUN = r"(?:\([A-Z]{2,3}\)[A-Z]{1,2}(?![A-Za-z])|\b[A-Z]{1,2}\([A-Z]{2,3}\)|\b[A-Z]{2,3}\^T\b)"
_SIGN = r"(?:<=|>=|[-+=<>/*|]| x (?=\d))"
_OPEN = rf"(?:{_WORD})?[(\[]"
_TOKEN = re.compile(rf"\s*(?:(?P<run>{_RUN})|(?P<open>{_OPEN})|(?P<atom>{_ATOM})|(?P<sign>{_SIGN})|(?P<comma>,))")
#: where a formula may begin: a letter or digit after none, or a bracket
_START = re.compile(r"(?<![\w'-])[A-Za-z0-9]|(?<![_'-])[(\[]")


@lru_cache(maxsize=1 << 12)
def pieces(text: str) -> tuple[Piece, ...]:
    """The words and the formulas of a text, in order.

    Example:
        >>> [piece.text for piece in pieces("Split W_Q into (h, d_k), a head at a time.") if piece.formula]
        ['W_Q', '(h, d_k)']
        >>> [piece.text for piece in pieces("A gate on Z is a gate on the weights A.") if piece.formula]
        ['Z', 'A']
        >>> [piece.text for piece in pieces("It is (XW)U = X(WU), see a_b_c.") if piece.formula]
        ['(XW)U = X(WU)']
    """
    found: list[Piece] = []
    position = start = 0
    while position < len(text):
        end = _formula(text, position)
        if end is None:
            following = _START.search(text, position + 1)
            position = following.start() if following else len(text)
            continue
        if start < position:
            found.append(Piece(text[start:position], False))
        found.append(Piece(text[position:end], True))
        position = start = end
    if start < len(text):
        found.append(Piece(text[start:], False))
    return tuple(found)


def _formula(text: str, position: int) -> int | None:
    """Where the formula that begins at a position ends, or None if none begins there."""
    end, names = _run(text, position, inside=False)
    if end is None or not names:
        return None
    formula = text[position:end]
    return None if re.fullmatch(r"\.+|\d+", formula) else end


def _run(text: str, position: int, *, inside: bool) -> tuple[int | None, int]:
    """The end of the longest formula from a position on, and how many names, or numbers in parentheses, it has."""
    end: int | None = None
    names, here, first, operand = 0, position, True, False
    while True:
        token = _TOKEN.match(text, here)
        if token is None or (first and text[here : here + 1].isspace()):
            break
        if token["run"]:
            names, here, end, operand = names + 1, token.end(), token.end(), True
        elif token["open"]:
            close = _closing(text, token.end())
            if close is None:
                break
            names, here, end, operand = names + 1, close, close, True
        elif token["atom"]:
            if first and not inside and _is_article(text, position):
                break
            names += token["atom"][0].isalpha() or inside
            here, operand = token.end(), True
            end = here
        elif (token["sign"] and (operand or inside)) or (token["comma"] and inside):
            here, operand = token.end(), False
            end = here if inside else end
        else:
            break
        first = False
    if not inside and names == 0 and end is not None:
        return end, 0
    return end, names


def _closing(text: str, position: int) -> int | None:
    """The place after the bracket that closes what was opened before a position, if only a formula stands there."""
    end, names = _run(text, position, inside=True)
    if end is None or not names:
        return None
    rest = text[end:].lstrip()
    if not rest or rest[0] not in ")]":
        return None
    close = len(text) - len(rest) + 1
    power = re.compile(_LABEL).match(text, close)
    return power.end() if power else close


def _is_article(text: str, position: int) -> bool:
    """Whether a sentence begins here with the word "A"."""
    return text.startswith("A ", position) and (position == 0 or text[:position].rstrip()[-1:] in ".:")


# ---------------------------------------------------------------- writing


def unicode_prose(text: str, space: str = " ") -> str:
    """The text with the signs of mathematics in its formulas; ``space`` stands for the spaces in short ones.

    Example:
        >>> unicode_prose("(B, T, h*d_k) for s <= t, 4 d^2, sqrt(d_k)")
        '(B, T, h d_k) for s ≤ t, 4 d², √d_k'
    """
    return "".join(_unicode(piece.text, space) if piece.formula else piece.text for piece in pieces(text))


#: formulas with more characters than this may be broken
SHORT = 40


def _unicode(formula: str, space: str) -> str:
    formula = re.sub(r"sqrt\((\w+)\)", r"√\1", formula)
    formula = re.sub(r"\^(\d+)", lambda found: found[1].translate(SUPERSCRIPT), formula).replace("^T", "ᵀ")
    formula = re.sub(r"\bsum_", "Σ_", formula)
    formula = re.sub(rf"\b({'|'.join(GREEK)})\b", lambda found: GREEK[found[1]], formula)
    for sign, shown in (("<=", "≤"), (">=", "≥"), ("*", " "), (" x ", " × ")):
        formula = formula.replace(sign, shown)
    return formula.replace(" ", space) if len(formula) <= SHORT else formula


def latex_prose(text: str) -> str:
    r"""The text as LaTeX, formulas in dollars.

    Example:
        >>> print(latex_prose("Slice r of Q is Q^(r), 100% of it."))
        Slice $r$ of $Q$ is $Q^{(r)}$, 100\% of it.
    """
    return "".join(f"${latex_formula(p.text)}$" if p.formula else latex_words(p.text) for p in pieces(text))


def markdown_prose(text: str) -> str:
    """The text as Markdown, formulas in dollars."""
    return "".join(f"${latex_formula(p.text)}$" if p.formula else markdown_words(p.text) for p in pieces(text))


_PART = re.compile(
    r"(?P<root>sqrt\((?P<under>[\w*/ ]+)\))|(?P<name>[A-Za-z]+(?:_[A-Za-z0-9]+)?)"
    rf"|(?P<above>{_LABEL}+)"
    r"|(?P<sign>, |\],\[|<=|>=|\.\.\.|\.\.|[|*]| x (?=\d)|(?<=[\w)\]]) (?=[\w(\[]))|(?P<other>.)"
)
_LATEX_SIGNS = {
    "<=": r"\le", ">=": r"\ge", "...": r"\dots ", "..": r"\dots ", "|": r"\mid", " x ": r"\times ", "*": r"\,",
    " ": r"\,", ", ": r",\allowbreak ", "],[": r"],\allowbreak[",
}  # fmt: skip


def latex_formula(formula: str) -> str:
    r"""A formula of the plain text in LaTeX.

    Example:
        >>> print(latex_formula("sum_r Z^(r) W_O^(r)"))
        \sum_{r}\,Z^{(r)}\,W_{O}^{(r)}
    """
    return "".join(map(_latex_part, _PART.finditer(formula)))


def _latex_part(found: re.Match[str]) -> str:
    if found["root"]:
        return rf"\sqrt{{{latex_formula(found['under'])}}}"
    if found["name"]:
        return _latex_name(found["name"])
    if found["above"]:
        return f"^{{{''.join(map(_latex_label, found['above'].split('^')[1:]))}}}"
    return _LATEX_SIGNS.get(found["sign"], found["other"] or "")


def _latex_label(label: str) -> str:
    return r"\mathsf{T}" if label == "T" else f"({latex_formula(label[1:-1])})" if label[0] == "(" else label


def _latex_name(name: str) -> str:
    root, _, under = name.partition("_")
    if root.isupper() and not under:
        return root  # matrices side by side
    if root == "sum" and under:
        return rf"\sum_{{{under}}}"
    return latex_name(root, under) if root[0].isalpha() else name


_TYPESET = str.maketrans({
    "…": r"\dots{}", "–": "--", "—": "---", "−": "$-$", "·": r"$\cdot$", "×": r"$\times$", "≤": r"$\le$",
    "≈": r"$\approx$", "→": r"$\to$",
})  # fmt: skip


def printed(text: str) -> str:
    """Words with arrows and minus signs as they are printed.

    Example:
        >>> printed("at -2: well-known (h k) -> h k")
        'at −2: well-known (h k) → h k'
    """
    return re.sub(r"(?<![^\s(])-(?=\d)", "−", text.replace("->", "→"))


def latex_words(text: str) -> str:
    r"""Words with the characters escaped that mean something to LaTeX.

    Example:
        >>> print(latex_words("50% of \"A & B\""))
        50\% of ``A \& B''
    """
    quoted = re.sub(r'"([^"]*)"', r"``\1''", latex_escape(printed(text)).translate(_TYPESET))
    return quoted.replace("...", r"\dots{}")


def markdown_words(text: str) -> str:
    r"""Words with the characters escaped that mean something to Markdown.

    Example:
        >>> print(markdown_words("W_Q * 2"))
        W\_Q \* 2
    """
    return re.sub(r"([\\`*_\[\]<>$|#])", r"\\\1", text)

