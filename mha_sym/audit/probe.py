"""Attention of which only weights and numbers are known: what its weights mean, found by shapes and a probe.

Defines `Probed` and `found`.  Names propose, shapes admit, and runs on random weights decide: a reading counts if the
specification gives what was computed within the bound, on two draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mha_sym.attention.layouts import LAYOUTS
from mha_sym.audit.dump_file import Stored
from mha_sym.audit.dump_settings import DumpSettings
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.jax_layers import in_doubles
from mha_sym.audit.readings import Reading, Seen, fits, matching, read, without_equals
from mha_sym.audit.torch_found import _exact, _letter, _namings
from mha_sym.blame import guarded
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers.graph import Array

#: batch, length
_RUN_AT = ((2, 5), (3, 7))
_FOUND = "found by shapes and a probe in numbers"


@dataclass(frozen=True)
class Probed:
    """What can be asked of the code.

    Attributes:
        call: takes weights by name and ``x (b,t,m)``, gives ``y``.
        weights: the weights as they are.
        heads: numbers that may be the number of heads, the likely ones first.
        widths: numbers that may be the width of x, the likely ones first.
        title: what reports call it.
        causal: whether keys seem to be hidden by their positions; used only where nothing fits.
    """

    call: Callable[..., Any]
    weights: Mapping[str, Array]
    heads: tuple[int, ...]
    widths: tuple[int, ...]
    title: str
    causal: bool = False

    def run(self, seed: int, batch: int, length: int) -> tuple[dict[str, Array], Array, Array]:
        """Random weights, an input of the first width at which it runs, and what comes of them."""
        rng = np.random.default_rng(seed)
        weights = {n: np.asarray(rng.normal(size=v.shape) / np.sqrt(v.shape[0])) for n, v in self.weights.items()}
        refused: Problem | None = None
        for width in self.widths:
            x = rng.normal(size=(batch, length, width))
            try:
                return weights, x, self._called(weights, x)
            except Problem as problem:
                refused = refused or problem
        raise refused or TargetProblem(f"{self.title} has no weights")

    def _called(self, weights: Mapping[str, Array], x: Array) -> Array:
        made = in_doubles(lambda: guarded(lambda: np.asarray(self.call(weights, x)), f"{self.title} raised"))()
        return made.astype(np.float64)


def found(probed: Probed) -> Implementation:
    """The code as an implementation: the first reading that fits, or what the names say.

    Raises:
        TargetProblem: if no reading fits and the names say nothing.
    """
    runs = [probed.run(seed, *sizes) for seed, sizes in enumerate(_RUN_AT)]
    for heads in probed.heads:
        for names in _named(probed):
            readings = _readings(runs, names, heads, probed.title)
            if readings:
                return _implementation(probed, heads, names, readings)
    return _supposed(probed)


def _named(probed: Probed) -> Iterator[dict[str, str]]:
    """Names of a layout for the weights; what Flax calls ``kernel`` is a weight."""
    plain = {name.replace("kernel", "weight"): name for name in probed.weights}
    for names in _namings({one: probed.weights[name].shape for one, name in plain.items()}):
        yield {ours: plain[theirs] for ours, theirs in names.items()}


def _readings(
    runs: Sequence[tuple[dict[str, Array], Array, Array]], names: Mapping[str, str], heads: int, title: str
) -> list[Reading]:
    """The readings under these names that reproduce both outputs."""
    seen = []
    for weights, x, y in runs:
        arrays = {ours: Stored(weights[theirs], "float64") for ours, theirs in names.items()}
        arrays |= {"x": Stored(x, "float64"), "y": Stored(y, "float64")}
        seen.append(Seen(arrays, DumpSettings(heads=heads, dtype="float32"), title))
    try:
        fitting = [reading for reading, _, ok in matching(seen[0]) if ok]
    except Problem:  # no layout has these names and shapes
        return []
    return list(without_equals([one for one in fitting if fits(read(seen[1], one))], seen[0]))


def _supposed(probed: Probed) -> Implementation:
    """What the names say, where no reading gives what was computed: it may be wrong, and then it is shown."""
    letters = sorted(_letter(name) or "" for name, value in probed.weights.items() if value.ndim > 1)
    layout = {("k", "o", "q", "v"): "combined", ("o", "qkv"): "packed"}.get(tuple(letters))
    names = next(_named(probed), None)
    if layout is None or names is None:
        raise TargetProblem(
            f"{probed.title} is not found to be attention under any layout of its weights",
            got=", ".join(f"{one} {value.shape}" for one, value in probed.weights.items()),
            hint="describe it with Implementation(call=..., layout=..., names=...)",
        )  # fmt: skip
    reading = Reading(LAYOUTS[layout], causal="top-left" if probed.causal else "")
    made = _implementation(probed, probed.heads[0], names, [reading])
    note = "its layout is what the names say; under no layout that fits it gives what the specification gives"
    return replace(made, notes=(*made.notes, note), said=dict.fromkeys(made.said, "the names of its weights"))


def _implementation(
    probed: Probed, heads: int, names: Mapping[str, str], readings: Sequence[Reading]
) -> Implementation:
    one = readings[0]
    others = "; ".join(str(other) for other in readings[1:])
    matched = ", ".join(f"{ours} is {theirs}" for ours, theirs in names.items() if ours != theirs)
    return Implementation(
        call=probed.call, heads=heads, layout=one.layout, takes=("weights", "x"), weights=probed.weights,
        names={ours: theirs for ours, theirs in names.items() if ours != theirs},
        scale=None if one.scale == "1/sqrt(d_k)" else _exact(one.scale), causal=bool(one.causal),
        batch_first=one.batch_first, name=probed.title,
        said=dict.fromkeys(("layout", "heads", "scale", "mask", "batch_first"), _FOUND),
        notes=tuple(n for n in (matched, f"these would do as well: {others}" if others else "") if n),
    )  # fmt: skip
