"""Symmetries that explain stages: the same function, computed differently, seen in what an implementation shows.

Defines `shown_symmetries`.  One symmetry is tried first, then another basis inside heads, then two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, islice, product

import numpy as np

from mha_sym.attention.forms import Stages
from mha_sym.audit.diagnosis.basis import another_basis, in_another_basis, tolerance
from mha_sym.audit.diagnosis.explanation import Explanation
from mha_sym.audit.diagnosis.fit import orders
from mha_sym.audit.evidence import Evidence, predicted
from mha_sym.audit.faults import Fault, symmetries
from mha_sym.audit.precision import Array
from mha_sym.audit.recipe import compatible
from mha_sym.expr import Permute, walk


def shown_symmetries(evidence: Sequence[Evidence]) -> tuple[Explanation, ...]:
    """What explains stages that differ although the output does not: the same function, done differently."""
    odd = [one for one in evidence if one.wrong and "y" not in one.wrong]
    if not odd or any("y" in one.wrong for one in evidence):
        return ()
    single = [(one,) for one in symmetries()]
    alone = tuple(_told(one, odd) for one in single if all(_shows(run, one) for run in odd))
    if alone:
        return alone
    pairs = (_told(pair, odd) for pair in _pairs() if all(_shows(run, pair) for run in odd))
    more = (with_it for one in single if (with_it := _in_another_basis(odd, one)))
    return tuple(islice(chain(filter(None, [_in_another_basis(odd, ())]), pairs, more), 1))


def _pairs() -> Iterator[tuple[Fault, ...]]:
    return (pair for pair in combinations(symmetries(), 2) if compatible(*(one.edits for one in pair)))


def _told(which: tuple[Fault, ...], odd: Sequence[Evidence]) -> Explanation:
    return Explanation(which, len(odd), len(odd), 0.0, odd[0].bounds["y"].value, odd[0])


def _in_another_basis(odd: Sequence[Evidence], which: tuple[Fault, ...]) -> Explanation | None:
    """Symmetries, maybe none, and another basis inside heads besides; runs that cannot tell do not count."""
    if any(on.spec.options.angles is not None for on in odd):  # what is turned in pairs has no other basis
        return None
    verdicts, stages = [], set[str]()
    for run in odd:
        for values in _values(run, which):
            far = [name for name in values if not _close(run, name, values[name])]
            verdicts.append(in_another_basis(run, values, far))
            if verdicts[-1] is not False:
                stages |= set(far)
                break
        else:
            return None
    return _told((*which, another_basis(sorted(stages))), odd) if True in verdicts else None


def _shows(on: Evidence, which: tuple[Fault, ...]) -> bool:
    """Whether symmetries give every stage that is shown, those included that differ."""
    return any(all(_close(on, name, values[name]) for name in values) for values in _values(on, which))


def _close(on: Evidence, name: str, value: Array) -> bool:
    gap = np.abs(_visible(on, name, value) - _visible(on, name, on.shown[name])).max()
    return bool(gap <= tolerance(on, name, value))


def _values(on: Evidence, which: tuple[Fault, ...]) -> Iterator[dict[str, Array]]:
    """The shown stages as symmetries make them, for every order of heads or features, on the usual axes only."""
    form = on.forms.form(*which) if all(one.possible(on.forms.at) for one in which) else None
    if form is None:
        return
    stages = {name: expr for name, expr in form.items().items() if name in on.shown}
    usual = on.forms.right.items()
    if any(expr.axes != usual[name].axes for name, expr in stages.items()):
        return
    for order in _orders_of(on, form):
        values = predicted(on, stages, order)
        if len(values) == len(stages):
            yield values


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
