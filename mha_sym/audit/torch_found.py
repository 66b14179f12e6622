"""Torch modules of any make: how their parameters are called and lie, found by names, shapes and a probe in numbers.

Defines `from_module`, and `found` for modules that are not known.  Names propose (``to_qkv``, ``c_attn``, ``out_proj``,
...), shapes admit, and a run of the module on random weights decides: a reading counts if the specification gives the
module's output within the bound, on two draws.  This runs the module.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mha_sym.attention.layouts import LAYOUTS
from mha_sym.audit.dump_file import Stored
from mha_sym.audit.dump_settings import DumpSettings
from mha_sym.audit.implementation import Implementation, left_alone
from mha_sym.audit.readings import Reading, Seen, fits, matching, read, without_equals
from mha_sym.audit.torch_modules import copied, from_torch, parameters_of, undescribed
from mha_sym.blame import guarded, import_torch
from mha_sym.errors import Problem, TargetProblem

#: attributes that hold the number of heads, and of key and value heads
_HEADS = ("num_heads", "n_heads", "n_head", "num_attention_heads", "nhead", "heads", "n_heads_q", "h", "H")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_heads", "n_kv_head")
#: what people call the matrices
_CALLED = {
    "qkv": r"(?:.*_)?(?:qkv|c_attn|in_proj|query_key_value|w_?pack|packed|attn)(?:_.*)?",
    "q": r"(?:.*_)?(?:q|queries|query|wq)(?:_.*)?", "k": r"(?:.*_)?(?:k|keys?|wk)(?:_.*)?",
    "v": r"(?:.*_)?(?:v|values?|wv)(?:_.*)?",
    "o": r"(?:.*_)?(?:o|out|output|c_proj|proj|mix|dense|wo|final|unify|merge|projection)(?:_.*)?",
}  # fmt: skip
#: batch, length
_RUN_AT = ((2, 5), (3, 7))


def from_module(module: Any, name: str = "") -> Implementation:
    """A torch module as an implementation: that of torch itself as it is documented, others as they are found to be.

    Raises:
        TargetProblem: for a module of which no reading is attention.
    """
    if isinstance(module, import_torch().nn.MultiheadAttention):
        return from_torch(module, name)
    return found(module, name, undescribed(module, name))


def found(module: Any, name: str, refusal: Problem, dtype: str = "float64") -> Implementation:
    """A module as an implementation, if there is one reading of its parameters under which it is attention.

    Args:
        module: any module that takes ``x (b, t, m)``, or queries, keys and values.
        name: what reports call it.
        refusal: the complaint if nothing is found.
        dtype: the precision in which it is to compute.

    Raises:
        Problem: the refusal, with what was tried.
    """
    heads = _attribute(module, _HEADS)
    if heads is None:
        raise refusal
    probe = _Probe(module, heads, _attribute(module, _KV_HEADS), name, dtype)
    for names in _namings(probe.shapes):
        readings = probe.readings(names)
        if readings:
            made, one = probe.implementation(names, readings), readings[0].layout
            return replace(made, notes=(*made.notes, f"its weights were found to be stored as {one.name}: {one.words}"))
    return probe.supposed(refusal)


def _attribute(module: Any, words: Sequence[str]) -> int | None:
    for holder in (module, getattr(module, "config", None)):
        for word in words:
            value = getattr(holder, word, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


# ---------------------------------------------------------------- names


def _namings(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, str]]:
    """Names of a layout for the module's parameters: its own if they are known, then what they sound like.

    Yields:
        Stored names of a layout to names of the module.
    """
    if any(set(one.stored(one.biases(shapes))) == set(shapes) for one in LAYOUTS.values()):
        yield {name: name for name in shapes}
    weights = [name for name, shape in shapes.items() if len(shape) > 1]
    biases = [name for name, shape in shapes.items() if len(shape) == 1]
    for letters in _letterings(weights):
        made = dict(zip((f"w_{one}" for one in letters), weights, strict=True))
        matched = {f"b_{one}": _bias_of(weight, biases) for one, weight in zip(letters, weights, strict=True)}
        named = {ours: theirs for ours, theirs in matched.items() if theirs is not None}
        if set(named.values()) == set(biases):
            yield {**made, **named}


def _letterings(weights: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Which matrix is which: as they are called, else in any order, the usual one first."""
    every = {2: ("qkv", "o"), 4: ("q", "k", "v", "o")}.get(len(weights))
    if every is None:
        return
    called = [_letter(name) for name in weights]
    if sorted(c or "" for c in called) == sorted(every):
        yield tuple(c or "" for c in called)
        return
    yield from itertools.permutations(every)


def _letter(parameter: str) -> str | None:
    """What a parameter is called after, innermost word first: ``attn.to_q.weight`` after q."""
    words = [word for word in parameter.lower().split(".") if word not in ("weight", "bias")]
    for word in reversed(words):
        parts = re.sub(r"^to_|^w_", "", word)
        for letter, pattern in _CALLED.items():
            if re.fullmatch(pattern, parts):
                return letter
    return None


def _bias_of(weight: str, biases: Sequence[str]) -> str | None:
    """The bias beside a matrix: ``to_q.bias`` beside ``to_q.weight``, ``b_q`` beside ``w_q``."""
    wanted = {weight.replace("weight", "bias"), re.sub(r"\bw", "b", weight), re.sub(r"^w|(?<=[._])w", "b", weight)}
    return next((one for one in biases if one in wanted and one != weight), None)


# ---------------------------------------------------------------- the probe


class _Probe:
    """A module run on random weights."""

    def __init__(self, module: Any, heads: int, kv_heads: int | None, name: str, dtype: str) -> None:
        self.module = copied(module, dtype)
        self.training = bool(module.training)
        self.weights: dict[str, Any] = parameters_of(self.module)
        self.shapes = {one: value.shape for one, value in self.weights.items()}
        self.heads, self.kv_heads = heads, kv_heads
        self.name, self.dtype = name or type(module).__qualname__, dtype
        self.seen = self._outputs()

    def call(self, weights: Mapping[str, Any], x: Any) -> Any:
        """The module on one input; of several outputs the first is y."""
        torch = import_torch()
        result = torch.func.functional_call(self.module, dict(weights), (x,))
        while isinstance(result, tuple | list):
            result = result[0]
        return result

    def _outputs(self) -> list[tuple[dict[str, Any], Any, Any]]:
        """Weights, input and output of two runs, at the width at which the module runs."""
        widths = dict.fromkeys(n for shape in self.shapes.values() for n in shape)
        refused: Problem | None = None
        for width in widths:
            try:
                return [self._run(width, seed, *sizes) for seed, sizes in enumerate(_RUN_AT)]
            except TargetProblem as problem:
                refused = refused or problem
        raise refused or TargetProblem(f"{self.name} has no parameters")

    def _run(self, width: int, seed: int, batch: int, length: int) -> tuple[dict[str, Any], Any, Any]:
        torch = import_torch()
        rng = np.random.default_rng(seed)
        weights = {n: rng.normal(size=s) / np.sqrt(s[-1] if len(s) > 1 else 4) for n, s in self.shapes.items()}
        x = rng.normal(size=(batch, length, width))
        tensors = {name: torch.from_numpy(value) for name, value in weights.items()}
        with torch.no_grad():
            made = guarded(lambda: self.call(tensors, torch.from_numpy(x)), f"{self.name} raised")
        if not isinstance(made, torch.Tensor) or tuple(made.shape) != x.shape:
            raise TargetProblem(f"{self.name} gives no y (b, t, m)", got=str(getattr(made, "shape", type(made))))
        return weights, x, made.numpy()

    def readings(self, names: Mapping[str, str]) -> list[Reading]:
        """The readings under these names that reproduce both outputs."""
        runs = [self._as_seen(names, *one) for one in self.seen]
        try:
            fitting = [reading for reading, _, ok in matching(runs[0]) if ok]
        except Problem:  # no layout has these names and shapes
            return []
        fitting = [reading for reading in fitting if fits(read(runs[1], reading))]
        return list(without_equals(fitting, runs[0]))

    def _as_seen(self, names: Mapping[str, str], weights: Mapping[str, Any], x: Any, y: Any) -> Seen:
        arrays = {ours: Stored(weights[theirs], "float64") for ours, theirs in names.items()}
        arrays |= {"x": Stored(x, "float64"), "y": Stored(y, "float64")}
        return Seen(arrays, DumpSettings(heads=self.heads, kv_heads=self.kv_heads, dtype=self.dtype), self.name)

    def supposed(self, refusal: Problem) -> Implementation:
        """What the names say, where no reading gives what the module gives: it may be wrong, and then it is shown."""
        weights = [name for name, shape in self.shapes.items() if len(shape) > 1]
        letters = sorted(_letter(name) or "" for name in weights)
        layout = {("k", "o", "q", "v"): "linear", ("o", "qkv"): "packed_linear"}.get(tuple(letters))
        meant = {f"w_{letter}" for letter in letters}  # not the names of a layout that was tried in vain
        names = next((one for one in _namings(self.shapes) if meant <= set(one)), None)
        if layout is None or names is None:
            raise refusal
        made = self.implementation(names, [Reading(LAYOUTS[layout])])
        note = "its layout is what the names say; under no layout that fits it gives what the specification gives"
        return replace(made, notes=(*made.notes, note), said=dict.fromkeys(made.said, "the names of its parameters"))

    def implementation(self, names: Mapping[str, str], readings: Sequence[Reading]) -> Implementation:
        """The first of the readings, with a note of the others."""
        one = readings[0]
        others = "; ".join(str(other) for other in readings[1:])
        matched = ", ".join(f"{ours} is {theirs}" for ours, theirs in names.items() if ours != theirs)
        how = "found by names, shapes and a probe in numbers"
        return Implementation(
            call=lambda weights, x: self.call(weights, x), module=self.module, heads=self.heads,
            kv_heads=self.kv_heads if one.layout.grouped else None, layout=one.layout, takes=("weights", "x"),
            weights=self.weights, names={a: b for a, b in names.items() if a != b}, framework="torch",
            scale=None if one.scale == "1/sqrt(d_k)" else _exact(one.scale), causal=bool(one.causal),
            batch_first=one.batch_first, dtype=self.dtype, name=self.name,
            said=dict.fromkeys(("layout", "scale", "mask", "batch_first"), how),
            notes=tuple(n for n in (
                matched, f"these would do as well: {others}" if others else "", *self._taken_for_granted(one),
            ) if n),
        )  # fmt: skip

    def _taken_for_granted(self, one: Reading) -> Iterator[str]:
        """What was found and not declared, and may not be what is meant; and arguments that are never given."""
        if one.scale != "1/sqrt(d_k)":
            yield f"the scale was found to be {one.scale}, where 1/sqrt(d_k) is usual: is that meant?"
        if one.causal:
            yield "it was found to be causal by itself: is that meant?"
        yield from left_alone(self.module.forward, ("x",))


def _exact(scale: str) -> Any:
    """A scale in words as an exact expression."""
    import sympy

    from mha_sym.axes import size_symbol

    d_k, d_v, h, m = (size_symbol(name) for name in ("d_k", "d_v", "h", "d_model"))
    return {
        "none": sympy.Integer(1), "1/d_k": 1 / d_k, "1/sqrt(d_model)": 1 / sympy.sqrt(m),
        "1/sqrt(h d_k)": 1 / sympy.sqrt(h * d_k), "1/sqrt(d_v)": 1 / sympy.sqrt(d_v),
    }[scale]  # fmt: skip
