"""What an implementation is compared with: the combined form, with its weights, its masks and its scale.

Defines `Specification` and `specification`.  The form is that of `mha_sym.attention.forms`, the very expression that
the theorem `BACKED_BY` is about; here it is only put together and evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy

from mha_sym.arrays import all_inputs
from mha_sym.attention.dims import Dims, Weights
from mha_sym.attention.forms import Options, Stages, combined
from mha_sym.attention.rotary import Angles, tables, turned_dims
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import bottom_right
from mha_sym.axes import Axis, size_symbol
from mha_sym.errors import TargetProblem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Compare, Expr, Input
from mha_sym.pattern import repeat

#: the theorem that proves, for all sizes, what the combined form computes: the separate heads, stage by stage
BACKED_BY = "combined_layer_eq_separate_layer"


@dataclass(frozen=True)
class Specification:
    """The combined form for one implementation and one way of calling.

    Attributes:
        dims: its axes; all sizes are symbols.
        inputs: X_q, X_k, X_v.
        weights: the canonical weights, as expressions of the stored parameters.
        options: mask, kept keys and scale.
        stages: the form.
    """

    dims: Dims
    inputs: tuple[Input, Input, Input]
    weights: Weights
    options: Options
    stages: Stages

    def values(self, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Array]:
        """All stages, and the canonical weights, on these arrays.

        Raises:
            DataProblem: if a row keeps no key: the specification has no value there (0/0).
        """
        exprs = {**self.stages.items(), **self.weights.items()}
        axes = [one for node in all_inputs(exprs.values()).values() for one in node.axes]
        named = {symbol.name for one in axes for symbol in one.size.free_symbols}
        known = {name: size for name, size in sizes.items() if name in named}
        return {name: np.asarray(value) for name, value in evaluate_all(exprs, arrays, sizes=known).items()}

    def scale(self, sizes: Mapping[str, int]) -> float:
        """The number by which ``q . k`` is multiplied."""
        value = self.dims.scale if self.options.scale is None else self.options.scale
        return float(value.subs({symbol: sizes[symbol.name] for symbol in value.free_symbols}))


def specification(impl: Implementation, case: Case) -> Specification:
    """The combined form with the conventions of an implementation.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x
        >>> specification(Implementation(call=attention), Case("no mask")).stages.y.axes
        (b: B, t: T, m: d_model)
    """
    rotary = impl.positions
    d = impl.how_stored.dims() if rotary is None else turned_dims(impl.how_stored.dims(S="T"), rotary)
    w = impl.how_stored.weights(d, impl.biases)
    x = inputs_of(w, d)
    options = Options(_mask(impl, case, d), _keep(case, d), _scale(impl), angles_of(impl, d))
    return Specification(d, x, w, options, combined(d, x, w, options))


def _scale(impl: Implementation) -> sympy.Expr | None:
    """The exact scale, on axes where features are pairs if there are rotary positions."""
    scale, rotary = exact_scale(impl), impl.positions
    return scale if scale is None or rotary is None else scale.subs(size_symbol("d_k"), rotary.features)


def angles_of(impl: Implementation, d: Dims) -> Angles | None:
    """The tables of the rotary positions of an implementation, over axes of which k is made of pairs."""
    rotary = impl.positions
    return None if rotary is None else Angles(**tables(d, rotary, "b" in impl.order("cos").split()))


def inputs_of(w: Weights, d: Dims) -> tuple[Input, Input, Input]:
    """X_q, X_k, X_v, as wide as the weights that they are multiplied by."""
    return (
        Input("X_q", (d.b, d.t, w.w_q.axes[0])),
        Input("X_k", (d.b, d.s, w.w_k.axes[0])),
        Input("X_v", (d.b, d.s, w.w_v.axes[0])),
    )


def exact_scale(impl: Implementation) -> sympy.Expr | None:
    """The scale as an exact number; that of a float is the rational that the float is."""
    if impl.scale is None or isinstance(impl.scale, sympy.Expr):
        return impl.scale
    if isinstance(impl.scale, bool) or not isinstance(impl.scale, int | float) or not math.isfinite(impl.scale):
        raise TargetProblem(f"scale cannot be {impl.scale!r}", where=impl.title, expected="a finite number")
    return sympy.Rational(impl.scale)


def _mask(impl: Implementation, case: Case, d: Dims) -> Expr | None:
    if not case.additive:
        return None
    return Input("mask", mask_axes(impl, d), "mask")


def mask_axes(impl: Implementation, d: Dims) -> tuple[Axis, ...]:
    """The axes of the additive mask that an implementation takes, without those of size one."""
    known = {one.name: one for one in (d.b, d.h, d.t, d.s)}
    return tuple(known[name] for name in impl.order("mask").split() if name != "1")


def _keep(case: Case, d: Dims) -> Expr | None:
    """The kept keys as an expression: the causal mask, the padding mask, or both; or any."""
    if case.drawn:
        return Input("keep", (d.t, d.s), "mask", boolean=True)
    causal = bottom_right(d) if case.aligned == "bottom-right" else Compare("le", d.s, d.t)
    padding = Input("key_keep", (d.b, d.s), "mask", boolean=True)
    if case.causal and case.padding:
        return repeat(causal, "s t -> b t s", [d.b]) * repeat(padding, "b s -> b t s", [d.t])
    return causal if case.causal else padding if case.padding else None
