"""Readings of stored weights, and those under which the form gives an output that was seen.

Defines `Reading`, `Seen` (arrays as they are), `matching` (every reading that shapes allow), `read`, `fits`,
`without_equals` and `reproducing`.  Nothing is loaded or run here: `mha_sym.audit.layouts.identify` does that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from einops import rearrange

from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.audit.compare import compare_shown
from mha_sym.audit.dumps.dump import Dump, understood
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.dumps.masks import read_masks
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.implementation import STAGES
from mha_sym.audit.layouts.variants import variants
from mha_sym.audit.precision import Array
from mha_sym.errors import DataProblem, Problem
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import inputs
from mha_sym.plan import plan_of

_MASKS = ("mask", "keep")
_NOT_WEIGHTS = ("x", "x_q", "x_k", "x_v", *_MASKS, *STAGES)

#: scales that are tried, the usual one first
_SCALES = ("1/sqrt(d_k)", "none", "1/d_k", "1/sqrt(d_model)", "1/sqrt(h d_k)", "1/sqrt(d_v)")


@dataclass(frozen=True)
class Reading:
    """One way of reading what is stored, and the conventions that go with it.

    Attributes:
        layout: how the weights are read.
        scale: what ``q . k`` is multiplied by, in words.
        causal: how later keys are hidden: not at all, ``top-left`` or ``bottom-right``.
        mask: what the mask means: ``kept``, ``dropped``, ``added``, or nothing where there is none.
        batch_first: whether inputs and output are ``(b, t, m)``.
    """

    layout: Layout
    scale: str = "1/sqrt(d_k)"
    causal: str = ""
    mask: str = ""
    batch_first: bool = True

    def __str__(self) -> str:
        parts = [f"layout {self.layout.name}", f"scale {self.scale}", f"causal {self.causal}" if self.causal else ""]
        parts += [f"mask {self.mask}" if self.mask else "", "" if self.batch_first else "sequence first"]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Seen:
    """Stored arrays, inputs, masks and an output, all as they are; and what is known besides."""

    arrays: Mapping[str, Stored]
    settings: DumpSettings
    name: str


def matching(seen: Seen, layouts: Sequence[Layout] = ()) -> Iterator[tuple[Reading, Dump | None, bool]]:
    """Every reading that the shapes allow, under all layouts or some, and whether it reproduces the output.

    Readings of which plain arithmetic says that they are far off are not evaluated.
    """
    for layout, batch_first in itertools.product(layouts or _layouts(seen), (True, False)):
        bare = replace(seen, arrays={name: one for name, one in seen.arrays.items() if name not in _MASKS})
        plain = read(bare, Reading(layout, batch_first=batch_first))
        if plain is None:
            continue
        layer = _Layer.of(plain)
        for scale, causal, mask in _conventions(seen, plain):
            reading = Reading(layout, scale, causal, mask, batch_first)
            likely = layer.is_near(seen, reading)
            dump = read(seen, reading) if likely else None
            yield reading, dump, fits(dump)


def _conventions(seen: Seen, dump: Dump) -> Iterator[tuple[str, str, str]]:
    """Scales, diagonals and meanings of the mask that are worth trying."""
    masked = any(name in seen.arrays for name in _MASKS)
    square = dump.setting.sizes["T"] == dump.setting.sizes["S"]
    diagonals = ("top-left",) if square else ("top-left", "bottom-right")
    causal = ("",) if masked else diagonals if seen.settings.causal else ("", *diagonals)
    masks = ("kept", "dropped") if "keep" in seen.arrays else ("added",) if "mask" in seen.arrays else ("",)
    scales = _SCALES if seen.settings.scale is None else (str(seen.settings.scale),)
    return itertools.product(scales, causal, masks)


@dataclass(frozen=True)
class _Layer:
    """Scores without scale and mask, and what they act on: enough to say what is far off."""

    dump: Dump
    products: Array
    values: Array
    w_o: Array
    b_o: Array

    @staticmethod
    def of(dump: Dump) -> _Layer:
        """The layer of a dump that was read without its masks."""
        stages = dump.spec.stages
        wanted = {"q": stages.q, "k": stages.k, "v": stages.v, "w_o": dump.spec.weights.w_o}
        own = {name for one in wanted.values() for name in (node.name for node in inputs(one))}
        arrays = {name: value for name, value in dump.setting.arrays.items() if name in own}
        known = {name: n for name, n in dump.setting.sizes.items() if name in plan_of(tuple(wanted.values())).sizes}
        found = evaluate_all(wanted, arrays, sizes=known)
        b_o = dump.spec.weights.b_o
        bias = np.zeros(()) if b_o is None else np.asarray(dump.setting.arrays[inputs(b_o)[0].name])
        return _Layer(dump, found["q"] @ found["k"].swapaxes(2, 3), found["v"], found["w_o"], bias)

    def is_near(self, seen: Seen, reading: Reading) -> bool:
        """Whether plain arithmetic gives about the output that was seen."""
        sizes = self.dump.setting.sizes
        masks = {name: _meant(seen.arrays[name], reading) for name in _MASKS if name in seen.arrays}
        try:
            read = read_masks(masks, reading.causal or False, sizes, seen.settings.axes)
        except DataProblem:
            return False
        scores = self.products * _scale(reading.scale, sizes) + (0 if read.mask is None else read.mask)
        scores = scores if read.keep is None else np.where(read.keep, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        z = weights / weights.sum(-1, keepdims=True) @ self.values
        y = rearrange(z, "b h t v -> b t (h v)") @ self.w_o + self.b_o
        seen_y = self.dump.shown["y"]
        return bool(np.abs(y - seen_y).max() <= _NEAR[self.dump.impl.dtype] * np.abs(y).max())


#: how far off, relative to the largest entry, a reading may be by plain arithmetic to be looked at closely
_NEAR = {"float64": 1e-6, "float32": 1e-2, "float16": 0.5, "bfloat16": 1.0}


def _meant(stored: Stored, reading: Reading) -> Stored:
    """A mask that says what is dropped, as one that says what is kept."""
    if reading.mask != "dropped":
        return stored
    return Stored(~stored.values.astype(bool), "bool")


def _layouts(seen: Seen) -> list[Layout]:
    """The layouts whose parameters have these names, and variants of them in order and orientation."""
    names = {name for name in seen.arrays if name not in _NOT_WEIGHTS}
    own = [one for one in LAYOUTS.values() if set(one.stored(one.biases(names))) == names]
    if not own:
        raise DataProblem(
            "the names of the weights fit no known layout", where=seen.name, got=", ".join(sorted(names)),
            hint="give their meaning under [names] in a TOML file",
        )  # fmt: skip
    found = [variant for one in own for variant in (one, *variants(one))]
    unique: dict[tuple[Any, ...], Layout] = {}
    for one in found:
        unique.setdefault((tuple(sorted(one.rows.items())), tuple(one.same.items())), one)
    return list(unique.values())


def read(seen: Seen, reading: Reading) -> Dump | None:
    """What was seen, read in one way; None if its shapes do not allow it."""
    arrays = {name: _meant(one, reading) if name == "keep" else one for name, one in seen.arrays.items()}
    settings = replace(
        seen.settings, layout=reading.layout, causal=reading.causal or False, batch_first=reading.batch_first,
        kv_heads=seen.settings.kv_heads if reading.layout.grouped else None, scale=None,
    )  # fmt: skip
    try:
        dump = understood(arrays, settings, seen.name)
        if reading.scale == _SCALES[0]:
            return dump
        scale = _scale(reading.scale, dump.setting.sizes)
        return understood(arrays, replace(settings, scale=scale), seen.name)
    except Problem:
        return None


def _scale(words: str, n: Mapping[str, int]) -> float:
    """The scale in numbers."""
    values = {
        "1/sqrt(d_k)": n["d_k"] ** -0.5, "none": 1.0, "1/d_k": 1 / n["d_k"], "1/sqrt(d_model)": n["d_model"] ** -0.5,
        "1/sqrt(h d_k)": (n["h"] * n["d_k"]) ** -0.5, "1/sqrt(d_v)": n["d_v"] ** -0.5,
    }  # fmt: skip
    return values[words] if words in values else float(words)


def fits(dump: Dump | None) -> bool:
    """Whether the form gives the output within the bound."""
    if dump is None:
        return False
    try:
        found = dump.spec.values(dump.setting.arrays, dump.setting.sizes)
        compared = compare_shown(dump.impl, dump.spec, dump.setting, found, {"y": dump.shown["y"]}, "identify")
    except Problem:
        return False
    return all(one.ok for one in compared)


def without_equals(found: Sequence[Reading], seen: Seen) -> Iterator[Reading]:
    """Readings whose canonical weights, scale and masks are those of one before them are left out."""
    known: list[tuple[Any, dict[str, Array]]] = []
    for reading in found:
        dump = read(seen, reading)
        assert dump is not None  # it fits
        scale = dump.spec.scale(dump.setting.sizes)
        key = (round(scale, 12), reading.causal, reading.mask, reading.batch_first)
        values = dump.spec.values(dump.setting.arrays, dump.setting.sizes)
        weights = {name: values[name] for name in dump.spec.weights.items()}
        if not any(key == other and _equal(weights, before) for other, before in known):
            known.append((key, weights))
            yield reading


def reproducing(runs: Sequence[Seen], layouts: Sequence[Layout] = ()) -> list[Reading]:
    """The readings that reproduce the outputs of all runs, those left out that are one function with an earlier one.

    Args:
        runs: what was seen.
        layouts: those that are tried; all that have its names, and variants of them, if there are none.
    """
    try:
        fitting = [reading for reading, _, ok in matching(runs[0], layouts) if ok]
    except Problem:  # no layout has these names and shapes
        return []
    fitting = [one for one in fitting if all(fits(read(seen, one)) for seen in runs[1:])]
    return list(without_equals(fitting, runs[0]))


def _equal(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
