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
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.frameworks.jax_layers import in_doubles
from mha_sym.audit.frameworks.naming import letter, namings, supposed
from mha_sym.audit.frameworks.undeclared import as_found, as_named, described
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.readings import Reading, Seen, reproducing
from mha_sym.blame import guarded
from mha_sym.errors import Problem, TargetProblem
from mha_sym.importers.graph import Array

#: batch, length
_RUN_AT = ((2, 5), (3, 7))
#: the parts of the layout of Flax, by letter
_HEADS_APART = {"q": "query", "k": "key", "v": "value", "o": "out"}
#: a step that float32 cannot follow, and how unlike two of them are to the roundings of float64
_STEP, _ALIKE = 1e-7, 1e-3
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

    def is_single(self) -> bool:
        """Whether it rounds to float32 or less on the way: two equal small steps do not change its output alike."""
        weights, x, y = self.run(0, *_RUN_AT[0])
        return unlike_doubles(lambda other: self._called(weights, other), x, y)

    def _called(self, weights: Mapping[str, Array], x: Array) -> Array:
        made = in_doubles(lambda: guarded(lambda: np.asarray(self.call(weights, x)), f"{self.title} raised"))()
        return made.astype(np.float64)


def unlike_doubles(run: Callable[[Array], Array], x: Array, y: Array) -> bool:
    """Whether code that gives ``y`` for ``x`` rounds to float32: equal small steps do not change its output alike."""
    step = _STEP * np.random.default_rng(1).normal(size=x.shape)
    once, twice = (run(x + n * step) - y for n in (1, 2))
    return bool(np.abs(twice - 2 * once).max() > _ALIKE * np.abs(twice).max())


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
                return _in_its_format(probed, as_found(_implementation(probed, heads, names, readings)))
    return _in_its_format(probed, _supposed(probed))


def _in_its_format(probed: Probed, made: Implementation) -> Implementation:
    """The implementation, judged in single precision if it computes in that by itself."""
    if not probed.is_single():
        return made
    note = "it computes in float32 by itself, whatever it is handed: it is judged in that"
    return replace(made, dtype="float32", notes=(*made.notes, note))


def _named(probed: Probed) -> Iterator[dict[str, str]]:
    """Names of a layout for the weights; what Flax calls ``kernel`` is a weight, and may have an axis of heads."""
    plain = {name.replace("kernel", "weight"): name for name in probed.weights}
    apart = _with_heads_apart(plain, probed.weights)
    if apart is not None:
        yield apart
        return
    for names in namings({one: probed.weights[name].shape for one, name in plain.items()}):
        yield {ours: plain[theirs] for ours, theirs in names.items()}


def _with_heads_apart(plain: Mapping[str, str], weights: Mapping[str, Array]) -> dict[str, str] | None:
    """Names of the layout of Flax, where every matrix has an axis of heads; None if one has not."""
    made: dict[str, str] = {}
    for one, theirs in plain.items():
        which = letter(one)
        bias = one.rpartition(".")[2] == "bias"
        if which not in _HEADS_APART or (weights[theirs].ndim != 3 and not bias):
            return None
        made[f"{_HEADS_APART[which]}.{'bias' if bias else 'kernel'}"] = theirs
    complete = len(made) == len(plain) and {f"{one}.kernel" for one in _HEADS_APART.values()} <= set(made)
    return made if complete else None


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
    apart = next((one for one in _named(probed) if "query.kernel" in one), None)
    said = supposed(_named(probed), matrices, "combined", "packed") if apart is None else (apart, LAYOUTS["flax"])
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
