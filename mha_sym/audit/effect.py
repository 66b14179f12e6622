"""What a fault does at given sizes: whether its code runs there, how far it moves the output, and whether it may.

Defines `Surroundings` (what a layer has besides its sizes), `site_at`, `effect` and `hidden`.  `effect` compares
numbers; where they do not differ, `hidden` asks exact arithmetic and the prover.  Which faults a test lets pass is
judged in `mha_sym.audit.critique`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import sympy

from mha_sym.arrays import all_inputs, size_value
from mha_sym.attention.dims import Dims, Weights, combined_weights, cross_inputs, dims, self_inputs
from mha_sym.attention.forms import Stages
from mha_sym.attention.grouped import Groups, copied, grouped_weights
from mha_sym.audit.draw import draw_lengths, draw_values
from mha_sym.audit.faults import Fault, find_fault, holds
from mha_sym.audit.pointwise import POINTWISE
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import Builder, Grouped, Site, bottom_right, site
from mha_sym.axes import Axis, axis
from mha_sym.errors import AxisProblem, NoValue
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Compare, Expr, Input, Map, Permute, Reduce, Reshape, walk
from mha_sym.proof.prover import prove
from mha_sym.proof.refute import refute
from mha_sym.proof.theorem import Assumption, Claim, Theorem, Verdict

#: the draws on which a fault must show nothing before it is looked at exactly
_DRAWS = 3
#: a relative difference that no rounding of these layers reaches in float64; what is below it is looked at exactly
_SEEN = 1e-9
#: entries up to which exact arithmetic is tried
_EXACT = 4096

#: how sure it is that a fault changes nothing at some sizes
Sure = Literal["proved", "exact arithmetic", "numbers"]


@dataclass(frozen=True)
class Surroundings:
    """What a layer has besides its sizes.

    Attributes:
        biases: whether it has all four.
        causal, padding, additive: which masks are handed over.
        cross: whether keys and values come from another input.
        groups: whether heads share keys and values; the sizes then say ``G``.
        own_scale: whether the scale is another than ``1/sqrt(d_k)``.
        from_the_end: whether the causal mask is counted from the last key.
    """

    biases: bool = True
    causal: bool = False
    padding: bool = False
    additive: bool = False
    cross: bool = False
    groups: bool = False
    own_scale: bool = False
    from_the_end: bool = False

    @staticmethod
    def of(fault: Fault) -> Surroundings:
        """The least in which a fault is possible.

        Example:
            >>> from mha_sym.audit.faults import find_fault
            >>> Surroundings.of(find_fault("causal_mask_transposed")).causal
            True
        """
        needs = set(fault.needs)
        return Surroundings(
            causal=bool(needs & {"causal", "keep", "from_the_end"}), from_the_end="from_the_end" in needs,
            padding="padding" in needs, additive="additive" in needs,
            cross="cross" in needs, groups="groups" in needs,
        )  # fmt: skip


@lru_cache(maxsize=512)
def _site(sizes: tuple[tuple[str, int], ...], around: Surroundings) -> Site:
    n = dict(sizes)
    d = dims(**{name: n[name] for name in ("B", "T", "S", "d_model", "h", "d_k", "d_v")})
    w, kv = _weights(d, n, around)
    x = cross_inputs(d) if around.cross or n["S"] != n["T"] else self_inputs(d)
    at = site(d, x, w, same=not around.cross and n["S"] == n["T"])
    return replace(
        at, kv=kv, scale=sympy.Rational(1, 3) if around.own_scale else at.scale,
        causal=None if not around.causal else bottom_right(d) if around.from_the_end else Compare("le", d.s, d.t),
        padding=Input("key_keep", (d.b, d.s), "mask", boolean=True) if around.padding else None,
        mask=Input("mask", (d.t, d.s), "mask") if around.additive else None,
    )  # fmt: skip


def _weights(d: Dims, sizes: Mapping[str, int], around: Surroundings) -> tuple[Weights, Grouped | None]:
    if not around.groups:
        return combined_weights(d, around.biases), None
    groups = sizes.get("G", 1)
    g, r = axis("g", groups), axis("r", sizes["h"] // groups)
    a = Groups(d, g, r)
    return copied(grouped_weights(a, around.biases), a), Grouped(g, r)


def site_at(sizes: Mapping[str, int], around: Surroundings) -> Site:
    """The layer at these sizes: B, T, S, d_model, h, d_k, d_v, and G where heads share keys and values.

    Example:
        >>> n = {"B": 1, "T": 3, "S": 3, "d_model": 8, "h": 2, "d_k": 4, "d_v": 4}
        >>> site_at(n, Surroundings()).d.hk
        (h k): 8
    """
    return _site(tuple(sorted(sizes.items())), around)


def forms_at(fault: Fault, sizes: Mapping[str, int], around: Surroundings) -> tuple[Stages, Stages] | None:
    """The correct and the faulty form; None if the faulty code cannot run at these sizes."""
    at = site_at(sizes, around)
    if not holds(fault.ties, sizes) or not fault.possible(at):
        return None
    builder = _builder(tuple(sorted(sizes.items())), around)
    try:
        return builder.build(), builder.build(fault.edits)
    except AxisProblem:
        return None


@lru_cache(maxsize=64)
def _builder(sizes: tuple[tuple[str, int], ...], around: Surroundings) -> Builder:
    """The builder of a layer: faults that are tried at the same sizes share most of it."""
    return Builder(_site(sizes, around))


def effect(fault: Fault, sizes: Mapping[str, int], around: Surroundings) -> float | None:
    """How far a fault moves the output, relative to the largest entry, on random input; None if it cannot run.

    Example:
        >>> from mha_sym.audit.faults import find_fault
        >>> n = {"B": 1, "T": 3, "S": 3, "d_model": 8, "h": 1, "d_k": 8, "d_v": 8}
        >>> effect(find_fault("scale_by_joined_width"), n, Surroundings())
        0.0
    """
    return _effect(fault.name, tuple(sorted(sizes.items())), around)


@lru_cache(maxsize=8192)
def _effect(name: str, sizes: tuple[tuple[str, int], ...], around: Surroundings) -> float | None:
    forms = forms_at(find_fault(name), dict(sizes), around)
    if forms is None:
        return None
    most = 0.0
    for seed in range(_DRAWS):
        right, faulty = _outputs(forms[0].y, forms[1].y, np.random.default_rng(seed))
        if right is None:
            continue
        most = max(most, difference(right, faulty))
        if most > _SEEN:
            break
    return most if most > _SEEN else 0.0


def difference(right: Array, faulty: Array | None) -> float:
    """The largest difference relative to the largest right entry; infinite where the faulty form has no value."""
    if faulty is None or not np.isfinite(faulty).all():
        return float("inf")
    return float(np.abs(right - faulty).max() / np.abs(right).max())


def _outputs(right: Expr, faulty: Expr, rng: np.random.Generator) -> tuple[Array | None, Array | None]:
    arrays = draw_inputs((right, faulty), rng)
    both = _evaluated((right, faulty), arrays)  # what they have in common is computed once
    if both is not None:
        return both[0], both[1]
    alone = [_evaluated((one,), arrays) for one in (right, faulty)]
    return alone[0][0] if alone[0] else None, alone[1][0] if alone[1] else None


def draw_inputs(exprs: Sequence[Expr], rng: np.random.Generator) -> dict[str, Array]:
    """Random values for the inputs of expressions whose sizes are numbers."""
    found = {}
    for name, one in all_inputs(exprs).items():
        shape = [size_value(a, {}) for a in one.axes]
        if one.boolean:
            lengths = draw_lengths(rng, shape[0], shape[1])
            found[name] = np.arange(shape[1])[None, :] < np.asarray(lengths)[:, None]
        else:
            fan = shape[0] if one.role == "weight" else 1
            found[name] = draw_values(rng, shape, "float64", fan)
    return found


def _evaluated(exprs: tuple[Expr, ...], arrays: Mapping[str, Array]) -> list[Array] | None:
    """The values of some expressions; None if one of them has none."""
    own = {name: arrays[name] for name in all_inputs(exprs)}
    order = {name: one for expr in exprs for name, one in orders(expr).items()}
    try:
        with np.errstate(all="ignore"):
            found = evaluate_all(exprs, own, permutations=order, functions=POINTWISE, masked_rows="zero")
    except NoValue:
        return None
    return [np.asarray(one) for one in found]


def orders(expr: Expr, sizes: Mapping[str, int] | None = None) -> dict[str, tuple[int, ...]]:
    """An order for every permutation in an expression: each position goes to the next."""
    axes: dict[str, Axis] = {n.perm.name: n.perm.axis for n in walk(expr) if isinstance(n, Permute)}
    counts = {name: size_value(one, sizes or {}) for name, one in axes.items()}
    return {name: tuple((i + 1) % n for i in range(n)) for name, n in counts.items()}


# ---------------------------------------------------------------- exactly


def hidden(fault: Fault, sizes: Mapping[str, int], around: Surroundings) -> Sure | None:
    """How sure it is that a fault changes nothing at these sizes; None if it does change something.

    Proved by the prover on axes of these sizes; or not refuted in exact arithmetic on several inputs; or, where that
    would take too long, equal in numbers.

    Example:
        >>> from mha_sym.audit.faults import find_fault
        >>> n = {"B": 2, "T": 3, "S": 3, "d_model": 4, "h": 1, "d_k": 4, "d_v": 4}
        >>> hidden(find_fault("scale_by_joined_width"), n, Surroundings())
        'proved'
    """
    found = effect(fault, sizes, around)
    forms = forms_at(fault, sizes, around)
    if forms is None or found is None or found > 0:
        return None
    claim = Claim("Y", forms[0].y, forms[1].y)
    kept = site_at(sizes, around).keep
    assumed = (Assumption("every query keeps a key", positive=_counted(kept, sizes)),) if kept is not None else ()
    entries = sizes["B"] * sizes["h"] * sizes["T"] * sizes["S"] + sizes["d_model"] * sizes["h"] * sizes["d_k"]
    if entries <= _EXACT and _is_exact(forms[1].y) and refute(claim, assumed, draws=2) is not None:
        return None
    statement = Theorem("hidden_here", "", "", (claim,), assumptions=assumed)
    if _is_provable(forms[1].y) and prove(statement, recheck=False).verdict is Verdict.PROVED:
        return "proved"
    return "exact arithmetic" if entries <= _EXACT and _is_exact(forms[1].y) else "numbers"


def _is_exact(expr: Expr) -> bool:
    """Whether exact arithmetic knows all that is computed."""
    return not any(isinstance(node, Map) and node.op.startswith("fn:") for node in walk(expr))


def _is_provable(expr: Expr) -> bool:
    """Whether the prover is asked: raw reshapes of axes of fixed sizes can take it very long."""
    return not any(isinstance(node, Permute | Reshape) for node in walk(expr))


def _counted(keep: Expr, sizes: Mapping[str, int]) -> Expr:
    return Reduce("sum", keep, (axis("s", sizes["S"]),))
