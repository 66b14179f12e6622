"""The combined form as a recipe of replaceable slots, so that a fault is an edit of one or two of them.

Defines `Site` (axes, inputs, weights and masks of a layer), the table of slots `RIGHT`, and `build`, which makes the
`Stages` of the layer with some slots replaced.  Two edits that replace different slots can be made together.  Without
any edit `build` gives the combined form itself.  Nothing here knows which edits people make by mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import sympy

from mha_sym.attention.dims import Dims, Weights
from mha_sym.attention.forms import Options, Stages, project, with_positions
from mha_sym.attention.rotary import Angles
from mha_sym.axes import Axis, blocks, product
from mha_sym.errors import AxisProblem
from mha_sym.expr import Block, Compare, Expr, Map, Named, Rename, Repeat, Scalar, Select, Softmax, Split, as_expr
from mha_sym.pattern import einsum, rearrange

#: what may stand in a slot; its arguments are told at `SLOTS`
Slot: TypeAlias = Callable[..., Any]
Edits: TypeAlias = Mapping[str, Slot]
#: what changes a value, one after the other, by slot
Moves: TypeAlias = Mapping[str, tuple[Slot, ...]]

Part = TypeVar("Part")


@dataclass(frozen=True)
class Grouped:
    """Which heads share keys and values: ``h = g n``, g groups of n heads each, and head r uses group ``r // n``."""

    g: Axis
    n: Axis

    def weights(self, at: Site) -> dict[str, Expr]:
        """The weights of keys and values, one a group, on axes ``... g k`` and ``... g v``."""
        found: dict[str, Expr] = {}
        for name, value in at.w.items().items():
            if name[-1] in "kv":
                apart = Split(value, at.d.hk if name[-1] == "k" else at.d.hv)
                heads = Rename(apart, at.d.h, product(self.g, self.n))
                found[name] = Select(Split(heads, product(self.g, self.n)), self.n, 0)
        return found


@dataclass(frozen=True)
class Site:
    """A layer before it is computed: what every slot may look at.

    Attributes:
        d: the axes.
        x: X_q, X_k, X_v.
        w: the canonical weights.
        scale: what ``q . k`` is multiplied by.
        mask: the mask added to the scores.
        causal: the kept keys that say which later keys are hidden, a 0/1 expression over t and s.
        padding: the kept keys that say which keys are padding, over b and s, or over b, t and s.
        kept: any other mask of kept keys.
        same: whether queries, keys and values come from one input.
        kv: which heads share keys and values, if any do.
        angles: the tables of rotary positions, if there are any.
    """

    d: Dims
    x: tuple[Expr, Expr, Expr]
    w: Weights
    scale: sympy.Expr
    mask: Expr | None = None
    causal: Expr | None = None
    padding: Expr | None = None
    kept: Expr | None = None
    same: bool = False
    kv: Grouped | None = None
    angles: Angles | None = None

    @cached_property
    def keep(self) -> Expr | None:
        """All masks of kept keys together."""
        found: Expr | None = None
        for part in (self.causal, self.padding, self.kept):
            found = part if found is None else found if part is None else both(found, part)
        return found

    @property
    def options(self) -> Options:
        """Masks, scale and positions as the forms take them."""
        return Options(self.mask, self.keep, self.scale, self.angles)


def site(d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options = Options(), same: bool = False) -> Site:  # noqa: B008
    """The site of a layer; a mask ``s <= t`` is taken for causal, one over b and s for padding.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, cross_inputs, dims
        >>> d = dims(S="S")
        >>> site(d, cross_inputs(d), combined_weights(d), Options(keep=Compare("le", d.s, d.t))).causal is not None
        True
    """
    scale = d.scale if o.scale is None else o.scale
    found = Site(d, x, w, scale, o.mask, same=same, angles=o.angles)
    if o.keep is None:
        return found
    if isinstance(o.keep, Compare):
        return replace(found, causal=o.keep)
    return replace(found, padding=o.keep) if set(o.keep.axes) == {d.b, d.s} else replace(found, kept=o.keep)


def there(part: Part | None, what: str) -> Part:
    """A part of a site that an edit needs.

    Raises:
        AxisProblem: if it is not there, or another edit has taken it away.
    """
    if part is None:
        raise AxisProblem(f"there is no {what} here")
    return part


def both(one: Expr, other: Expr) -> Expr:
    """Two 0/1 masks as one, copied along the axes that either of them lacks.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> from mha_sym.expr import Input
        >>> d = dims(S="S")
        >>> both(Compare("le", d.s, d.t), Input("pad", (d.b, d.s), "mask", boolean=True)).axes
        (s: S, t: T, b: B)
    """
    every = tuple(dict.fromkeys((*one.axes, *other.axes)))
    wide = [part if set(part.axes) == set(every) else Repeat(part, every) for part in (one, other)]
    return Map("mul", tuple(wide))


def without(keep: Expr) -> Expr:
    """``1 - keep``: what is hidden where ``keep`` says what is seen, and the other way round."""
    return as_expr(1) - keep


def bottom_right(d: Dims, op: str = "le", offset: int = 0) -> Expr:
    """``s <= t + S - T + offset``, that is ``T + s <= S + t + offset``: positions counted from the other axis' end.

    Example:
        >>> from mha_sym.attention.dims import dims
        >>> bottom_right(dims(S="S")).axes
        (s: S, t: T)
    """
    if d.t.size == d.s.size:
        return Compare(op, d.s, d.t, offset)  # type: ignore[arg-type]
    later, earlier = blocks(d.t, d.s), blocks(d.s, d.t)
    return Block(Block(Compare(op, later, earlier, offset), later, 1), earlier, 1)  # type: ignore[arg-type]


def along(expr: Expr, old: Axis, new: Axis) -> Expr:
    """An expression whose axis ``old`` is read as ``new``, if it has it."""
    return Rename(expr, old, new) if old in expr.axes and old != new else expr


# ---------------------------------------------------------------- the slots of the correct form


def _split(letter: str) -> Slot:
    token, feature = {"q": ("t", "k"), "k": ("s", "k"), "v": ("s", "v")}[letter]
    pattern = f"b {token} (h {feature}) -> b h {token} {feature}"
    return lambda at, flat: rearrange(flat, pattern)


def _positions(at: Site, q: Expr, k: Expr) -> tuple[Expr, Expr]:
    return with_positions(at.d, q, k, Options(angles=at.angles))


def _product(at: Site, q: Expr, k: Expr) -> Expr:
    return einsum("b h t k, b h s k -> b h t s", q, k)


def _masked(at: Site, raw: Expr) -> Expr:
    scores: Expr = raw * Scalar(at.scale)
    return scores if at.mask is None else scores + at.mask


def _softmax(at: Site, scores: Expr) -> Expr:
    return Softmax(scores, (at.d.s,), at.keep)


def _mix(at: Site, weights: Expr, v: Expr) -> Expr:
    return einsum("b h t s, b h s v -> b h t v", weights, v)


def _join(at: Site, z: Expr) -> Expr:
    return rearrange(z, "b h t v -> b t (h v)")


def _output(at: Site, c: Expr) -> Expr:
    y = einsum("b t (h v), (h v) m -> b t m", c, at.w.w_o)
    return y if at.w.b_o is None else y + at.w.b_o


#: the slots that are replaced whole, and what stands there in the correct form
RIGHT: dict[str, Slot] = {
    "split_q": _split("q"), "split_k": _split("k"), "split_v": _split("v"),
    "positions": _positions, "product": _product, "masked": _masked, "softmax": _softmax, "mix": _mix,
    "join": _join, "output": _output,
}  # fmt: skip

#: every slot: its arguments and what it gives.  Those that are not in `RIGHT` change a value, one after the other.
SLOTS: dict[str, str] = {
    "around": "site -> (site, y -> y), the layer on another site and what is done to its output",
    "before": "site -> site",
    "split_q": "site, (b t (h k)) -> (b h t k)",
    "split_k": "site, (b s (h k)) -> (b h s k)",
    "split_v": "site, (b s (h v)) -> (b h s v)",
    "positions": "site, q, k -> (q, k), positions turned into them if they are rotary",
    "heads": "site, (q, k, v) -> (q, k, v)",
    "product": "site, q, k -> (b h t s)",
    "masked": "site, q . k -> scores",
    "softmax": "site, scores -> weights",
    "reweighted": "site, weights -> weights",
    "mix": "site, weights, v -> (b h t v)",
    "join": "site, z -> (b t (h v))",
    "output": "site, c -> (b t m)",
    "after": "site, y -> y",
}


def compatible(*edits: Edits) -> bool:
    """Whether edits can be made together: no slot is replaced in two ways.

    Example:
        >>> compatible({"join": _join}, {"output": _output}), compatible({"join": _join}, {"join": _output})
        (True, False)
    """
    replaced = {(name, slot) for one in edits for name, slot in one.items() if name in RIGHT}
    return len(replaced) == len({name for name, _ in replaced})


def chosen(*edits: Edits) -> tuple[dict[str, Slot], dict[str, tuple[Slot, ...]]]:
    """What stands in every slot that is replaced whole, and what changes values, with these edits.

    Example:
        >>> slots, moves = chosen({"join": _join, "after": _output})
        >>> slots["join"] is _join, moves["after"] == (_output,), moves["before"]
        (True, True, ())
    """
    slots = {**RIGHT, **{name: slot for one in edits for name, slot in one.items() if name in RIGHT}}
    return slots, {name: tuple(one[name] for one in edits if name in one) for name in SLOTS if name not in RIGHT}


def build(at: Site, *edits: Edits) -> Stages:
    """The stages of the layer with these edits; of the combined form if there are none.

    Raises:
        AxisProblem: if an edit does not fit the axes, such as a transposed matrix that is not square.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, cross_inputs, dims
        >>> from mha_sym.attention.forms import combined
        >>> d = dims(S="S")
        >>> build(site(d, cross_inputs(d), combined_weights(d))) == combined(d, cross_inputs(d), combined_weights(d))
        True
    """
    return Builder(at).build(*edits)


class Builder:
    """Builds many edits of one layer; what several of them have in common is made once.

    Example:
        >>> from mha_sym.attention.dims import combined_weights, cross_inputs, dims
        >>> d = dims(S="S")
        >>> builder = Builder(site(d, cross_inputs(d), combined_weights(d)))
        >>> builder.build({"join": _join}).z is builder.build({"output": _output}).z
        True
    """

    def __init__(self, at: Site) -> None:
        self.at = at
        self._made: dict[tuple[Slot, ...], Any] = {}

    def build(self, *edits: Edits) -> Stages:
        """The stages of the layer with these edits."""
        slots, moves = chosen(*edits)
        key = (*moves["around"], _END, *moves["before"], _END, *(slots[f"split_{letter}"] for letter in "qkv"))
        key += (_END, slots["positions"], *moves["heads"])
        at, undo, (q, k, v) = self._once(key, lambda: self._heads(slots, moves))
        key += (slots["product"], slots["masked"])
        scores = self._once(
            key, lambda: Named(slots["masked"](at, slots["product"](at, q, k)), "S", "definition of the scores")
        )
        key += (slots["softmax"], *moves["reweighted"])
        weights = self._once(key, lambda: _weights(at, scores, slots["softmax"], moves["reweighted"]))
        key += (_END, slots["mix"])
        z = self._once(key, lambda: Named(slots["mix"](at, weights, v), "Z", "weighted sum of the values"))
        c = Named(slots["join"](at, z), "C", "transpose back, then join")
        y: Expr = Named(slots["output"](at, c), "Y", "definition of the product")
        for one in moves["after"]:
            y = Named(one(at, y), "Y", "what is done to the output")
        for one in reversed(undo):
            y = Named(one(y), "Y", "what is done to the output")
        return Stages(q, k, v, scores, weights, z, c, y)

    def _once(self, key: tuple[Slot, ...], make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _heads(self, slots: Edits, moves: Moves) -> Any:
        at, undo = self.at, []
        for one in moves["around"]:
            at, back = one(at)
            undo.append(back)
        for one in moves["before"]:
            at = one(at)
        q, k, v = _heads(at, slots)
        qkv: tuple[Expr, ...] = (*slots["positions"](at, q, k), v)
        for one in moves["heads"]:
            qkv = tuple(
                part if part is before else Named(part, letter, "what is done to the heads")
                for letter, part, before in zip("QKV", one(at, qkv), qkv, strict=True)
            )
        return at, undo, qkv


def _END() -> None:
    """Separates slots in keys."""


def _weights(at: Site, scores: Expr, softmax: Slot, reweighted: tuple[Slot, ...]) -> Expr:
    weights: Expr = Named(softmax(at, scores), "A", "softmax over the keys")
    for one in reweighted:
        weights = Named(one(at, weights), "A", "what is done to the weights")
    return weights


def _heads(at: Site, slots: Edits) -> tuple[Expr, Expr, Expr]:
    """Q, K and V, split into heads."""
    d, w = at.d, at.w
    split = "split of the feature axis, then transpose"
    rows = (
        ("q", at.x[0], d.t, w.w_q, d.hk, w.b_q), ("k", at.x[1], d.s, w.w_k, d.hk, w.b_k),
        ("v", at.x[2], d.s, w.w_v, d.hv, w.b_v),
    )  # fmt: skip
    found = []
    for letter, x, token, weight, feature, bias in rows:
        flat = Named(project(x, token, weight, feature, bias, d), f"{letter.upper()}_flat", "definition of the product")
        found.append(Named(slots[f"split_{letter}"](at, flat), letter.upper(), split))
    return found[0], found[1], found[2]
