"""Faults of joining the heads again, alone and together with the split they hide."""

from __future__ import annotations

from mha_sym.audit.catalogue.split import features_first, viewed
from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, Slot
from mha_sym.axes import Permutation, product
from mha_sym.expr import Expr, Permute, Rename, Reshape, Transpose
from mha_sym.pattern import rearrange

_FAMILY = "join"
_MEND = "rearrange(z, 'b h t v -> b t (h v)')"


def _straight(at: Site, z: Expr) -> Expr:
    return Reshape(z, (at.d.b, at.d.t, at.d.hv))


def _features_first(at: Site, z: Expr) -> Expr:
    joined = rearrange(z, "b h t v -> b t (v h)")
    return Rename(joined, product(at.d.v, at.d.h), at.d.hv)


def _ordered(pattern: str) -> Slot:
    """Axes in another order, then read as ``(b, t, (h v))``."""

    def join(at: Site, z: Expr) -> Expr:
        return Reshape(rearrange(z, f"b h t v -> {pattern}"), (at.d.b, at.d.t, at.d.hv))

    return join


def _batch_and_heads(at: Site, z: Expr) -> Expr:
    """The joined axis (b h) taken for (h b)."""
    d = at.d
    return rearrange(Reshape(z, (d.h, d.b, d.t, d.v)), "h b t v -> b t (h v)")


def _without_transpose_of_features(at: Site, z: Expr) -> Expr:
    turned = Transpose(z, (at.d.b, at.d.h, at.d.v, at.d.t))
    return Reshape(turned, (at.d.b, at.d.t, at.d.hv))


def _heads_permuted(at: Site, z: Expr) -> Expr:
    return rearrange(Permute(z, Permutation("pi", at.d.h)), "b h t v -> b t (h v)")


def _without_w_o(at: Site, c: Expr) -> Expr:
    return Rename(c, at.d.hv, at.d.m)


FAULTS: tuple[Fault, ...] = (
    Fault(
        name="join_without_transpose",
        words="The head outputs (B, h, T, d_v) are reshaped straight to (B, T, h d_v), without the inverse transpose.",
        symptom="Positions are mixed into features; right at h = 1 or T = 1 only.",
        mend=_MEND, step=6, stage="c", edits={"join": _straight}, family=_FAMILY,
    ),
    Fault(
        name="join_features_first",
        words="The heads are joined as (d_v, h) instead of (h, d_v), or the rows of W_O are read in that order.",
        symptom="Trains from scratch; trained weights give garbage, although every head is right.",
        mend=_MEND, step=7, stage="c", edits={"join": _features_first}, family=_FAMILY,
    ),
    Fault(
        name="join_positions_into_features",
        words="Head outputs are transposed to (B, h, d_v, T) and then reshaped to (B, T, h d_v).",
        symptom="Every output row holds one feature of many positions.",
        mend=_MEND, step=6, stage="c", edits={"join": _without_transpose_of_features}, family=_FAMILY,
    ),
    Fault(
        name="join_tokens_first",
        words="Head outputs are ordered as (T, B, h, d_v) and then reshaped to (B, T, h d_v).",
        symptom="Samples are mixed; right at B = 1.",
        mend=_MEND, step=6, stage="c", edits={"join": _ordered("t b h v")}, family=_FAMILY,
    ),
    Fault(
        name="join_heads_before_batch",
        words="Head outputs are ordered as (h, B, T, d_v) and then reshaped to (B, T, h d_v).",
        symptom="Samples and positions are mixed; right at h = 1.",
        mend=_MEND, step=6, stage="c", edits={"join": _ordered("h b t v")}, family=_FAMILY,
    ),
    Fault(
        name="join_batch_and_heads_exchanged",
        words="The joined axis (B h) of the head outputs is read as (h B).",
        symptom="Samples get heads of other samples; right at B = 1 or h = 1.",
        mend="rearrange(z, '(b h) t v -> b t (h v)', h=h)", step=7, stage="c", edits={"join": _batch_and_heads},
        family=_FAMILY,
    ),
    Fault(
        name="join_heads_permuted",
        words="The heads are concatenated in another order than that of the row blocks of W_O.",
        symptom="Every head is right, and each is multiplied by another head's block of W_O.",
        mend="concat = [z[0] | z[1] | ... | z[h-1]], in the order of the rows of W_O", step=7, stage="c",
        edits={"join": _heads_permuted}, family=_FAMILY,
    ),
    Fault(
        name="viewed_in_and_out",
        words="Heads are made by a straight reshape and joined by a straight reshape: the two undo each other, and "
        "attention in between is local.",
        symptom="Passes every test of shapes and of the round trip; each token sees only its own block of T/h tokens.",
        mend=f"rearrange(x @ w, 'b t (h k) -> b h t k', h=h), and {_MEND}", step=3, stage="q",
        edits={**{f"split_{letter}": viewed(letter) for letter in "qkv"}, "join": _straight}, family=_FAMILY,
    ),
    Fault(
        name="features_first_in_and_out",
        words="Features are split as (d, h) and joined as (d_v, h): the two undo each other.",
        symptom="Passes the round trip and trains; trained weights give garbage.",
        mend=f"rearrange(x @ w, 'b t (h k) -> b h t k', h=h), and {_MEND}", step=3, stage="q",
        edits={**{f"split_{letter}": features_first(letter) for letter in "qkv"}, "join": _features_first},
        family=_FAMILY,
    ),
    Fault(
        name="output_projection_missing",
        words="W_O and its bias are left out: the joined heads are the output.",
        symptom="W_O has no influence; the layer has d_model^2 parameters less.",
        mend="y = c @ w_o + b_o", step=8, stage="y", edits={"output": _without_w_o},
        ties={"d_model": ("h", "d_v")}, family=_FAMILY,
    ),
)  # fmt: skip
