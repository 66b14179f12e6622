"""Symmetries that explain stages: the same function, computed differently, seen in what an implementation shows.

Defines `shown_symmetries`.  One symmetry is tried first, then two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np

from mha_sym.attention.forms import Stages
from mha_sym.audit.evidence import Evidence, largest, predicted
from mha_sym.audit.explanation import Explanation
from mha_sym.audit.faults import Fault, symmetries
from mha_sym.audit.fit import SLACK, orders, seen
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import compatible
from mha_sym.expr import Permute, walk


def shown_symmetries(evidence: Sequence[Evidence]) -> tuple[Explanation, ...]:
    """What explains stages that differ although the output does not: the same function, done differently."""
    odd = [one for one in evidence if one.wrong and "y" not in one.wrong]
    if not odd or any("y" in one.wrong for one in evidence):
        return ()
    alone = tuple(_told((one,), odd) for one in symmetries() if all(_shows(run, (one,)) for run in odd))
    if alone:
        return alone
    return tuple(_told(pair, odd) for pair in _pairs() if all(_shows(run, pair) for run in odd))[:1]


def _pairs() -> Iterator[tuple[Fault, ...]]:
    return (pair for pair in combinations(symmetries(), 2) if compatible(*(one.edits for one in pair)))


def _told(which: tuple[Fault, ...], odd: Sequence[Evidence]) -> Explanation:
    return Explanation(which, len(odd), len(odd), 0.0, odd[0].bounds["y"].value, odd[0])


def _shows(on: Evidence, which: tuple[Fault, ...]) -> bool:
    """Whether symmetries give every stage that is shown, those included that differ."""
    form = on.forms.form(*which) if all(one.possible(on.forms.at) for one in which) else None
    if form is None:
        return False
    stages = {name: expr for name, expr in form.items().items() if name in on.shown}
    usual = on.forms.right.items()
    perms = _orders_of(on, form)
    return any(
        all(
            expr.axes == usual[name].axes
            and np.abs(_visible(on, name, values[name]) - _visible(on, name, on.shown[name])).max()
            <= SLACK * on.bounds[name].value * max(1.0, largest([values[name]]) / max(seen(on.found[name]), 1e-300))
            for name, expr in stages.items()
        )
        for order in perms
        for values in [predicted(on, stages, order)]
        if len(values) == len(stages)
    )


def _orders_of(on: Evidence, form: Stages) -> list[dict[str, tuple[int, ...]]]:
    names = {node.perm.name: node.perm.axis for node in walk(form.y) if isinstance(node, Permute)}
    names |= {node.perm.name: node.perm.axis for node in walk(form.q) if isinstance(node, Permute)}
    sizes = on.setting.sizes
    known = {"pi": sizes["h"], "pi_k": sizes["d_k"]}
    each = [[(name, order) for order in orders(known[name])] for name in known if name in names]
    return [dict(chosen) for chosen in product(*each)]


def _visible(on: Evidence, name: str, value: Array) -> Array:
    """Scores of hidden keys do not count: code fills them as it likes."""
    if name != "scores" or on.setting.keep is None:
        return value
    return np.where(np.broadcast_to(on.setting.keep, value.shape), value, 0.0)
