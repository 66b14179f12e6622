"""Faults of the weights: orientation, packing order, blocks of heads in another order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import sympy

from mha_sym.attention.dims import Dims
from mha_sym.attention.forms import project
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, Slot
from mha_sym.axes import Axis, Permutation, axis, product
from mha_sym.expr import (
    Compare,
    Expr,
    Join,
    Map,
    Permute,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Split,
    Table,
    Transpose,
)

_FAMILY = "weights"
_NAMES = {"w_q": "W_Q", "w_k": "W_K", "w_v": "W_V", "w_o": "W_O"}


def _joined(d: Dims, name: str) -> Axis:
    return d.hv if name in ("w_v", "b_v", "w_o") else d.hk


def _turned(*names: str) -> Slot:
    """Square matrices used as their transposes."""

    def before(at: Site) -> Site:
        parts = {name: _transpose(getattr(at.w, name)) for name in names}
        return replace(at, w=replace(at.w, **parts))

    return before


def _transpose(w: Expr) -> Expr:
    rows, columns = w.axes
    aside = axis("aside", rows.size)
    read = Rename(Rename(Rename(w, rows, aside), columns, rows), aside, columns)
    return Transpose(read, (rows, columns))


def _viewed(name: str) -> Slot:
    """A matrix stored (out, in) that is reshaped to (in, out) instead of transposed."""

    def before(at: Site) -> Site:
        w = getattr(at.w, name)
        rows, columns = w.axes
        return replace(at, w=replace(at.w, **{name: Reshape(Transpose(w, (columns, rows)), (rows, columns))}))

    return before


def _zero(name: str) -> Slot:
    return lambda at: replace(at, w=replace(at.w, **{name: getattr(at.w, name) * Scalar(sympy.Integer(0))}))


def _twice(at: Site) -> Site:
    """Queries, keys and values are projected before the layer projects them: its inputs are ``x W + b``."""
    features = {"q": at.d.hk, "k": at.d.hk, "v": at.d.hv}
    x = []
    for letter, one, token in zip("qkv", at.x, (at.d.t, at.d.s, at.d.s), strict=True):
        over, given = features[letter], at.w.items()
        flat = project(one, token, given["w_" + letter], over, given.get("b_" + letter), at.d)
        x.append(Rename(flat, over, one.axes[-1]))
    return replace(at, x=(x[0], x[1], x[2]))


def _own_features(at: Site) -> Site:
    """Head r sees only the features of block r of the input: all other entries of the projections count as zero."""
    parts = {}
    for name in ("w_q", "w_k", "w_v"):
        w, over = at.w.items()[name], _joined(at.d, name)
        block, width = axis("block", at.d.h.size), axis("width", over.factors[1].size)
        rows = product(block, width)
        apart = Split(Split(Rename(w, w.axes[0], rows), rows), over) * Compare("eq", block, at.d.h)
        parts[name] = Rename(Join(Join(apart, over.factors), (block, width)), rows, w.axes[0])
    return replace(at, w=replace(at.w, **parts))


# ---------------------------------------------------------------- packed


def _exchanged(order: str) -> Slot:
    """Q, K, V taken from the places of ``order``: ``kqv`` gives the queries the keys' weights, and so on."""

    def before(at: Site) -> Site:
        given, parts = at.w.items(), dict[str, Expr | None]()
        for mine, theirs in zip("qkv", order, strict=True):
            for kind in ("w_", "b_"):
                value = given.get(kind + theirs)  # a bias that is not there is not there for another either
                parts[kind + mine] = None if value is None else _as_mine(at.d, value, kind + theirs, kind + mine)
        return replace(at, w=replace(at.w, **parts))  # type: ignore[arg-type]

    return before


def _as_mine(d: Dims, value: Expr, theirs: str, mine: str) -> Expr:
    old, new = _joined(d, theirs), _joined(d, mine)
    return value if old == new else Rename(value, old, new)


def _stacked(d: Dims, parts: Mapping[str, Expr], kind: str) -> Expr:
    """W_Q, W_K and W_V behind one another as a stored array has them, on the axes ``m three h k``."""
    three = axis("three", 3)
    total: Expr | None = None
    for place, letter in enumerate("qkv"):
        value = Split(_as_mine(d, parts[kind + letter], kind + letter, kind + "q"), d.hk)
        lead = value.axes[:-2]
        wide = Repeat(value, (*lead, three, d.h, d.k))
        one = Map("mul", (wide, Table(f"place_{letter}", (three,), tuple(int(n == place) for n in range(3)))))
        total = one if total is None else total + one
    assert total is not None
    return total


def _repacked(stored: str, read: str) -> Slot:
    """Packed weights stored in one order of (three h k) and read in another."""

    def before(at: Site) -> Site:
        given, d, parts = at.w.items(), at.d, dict[str, Expr]()
        known = {"three": axis("three", 3), "h": d.h, "k": d.k}
        for kind in ("w_", "b_"):
            if not all(kind + letter in given for letter in "qkv"):
                continue
            whole = _stacked(d, given, kind)
            lead = whole.axes[:-3]
            laid = Transpose(whole, (*lead, *(known[name] for name in stored.split())))
            seen = Reshape(laid, (*lead, *(known[name] for name in read.split())))
            for place, letter in enumerate("qkv"):
                value = Transpose(Select(seen, known["three"], place), (*lead, d.h, d.k))
                parts[kind + letter] = _as_mine(d, Join(value, (d.h, d.k)), kind + "q", kind + letter)
        return replace(at, w=replace(at.w, **parts))

    return before


# ---------------------------------------------------------------- heads in another order


def _permuted(*names: str) -> Slot:
    def before(at: Site) -> Site:
        given, parts = at.w.items(), dict[str, Expr]()
        for name in names:
            if name in given:
                over = _joined(at.d, name)
                parts[name] = Join(Permute(Split(given[name], over), Permutation("pi", at.d.h)), over.factors)
        return replace(at, w=replace(at.w, **parts))

    return before


def _basis(at: Site, qkv: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr, Expr]:
    pi = Permutation("pi_k", at.d.k)
    return Permute(qkv[0], pi), Permute(qkv[1], pi), qkv[2]


def _transposed(names: tuple[str, ...], name: str, over: str) -> Fault:
    who = " and ".join(_NAMES[one] for one in names)
    return Fault(
        name=name, words=f"{who} {'is' if len(names) == 1 else 'are'} used transposed; nothing complains because "
        "the matrix is square.",
        symptom="Runs only where d_model equals the width of all heads together.",
        mend=f"{names[0]}: (out, in) stored, as in torch.nn.Linear: y = x @ w.T; (in, out): y = x @ w",
        step=8 if names == ("w_o",) else 2, stage="y" if names == ("w_o",) else names[0][-1],
        edits={"before": _turned(*names)}, ties=_ties(names, over), family=_FAMILY,
    )  # fmt: skip


def _ties(names: tuple[str, ...], over: str) -> dict[str, str | tuple[str, str]]:
    if over == "kv":
        return {"d_v": "d_k", "d_model": ("h", "d_k")}
    return {"d_model": ("h", f"d_{over}")}


_WORDS = {
    "kqv": "[K; Q; V]", "vkq": "[V; K; Q]", "qvk": "[Q; V; K]", "kvq": "[K; V; Q]", "vqk": "[V; Q; K]",
}  # fmt: skip


def _orders() -> tuple[Fault, ...]:
    return tuple(
        Fault(
            name=f"weights_in_order_{order}",
            words=f"The projections are taken in the order {_WORDS[order]} instead of [Q; K; V].",
            symptom="Shapes agree; each projection has another one's weights.",
            mend="w_q, w_k, w_v = rearrange(w, '(three h k) m -> three m (h k)', three=3, h=h)",
            step=2, stage="q" if order[0] != "q" else "k", edits={"before": _exchanged(order)},
            ties={} if order == "kqv" else {"d_v": "d_k"}, family=_FAMILY,
        )
        for order in ("".join(one) for one in permutations("qkv"))
        if order != "qkv"
    )  # fmt: skip


_SHARED = {
    "kkv": ("queries", "W_K"), "qqv": ("keys", "W_Q"), "qvv": ("keys", "W_V"), "qkk": ("values", "W_K"),
    "qkq": ("values", "W_Q"),
}  # fmt: skip


def _shared() -> tuple[Fault, ...]:
    """One projection made with the weights of another."""
    return tuple(
        Fault(
            name=f"{who}_projected_with_{whose.lower()}",
            words=f"The {who} are projected with {whose}, the weights of another projection.",
            symptom=f"W_{who[0].upper()} has no influence.", mend=f"{who[0]} = x_{who[0]} @ w_{who[0]}",
            step=2, stage=who[0], edits={"before": _exchanged(order)},
            ties={} if order in ("kkv", "qqv") else {"d_v": "d_k"}, family=_FAMILY,
        )
        for order, (who, whose) in _SHARED.items()
    )  # fmt: skip


def _packed(name: str, stored: str, read: str, words: str) -> Fault:
    return Fault(
        name=name, words=words, symptom="Shapes agree; head 0 of the queries may even be right.",
        mend=f"rearrange(w, '({stored}) m -> three m (h k)', three=3, h=h)", step=2, stage="q",
        edits={"before": _repacked(stored, read)}, ties={"d_v": "d_k"}, family=_FAMILY,
    )  # fmt: skip


def _one_sided(names: tuple[str, ...], name: str, words: str, step: int, stage: str) -> Fault:
    return Fault(
        name=name, words=words, symptom="Heads meet the keys, values or rows of W_O of other heads.",
        mend="permute the head blocks of W_Q, W_K, W_V, their biases and the row blocks of W_O by the same order",
        step=step, stage=stage, edits={"before": _permuted(*names)}, family=_FAMILY,
    )  # fmt: skip


FAULTS: tuple[Fault, ...] = (
    _transposed(("w_q",), "query_matrix_transposed", "k"),
    _transposed(("w_k",), "key_matrix_transposed", "k"),
    _transposed(("w_v",), "value_matrix_transposed", "v"),
    _transposed(("w_o",), "output_matrix_transposed", "v"),
    _transposed(("w_q", "w_k", "w_v"), "projections_transposed", "kv"),
    _transposed(("w_q", "w_k", "w_v", "w_o"), "all_matrices_transposed", "kv"),
    *(
        Fault(
            name=f"{long}_matrix_reshaped",
            words=f"{_NAMES[name]} is brought from (out, in) to (in, out) by a reshape instead of a transpose.",
            symptom="Shapes agree whatever the sizes; every entry is elsewhere.",
            mend=f"{name} = rearrange({name}, 'out in -> in out')", step=8 if name == "w_o" else 2,
            stage="y" if name == "w_o" else name[-1], edits={"before": _viewed(name)}, family=_FAMILY,
        )
        for name, long in (("w_q", "query"), ("w_k", "key"), ("w_v", "value"), ("w_o", "output"))
    ),
    *_orders(),
    *_shared(),
    Fault(
        name="value_matrix_zero", words="W_V counts as zero, as weights do that no file was read into.",
        symptom="The output is the biases alone, whatever the input.", mend="v = x_v @ w_v, with the weights loaded",
        step=2, stage="v", edits={"before": _zero("w_v")}, family=_FAMILY,
    ),
    Fault(
        name="projections_applied_twice",
        words="Queries, keys and values are projected, and projected again by the layer that they are handed to.",
        symptom="Shapes agree where the width of all heads is d_model.", mend="hand x to the layer, not x @ w",
        step=2, stage="q", edits={"before": _twice}, ties=_ties(("w_q", "w_k", "w_v"), "kv"), family=_FAMILY,
    ),
    Fault(
        name="inputs_split_before_projection",
        words="The input is split into heads before it is projected: head r sees block r of the features only.",
        symptom="An h-th of the parameters has influence, or is there at all.",
        mend="rearrange(x @ w, 'b t (h k) -> b h t k', h=h), with w of (d_model, h d_k)", step=2, stage="q",
        edits={"before": _own_features}, needs=("ungrouped",), ties=_ties(("w_q", "w_k", "w_v"), "kv"), family=_FAMILY,
    ),
    _packed(
        "packed_per_head_taken_for_blocks", "three h k", "h three k",
        "Weights packed as blocks [Q; K; V] are read per head, [q1 k1 v1 q2 k2 v2 ...].",
    ),
    _packed(
        "packed_blocks_taken_for_per_head", "h three k", "three h k",
        "Weights packed per head, [q1 k1 v1 q2 k2 v2 ...], are read as blocks [Q; K; V].",
    ),
    _packed(
        "packed_read_three_last", "three h k", "h k three",
        "Weights packed as blocks [Q; K; V] are read with q, k and v next to one another, (h d 3).",
    ),
    _packed(
        "packed_read_features_first", "three h k", "three k h",
        "Weights packed as (3, h, d) are read as (3, d, h).",
    ),
    _one_sided(("w_q", "b_q"), "heads_permuted_in_queries", "The heads of the queries are in another order.", 2, "q"),
    _one_sided(("w_k", "b_k"), "heads_permuted_in_keys", "The heads of the keys are in another order.", 2, "k"),
    _one_sided(("w_v", "b_v"), "heads_permuted_in_values", "The heads of the values are in another order.", 2, "v"),
    _one_sided(
        ("w_q", "b_q", "w_k", "b_k", "w_v", "b_v"), "heads_permuted_but_w_o",
        "The heads of Q, K and V are in another order, the row blocks of W_O are not.", 9, "z",
    ),
    Fault(
        name="heads_permuted_with_w_o",
        words="The heads of Q, K and V are in another order, and the row blocks of W_O with them.",
        symptom="None: the output is the same.", mend="nothing to mend", step=9, stage="q",
        edits={"before": _permuted("w_q", "b_q", "w_k", "b_k", "w_v", "b_v", "w_o")},
        theorem="head_permutation_leaves_layer_unchanged", family=_FAMILY,
    ),
    Fault(
        name="features_permuted_inside_heads",
        words="The features of queries and keys are in another order inside each head, the same for both.",
        symptom="None: the scores are the same.", mend="nothing to mend", step=4, stage="q",
        edits={"heads": _basis}, needs=("unturned",), theorem="feature_order_inside_heads_is_free", family=_FAMILY,
    ),
)  # fmt: skip

