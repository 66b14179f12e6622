"""Another basis inside heads: whether stages that are shown hold the features of every head mixed by a matrix.

Defines `another_basis` (what is told of it), `in_another_basis` and `tolerance`.  That a layer sees its heads through
the products of their weights only, so that such a matrix changes nothing, is the theorem `THEOREM`; here numbers that
an implementation shows are compared.  With rotary positions queries and keys are turned behind the matrix, and nothing
is said of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from einops import rearrange

from mha_sym.audit.diagnosis.fit import NEARER, SLACK, seen
from mha_sym.audit.evidence import Evidence, largest
from mha_sym.audit.faults import Fault
from mha_sym.audit.precision import Array

#: the theorem that says that nothing changes
THEOREM = "head_circuits_determine_layer"

_HOW = {
    "q": "queries are Q^(r) G", "k": "keys are K^(r) G^-T", "v": "values are V^(r) G", "z": "head outputs are Z^(r) G",
    "c": "joined heads are Z^(r) G",
}  # fmt: skip


def another_basis(stages: Sequence[str]) -> Fault:
    """What is told where these stages are in another basis.

    Example:
        >>> another_basis(["v"]).words
        'The features of each head are in another basis: values are V^(r) G, with a matrix G that has an inverse.'
    """
    how = ", ".join(_HOW[stage] for stage in _HOW if stage in stages)
    first = next(stage for stage in _HOW if stage in stages)
    return Fault(
        name="basis_changed_inside_heads",
        words=f"The features of each head are in another basis: {how}, with a matrix G that has an inverse.",
        symptom="None: the scores and the output are the same.", mend="nothing to mend", step=4, stage=first,
        edits={}, theorem=THEOREM, family="weights",
    )  # fmt: skip


def in_another_basis(on: Evidence, values: Mapping[str, Array], far: Sequence[str]) -> bool | None:
    """Whether the stages that are far from the values of a form are these in another basis, one for each head.

    Args:
        on: a run, with the stages that the implementation shows.
        values: the same stages of the form.
        far: those in which the two differ.

    Returns:
        None if this run cannot tell: nothing is far, there are too few tokens, or the format is too short.
    """
    if not far:
        return None
    turned = {"q", "k"} & set(far)
    if not set(far) <= _HOW.keys() or (turned and on.spec.options.angles is not None):
        return False
    found: list[bool | None] = []
    if turned:
        both = {"q", "k"} <= on.shown.keys()
        found.append(_same_products(on, values) if both else _one_matrix(on, values, tuple(turned)))
    if set(far) - turned:
        found.append(_one_matrix(on, values, [stage for stage in ("v", "z", "c") if stage in on.shown]))
    return None if None in found and False not in found else all(found)


def tolerance(on: Evidence, stage: str, *values: Array) -> float:
    """How far a stage of an implementation may be from that of a form, whose values may be larger than usual."""
    wider = max(1.0, largest(values) / max(seen(on.found[stage]), 1e-300))
    return SLACK * on.bounds[stage].value * wider


def _same_products(on: Evidence, values: Mapping[str, Array]) -> bool | None:
    """Whether every query meets every key as it should, those of other samples included: ``q . k`` has no basis."""
    products, room = [], np.zeros(())
    e_q, e_k = (tolerance(on, stage, on.shown[stage], values[stage]) for stage in "qk")
    for side in (values, on.shown):
        q, k = (_rows(stage, side[stage]) for stage in "qk")
        products.append(q @ k.swapaxes(1, 2))
        room = room + e_q * np.abs(k).sum(-1)[:, None, :] + e_k * np.abs(q).sum(-1)[:, :, None]
    if NEARER * float(room.max()) > largest(products):
        return None
    return bool((np.abs(products[0] - products[1]) <= room).all())


def _one_matrix(on: Evidence, values: Mapping[str, Array], stages: Sequence[str]) -> bool | None:
    """Whether one matrix for each head, with an inverse, turns these stages of the form into those that are shown."""
    heads = on.setting.sizes["h"]
    left, right = (
        np.concatenate([_rows(stage, side[stage], heads) for stage in stages], 1) for side in (values, on.shown)
    )
    room = max(tolerance(on, stage, on.shown[stage], values[stage]) for stage in stages)
    found = [_solves(*pair, room) for pair in zip(left, right, strict=True)]
    return False if False in found else None if None in found else True


def _rows(stage: str, value: Array, heads: int = 0) -> Array:
    """The features of every token, ``(h, n, k)``."""
    apart = rearrange(value, "b t (h v) -> b h t v", h=heads) if stage == "c" else value
    return rearrange(apart, "b h n v -> h (b n) v")


def _solves(left: Array, right: Array, room: float) -> bool | None:
    """Whether ``left G = right`` for a matrix that has an inverse; None if fewer rows than could tell have rank."""
    rows, features = left.shape
    noise = room * np.sqrt(right.size)
    if rows <= features or min(np.linalg.svd(side, compute_uv=False)[-1] for side in (left, right)) <= noise:
        return None
    matrix = np.linalg.lstsq(left, right, rcond=None)[0]
    return bool(np.linalg.norm(left @ matrix - right) <= noise)
