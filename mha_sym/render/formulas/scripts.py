"""The two scripts in which terms are written: Unicode, as it stands in a terminal, and LaTeX.

Defines `Unicode` and `Latex`, and `latex_escape` and `latex_name` for words.  Which signs,
fractions and parentheses a term needs is decided in `mha_sym.render.formulas.notation`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mha_sym.proof.terms import Apply, Bind, Term, children
from mha_sym.render.formulas.breaks import mark, plain
from mha_sym.render.formulas.latex_width import latex_width
from mha_sym.render.formulas.notation import SUM, Notation, Symbol

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eta": "η", "theta": "θ", "lambda": "λ",
    "mu": "μ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "phi": "φ", "psi": "ψ", "omega": "ω",
}  # fmt: skip
SUBSCRIPT, SUPERSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"), str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

#: how many widths of the letter M an exponent may have, for it cannot be broken
EXPONENT = 9.0
#: what stands below a fraction in plain text is not put on a line of its own if it is no longer
SHORT = 12


@dataclass(frozen=True)
class Unicode(Notation):
    """Plain text: ``Σ_m X[b,t,m] W_Q^(r)[m,j]``.

    Example:
        >>> from mha_sym.proof.terms import ONE, Add, At, Entry, Mul, Num, Size
        >>> minus = Mul((Num(Fraction(-1)), Entry("S", (At(0),)), Size("d_k", Fraction(-1, 2))))
        >>> plain(Unicode().term(Add((ONE, minus))))
        '1 - S[0] / √d_k'
    """

    def name(self, symbol: Symbol, labels: Sequence[str] = ()) -> str:
        """``W_Q``, ``Z'``, ``Z₁₂``, ``Q^(r)``."""
        text = GREEK.get(symbol.root, symbol.root) + (f"_{symbol.block}" if symbol.block else "")
        text += str(symbol.number).translate(SUBSCRIPT) if symbol.numbered and symbol.number else "'" * symbol.number
        return f"{text}^({','.join(labels)})" if labels else text

    def letter(self, name: str) -> str:
        """``r``, ``r₁``."""
        name = self.letters.get(name, name)
        stem = name.rstrip("0123456789")
        return stem + name[len(stem) :].translate(SUBSCRIPT)

    def size_name(self, name: str) -> str:
        """``d_k``."""
        return name

    def permuted(self, name: str, inverse: bool, index: str) -> str:
        """``π⁻¹(r)``."""
        return f"{GREEK.get(name, name)}{'⁻¹' if inverse else ''}({index})"

    def at(self, indices: Sequence[str], family: Sequence[str] = ()) -> str:
        """``[b,t,m]``, ``[r; b,t,m]``, and ``[b, t, r d_k + j]`` with room where a position is a formula."""
        if not indices and not family:
            return ""
        comma = ", " if any(" " in one for one in (*family, *indices)) else ","
        return "[" + "; ".join(comma.join(part) for part in (family, indices) if part) + "]"

    def number(self, value: Fraction) -> str:
        """``1/2``."""
        return str(value)

    def power(self, base: str, exponent: Fraction) -> str:
        """``T²``, ``√d_k``, ``d_k^(3/2)``."""
        if exponent == Fraction(1, 2):
            return f"√{base}"
        if exponent.denominator != 1:
            return f"{base}^({exponent})"
        return base if exponent == 1 else base + str(exponent).translate(SUPERSCRIPT)

    def binder(self, op: str, letter: str, size: str) -> str:
        """``Σ_m``, ``max_s``, ``Σ_(c<h d_k)``."""
        return f"{'Σ' if op == 'sum' else op}_{f'({letter}<{size})' if size else letter} "

    def compare(self, op: str, left: str, right: str) -> str:
        """``[s ≤ t]``."""
        return f"[{left} {'≤' if op == 'le' else '='} {right}]"

    def quotient(self, number: str, size: str) -> str:
        """``⌊c/d_k⌋``."""
        return f"⌊{number}/{size}⌋"

    def remainder(self, number: str, size: str) -> str:
        """``c mod d_k``."""
        return f"{number} mod {size}"

    def apply(self, name: str, arg: Term, level: int) -> str:
        """``exp(x)``."""
        return f"{name}({self.written(arg, level + 2)[0]})"

    def ratio(self, above: Sequence[Term], below: Sequence[Term], alone: bool, level: int) -> str:
        """``a b / (c d)``; in parentheses among other factors."""
        inner = level if alone else level + 2
        over = self.factors(above, False, inner) if above else "1"
        under = self.factors(below, len(below) > 1, inner + 2)
        if len(below) > 1:
            under = f"({under})"
        text = f"{over} {mark(inner) if len(plain(under)) > SHORT else ''}/ {under}"
        return text if alone else f"({text})"


@dataclass(frozen=True)
class Latex(Notation):
    r"""LaTeX for mathematics mode: ``\sum_{m} X[b,t,m]\,W_Q^{(r)}[m,j]``.

    Example:
        >>> from mha_sym.proof.terms import At, Entry, Mul, Size
        >>> print(plain(Latex().term(Mul((Entry("S", (At(0),)), Size("d_k", Fraction(-1, 2)))))))
        \frac{S[0]}{\sqrt{d_{k}}}
    """

    #: how many widths of the letter M a fraction may have, for it cannot be broken
    FRACTION = 34.0
    SPACE, DOT = r"\,", r"\cdot"
    LEAST, TIMES, ANY, OR = r"\le", r"\times", r"\dots ", r"\text{ or }"

    def name(self, symbol: Symbol, labels: Sequence[str] = ()) -> str:
        """``W_{Q}``, ``Z'``, ``Z_{12}``, ``Q^{(r)}``."""
        root, _, under = symbol.root.partition("_")
        numbered = symbol.numbered and symbol.number
        text = latex_name(root, under, symbol.block, str(symbol.number) if numbered else "")
        text += "" if numbered else "'" * symbol.number
        return text + (f"^{{({','.join(labels)})}}" if labels else "")

    def letter(self, name: str) -> str:
        """``r``, ``r_{1}``."""
        name = self.letters.get(name, name)
        stem = name.rstrip("0123456789")
        text = GREEK_LATEX.get(stem) or (stem if len(stem) == 1 else rf"\mathit{{{latex_escape(stem)}}}")
        return text + (f"_{{{name[len(stem) :]}}}" if name != stem else "")

    def size_name(self, name: str) -> str:
        r"""``d_{\mathrm{model}}``."""
        root, _, under = name.partition("_")
        return _upright(root, r"\mathit") + (f"_{{{_upright(under)}}}" if under else "")

    def permuted(self, name: str, inverse: bool, index: str) -> str:
        r"""``\pi^{-1}(r)``."""
        return f"{GREEK_LATEX.get(name) or _upright(name, chr(92) + 'mathit')}{'^{-1}' if inverse else ''}({index})"

    def at(self, indices: Sequence[str], family: Sequence[str] = ()) -> str:
        r"""``[b,t,m]``, ``[r;\,b,t,m]``, with room before a position that is a formula."""
        if not indices and not family:
            return ""
        listed = [
            ",".join(r"\," + one if n and " " in one else one for n, one in enumerate(part))
            for part in (family, indices) if part
        ]  # fmt: skip
        return "[" + r";\,".join(listed) + "]"

    def number(self, value: Fraction) -> str:
        r"""``\tfrac{1}{2}``."""
        return str(value) if value.denominator == 1 else rf"\tfrac{{{value.numerator}}}{{{value.denominator}}}"

    def power(self, base: str, exponent: Fraction) -> str:
        r"""``T^{2}``, ``\sqrt{d_k}``."""
        if exponent == Fraction(1, 2):
            return rf"\sqrt{{{base}}}"
        return base if exponent == 1 else f"{base}^{{{exponent}}}"

    def binder(self, op: str, letter: str, size: str) -> str:
        r"""``\sum_{m}``, ``\sum_{c<h d_k}``."""
        return rf"\{op}_{{{f'{letter}<{size}' if size else letter}}} "

    def compare(self, op: str, left: str, right: str) -> str:
        r"""``[s \le t]``."""
        return rf"[{left} {chr(92) + 'le' if op == 'le' else '='} {right}]"

    def quotient(self, number: str, size: str) -> str:
        r"""``\lfloor c/d_k\rfloor``."""
        return rf"\lfloor {number}/{size}\rfloor"

    def remainder(self, number: str, size: str) -> str:
        r"""``c \bmod d_k``."""
        return rf"{number} \bmod {size}"

    def group(self, text: str) -> str:
        """Parentheses as high as what stands in them; of fixed sizes, so that lines may be broken inside."""
        if r"\sum" in text or r"\max" in text or r"\frac" in text:
            return rf"\Bigl({text}\Bigr)"
        return rf"\bigl({text}\bigr)" if r"\sqrt" in text or "{(" in text else f"({text})"

    def apply(self, name: str, arg: Term, level: int) -> str:
        """The exponential of what is short as a power of e, everything else as a function."""
        text = self.written(arg, level + 2)[0]
        if name == "exp" and not _large(arg) and latex_width(text) <= EXPONENT:
            return f"e^{{{plain(text)}}}"
        return (r"\exp" if name == "exp" else _upright(name, r"\operatorname")) + self.group(text)

    def ratio(self, above: Sequence[Term], below: Sequence[Term], alone: bool, level: int) -> str:
        """A fraction, if it fits on a line; else the inverse of what stands below."""
        over, under = (plain(self._whole(args, level)) if args else "1" for args in (above, below))
        if max(map(latex_width, (over, under))) <= self.FRACTION:
            return rf"\frac{{{over}}}{{{under}}}"
        if latex_width(under) <= self.FRACTION / 4:
            return rf"\frac{{1}}{{{under}}}{mark(level + 1)}\,{self.factors(above, alone, level)}"
        inverse = self.group(self._whole(below, level + 2)) + "^{-1}"
        return f"{self.factors(above, False, level)}{mark(level + 1)}\\,{inverse}" if above else inverse

    def _whole(self, args: Sequence[Term], level: int) -> str:
        return self.factors(args, True, level) if len(args) > 1 else self.inside(args[0], SUM, level)


GREEK_LATEX = {name: f"\\{'varphi' if name == 'phi' else name}" for name in GREEK}


def _large(term: Term) -> bool:
    """Whether a term has a sum over an index or a fraction in it."""
    inverse = isinstance(term, Apply) and term.name == "inv"
    return inverse or isinstance(term, Bind) or any(map(_large, children(term)))


def latex_name(root: str, *below: str) -> str:
    r"""A name with what stands below it.

    Example:
        >>> print(latex_name("W", "Q"), latex_name("d", "model"), latex_name("Concat"))
        W_{Q} d_{\mathrm{model}} \operatorname{Concat}
    """
    text = _upright(GREEK_LATEX.get(root, root), r"\operatorname")
    under = ",".join(_upright(word) for word in below if word)
    return text + (f"_{{{under}}}" if under else "")


def _upright(word: str, command: str = r"\mathrm") -> str:
    r"""A word of more than one letter as a name: ``\mathrm{model}``."""
    return word if len(word) == 1 or word.isdigit() or word.startswith("\\") else rf"{command}{{{latex_escape(word)}}}"


def latex_escape(text: str) -> str:
    r"""The text with the characters escaped that mean something to LaTeX.

    Example:
        >>> print(latex_escape("x_1 & 5%"))
        x\_1 \& 5\%
    """
    return re.sub(r"[\\~^<>#$%&_{}]", lambda found: _ESCAPES.get(found[0], "\\" + found[0]), text)


_ESCAPES = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}",
}  # fmt: skip
