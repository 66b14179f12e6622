"""Faults of keys and values that several heads share: which head uses which group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mha_sym.audit.faults import Fault
from mha_sym.audit.recipe import Grouped, Site, Slot, there
from mha_sym.axes import Axis
from mha_sym.expr import Expr, Repeat, Reshape, Select
from mha_sym.pattern import rearrange, repeat

_FAMILY = "kv_heads"
_MEND = "repeat(k, 'b g s k -> b (g n) s k', n=h // g)"


Spread = Callable[[Grouped, Axis, Expr, str, str], Expr]


def _each(make: Spread, *letters: str) -> Slot:
    """The weights of the groups brought to the heads by ``make``, which gives axes ``... h k``."""

    def before(at: Site) -> Site:
        kv, parts = there(at.kv, "group"), dict[str, Expr]()
        for name, value in kv.weights(at).items():
            if name[-1] in letters:
                lead, feature = " ".join(one.name for one in value.axes[:-2]), value.axes[-1].name
                wide = make(kv, at.d.h, value, lead, feature)
                parts[name] = rearrange(wide, f"{lead} h {feature} -> {lead} (h {feature})")
        return replace(at, w=replace(at.w, **parts))

    return before


def _tiled(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """Head r uses group ``r mod g`` where ``r // n`` is meant."""
    wide = repeat(value, f"{lead} {kv.g.name} {feature} -> {lead} {kv.n.name} {kv.g.name} {feature}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _first(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """All heads use group 0."""
    only = Select(value, kv.g, 0)
    return Repeat(only, (*only.axes[:-1], h, only.axes[-1]))


def _by_feature(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """Each feature is repeated n times in a row, ``(g k n)``, instead of each group."""
    wide = repeat(value, f"{lead} {kv.g.name} {feature} -> {lead} {kv.g.name} {feature} {kv.n.name}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _exchanged(kv: Grouped, h: Axis, value: Expr, lead: str, feature: str) -> Expr:
    """The stored ``(g k)`` read as ``(k g)``: features of a group are strided."""
    turned = Reshape(value, (*value.axes[:-2], value.axes[-1], kv.g))
    wide = repeat(turned, f"{lead} {feature} {kv.g.name} -> {lead} {kv.g.name} {kv.n.name} {feature}", [kv.n])
    return Reshape(wide, (*value.axes[:-2], h, value.axes[-1]))


def _fault(name: str, words: str, symptom: str, edit: Slot) -> Fault:
    return Fault(
        name=name, words=words, symptom=symptom, mend=_MEND, step=3, stage="v" if name.endswith("values") else "k",
        edits={"before": edit}, needs=("groups",), family=_FAMILY,
    )  # fmt: skip


_WHY = "Right where there is one group, or one head a group."

FAULTS: tuple[Fault, ...] = (
    _fault(
        "groups_tiled", "Keys and values are tiled: head r uses group r mod g instead of r // n.", _WHY,
        _each(_tiled, "k", "v"),
    ),
    _fault("groups_tiled_in_keys", "Keys are tiled over the heads, values are repeated.", _WHY, _each(_tiled, "k")),
    _fault("groups_tiled_in_values", "Values are tiled over the heads, keys are repeated.", _WHY, _each(_tiled, "v")),
    _fault("groups_all_first", "All heads use the first group.", _WHY, _each(_first, "k", "v")),
    _fault(
        "groups_repeated_by_feature", "Features are repeated one by one, as (g d n), instead of whole groups.",
        "Right where there is one head a group.", _each(_by_feature, "k", "v"),
    ),
    _fault(
        "groups_split_features_first", "Stored keys and values (g d) are split as (d g).",
        "Right where there is one group.", _each(_exchanged, "k", "v"),
    ),
)  # fmt: skip
