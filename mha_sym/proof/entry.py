"""One entry of an expression as an ordinary SymPy formula, for anyone to look at and to compute with.

Defines `entry`.  Sums are `Sum`, entries of inputs `Indexed`, brackets `KroneckerDelta` and `Piecewise`, and positions
in product axes and raw reshapes are written in integers: ``r*d_k + j``, `floor` and `Mod`.  It shows what an
expression means (`mha_sym.proof.meaning`) and proves nothing; the prover does not use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import product as pairs
from typing import Any

import sympy
from sympy import Piecewise

from mha_sym.axes import Axis, size_symbol
from mha_sym.axes import Index as HeadIndex
from mha_sym.errors import AxisProblem, show_axes
from mha_sym.expr import Concat, Expr, Named, Select, Stack, Total, walk
from mha_sym.proof import terms
from mha_sym.proof.meaning import LETTERS, Meaning, domain
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Var,
)

#: what an index is called if the letter is taken, by letter
_OTHERS = {letters[0]: letters for letters in LETTERS.values()}


def entry(expr: Expr, indices: Mapping[str, object] | None = None, *, fold: bool = False) -> sympy.Expr:
    """The formula of ``expr`` at a position: ``X W_Q`` at (t, c) is ``Sum(W_Q[m, c]*X[t, m], (m, 0, d_model - 1))``.

    Positions count from 0, and sums run from 0 to the size minus one.  A position of a product axis ``(h k)`` is
    ``d_k*r + j`` with r and j the positions in its factors, that of a concatenation runs through its blocks in order.
    A permutation is a function of the position, its inverse too; a maximum over an axis of unknown size is the
    function ``max`` of what is maximised and of a range.

    Args:
        expr: the expression.
        indices: positions by the name of the axis, or of a factor of a product axis, or of an index such as ``r`` that
            nothing binds: integers, SymPy expressions, or names.  Those that are not given are called by a letter.
        fold: keep the names of named values (Q, K, ...), but for that of ``expr`` itself.

    Raises:
        AxisProblem: if there is no such axis, or no such position.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, dims, self_inputs
        >>> from mha_sym.attention.forms import combined
        >>> d = dims()
        >>> layer = combined(d, self_inputs(d), combined_weights(d))
        >>> entry(layer.q)
        Sum(W_Q[m, d_k*r + j]*X[b, t, m], (m, 0, d_model - 1))
        >>> entry(layer.q, {"h": 2, "k": "i"})
        Sum(W_Q[m, 2*d_k + i]*X[b, t, m], (m, 0, d_model - 1))
        >>> entry(layer.weights, fold=True)
        exp(S[b, r, t, s])/Sum(exp(S[b, r, t, u]), (u, 0, T - 1))
    """
    positions = _Positions(expr, indices or {})
    meaning = Meaning()
    heads = {index: Var(f"head {n}", domain(index.axis)) for n, index in enumerate(positions.heads)}
    values = {Var(f"head {n}", domain(index.axis)).name: positions.heads[index] for n, index in enumerate(heads)}
    whole = expr.arg if fold and isinstance(expr, Named) else expr
    rows = []
    for choice in pairs(*(_cases(a, positions.axes[a], f"place {a.name}") for a in expr.axes)):
        places = {a.name: case.index for a, case in zip(expr.axes, choice, strict=True)}
        term = meaning.at(whole, places, heads)
        writer = _Writer(meaning, positions.taken)
        env = values | {name: value for case in choice for name, value in case.values.items()}
        condition = sympy.And(*(c for case in choice for c in case.conditions))
        rows.append((writer.term(term if fold else _unfolded(term, meaning), env), condition))
    return rows[0][0] if len(rows) == 1 else Piecewise(*rows)


# ---------------------------------------------------------------- positions


class _Positions:
    """What was given for the axes of an expression and its free indices, and letters for what was not."""

    def __init__(self, expr: Expr, given: Mapping[str, object]) -> None:
        self.unread = dict(given)
        sizes = {s.name for node in walk(expr) for a in node.axes for s in a.size.free_symbols}
        free = _free_indices(expr)
        self.taken = sizes | {s.name for value in given.values() for s in getattr(value, "free_symbols", ())}
        self.taken |= {value for value in given.values() if isinstance(value, str)}
        self.heads = {index: self._value(index.name, index.axis, index.name) for index in free}
        self.axes: dict[Axis, Any] = {a: self._axis(a) for a in expr.axes}
        if self.unread:
            raise AxisProblem(
                f"there is no axis {next(iter(self.unread))!r} to take a position of", where="entry",
                axes=[show_axes(expr.axes)], got=", ".join(self.unread),
            )

    def _axis(self, axis: Axis) -> Any:
        """The position, or those in the factors of a product axis as a tuple."""
        if axis.factors and axis.name not in self.unread:
            return tuple(self._axis(one) for one in axis.factors)
        letter = LETTERS.get(axis.name, (axis.name if axis.is_plain else "c",))[0]
        return self._value(axis.name, axis, letter)

    def _value(self, name: str, axis: Axis, letter: str) -> sympy.Expr:
        if name not in self.unread:
            return self._symbol(letter)
        value = self.unread.pop(name)
        if isinstance(value, str):
            return _index_symbol(value)
        number = sympy.Integer(value) if isinstance(value, int) else value
        if not isinstance(number, sympy.Expr) or number.is_integer is False:
            raise AxisProblem(
                f"{value!r} is no position of axis {axis.name!r}", where="entry",
                expected="an integer, a SymPy expression of integers, or a name",
            )
        if number.is_negative or (axis.size - number).is_nonpositive:
            raise AxisProblem(
                f"axis {axis.name!r} has no position {value}", where="entry", expected=f"0 to {axis.size - 1}"
            )
        return number

    def _symbol(self, letter: str) -> sympy.Symbol:
        name = _fresh(letter, self.taken)
        self.taken.add(name)
        return _index_symbol(name)


def _index_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def _fresh(letter: str, taken: Set[str]) -> str:
    """The letter, or another one that is not taken."""
    letters = _OTHERS.get(letter, (letter,))
    numbered = (f"{letters[0]}{n}" for n in range(1, len(taken) + 2))
    return next(name for name in (*letters, *numbered) if name not in taken)


def _free_indices(expr: Expr) -> list[HeadIndex]:
    """The indices that nothing binds, by name."""
    found: set[HeadIndex] = set()
    for child in expr.children:
        found.update(_free_indices(child))
    if isinstance(expr, Select) and isinstance(expr.at, HeadIndex):
        found.add(expr.at)
    if isinstance(expr, Stack | Concat | Total):
        found.discard(expr.index)
    return sorted(found, key=lambda index: (index.name, index.axis.name))


@dataclass(frozen=True)
class _Case:
    """A position of an axis as an index made of variables, the values of these, and when it is the position."""

    index: terms.Index
    values: Mapping[str, sympy.Expr]
    conditions: tuple[Any, ...] = ()


def _cases(axis: Axis, value: Any, name: str) -> Iterator[_Case]:
    """One case for each block in which the position may lie; each assumes that those before it do not hold."""
    if axis.blocks:
        start: sympy.Expr = sympy.Integer(0)
        for number, block in enumerate(axis.blocks):
            end = start + block.size
            last = number == len(axis.blocks) - 1
            for case in _cases(block, value - start, f"{name}.{number}"):
                condition = sympy.true if last else sympy.Lt(value, end)
                yield _Case(Inj(case.index, domain(axis), number), case.values, (*case.conditions, condition))
            start = end
    elif axis.factors and (isinstance(value, tuple) or _has_blocks(axis)):
        values = value if isinstance(value, tuple) else _digits(value, [one.size for one in axis.factors])
        parts = [_cases(one, v, f"{name}.{n}") for n, (one, v) in enumerate(zip(axis.factors, values, strict=True))]
        for choice in pairs(*parts):
            merged = {n: v for case in choice for n, v in case.values.items()}
            conditions = tuple(c for case in choice for c in case.conditions)
            yield _Case(terms.join(domain(axis), tuple(case.index for case in choice)), merged, conditions)
    else:
        yield _Case(Var(name, domain(axis)), {name: value})


def _has_blocks(axis: Axis) -> bool:
    return bool(axis.blocks) or any(map(_has_blocks, axis.factors))


def _digits(flat: sympy.Expr, sizes: Sequence[sympy.Expr]) -> tuple[sympy.Expr, ...]:
    """The coordinates of a row-major place."""
    found = []
    for number, size in enumerate(sizes):
        quotient = sympy.floor(flat / sympy.Mul(*sizes[number + 1 :]))
        found.append(sympy.Mod(quotient, size) if number else quotient)
    return tuple(found)


def _flat(parts: Iterable[sympy.Expr], sizes: Iterable[sympy.Expr]) -> sympy.Expr:
    """The row-major place of coordinates."""
    total: sympy.Expr = sympy.Integer(0)
    for part, size in zip(parts, sizes, strict=True):
        total = sympy.expand(total * size + part)
    return total


# ---------------------------------------------------------------- writing terms

Env = Mapping[str, sympy.Expr]


def _unfolded(term: terms.Term, meaning: Meaning) -> terms.Term:
    """The term with every named value replaced by its definition."""
    if isinstance(term, Entry) and term.name in meaning.definitions:
        definition = meaning.definitions[term.name]
        at = {v.name: index for v, index in zip(definition.params, term.at, strict=True)}
        return _unfolded(terms.subst(definition.body, at), meaning)
    return terms.rebuild(term, tuple(_unfolded(child, meaning) for child in terms.children(term)))


def _takes_apart(term: terms.Term, name: str) -> bool:
    """Whether a position in a product axis occurs in its parts."""

    def inside(index: terms.Index) -> bool:
        match index:
            case Part(Var(found, _), _, _):
                return found == name
            case Join(_, parts):
                return any(map(inside, parts))
            case Part(inner, _, _) | Inj(inner, _, _) | Perm(_, _, inner):
                return inside(inner)
            case _:
                return False

    if isinstance(term, Entry):
        return any(map(inside, term.at))
    if isinstance(term, Cmp):
        return inside(term.left) or inside(term.right)
    return name in terms.free(term) and any(_takes_apart(child, name) for child in terms.children(term))


def _double_sum(term: Bind) -> terms.Term:
    """A sum over a product axis as sums over its factors."""
    new = [Var(f"{term.var.name}/{n}", one) for n, one in enumerate(term.var.domain.factors)]
    body = terms.subst(term.body, {term.var.name: terms.join(term.var.domain, tuple(new))})
    for var in reversed(new):
        body = Bind("sum", var, body)
    return body


@dataclass
class _Writer:
    """Writes terms in SymPy; ``taken`` are the names that a summed index may not have."""

    meaning: Meaning
    taken: set[str]

    def term(self, term: terms.Term, env: Env) -> sympy.Expr:
        """A term whose free variables have the values in ``env``."""
        match term:
            case Num(value):
                return sympy.Rational(value.numerator, value.denominator)
            case Size(name, power):
                base = sympy.Integer(int(name)) if name.isdigit() else size_symbol(name)
                return base ** sympy.Rational(power.numerator, power.denominator)
            case Entry():
                return self._entry(term, env)
            case Cmp(op, left, right, offset):
                here, there = self.index(left, env), self.index(right, env) + offset
                return sympy.KroneckerDelta(here, there) if op == "eq" else Piecewise((1, here <= there), (0, True))
            case Add(args):
                return sympy.Add(*(self.term(a, env) for a in args))
            case Mul(args):
                return sympy.Mul(*(self.term(a, env) for a in args))
            case Bind():
                return self._bind(term, env)
            case Apply("exp", arg):
                return sympy.exp(self.term(arg, env))
            case Apply("inv", arg):
                return 1 / self.term(arg, env)
            case Apply(name, arg):
                return sympy.Function(name.removeprefix("fn:"))(self.term(arg, env))

    def _entry(self, term: Entry, env: Env) -> sympy.Expr:
        at = [self.index(i, env) for i in term.at]
        if term.name in self.meaning.tables:
            return self._table(term.name)[tuple(at)]
        return sympy.IndexedBase(term.name)[tuple(at)] if at else sympy.Symbol(term.name)

    def _table(self, name: str) -> Any:
        """A constant table as an array of SymPy, which gives a number at a place that is known."""
        cells = self.meaning.tables[name]
        shape = [1 + max(axis) for axis in zip(*cells, strict=True)]
        numbers = [sympy.Rational(v.numerator, v.denominator) for _, v in sorted(cells.items())]
        return sympy.ImmutableDenseNDimArray(numbers, shape) if shape else {(): numbers[0]}

    def _bind(self, term: Bind, env: Env) -> sympy.Expr:
        domain_ = term.var.domain
        if term.op == "sum" and domain_.factors and _takes_apart(term.body, term.var.name):
            return self.term(_double_sum(term), env)
        name = _fresh(domain_.name, self.taken)
        symbol = _index_symbol(name)
        self.taken.add(name)  # inside: what is summed there has another name
        body = self.term(term.body, {**env, term.var.name: symbol})
        self.taken.remove(name)
        size = self.term(domain_.size, {})
        if term.op == "sum":
            return sympy.Sum(body, (symbol, 0, size - 1))
        if size.is_Integer:
            return sympy.Max(*(body.subs(symbol, n) for n in range(int(size))))
        return sympy.Function("max")(body, sympy.Tuple(symbol, 0, size - 1))

    def index(self, index: terms.Index, env: Env) -> sympy.Expr:
        """A position as an integer."""
        match index:
            case Var(name, _):
                return env[name]
            case At(number):
                return sympy.Integer(number)
            case Join(domain_, parts):
                return _flat((self.index(p, env) for p in parts), self._sizes(domain_.factors))
            case Part(inner, domain_, number):
                return _digits(self.index(inner, env), self._sizes(domain_.factors))[number]
            case Inj(inner, domain_, number):
                return sympy.Add(*self._sizes(domain_.blocks[:number]), self.index(inner, env))
            case Perm(name, inverse, inner):
                function = sympy.Function(f"{name}^{{-1}}" if inverse else name, integer=True, nonnegative=True)
                return function(self.index(inner, env))

    def _sizes(self, domains: Iterable[Domain]) -> list[sympy.Expr]:
        return [self.term(one.size, {}) for one in domains]
