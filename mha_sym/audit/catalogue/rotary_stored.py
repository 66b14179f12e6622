"""Stored queries and keys converted from one kind of rotary pairs to the other, in pieces of a wrong width.

A file that has neighbours as pairs is read by code that turns halves, or the other way round: the rows of W_Q and W_K
are permuted inside each head, and the same is right for all heads only if a piece is as wide as a head.  Defines the
edits; they are built at sizes that are numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy

from mha_sym.attention.rotary import (
    Angles,
    feature_of_pair,
    find_pairs,
    on_turned,
    turned,
    turned_axis,
    with_other_pairs,
)
from mha_sym.audit.recipe import Edits, Site, there
from mha_sym.axes import Axis, axis
from mha_sym.errors import AxisProblem
from mha_sym.expr import Expr, Repeat, Reshape, Transpose

#: how wide a piece is that is permuted
Width = Callable[[Site], sympy.Expr]


def converted(of_queries: Width, of_keys: Width) -> Edits:
    """Queries and keys permuted in pieces of some widths, then turned in the other pairs, which have their angles."""

    def before(at: Site) -> Site:
        widths = {"q": of_queries(at), "k": of_keys(at)}
        made = {name: _permuted(at, name, widths[name[-1]]) for name in at.w.items() if name[-1] in widths}
        return replace(at, w=replace(at.w, **made))

    def positions(at: Site, q: Expr, k: Expr) -> tuple[Expr, Expr]:
        return _turned(at, q, at.d.t), _turned(at, k, at.d.s)

    return {"before": before, "positions": positions}


def of_a_head(at: Site) -> sympy.Expr:
    """Right where all features of a head are turned."""
    return at.d.k.size


def of_all_heads(at: Site) -> sympy.Expr:
    """The keys of all groups, cut into as many pieces as there are query heads."""
    return at.d.k.size / there(at.kv, "group").n.size


def of_the_model(at: Site) -> sympy.Expr:
    """``d_model / h``, whatever the width of a head is."""
    return at.d.m.size / at.d.h.size


def _permuted(at: Site, name: str, width: sympy.Expr) -> Expr:
    """A weight or bias whose feature axis is permuted in pieces: one pair after the other, or halves."""
    if not width.is_Integer or width % 2:
        raise AxisProblem(f"{width} features are no pairs")
    value = at.w.items()[name]
    kv = at.kv if name[-1] == "k" else None
    if kv is not None:
        value = kv.weights(at)[name]
    lead = value.axes[: -2 if kv is not None else -1]
    features = sympy.Mul(*(one.size for one in value.axes[len(lead) :]))
    piece, pair, two = axis("piece", features / width), axis("pair", width / 2), axis("two", 2)
    order = (two, pair) if find_pairs(turned_axis(at.d)) == "halves" else (pair, two)
    permuted: Expr = Transpose(Reshape(value, (*lead, piece, *order)), (*lead, piece, *reversed(order)))
    if kv is not None:
        heads = Reshape(permuted, (*lead, kv.g, at.d.k))
        permuted = Repeat(heads, (*lead, kv.g, kv.n, at.d.k))
    return Reshape(permuted, (*lead, at.d.hk))


def _turned(at: Site, x: Expr, token: Axis) -> Expr:
    """Turned as the code does that wants the other pairs, each pair by its own angle."""
    angles = there(at.angles, "table of rotary positions")
    other = with_other_pairs(turned_axis(at.d))
    each = Angles(feature_of_pair(angles.cos, 0), feature_of_pair(angles.sin, 0))

    def read(part: Expr) -> Expr:
        made = turned(Reshape(part, (*part.axes[:-1], other)), token, each)
        return Reshape(made, part.axes)

    return on_turned(x, read)
