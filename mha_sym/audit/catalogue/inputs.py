"""Faults of the inputs: batch and tokens exchanged, one input for another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site
from mha_sym.axes import Axis, axis
from mha_sym.errors import AxisProblem
from mha_sym.expr import Compare, Expr, Rename, Reshape, Transpose

_FAMILY = "inputs"
_MEND = "x = rearrange(x, 't b m -> b t m'), or batch_first=True"

Back = Callable[[Expr], Expr]


def _exchanged_axes(at: Site) -> tuple[Axis, Axis, Axis]:
    """Axes b, t and s of the sizes T, B and B."""
    return axis("b", at.d.t.size), axis("t", at.d.b.size), axis("s", at.d.b.size)


def _exchanged_site(at: Site, read: Callable[[Expr, Axis, Axis], Expr]) -> Site:
    """The layer on axes of which batch and tokens have changed roles; ``read`` gives an input on them."""
    b, t, s = _exchanged_axes(at)
    d = replace(at.d, b=b, t=t, s=s)
    tokens = (t, s, s)
    x = [read(one, b, token) for one, token in zip(at.x, tokens, strict=True)]
    causal = at.causal
    if isinstance(causal, Compare) and (causal.left, causal.right) == (at.d.s, at.d.t):
        causal = Compare(causal.op, s, t, causal.offset)
    elif causal is not None:
        raise AxisProblem("this mask has no meaning on other axes")
    return replace(at, d=d, x=(x[0], x[1], x[2]), causal=causal)


def _as_batch(x: Expr, b: Axis, token: Axis) -> Expr:
    """``(b, t, m)`` with each of the first two axes read as the other: nothing moves, roles change."""
    old_batch, old_token, width = x.axes
    aside = axis("aside", old_batch.size)
    roles = Rename(Rename(Rename(x, old_batch, aside), old_token, b), aside, token)
    return Transpose(roles, (b, token, width))


def _sequence_first(at: Site) -> tuple[Site, Back]:
    new = _exchanged_site(at, _as_batch)

    def back(y: Expr) -> Expr:
        b, t, m = y.axes
        aside = axis("aside", b.size)
        roles = Rename(Rename(Rename(y, b, aside), t, at.d.b), aside, at.d.t)
        return Transpose(roles, (at.d.b, at.d.t, m))

    return new, back


def _viewed(at: Site) -> tuple[Site, Back]:
    def read(x: Expr, b: Axis, token: Axis) -> Expr:
        return Reshape(x, (b, token, x.axes[2]))

    return _exchanged_site(at, read), lambda y: Reshape(y, (at.d.b, at.d.t, y.axes[2]))


def _features_first(at: Site) -> Site:
    """Inputs laid out as ``(b, m, t)``, as convolutions leave them, and viewed as ``(b, t, m)``."""
    x = [Reshape(Transpose(one, (one.axes[0], one.axes[2], one.axes[1])), one.axes) for one in at.x]
    return replace(at, x=(x[0], x[1], x[2]))


def _output_left(at: Site, y: Expr) -> Expr:
    return Reshape(Transpose(y, (at.d.t, at.d.b, at.d.m)), (at.d.b, at.d.t, at.d.m))


def _taken(*order: int) -> object:
    """The inputs of queries, keys and values are those of ``order``."""

    def before(at: Site) -> Site:
        x = [_along(at, at.x[n], place) for place, n in enumerate(order)]
        return replace(at, x=(x[0], x[1], x[2]))

    return before


def _self_attention(at: Site) -> Site:
    """Keys and values of the query input: as many of them as queries, whatever the other inputs are."""
    d = replace(at.d, s=axis("s", at.d.t.size))
    x = [_width(Rename(at.x[0], at.d.t, d.s), at.x[place].axes[-1]) for place in (1, 2)]
    return replace(at, d=d, x=(at.x[0], x[0], x[1]))


def _width(x: Expr, width: Axis) -> Expr:
    return x if x.axes[2] == width else Rename(x, x.axes[2], width)


def _along(at: Site, x: Expr, place: int) -> Expr:
    """An input with the tokens and the width of the one in whose place it stands."""
    token, width = (at.d.t if place == 0 else at.d.s), at.x[place].axes[-1]
    moved = x if x.axes[1] == token else Rename(x, x.axes[1], token)
    return _width(moved, width)


def _other_input(name: str, words: str, stage: str, order: tuple[int, ...], **more: object) -> Fault:
    return Fault(
        name=name, words=words, symptom="Right in self-attention, where all inputs are one.",
        mend=_MEND_INPUTS, step=3, stage=stage,
        edits={"before": _taken(*order)}, needs=("cross",), family=_FAMILY, **more,  # type: ignore[dict-item, arg-type]
    )  # fmt: skip


_MEND_INPUTS = "q, k, v = split(x_q @ w_q), split(x_k @ w_k), split(x_v @ w_v)"
_SAME_TOKENS = {"S": "T"}

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="batch_and_tokens_exchanged",
        words="The input (T, B, d_model) is read as (B, T, d_model), or the other way round: samples attend to one "
        "another, position by position.",
        symptom="A sample changes with its batch mates, and no token sees another one; right at B = 1 and T = 1 only.",
        mend=_MEND, step=3, stage="q", edits={"around": _sequence_first}, ties=_SAME_TOKENS, family=_FAMILY,
        needs=("unpadded",),
    ),
    Fault(
        name="batch_and_tokens_exchanged_by_view",
        words="The input is viewed as (T, B, d_model) instead of transposed, and the output viewed back.",
        symptom="Passes the round trip; samples are mixed.",
        mend=_MEND, step=3, stage="q", edits={"around": _viewed}, ties=_SAME_TOKENS, family=_FAMILY,
        needs=("unpadded",),
    ),
    Fault(
        name="inputs_viewed_features_first",
        words="The input (B, d_model, T), with its features first, is viewed as (B, T, d_model) instead of transposed.",
        symptom="Every token is made of features of others.", mend="x = rearrange(x, 'b m t -> b t m')", step=3,
        stage="q", edits={"before": _features_first}, family=_FAMILY,
    ),
    Fault(
        name="output_left_sequence_first",
        words="The output is computed as (T, B, d_model) and viewed as (B, T, d_model).",
        symptom="Rows are right but at other places.", mend="y = rearrange(y, 't b m -> b t m')", step=8, stage="y",
        edits={"after": _output_left}, family=_FAMILY,
    ),
    _other_input("values_from_key_input", "The values are made of the key input.", "v", (0, 1, 1)),
    _other_input(
        "values_from_query_input", "The values are made of the query input.", "v", (0, 1, 0), ties=_SAME_TOKENS
    ),
    _other_input("keys_from_query_input", "The keys are made of the query input.", "k", (0, 0, 2), ties=_SAME_TOKENS),
    _other_input("keys_from_value_input", "The keys are made of the value input.", "k", (0, 2, 2)),
    _other_input("key_and_value_inputs_exchanged", "The inputs of keys and values are exchanged.", "k", (0, 2, 1)),
    Fault(
        name="keys_and_values_from_query_input", words="Keys and values are made of the query input: self-attention.",
        symptom="Right in self-attention, where all inputs are one; the other inputs have no influence.",
        mend=_MEND_INPUTS, step=3, stage="k", edits={"before": _self_attention}, needs=("cross",), family=_FAMILY,
    ),
    _other_input("queries_from_key_input", "The queries are made of the key input.", "q", (1, 1, 2), ties=_SAME_TOKENS),
    _other_input(
        "queries_and_values_from_key_input", "Queries and values are made of the key input.", "q", (1, 1, 1),
        ties=_SAME_TOKENS,
    ),
    _other_input(
        "query_and_key_inputs_exchanged", "The inputs of queries and keys are exchanged.", "q", (1, 0, 2),
        ties=_SAME_TOKENS,
    ),
)  # fmt: skip
