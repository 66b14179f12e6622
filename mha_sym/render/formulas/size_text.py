"""Formulas in the sizes as readable text, always in the same order.

Defines `size_text`, the order `rank`, and `at_sizes` that puts in the sizes that are known.  SymPy's own order
depends on the names alone; here batch, positions, features and heads stand in the order in which the field writes
them.  LaTeX is not made here.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from mha_sym.axes import Size
from mha_sym.count import check_size

#: the order of the sizes in a product; others follow by name
ORDER = ("B", "T", "S", "d_model", "h", "n_h", "d_k", "d_v")

_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def at_sizes(formula: Size | int, sizes: Mapping[str, int] | None) -> Size:
    """The formula with the given sizes put in, by name; others stay symbols.

    Raises:
        DataProblem: if a size is not a positive integer.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> at_sizes(size_symbol("h") * size_symbol("d_k"), {"h": 3})
        3*d_k
    """
    if isinstance(formula, int):
        return sympy.Integer(formula)
    given = {one: (sizes or {})[str(one)] for one in formula.free_symbols if str(one) in (sizes or {})}
    for one, size in given.items():
        check_size(str(one), size)
    return formula.subs(given)


def size_text(formula: Size | int) -> str:
    """A formula as text: terms of high degree first, the sizes of a term in the order `ORDER`.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> d_model, h, d_k, d_v = map(size_symbol, ("d_model", "h", "d_k", "d_v"))
        >>> size_text(2 * h * d_k + d_model * h * (2 * d_v + d_k))
        'd_model·h·d_k + 2·d_model·h·d_v + 2·h·d_k'
        >>> size_text(1 / sympy.sqrt(d_k)), size_text(d_model**2 - 1)
        ('1/√d_k', 'd_model² - 1')
    """
    if isinstance(formula, int):
        return str(formula)
    terms = sorted(sympy.Add.make_args(sympy.expand(formula)), key=_term_key)
    text = _term(terms[0])
    for one in terms[1:]:
        shown = _term(one)
        text += f" - {shown[1:]}" if shown.startswith("-") else f" + {shown}"
    return text


def rank(base: Size) -> tuple[int, str]:
    """The place of a size in a product, as a key for sorting.

    Example:
        >>> from mha_sym.axes import size_symbol
        >>> sorted(map(size_symbol, ("d_k", "w", "h", "B")), key=rank)
        [B, h, d_k, w]
    """
    name = str(base)
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _powers(term: Size) -> list[tuple[Size, Size]]:
    """Bases and exponents of a term without its coefficient, in the order `ORDER`."""
    rest = term.as_coeff_Mul()[1]
    pairs = [factor.as_base_exp() for factor in sympy.Mul.make_args(rest) if factor != 1]
    return sorted(pairs, key=lambda pair: rank(pair[0]))


def _term_key(term: Size) -> tuple[Size, list[tuple[tuple[int, str], Size]], str]:
    powers = _powers(term)
    degree = sum(exponent for _, exponent in powers)
    return (-degree, [(rank(base), -exponent) for base, exponent in powers], str(term))


def _term(term: Size) -> str:
    coefficient = term.as_coeff_Mul()[0]
    above = [_power(base, exponent) for base, exponent in _powers(term) if not exponent.is_negative]
    below = [_power(base, -exponent) for base, exponent in _powers(term) if exponent.is_negative]
    if abs(coefficient.p) != 1 or not above:
        above.insert(0, str(abs(coefficient.p)))
    if coefficient.q != 1:
        below.insert(0, str(coefficient.q))
    text = ("-" if coefficient.is_negative else "") + "·".join(above)
    if not below:
        return text
    return f"{text}/{below[0]}" if len(below) == 1 else f"{text}/({'·'.join(below)})"


def _power(base: Size, exponent: Size) -> str:
    text = str(base) if base.is_Symbol or (base.is_Integer and base > 0) else f"({size_text(base)})"
    if exponent == 1:
        return text
    if exponent == sympy.Rational(1, 2):
        return f"√{text}"
    if exponent.is_Integer:
        return text + str(exponent).translate(_SUPERSCRIPT)
    return f"{text}^({size_text(exponent)})"
