"""Attention of which only weights and numbers are known: what its weights mean, found by shapes and a probe.

Defines `Probed` and `found`.  Names propose, shapes admit, and runs on random weights decide: a reading counts if the
specification gives what was computed within the bound, on two draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.frameworks.jax_layers import in_doubles
from mha_sym.audit.frameworks.naming import namings, supposed
from mha_sym.audit.frameworks.undeclared import as_found, as_named, described
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.readings import Reading, Seen, reproducing
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
                return as_found(_implementation(probed, heads, names, readings))
    return _supposed(probed)


def _named(probed: Probed) -> Iterator[dict[str, str]]:
    """Names of a layout for the weights; what Flax calls ``kernel`` is a weight."""
    plain = {name.replace("kernel", "weight"): name for name in probed.weights}
    for names in namings({one: probed.weights[name].shape for one, name in plain.items()}):
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
    return reproducing(seen)


def _supposed(probed: Probed) -> Implementation:
    """What the names say, where no reading gives what was computed: it may be wrong, and then it is shown."""
    matrices = {name: value.shape for name, value in probed.weights.items() if value.ndim > 1}
    said = supposed(_named(probed), matrices, "combined", "packed")
    if said is None:
        raise TargetProblem(
            f"{probed.title} is not found to be attention under any layout of its weights",
            got=", ".join(f"{one} {value.shape}" for one, value in probed.weights.items()),
            hint="describe it with Implementation(call=..., layout=..., names=...)",
        )  # fmt: skip
    reading = Reading(said[1], causal="top-left" if probed.causal else "")
    return as_named(_implementation(probed, probed.heads[0], said[0], [reading]), "weights")


def _implementation(
    probed: Probed, heads: int, names: Mapping[str, str], readings: Sequence[Reading]
) -> Implementation:
    return Implementation(
        call=probed.call, heads=heads, weights=probed.weights, name=probed.title,
        said=dict.fromkeys(("layout", "heads", "scale", "mask", "batch_first"), _FOUND), **described(names, readings),
    )
