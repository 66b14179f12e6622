"""Faults of the values and of what meets what: mislabelled einsums, one operand for another, dropout."""

from __future__ import annotations

import sympy

from mha_sym.audit.catalogue.scale import MEND
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site
from mha_sym.axes import axis
from mha_sym.expr import Expr, Input, Reduce, Rename, Repeat, Scalar, Select, Transpose
from mha_sym.pattern import einsum, rearrange

_FAMILY = "values"
_MEND = "z = einsum(weights, v, 'b h t s, b h s v -> b h t v')"
_HEADS = tuple[Expr, Expr, Expr]


def _mislabelled(at: Site, weights: Expr, v: Expr) -> Expr:
    """``bhts,bhuv->bhtv``: the key axis has two names, so that each is summed alone."""
    other = axis("u", at.d.s.size)
    return einsum("b h t s, b h u v -> b h t v", weights, Rename(v, at.d.s, other))


def _plain_sum(at: Site, weights: Expr, v: Expr) -> Expr:
    return Repeat(einsum("b h s v -> b h v", v), (at.d.b, at.d.h, at.d.t, at.d.v))


def _average(at: Site, weights: Expr, v: Expr) -> Expr:
    return _plain_sum(at, weights, v) * Scalar(1 / at.d.s.size)


def _no_weights(at: Site, weights: Expr, v: Expr) -> Expr:
    return Rename(v, at.d.s, at.d.t)


def _transposed(at: Site, weights: Expr) -> Expr:
    d = at.d
    aside = axis("aside", d.t.size)
    read = Rename(Rename(Rename(weights, d.t, aside), d.s, d.t), aside, d.s)
    return Transpose(read, (d.b, d.h, d.t, d.s))


def _values_for_keys(at: Site, qkv: _HEADS) -> _HEADS:
    q, _, v = qkv
    return q, Rename(v, at.d.v, at.d.k), v


def _keys_for_values(at: Site, qkv: _HEADS) -> _HEADS:
    q, k, _ = qkv
    return q, k, Rename(k, at.d.k, at.d.v)


def _queries_for_keys(at: Site, qkv: _HEADS) -> _HEADS:
    q, _, v = qkv
    return q, Rename(q, at.d.t, at.d.s), v


def _keys_for_queries(at: Site, qkv: _HEADS) -> _HEADS:
    _, k, v = qkv
    return Rename(k, at.d.s, at.d.t), k, v


def _queries_for_values(at: Site, qkv: _HEADS) -> _HEADS:
    q, k, _ = qkv
    return q, k, Rename(Rename(q, at.d.t, at.d.s), at.d.k, at.d.v)


def _queries_and_keys_exchanged(at: Site, qkv: _HEADS) -> _HEADS:
    q, k, v = qkv
    return Rename(k, at.d.s, at.d.t), Rename(q, at.d.t, at.d.s), v


def _unprojected(at: Site, flat: Expr) -> Expr:
    plain = Rename(at.x[2], at.x[2].axes[-1], at.d.hv)
    return rearrange(plain, "b s (h v) -> b h s v")


def _averaged(at: Site, weights: Expr) -> Expr:
    d = at.d
    mean = Reduce("sum", weights, (d.h,)) * Scalar(1 / d.h.size)
    return Repeat(mean, (d.b, d.h, d.t, d.s))


def _summed(at: Site, weights: Expr) -> Expr:
    d = at.d
    return Repeat(Reduce("sum", weights, (d.h,)), (d.b, d.h, d.t, d.s))


def _of_first_head(at: Site, weights: Expr) -> Expr:
    d = at.d
    return Repeat(Select(weights, d.h, 0), (d.b, d.h, d.t, d.s))


def _dropout(at: Site, weights: Expr) -> Expr:
    """Half of the weights, at random, are zero and the others twice as large."""
    d = at.d
    stays = Input("stays", (d.b, d.h, d.t, d.s), "mask", boolean=True)
    return weights * stays * Scalar(sympy.Integer(2))



def _operand(name: str, edit: object, words: str, symptom: str, mend: str, stage: str, **more: object) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=mend, step=4, stage=stage, edits={"heads": edit},  # type: ignore[dict-item]
        family=_FAMILY, **more,  # type: ignore[arg-type]
    )  # fmt: skip


_Q, _K, _V = "q = split(x_q @ w_q)", "k = split(x_k @ w_k)", "v = split(x_v @ w_v)"
_SAME_TOKENS = {"S": "T"}

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="weights_ignored_by_einsum",
        words="The key axis has two names in the einsum of weights and values: each is summed alone, and every query "
        "gets the sum of all values.",
        symptom="The output is the same at every position and does not depend on queries and keys.",
        mend=_MEND, step=4, stage="z", edits={"mix": _mislabelled}, family=_FAMILY,
    ),
    Fault(
        name="values_averaged", words="Every query gets the plain average of the values.",
        symptom="The output is the same at every position.", mend=_MEND, step=4, stage="z", edits={"mix": _average},
        family=_FAMILY,
    ),
    Fault(
        name="weights_not_applied", words="The values are passed on without being weighted.",
        symptom="No token sees another one.", mend=_MEND, step=4, stage="z", edits={"mix": _no_weights},
        ties=_SAME_TOKENS, family=_FAMILY,
    ),
    Fault(
        name="weights_applied_transposed", words="The weights are transposed when the values are summed: z = A^T V.",
        symptom="Each value is shared out by the row of its own query.", mend=_MEND, step=4, stage="z",
        edits={"reweighted": _transposed}, ties=_SAME_TOKENS, family=_FAMILY,
    ),
    _operand(
        "values_used_as_keys", _values_for_keys, "The queries meet the values instead of the keys.",
        "W_K has no influence.", _K, "k", ties={"d_v": "d_k"},
    ),
    _operand(
        "keys_used_as_values", _keys_for_values, "The weights sum the keys instead of the values.",
        "W_V has no influence.", _V, "v", ties={"d_v": "d_k"},
    ),
    _operand(
        "queries_used_as_keys", _queries_for_keys, "The queries meet themselves instead of the keys.",
        "W_K has no influence; the scores are symmetric.", _K, "k", ties=_SAME_TOKENS,
    ),
    _operand(
        "keys_used_as_queries", _keys_for_queries, "The keys meet themselves instead of the queries.",
        "W_Q has no influence; the scores are symmetric.", _Q, "q", ties=_SAME_TOKENS,
    ),
    _operand(
        "queries_used_as_values", _queries_for_values, "The weights sum the queries instead of the values.",
        "W_V has no influence.", _V, "v", ties={"S": "T", "d_v": "d_k"},
    ),
    _operand(
        "queries_and_keys_exchanged", _queries_and_keys_exchanged,
        "Queries and keys are exchanged: the scores are transposed before the softmax.",
        "The score of query t and key s is that of query s and key t.", MEND, "q",
        ties=_SAME_TOKENS,
    ),
    Fault(
        name="values_not_projected", words="The values are the input itself: W_V is left out.",
        symptom="W_V has no influence.", mend=_V, step=4, stage="v", edits={"split_v": _unprojected},
        ties={"d_model": ("h", "d_v")}, family=_FAMILY,
    ),
    Fault(
        name="averaged_weights_for_each_head",
        words="The weights averaged over the heads are used for every head.",
        symptom="All heads attend alike; often the averaged weights that a framework returns were taken for those of "
        "each head.",
        mend="average_attn_weights=False, or weights of shape (B, h, T, S)", step=4, stage="weights",
        edits={"reweighted": _averaged}, family=_FAMILY,
    ),
    Fault(
        name="weights_of_first_head_for_all", words="The weights of the first head are used for every head.",
        symptom="Only the first head is right.", mend=_MEND, step=4, stage="weights",
        edits={"reweighted": _of_first_head}, family=_FAMILY,
    ),
    Fault(
        name="weights_summed_over_heads", words="The weights summed over the heads are used for every head.",
        symptom="Rows of the weights sum to h.", mend=_MEND, step=4, stage="weights",
        edits={"reweighted": _summed}, family=_FAMILY,
    ),
    Fault(
        name="dropout_active", words="Dropout is active: weights are set to zero at random, the others enlarged.",
        symptom="The output differs from call to call.", mend="module.eval(), or dropout 0 where nothing is trained",
        step=4, stage="weights", edits={"reweighted": _dropout}, family=_FAMILY, random=True,
    ),
)  # fmt: skip
