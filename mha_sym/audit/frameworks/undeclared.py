"""What was found out of code by its numbers, as a description of it, and what is told of it because nobody declared it.

Defines `described`, `as_found`, `as_named` and `unlike`.  Which readings there are, and which fit, is in
`mha_sym.audit.layouts.readings`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy

from mha_sym.attention.layouts import Layout
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.readings import Reading
from mha_sym.axes import size_symbol


def described(names: Mapping[str, str], readings: Sequence[Reading]) -> dict[str, Any]:
    """What the first of some readings says, in the words of `Implementation`, with a note on all that was not declared.

    Args:
        names: stored names of the layout to names of the code.
        readings: those that fit, at least one.
    """
    one = readings[0]
    matched = ", ".join(f"{ours} is {theirs}" for ours, theirs in names.items() if ours != theirs)
    others = "; ".join(map(str, readings[1:]))
    notes = [matched, f"these would do as well: {others}" if others else ""]
    if one.scale != Reading.scale:
        alike = "" if one.scale == "none" else ", or a constant as large at these sizes"
        alike += ", as if it were scaled twice" if one.scale == "1/d_k" else ""
        notes.append(f"the scale was found to be {one.scale}{alike}, where {Reading.scale} is usual: is that meant?")
    notes.append("it was found to be causal by itself, as decoders are and encoders are not" if one.causal else "")
    notes.append("" if one.batch_first else "its input was found to be (t, b, m), positions first: is that meant?")
    return {
        "layout": one.layout, "takes": ("weights", "x"),
        "names": {ours: theirs for ours, theirs in names.items() if ours != theirs},
        "scale": None if one.scale == Reading.scale else _exact(one.scale), "causal": bool(one.causal),
        "batch_first": one.batch_first, "notes": tuple(note for note in notes if note),
    }  # fmt: skip


def as_named(made: Implementation, what: str) -> Implementation:
    """An implementation of which no reading fits, read as the names of ``what`` say: then it shows that it is wrong."""
    note = "its layout is what the names say; under no layout that fits it gives what the specification gives"
    if _by_user(made):
        note = "its layout is what was said; under that one it does not give what the specification gives"
    said = {**dict.fromkeys(made.said, f"the names of its {what}"), **_by_user(made)}
    return replace(made, notes=(*made.notes, note), said=said)


def _by_user(made: Implementation) -> dict[str, str]:
    """The layout, if the user said it."""
    return {"layout": "the user"} if made.said.get("layout") == "the user" else {}


def as_found(made: Implementation) -> Implementation:
    """An implementation of which a reading fits, with a note on how its weights are stored."""
    layout = made.how_stored
    if _by_user(made):
        return made
    note = f"its weights were found to be stored as {layout.name}: {layout.words}"
    return replace(made, notes=(*made.notes, note))


def unlike(made: Implementation, theirs: Sequence[Layout]) -> Implementation:
    """An implementation with the names of a library, as some layouts have them, under another layout than these."""
    layout = made.how_stored
    base = [one for one in theirs if re.match(rf"{one.name}\b", layout.name)] or theirs
    who = " or ".join(f"{one.name} ({re.split(r': |, ', one.words)[0]})" for one in base)
    note = (
        f"its names are those of {who}, but its weights lie otherwise, as {layout.name}: a checkpoint of theirs gives "
        "another function here; is that meant?"
    )
    return replace(made, notes=(*made.notes, note), unlike=True)


def _exact(scale: str) -> sympy.Expr:
    """A scale in words as an exact expression."""
    d_k, d_v, h, m = (size_symbol(name) for name in ("d_k", "d_v", "h", "d_model"))
    return {
        "none": sympy.Integer(1), "1/d_k": 1 / d_k, "1/sqrt(d_model)": 1 / sympy.sqrt(m),
        "1/sqrt(h d_k)": 1 / sympy.sqrt(h * d_k), "1/sqrt(d_v)": 1 / sympy.sqrt(d_v),
    }[scale]  # fmt: skip
