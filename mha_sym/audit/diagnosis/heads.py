"""Heads one by one: zeroing and permuting them through the weights, and finding where a head mask acts.

Defines `HeadCheck`, `check_heads`, `LOCATIONS` and `locate_head_mask`.  The weights of an implementation are changed in
the array in which it stores them, wherever the layout puts them; what must follow is a theorem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mha_sym.arrays import all_inputs
from mha_sym.audit.call import run
from mha_sym.audit.evidence import Evidence, predicted
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import RIGHT, Edits, Site, Slot, build
from mha_sym.axes import product
from mha_sym.errors import AxisProblem, TargetProblem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Input, Join, Rename, Split
from mha_sym.plan import plan_of

#: the weights that belong to single heads
_PER_HEAD = ("w_q", "w_k", "w_v", "b_q", "b_k", "b_v", "w_o")


@dataclass(frozen=True)
class HeadCheck:
    """Something that must hold of heads, and whether it does.

    Attributes:
        name: what was done, at which location.
        ok: whether what must follow did.
        figure: the largest difference from it.
        bound: how large that may be.
        theorem: the theorem that says what must follow.
    """

    name: str
    ok: bool
    figure: float
    bound: float
    theorem: str

    @property
    def words(self) -> str:
        """The same as a sentence."""
        verdict = "holds" if self.ok else "does not hold"
        return f"{self.name}: {verdict} (largest difference {self.figure:.2g}, bound {self.bound:.2g})"


def check_heads(impl: Implementation, on: Evidence) -> tuple[HeadCheck, ...]:
    """Zero the rows of W_O of each head in turn, and permute all heads; nothing if its weights cannot be changed.

    Raises:
        Problem: if the implementation fails on changed weights.
    """
    if not Stored.possible(impl):
        return ()
    weights = Stored(impl, on)
    found = [_ablation(impl, on, weights)]
    if weights.distinct:
        found.append(_permutation(impl, on, weights))
    return tuple(found)


def _ablation(impl: Implementation, on: Evidence, weights: Stored) -> HeadCheck:
    """``y = b_O + sum_r (y - y without head r)``, heads removed by zeroing their rows of W_O."""
    heads, full = on.setting.sizes["h"], on.shown["y"]
    rows = on.found["w_o"].reshape(heads, -1, on.found["w_o"].shape[-1])
    rest = full - on.found.get("b_o", np.zeros(()))
    for head in range(heads):
        without = rows.copy()
        without[head] = 0
        rest = rest - (full - weights.output(impl, on, {"w_o": without.reshape(on.found["w_o"].shape)}))
    figure, bound = float(np.abs(rest).max()), 2 * (heads + 1) * on.bounds["y"].value
    name = "y = b_O + sum of what each head adds, heads removed by zeroing their rows of W_O"
    return HeadCheck(name, figure <= bound, figure, bound, "head_ablation_locations")


def _permutation(impl: Implementation, on: Evidence, weights: Stored) -> HeadCheck:
    """Heads in reverse order in every weight and in the rows of W_O: the same output."""
    heads, changed = on.setting.sizes["h"], {}
    for name in _PER_HEAD:
        if name in on.found:
            value = on.found[name]
            lead = value.shape[-1:] if name == "w_o" else ()
            apart = value.reshape(heads, -1, *lead) if name == "w_o" else value.reshape(*value.shape[:-1], heads, -1)
            changed[name] = np.flip(apart, axis=0 if name == "w_o" else -2).reshape(value.shape)
    figure = float(np.abs(weights.output(impl, on, changed) - on.shown["y"]).max())
    bound = 2 * on.bounds["y"].value
    name = "heads in reverse order in W_Q, W_K, W_V, their biases and the rows of W_O: the same output"
    return HeadCheck(name, figure <= bound, figure, bound, "head_permutation_leaves_layer_unchanged")


class Stored:
    """Where each canonical weight lies in the stored arrays, found by evaluating the layout on numbers of places."""

    def __init__(self, impl: Implementation, on: Evidence) -> None:
        exprs = on.spec.weights.items()
        self.names = list(all_inputs(exprs.values()))
        marked, start = {}, 0
        for name in self.names:
            value = on.setting.arrays[name]
            marked[name] = np.arange(start, start + value.size, dtype=float).reshape(value.shape)
            start += value.size
        known = {n: size for n, size in on.setting.sizes.items() if n in plan_of(list(exprs.values())).sizes}
        self.places = {name: np.asarray(v).astype(int) for name, v in evaluate_all(exprs, marked, sizes=known).items()}
        every = np.concatenate([one.ravel() for one in self.places.values()])
        self.distinct = len(np.unique(every)) == every.size

    @staticmethod
    def possible(impl: Implementation) -> bool:
        """Whether the weights of an implementation can be changed from outside."""
        return any(word == "weights" or word in impl.stored.values() for word in impl.arguments)

    def output(self, impl: Implementation, on: Evidence, changed: Mapping[str, Array]) -> Array:
        """The output of the implementation with some canonical weights changed."""
        arrays = on.setting.arrays
        flat = np.concatenate([arrays[name].ravel() for name in self.names])
        for name, value in changed.items():
            flat[self.places[name].ravel()] = value.ravel()
        new, start = {}, 0
        for name in self.names:
            size = arrays[name].size
            new[impl.stored[name]] = flat[start : start + size].reshape(arrays[name].shape)
            start += size
        return run(impl, _with_weights(on.setting.arguments, new), on.setting.sizes)["y"]


def _with_weights(arguments: Mapping[str, Any], new: Mapping[str, Array]) -> dict[str, Any]:
    changed = {word: new.get(word, value) for word, value in arguments.items()}
    if "weights" in changed:
        changed["weights"] = {**arguments["weights"], **new}
    return changed


# ---------------------------------------------------------------- where a head mask acts


def _gate(at: Site) -> Input:
    return Input("gate", (at.d.h,), "gate")


def _on_heads(letter: str) -> Slot:
    def heads(at: Site, qkv: tuple[Expr, Expr, Expr]) -> tuple[Expr, ...]:
        return tuple(one * _gate(at) if name == letter else one for name, one in zip("qkv", qkv, strict=True))

    return heads


def _on_weight(name: str) -> Slot:
    def before(at: Site) -> Site:
        value = getattr(at.w, name)
        over = at.d.hv if name in ("w_v", "w_o") else at.d.hk
        gated = Join(Split(value, over) * _gate(at), over.factors)
        return replace(at, w=replace(at.w, **{name: gated}))

    return before


def _on_scores(at: Site, q: Expr, k: Expr) -> Expr:
    scores: Expr = RIGHT["product"](at, q, k)
    return scores * _gate(at)


def _on_output(at: Site, y: Expr) -> Expr:
    """The output read as ``(b, t, (h v))``, which it is not, and its blocks multiplied."""
    blocks = Split(Rename(y, at.d.m, at.d.hv), at.d.hv) * _gate(at)
    return Rename(Join(blocks, (at.d.h, at.d.v)), product(at.d.h, at.d.v), at.d.m)


#: where a gate for each head may act, the usual place first; those of one function stand together
LOCATIONS: dict[str, Edits] = {
    "weights A": {"reweighted": lambda at, weights: weights * _gate(at)},
    "head output Z": {"join": lambda at, z: _joined(at, z * _gate(at))},
    "values V": {"heads": _on_heads("v")},
    "row blocks of W_O": {"before": _on_weight("w_o")},
    "column blocks of W_V": {"before": _on_weight("w_v")},
    "scores S": {"product": _on_scores},
    "queries Q": {"heads": _on_heads("q")},
    "keys K": {"heads": _on_heads("k")},
    "output Y behind W_O, in blocks of d_v": {"after": _on_output},
    "nowhere: it has no effect": {},
}


def _joined(at: Site, z: Expr) -> Expr:
    return RIGHT["join"](at, z)  # type: ignore[no-any-return]


def locate_head_mask(impl: Implementation, on: Evidence, seed: int = 0) -> tuple[str, ...]:
    """The locations at which a head mask may act such that the output comes out; several are one function.

    Args:
        impl: an implementation that takes ``head_mask``.
        on: a run of it.
        seed: determines the gates, which are drawn, so that no two locations agree by chance.

    Raises:
        TargetProblem: if it takes no head mask.
    """
    if "head_mask" not in impl.arguments:
        raise TargetProblem(f"{impl.title} takes no head mask", expected="a parameter head_mask of shape (h)")
    # quarters are exact in every format; the first head is removed, as a head mask usually does
    gate = np.random.default_rng([seed, 157]).integers(-4, 9, on.setting.sizes["h"]) / 4
    gate[0], gate[-1] = 0.0, 1.75
    spread = gate.reshape([-1 if axis == "h" else 1 for axis in impl.order("head_mask").split()])
    shown = run(impl, {**on.setting.arguments, "head_mask": spread}, on.setting.sizes)["y"]
    setting = replace(on.setting, arrays={**on.setting.arrays, "gate": gate})
    found = []
    for name, edits in LOCATIONS.items():
        try:
            y = build(on.forms.at, edits).y
        except AxisProblem:  # the output cannot be read as heads at these sizes
            continue
        value = predicted(replace(on, setting=setting), {"y": y}).get("y")
        if value is not None and np.abs(value - shown).max() <= 8 * on.bounds["y"].value:
            found.append(name)
    return tuple(found)

