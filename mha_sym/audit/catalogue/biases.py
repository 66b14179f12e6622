"""Faults of the biases: dropped, added twice, added h times, added at the wrong place."""

from __future__ import annotations

from dataclasses import replace

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Site, Slot, there
from mha_sym.expr import Expr, Join, Rename, Repeat, Scalar, Select, Split
from mha_sym.pattern import einsum

_FAMILY = "biases"
_UNSEEN = "Invisible while biases are zero, as in a fresh layer."
_WHO = {"q": "query", "k": "key", "v": "value", "o": "output"}
_SAME = "key_bias_cancels_value_bias_folds"


def _dropped(*names: str) -> Slot:
    return lambda at: replace(at, w=at.w.without(*(name for name in names if name in at.w.items())))


def _times(name: str, factor: int) -> Slot:
    def before(at: Site) -> Site:
        return replace(at, w=replace(at.w, **{name: there(getattr(at.w, name), name) * factor}))

    return before


def _h_times(at: Site) -> Site:
    return replace(at, w=replace(at.w, b_o=there(at.w.b_o, "b_o") * Scalar(at.d.h.size)))


def _folded(at: Site) -> Site:
    w = at.w
    folded = einsum("(h v), (h v) m -> m", there(w.b_v, "b_v"), w.w_o)
    return replace(at, w=replace(w.without("b_v"), b_o=folded if w.b_o is None else w.b_o + folded))


def _after_scale(at: Site, qkv: tuple[Expr, Expr, Expr]) -> tuple[Expr, Expr, Expr]:
    """``q = scale (x W_Q) + b_Q``, and the scores are not scaled again."""
    q, k, v = qkv
    bias = Split(there(at.w.b_q, "b_q"), at.d.hk)
    return (q - bias) * Scalar(at.scale) + bias, k, v


def _unscaled(at: Site, raw: Expr) -> Expr:
    return raw if at.mask is None else raw + at.mask


def _of_first_head(name: str) -> Slot:
    """The bias of head 0 is used for all heads."""

    def before(at: Site) -> Site:
        over = at.d.hv if name == "b_v" else at.d.hk
        first = Select(Split(there(getattr(at.w, name), name), over), at.d.h, 0)
        return replace(at, w=replace(at.w, **{name: Join(Repeat(first, over.factors), over.factors)}))

    return before


def _before_w_o(at: Site, c: Expr) -> Expr:
    """``(c + b_O) W_O`` where the joined heads are as wide as the model."""
    shifted = c + Rename(there(at.w.b_o, "b_o"), at.d.m, at.d.hv)
    return einsum("b t (h v), (h v) m -> b t m", shifted, at.w.w_o)


def _needs(letter: str) -> tuple[str, ...]:
    """What must be there; what is turned by positions has a key bias that the softmax does see."""
    return ("b_k", "unturned") if letter == "k" else (f"b_{letter}",)


def _drop(letter: str) -> Fault:
    same = letter == "k"
    return Fault(
        name=f"{_WHO[letter]}_bias_dropped", words=f"The {_WHO[letter]} bias b_{letter.upper()} is not added.",
        symptom="None: the softmax does not see it." if same else _UNSEEN,
        mend="nothing to mend" if same else _mend(letter), step=1, stage="y" if letter == "o" else letter,
        edits={"before": _dropped(f"b_{letter}")}, needs=_needs(letter), theorem=_SAME if same else "",
        family=_FAMILY,
    )  # fmt: skip


def _twice(letter: str) -> Fault:
    same = letter == "k"
    return Fault(
        name=f"{_WHO[letter]}_bias_added_twice", words=f"The {_WHO[letter]} bias b_{letter.upper()} is added twice.",
        symptom="None: the softmax does not see it." if same else _UNSEEN,
        mend="nothing to mend" if same else _mend(letter), step=1, stage="y" if letter == "o" else letter,
        edits={"before": _times(f"b_{letter}", 2)}, needs=_needs(letter), theorem=_SAME if same else "",
        family=_FAMILY,
    )  # fmt: skip


def _mend(letter: str) -> str:
    return "y = c @ w_o + b_o" if letter == "o" else f"{letter} = x @ w_{letter} + b_{letter}"


FAULTS: tuple[Fault, ...] = (
    *(_drop(letter) for letter in "qvok"),
    *(_twice(letter) for letter in "qvok"),
    Fault(
        name="projection_biases_dropped", words="None of the biases of queries, keys and values is added.",
        symptom=_UNSEEN, mend="q = x @ w_q + b_q, likewise k and v",
        step=1, stage="q", edits={"before": _dropped("b_q", "b_k", "b_v")}, needs=("b_q", "b_v"), family=_FAMILY,
    ),
    Fault(
        name="all_biases_dropped", words="No bias is added at all.",
        symptom=_UNSEEN, mend="q = x @ w_q + b_q, ..., y = c @ w_o + b_o",
        step=1, stage="q", edits={"before": _dropped("b_q", "b_k", "b_v", "b_o")}, needs=("b_q", "b_v", "b_o"),
        family=_FAMILY,
    ),
    Fault(
        name="output_bias_in_every_head",
        words="The output bias is added to what each head contributes, h times altogether.",
        symptom="The output is off by (h - 1) b_O everywhere.", mend="y = sum over heads of z[r] @ w_o[r], then + b_o",
        step=8, stage="y", edits={"before": _h_times}, needs=("b_o",), family=_FAMILY,
    ),
    Fault(
        name="output_bias_before_w_o", words="The output bias is added before W_O instead of after it.",
        symptom="The output is off by a constant vector.", mend="y = c @ w_o + b_o", step=8, stage="y",
        edits={"output": _before_w_o}, needs=("b_o",), ties={"d_model": ("h", "d_v")}, family=_FAMILY,
    ),
    Fault(
        name="query_bias_after_scale", words="The queries are scaled before their bias is added.",
        symptom="The query bias is sqrt(d_k) times too strong.", mend="q = (x @ w_q + b_q) / sqrt(d_k)", step=4,
        stage="q", edits={"heads": _after_scale, "masked": _unscaled}, needs=("b_q",), family=_FAMILY,
    ),
    Fault(
        name="query_bias_of_first_head", words="The query bias of the first head is used for all heads.",
        symptom="Only the first head is right.", mend="rearrange(b_q, '(h k) -> h k', h=h)", step=1, stage="q",
        edits={"before": _of_first_head("b_q")}, needs=("b_q",), family=_FAMILY,
    ),
    Fault(
        name="value_bias_of_first_head", words="The value bias of the first head is used for all heads.",
        symptom="Only the first head is right.", mend="rearrange(b_v, '(h v) -> h v', h=h)", step=1, stage="v",
        edits={"before": _of_first_head("b_v")}, needs=("b_v",), family=_FAMILY,
    ),
    Fault(
        name="value_bias_folded", words="The value bias is not added to the values; b_V W_O is in the output bias.",
        symptom="None: the output is the same.", mend="nothing to mend", step=1, stage="v",
        edits={"before": _folded}, needs=("b_v",), theorem=_SAME, family=_FAMILY,
    ),
)  # fmt: skip

