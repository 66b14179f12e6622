"""Other layouts under which an output that is wrong would be right: the weights may only be read in another way.

Defines `OtherLayout` and `other_layouts`.  All else is left as it is declared: scale, masks, inputs, rotary positions.
The output is judged by the bound that the specification has under the other layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mha_sym.attention.dims import Weights
from mha_sym.attention.forms import Stages, combined
from mha_sym.attention.layouts import CANONICAL, LAYOUTS, Layout
from mha_sym.audit.bounds import stage_bounds
from mha_sym.audit.diagnosis.fit import NEARER
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.layouts.shards import Shards, shards_of
from mha_sym.audit.layouts.variants import variants
from mha_sym.audit.precision import Array
from mha_sym.errors import Problem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Input, inputs
from mha_sym.plan import plan_of

#: how many layouts are told where several make the output right
_TOLD = 3

#: a way of reading stored parameters: canonical weights, and the sizes that follow from them
_Taken = tuple[dict[str, Array], dict[str, int]]
_Take = Callable[[Evidence], _Taken]


@dataclass(frozen=True)
class OtherLayout:
    """A layout under which the output is right.

    Attributes:
        name: what it is called.
        words: who stores weights like that.
        how: what to say, or to do, so that they are read like that.
    """

    name: str
    words: str
    how: str


def other_layouts(evidence: Sequence[Evidence], more: bool = False) -> tuple[OtherLayout, ...]:
    """The layouts under which every run gives what the specification gives; none if no layout does.

    Args:
        evidence: runs, at least one of which is wrong in its output.
        more: whether variants that have no name are tried, too: other orders, W_O in the other orientation.
    """
    first = min((one for one in evidence if "y" in one.wrong), key=lambda one: one.found["scores"].size)
    runs = [first, *(one for one in evidence if one is not first)]
    stored = _stored(first)
    if stored is None:
        return ()
    found: list[tuple[OtherLayout, dict[str, Array]]] = []
    for layout in _alike(stored, more):
        take = partial(_under_layout, layout)
        if all(_right(one, take) for one in runs):
            weights = take(first)[0]
            if not any(_equal(weights, before) for _, before in found):
                found.append((OtherLayout(layout.name, layout.words, _how(layout, stored)), weights))
    return tuple(one for one, _ in found[:_TOLD]) or tuple(_in_shards(runs, stored))


def _in_shards(runs: Sequence[Evidence], stored: Mapping[str, str]) -> Iterator[OtherLayout]:
    """The first way in which packed weights lie shard by shard, if there is one."""
    names = {"w_qkv": stored["w_q"], "w_o": stored["w_o"]}
    names |= {ours: stored[one] for ours, one in (("b_qkv", "b_q"), ("b_o", "b_o")) if one in stored}
    if len(set(stored.values())) != len(names):
        return
    first, sizes = {ours: runs[0].setting.arrays[name] for ours, name in names.items()}, runs[0].setting.sizes
    for way in shards_of(first, sizes["h"], sizes.get("G")):
        if all(_right(one, partial(_in_one_way, way, names)) for one in runs):
            how = way.mend.replace("w_qkv", stored["w_q"]).replace("rearrange(", "einops.rearrange(")
            yield OtherLayout(way.name, f"{way.base.words}, shard by shard", how)
            return


# ---------------------------------------------------------------- whether a layout makes it right


def _right(on: Evidence, take: _Take) -> bool:
    """Whether the output of a run is that of the specification with weights that are taken in another way.

    It must come far nearer than with those that are declared, too: in short formats bounds admit much.
    """
    try:
        weights, sizes = take(on)
        found = _values(on, weights, sizes)
        x = (on.setting.arrays["X_q"], on.setting.arrays["X_k"], on.setting.arrays["X_v"])
        bounds = stage_bounds(found, x, sizes, on.spec.scale(sizes), on.setting.mask, on.dtype)
    except Problem:  # the shapes are not those of this layout
        return False
    gap, before = (np.abs(one["y"] - on.shown["y"]) for one in (found, on.found))
    within = bool((gap <= bounds["y"].entries).all())
    return within and ("y" not in on.wrong or NEARER * float(gap.max()) <= float(before.max()))


def _values(on: Evidence, weights: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """The stages of the specification with these canonical weights, and the weights."""
    stages = _form(on).items()
    arrays = {**on.setting.arrays, **{_name(target): value for target, value in weights.items()}}
    plan = plan_of(list(stages.values()))
    known = {name: n for name, n in sizes.items() if name in plan.sizes}
    found = evaluate_all(stages, {name: arrays[name] for name in plan.inputs}, sizes=known)
    return {**{name: np.asarray(value) for name, value in found.items()}, **weights}


def _form(on: Evidence) -> Stages:
    """The form of a run with canonical weights as they come."""
    plain: dict[str, Expr] = {
        target: Input(_name(target), expr.axes, "weight" if target.startswith("w") else "bias")
        for target, expr in on.spec.weights.items().items()
    }
    return combined(on.spec.dims, on.spec.inputs, Weights(**plain), on.spec.options)


def _name(target: str) -> str:
    return f"canonical_{target}"


def _under_layout(layout: Layout, on: Evidence) -> _Taken:
    stored = {layout.row(target).stored for target in layout.rows}
    return _taken(layout, {name: on.setting.arrays[name] for name in stored}, on)


def _in_one_way(way: Shards, names: Mapping[str, str], on: Evidence) -> _Taken:
    return _taken(way.base, way.together({ours: on.setting.arrays[name] for ours, name in names.items()}), on)


def _taken(layout: Layout, arrays: Mapping[str, Array], on: Evidence) -> _Taken:
    """The canonical weights under a layout, and all sizes."""
    n = on.setting.sizes
    known = {"h": n["h"], **({"G": n["G"]} if layout.grouped and "G" in n else {})}
    sizes = layout.sizes(arrays, known)
    weights = layout.weights(layout.dims(), layout.biases(arrays)).items()
    plan = plan_of(list(weights.values()))
    found = evaluate_all(weights, arrays, sizes={name: size for name, size in sizes.items() if name in plan.sizes})
    return {name: np.asarray(value) for name, value in found.items()}, {**n, "d_v": sizes["d_k"], **sizes}


def _equal(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return all(np.array_equal(one[name], other[name]) for name in one)


# ---------------------------------------------------------------- layouts of parameters like these


def _stored(on: Evidence) -> dict[str, str] | None:
    """Which parameter each canonical weight lies in; None if one lies in several."""
    found: dict[str, str] = {}
    for target, expr in on.spec.weights.items().items():
        names = {node.name for node in inputs(expr)}
        if len(names) != 1:
            return None
        (found[target],) = names
    return found


def _alike(stored: Mapping[str, str], more: bool) -> Iterator[Layout]:
    """The layouts whose weights lie together as these do, under these names: those that have the names come first."""
    whole = [one for one in LAYOUTS.values() if stored.keys() <= one.rows.keys()]
    fitting = [one for one in whole if _parts({t: one.row(t).stored for t in stored}) == _parts(stored)]
    own = [one for one in fitting if all(one.row(target).stored == name for target, name in stored.items())]
    named = [_under(one, stored) for one in (*own, *(one for one in fitting if one not in own))]
    every = [*named, *(variant for one in named for variant in variants(one))] if more else named
    known = set()
    for one in every:
        key = (*sorted(one.rows.items()), *one.same.items())
        if key not in known:
            known.add(key)
            yield one


def _parts(stored: Mapping[str, str]) -> frozenset[frozenset[str]]:
    """Which weights lie in one parameter."""
    return frozenset(frozenset(t for t in stored if stored[t] == name) for name in stored.values())


def _under(layout: Layout, stored: Mapping[str, str]) -> Layout:
    """The layout of exactly these weights under these names."""
    rows = {t: str(replace(layout.row(t), stored=stored[t])) for t in CANONICAL if t in stored}
    return Layout(layout.name, layout.words, rows, layout.same)


def _how(layout: Layout, stored: Mapping[str, str]) -> str:
    """What to say so that weights are read under a layout."""
    if layout.name not in LAYOUTS:
        return "it has no name of its own: give layout=Layout(...) with the rows " + "; ".join(layout.rows.values())
    theirs = {LAYOUTS[layout.name].row(target).stored: name for target, name in stored.items()}
    others = ", ".join(f"{ours} = {name}" for ours, name in theirs.items() if ours != name)
    return f"say --layout {layout.name}" + (f", where {others}" if others else "")
