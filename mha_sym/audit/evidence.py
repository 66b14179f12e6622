"""What one run of an implementation gave, beside the specification, and the faulty forms on the same arrays.

Defines `Evidence`, `Forms` (the faulty forms of one specification, built once) and `predicted`, which evaluates forms
on the arrays of a piece of evidence.  What follows from them is decided in `mha_sym.audit.diagnosis.diagnose`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy

from mha_sym.attention.dims import Dims, Weights
from mha_sym.attention.forms import Options, Stages
from mha_sym.audit.bounds import Bound
from mha_sym.audit.compared import Compared
from mha_sym.audit.faults import Fault, Ties, coinciding, symmetries
from mha_sym.audit.pointwise import POINTWISE
from mha_sym.audit.precision import Array, roundoff
from mha_sym.audit.recipe import Builder, Grouped, Site, site
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import Specification
from mha_sym.axes import axis, size_symbol
from mha_sym.errors import AxisProblem, NoValue
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Map, Permute, Reduce, Rename, Repeat, Softmax, Transpose, inputs, walk
from mha_sym.plan import plan_of

#: how many roundings of its largest entry an output is usually off by at most
_USUAL = 8.0


@dataclass(frozen=True, eq=False)
class Evidence:
    """One run of an implementation, and what it should have given.

    Attributes:
        case: the way of calling, by name.
        draw: the number of the draw.
        spec: the specification.
        setting: sizes and arrays.
        found: stages and canonical weights of the specification.
        shown: the stages that the implementation shows.
        bounds: how far the two may be apart, by stage.
        compared: the comparisons that were made, stage by stage.
        dtype: the format in which the implementation computes.
    """

    case: str
    draw: int
    spec: Specification
    setting: Setting
    found: Mapping[str, Array]
    shown: Mapping[str, Array]
    bounds: Mapping[str, Bound]
    compared: tuple[Compared, ...]
    dtype: str = "float64"

    @property
    def wrong(self) -> tuple[str, ...]:
        """The stages that are farther apart than the bound, in order."""
        return tuple(one.stage for one in self.compared if not one.ok)

    @property
    def rounding(self) -> float:
        """The unit roundoff of the implementation, or of this evaluation where that is the coarser one."""
        return max(roundoff(self.dtype), roundoff("float64"))

    @property
    def noise(self) -> float:
        """What a change of the output must exceed to be seen: the bound, or less where that would admit anything."""
        seen = [np.nan_to_num(side["y"]) for side in (self.found, self.shown) if "y" in side]
        return min(self.bounds["y"].value, _USUAL * self.rounding * largest(seen))

    @cached_property
    def nan(self) -> Array | None:
        """``(b, t)``, the rows of the output that are NaN; None if there are none."""
        if "y" not in self.shown:
            return None
        rows = np.asarray(np.isnan(self.shown["y"]).any(axis=-1))
        return rows if rows.any() else None

    def off(self, y: Array) -> float:
        """How far an output is from the one that is shown, at most; rows of NaN are left out."""
        apart = np.abs(y - self.shown["y"])
        return float(apart.max() if self.nan is None else apart[~self.nan].max(initial=0.0))

    @property
    def ties(self) -> dict[str, str | tuple[str, str]]:
        """Which sizes coincide here."""
        return coinciding(self.setting.sizes)

    @property
    def same(self) -> bool:
        """Whether queries, keys and values come from one input."""
        x = [self.setting.arrays[name] for name in ("X_q", "X_k", "X_v")]
        return all(one is x[0] or (one.shape == x[0].shape and bool(np.array_equal(one, x[0]))) for one in x)

    @cached_property
    def forms(self) -> Forms:
        """The faulty forms on axes that coincide as they do here."""
        return forms_of(self.spec, self.ties, self.same)

    def forms_for(self, which: Iterable[Fault]) -> Forms:
        """The forms in which these faults can be built: some need sizes that are numbers."""
        return self.sized_forms if any(one.at_sizes for one in which) else self.forms

    @property
    def sized_forms(self) -> Forms:
        """The same forms on axes whose sizes are the numbers of this run."""
        return self.numbered(*self.setting.sizes)

    def numbered(self, *names: str) -> Forms:
        """The same forms on axes of which some sizes are the numbers of this run, and the others symbols."""
        sizes = self.setting.sizes
        return _sized(self.forms.at, tuple((name, sizes[name]) for name in sorted(names) if name in sizes))


# ---------------------------------------------------------------- the forms of one specification


class Forms:
    """The correct form of one layer and edits of it."""

    def __init__(self, at: Site) -> None:
        self.at = at
        self.builder = Builder(at)
        self.right = self.builder.build()
        self._possible: dict[Fault, bool] = {}

    @property
    def same(self) -> dict[str, Stages]:
        """Every symmetry that is possible here, by name."""
        built = {one.name: self.form(one) for one in symmetries() if one.possible(self.at)}
        return {name: form for name, form in built.items() if form is not None}

    def form(self, *which: Fault) -> Stages | None:
        """The form with these faults; None if the code could not run on these axes.

        A fault of something that is not there, such as a mask, changes nothing.
        """
        try:
            return self.builder.build(*(one.edits for one in which if self.is_possible(one)))
        except AxisProblem:
            return None

    def is_possible(self, fault: Fault) -> bool:
        """Whether what a fault needs is there."""
        if fault not in self._possible:
            self._possible[fault] = fault.possible(self.at)
        return self._possible[fault]


@lru_cache(maxsize=64)
def _sized(at: Site, numbers: tuple[tuple[str, int], ...]) -> Forms:
    known = {size_symbol(name): sympy.Integer(n) for name, n in numbers}
    return Forms(resized(at, known))


def forms_of(spec: Specification, ties: Ties, same: bool) -> Forms:
    """The forms of a specification on axes whose sizes are tied; the same object for equal ones."""
    tied = tuple(sorted(ties.items(), key=str))
    return _forms(spec.dims, spec.inputs, spec.weights, spec.options, same, tied)


@lru_cache(maxsize=64)
def _forms(
    d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options, same: bool,
    ties: tuple[tuple[str, str | tuple[str, str]], ...],
) -> Forms:  # fmt: skip
    found: Site = resized(_parsed(d, x, w, o, same), _substitution(d, dict(ties)))
    return Forms(_of_one_input(found) if same else found)


def _of_one_input(at: Site) -> Site:
    """The site with keys and values made of the input of the queries, where the axes allow it."""
    try:
        keys, values = (_read_as(at.x[0], one) for one in at.x[1:])
    except AxisProblem:  # more keys than queries, or inputs of different widths
        return at
    return replace(at, x=(at.x[0], keys, values))


def _read_as(x: Expr, other: Expr) -> Expr:
    for old, new in zip(x.axes, other.axes, strict=True):
        x = x if old == new else Rename(x, old, new)
    return x


def _parsed(d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options, same: bool) -> Site:
    """The site of a layer, its mask of kept keys taken apart into a causal part, padding, and anything else."""
    at = site(d, x, w, replace(o, keep=None), same=same)
    for factor in _factors(o.keep):
        if at.causal is None and set(factor.axes) == {d.t, d.s} and not inputs(factor):
            at = replace(at, causal=factor)
        elif set(factor.axes) == {d.b, d.s} and at.padding is None:
            at = replace(at, padding=factor)
        else:
            at = replace(at, kept=factor)
    symbols = {symbol.name: symbol for symbol in d.h.size.free_symbols}
    if {"G", "R"} == set(symbols):
        at = replace(at, kv=Grouped(axis("g", symbols["G"]), axis("r", symbols["R"])))
    return at


def _factors(keep: Expr | None) -> list[Expr]:
    if keep is None:
        return []
    if isinstance(keep, Map) and keep.op == "mul":
        return [factor for arg in keep.args for factor in _factors(arg)]
    return _factors(keep.arg) if isinstance(keep, Repeat) else [keep]


# ---------------------------------------------------------------- tying sizes


def _substitution(d: Dims, ties: Ties) -> dict[sympy.Symbol, sympy.Expr]:
    """Size symbols to what they are where sizes coincide."""
    letters = {"B": d.b, "T": d.t, "S": d.s, "d_model": d.m, "h": d.h, "d_k": d.k, "d_v": d.v}
    now = {name: one.size for name, one in letters.items()}
    found: dict[sympy.Symbol, sympy.Expr] = {}
    for name in ("d_v", "T", "B", "S", "d_model"):
        if name in ties and now[name].is_Symbol:
            other = ties[name]
            value = now[other] if isinstance(other, str) else now[other[0]] * now[other[1]]
            if now[name] != value:
                found[now[name]] = value
                now = {key: size.xreplace(found) for key, size in now.items()}
    return found


def resized(value: Any, sizes: Mapping[sympy.Symbol, sympy.Expr]) -> Any:
    """The same with other sizes: of axes, indices, numbers, and of all expressions inside.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> d = dims()
        >>> resized(d, {d.m.size: d.hk.size}).m
        m: d_k*h
    """
    if not sizes:
        return value
    if isinstance(value, sympy.Basic):
        return value.xreplace(dict(sizes))
    if isinstance(value, tuple):
        return tuple(resized(one, sizes) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {one.name: resized(getattr(value, one.name), sizes) for one in fields(value) if one.init}
        return replace(value, **changed)
    return value


# ---------------------------------------------------------------- numbers


def predicted(
    evidence: Evidence, exprs: Mapping[str, Expr], permutations: Mapping[str, Sequence[int]] | None = None
) -> dict[str, Array]:
    """The values of some expressions on the arrays of a piece of evidence; those without a value are left out."""
    with np.errstate(all="ignore"):
        return _values(evidence, dict(exprs), dict(permutations or {}))


def _values(
    evidence: Evidence, exprs: dict[str, Expr], permutations: dict[str, Sequence[int]]
) -> dict[str, Array]:
    if not exprs:
        return {}
    plan = plan_of(list(exprs.values()))
    arrays = {name: evidence.setting.arrays[name] for name in plan.inputs}
    known = {name: size for name, size in evidence.setting.sizes.items() if name in plan.sizes}
    try:
        found = evaluate_all(
            exprs, arrays, sizes=known, permutations=permutations, functions=POINTWISE, masked_rows="zero"
        )  # fmt: skip
    except NoValue:
        if len(exprs) == 1:
            return {}
        names = list(exprs)
        halves = (names[: len(names) // 2], names[len(names) // 2 :])
        parts = [_values(evidence, {name: exprs[name] for name in half}, permutations) for half in halves]
        return {**parts[0], **parts[1]}
    return {name: np.asarray(value) for name, value in found.items()}


def empty_rows(on: Evidence, form: Stages) -> Array:
    """``(b, t)``, the queries of which a softmax of this form keeps no key in some head."""
    lead, counts = form.weights.axes[:-1], dict[str, Expr]()
    for n, node in enumerate(walk(form.weights)):
        if isinstance(node, Softmax) and node.keep is not None:
            count = Reduce("sum", node.keep, tuple(one for one in node.over if one in node.keep.axes))
            whole = set(count.axes) == set(lead)
            counts[f"count {n}"] = Transpose(count, lead) if whole else Repeat(count, lead)
    rows = np.zeros((on.setting.sizes["B"], on.setting.sizes["T"]), bool)
    for kept in predicted(on, counts).values():
        rows |= (kept == 0).any(axis=1)
    return rows


def permutes(y: Expr) -> bool:
    """Whether heads are permuted in an expression."""
    return any(isinstance(node, Permute) for node in walk(y))


def largest(values: Iterable[Array]) -> float:
    """The largest absolute value of all arrays."""
    return max((float(np.abs(value).max()) for value in values), default=0.0)
