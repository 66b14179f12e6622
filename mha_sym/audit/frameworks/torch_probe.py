"""One torch module run on random weights: what it gives, and under which names and layouts that is attention.

Defines `Probe`, with which `mha_sym.audit.frameworks.torch_found` finds how a module is described.
This runs the module.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mha_sym.attention.layouts import Layout
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.frameworks.naming import (
    MASKS_CALLED,
    libraries,
    namings,
    supposed,
    under,
)
from mha_sym.audit.frameworks.own_tables import Own
from mha_sym.audit.frameworks.position_tables import WithoutTables
from mha_sym.audit.frameworks.probe import unlike_doubles
from mha_sym.audit.frameworks.torch_modules import (
    copied,
    first_output,
    outputs_of,
    parameters_of,
    required,
    steps_counted,
)
from mha_sym.audit.frameworks.undeclared import as_found, as_named, described, unlike
from mha_sym.audit.functions import leaving
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.readings import Reading, Seen, reproducing
from mha_sym.blame import guarded, import_torch
from mha_sym.errors import Problem, TargetProblem

#: batch, length
_RUN_AT = ((2, 5), (3, 7))
#: buffers with the frequencies of rotary positions, or with their tables
_POSITIONS = re.compile(r"inv_freq|freqs|rope|rotary|(^|[._])(cos|sin)", re.IGNORECASE)
_FOUND = "found by names, shapes and a probe in numbers"


class Probe:
    """A module run on random weights."""

    def __init__(
        self, module: Any, heads: int, kv_heads: int | None, name: str, dtype: str, layout: Layout | None
    ) -> None:  # fmt: skip
        self.module = copied(module, dtype)
        self.training = bool(module.training)
        every: dict[str, Any] = parameters_of(self.module)
        self.tables = {name: value for name, value in every.items() if _is_table(self.module, name, value, heads)}
        self.weights = {name: value for name, value in every.items() if name not in self.tables}
        self.shapes = {one: value.shape for one, value in self.weights.items()}
        self.heads, self.kv_heads = heads, kv_heads
        self.name, self.dtype = name or type(module).__qualname__, dtype
        self.layout = layout
        self.width = 0
        self.named: Mapping[str, Any] = {}
        self.code = self._code()
        self.seen = self._seen_with(list(self._ways()))

    def _ways(self) -> Iterator[dict[str, Any]]:
        """What may stand for masks that have no default: nothing, or zeros where that is no mask.

        Raises:
            TargetProblem: for another parameter without a default.
        """
        needed = required(self.module)
        unknown = [name for name in needed if name not in MASKS_CALLED]
        if unknown:
            raise TargetProblem(
                f"{self.name} needs {', '.join(unknown)} besides its input", where=f"{self.name}.forward",
                expected="parameters with defaults, masks, or cos and sin of rotary positions",
                hint=f"give {unknown[0]} a default, or describe what is called: "
                f"Implementation(call=..., takes=('weights', 'x'), ...) with a function that fills it in",
            )  # fmt: skip
        yield dict.fromkeys(needed)
        if needed:
            zeros = import_torch().zeros((1, 1, 1, 1), dtype=getattr(import_torch(), self.dtype))
            yield dict.fromkeys(needed, zeros)

    def _seen_with(self, ways: Sequence[dict[str, Any]]) -> list[tuple[dict[str, Any], Any, Any]]:
        """Two runs, the masks without a default filled in the first way in which it runs."""
        for way in ways[:-1]:
            self.named = way
            with contextlib.suppress(TargetProblem):
                return self._outputs()
        self.named = ways[-1]
        return self._outputs()

    def without(self, own: Own) -> None:
        """From here on, run it with cosines of 1 and sines of 0 in place of the tables that it makes."""
        torch = import_torch()

        def plain(weights: Mapping[str, Any], x: Any) -> Any:
            arrays = {**{name: np.asarray(one) for name, one in weights.items()}, "x": np.asarray(x)}
            made = own.turning_nothing(arrays, {"B": x.shape[0], "T": x.shape[1]})
            return torch.from_numpy(made["y"])

        self.code = plain
        self.seen = self._outputs()

    def _code(self) -> Callable[..., Any]:
        """The module as a function; with zeros in its tables, if it has some."""
        if not self.tables:
            return self.call
        torch = import_torch()
        kind = getattr(torch, self.dtype)
        drawn = {name: torch.from_numpy(_drawn(name, one.shape)).to(kind) for name, one in self.tables.items()}
        return WithoutTables(self.call, {name: torch.zeros_like(one) for name, one in drawn.items()}, drawn)

    def call(self, weights: Mapping[str, Any], x: Any, **named: Any) -> Any:
        """The module on one input; of several outputs the first is y."""
        return first_output(self.module, weights, (x,), {**self.named, **named})

    def _outputs(self) -> list[tuple[dict[str, Any], Any, Any]]:
        """Weights, input and output of two runs, at the width at which the module runs."""
        widths = dict.fromkeys([self.width] if self.width else [n for shape in self.shapes.values() for n in shape])
        refused: list[tuple[int, TargetProblem]] = []
        for width in widths:
            with steps_counted() as steps:
                try:
                    made = [self._run(width, seed, *sizes) for seed, sizes in enumerate(_RUN_AT)]
                except TargetProblem as problem:
                    refused.append((len(steps), problem))
                else:
                    self.width = width
                    return made
        if not refused:
            raise TargetProblem(f"{self.name} has no parameters")
        raise max(refused, key=lambda one: one[0])[1]  # of the width at which it came farthest: others are no width

    def _run(self, width: int, seed: int, batch: int, length: int) -> tuple[dict[str, Any], Any, Any]:
        torch = import_torch()
        rng = np.random.default_rng(seed)
        weights = {n: rng.normal(size=s) / np.sqrt(s[-1] if len(s) > 1 else 4) for n, s in self.shapes.items()}
        weights = {name: value.astype(self.dtype).astype("float64") for name, value in weights.items()}
        x = rng.normal(size=(batch, length, width)).astype(self.dtype).astype("float64")
        kind = getattr(torch, self.dtype)
        tensors = {name: torch.from_numpy(value).to(kind) for name, value in weights.items()}
        with torch.no_grad():
            made = guarded(lambda: self.code(tensors, torch.from_numpy(x).to(kind)), f"{self.name} raised")
        if not isinstance(made, torch.Tensor) or tuple(made.shape) != x.shape:
            raise TargetProblem(f"{self.name} gives no y (b, t, m)", got=str(getattr(made, "shape", type(made))))
        return weights, x, made.double().numpy()

    def found(self) -> Implementation | None:
        """What it is under the first names under which some reading fits, if there are any."""
        for names in self.namings():
            readings = self.readings(names)
            if readings:
                return self.as_called(as_found(self.implementation(names, readings)))
        return None

    def as_called(self, made: Implementation) -> Implementation:
        """What was found, with a note if its names are those of a library that stores its weights in another way."""
        theirs = libraries(self.shapes)
        if self.layout is not None or not theirs or made.how_stored in theirs:
            return made
        same = {name: name for name in self.shapes}
        fitting = reproducing([self._as_seen(same, *one) for one in self.seen], theirs)
        return made if fitting else unlike(made, theirs)

    def namings(self) -> Iterator[Mapping[str, str]]:
        """Names of layouts for its parameters, or those of the layout that was said.

        Raises:
            TargetProblem: if its parameters cannot be those of the layout that was said.
        """
        if self.layout is None:
            yield from namings(self.shapes)
            return
        names = under(self.layout, self.shapes)
        if names is None:
            raise TargetProblem(
                f"the parameters of {self.name} are not those of layout {self.layout.name}", where=self.name,
                expected=", ".join(self.layout.stored("qkvo")), got="; ".join(map(str, self.shapes.items())),
                hint="leave --layout out, and it is found; or say names= in its Implementation",
            )  # fmt: skip
        yield names

    def readings(self, names: Mapping[str, str]) -> list[Reading]:
        """The readings under these names that reproduce both outputs."""
        only = () if self.layout is None else (self.layout,)
        return reproducing([self._as_seen(names, *one) for one in self.seen], only)

    def _as_seen(self, names: Mapping[str, str], weights: Mapping[str, Any], x: Any, y: Any) -> Seen:
        arrays = {ours: Stored(weights[theirs], "float64") for ours, theirs in names.items()}
        arrays |= {"x": Stored(x, "float64"), "y": Stored(y, "float64")}
        return Seen(arrays, DumpSettings(heads=self.heads, kv_heads=self.kv_heads, dtype=self.dtype), self.name)

    def rounds(self) -> bool:
        """Whether it rounds to single precision or less on the way."""
        torch = import_torch()
        weights, x, y = self.seen[0]
        given = {name: torch.from_numpy(value) for name, value in weights.items()}

        def run(other: Any) -> Any:
            with torch.no_grad():
                made = guarded(lambda: self.code(given, torch.from_numpy(other)), f"{self.name} raised")
            return made.double().numpy()

        return self.dtype == "float64" and unlike_doubles(run, x, y)

    def once(self) -> None:
        """Run it once more."""
        self._run(self.width, 0, *_RUN_AT[0])

    def refuse_positions(self, why: str = "") -> None:
        """Refuse a module that keeps something of positions, and does not use it as rotary positions are used.

        Args:
            why: why its code could not be followed, if it could not.
        """
        kept = [name for name, _ in self.module.named_buffers() if _POSITIONS.search(name)]
        if kept and why:
            raise TargetProblem(
                f"{self.name} is attention under no reading without rotary positions, and whether it is with some "
                "is not known, as its code cannot be followed", where=self.name, got=f"a buffer {kept[0]}; {why}",
                hint="write that operation in others, or let forward take cos and sin as arguments",
            )  # fmt: skip
        if kept:
            raise TargetProblem(
                f"{self.name} seems to make tables of rotary positions by itself, and they were not found in its code",
                got=f"a buffer {kept[0]}",
                expected="cosines and sines of positions that it computes or keeps, or that are handed over",
                hint="let forward take cos and sin, or position_embeddings=(cos, sin), as transformers does",
            )  # fmt: skip

    def supposed(self, refusal: Problem) -> Implementation:
        """What the names say, where no reading gives what the module gives: it may be wrong, and then it is shown.

        Raises:
            Problem: the refusal.
        """
        if self.layout is not None:
            return as_named(self.implementation(next(self.namings()), [Reading(self.layout)]), "parameters")
        weights = {name: shape for name, shape in self.shapes.items() if len(shape) > 1}
        said = supposed(namings(self.shapes), weights, "linear", "packed_linear")
        if said is None:
            raise refusal
        return as_named(self.implementation(said[0], [Reading(said[1])]), "parameters")

    def implementation(self, names: Mapping[str, str], readings: Sequence[Reading]) -> Implementation:
        """The first of the readings, with a note of the others."""
        made = Implementation(
            call=self.code, module=self.module, heads=self.heads,
            kv_heads=self.kv_heads if readings[0].layout.grouped else None, weights=self.weights, framework="torch",
            dtype=self.dtype, name=self.name, trained=self._trained(),
            said={
                **dict.fromkeys(("layout", "scale", "mask", "batch_first"), _FOUND),
                **({} if self.layout is None else {"layout": "the user"}),
            }, **described(names, readings),
        )  # fmt: skip
        filled = [f"{n} was handed over as {_said(one)}, where nothing else is said" for n, one in self.named.items()]
        made = replace(made, notes=(*made.notes, *filled, *self.zeroed()), more=self._more())
        return leaving(made, self.module.forward, ("x",))

    def _more(self) -> int:
        """How many tensors it returns besides the first."""
        weights, x, _ = self.seen[0]
        return outputs_of(self.module, weights, x, self.named) - 1

    def _trained(self) -> Callable[..., Any] | None:
        """The module in training mode, if it was handed over so and needs no tables to be taken out."""
        if not self.training or self.code != self.call:
            return None
        module = copy.deepcopy(self.module).train()
        return lambda weights, x, **named: first_output(module, weights, (x,), {**self.named, **named})

    def zeroed(self) -> list[str]:
        """A note on its tables."""
        shapes = ", ".join(f"{name} {value.shape}" for name, value in self.tables.items())
        words = "a table of biases for positions: numbers are compared with zeros in it, --prove takes any entries"
        return [f"{shapes} is {words}"] if shapes else []


def _said(mask: Any) -> str:
    return "None" if mask is None else "zeros"


def _drawn(name: str, shape: tuple[int, ...]) -> Any:
    """Values of a parameter: those of the same name and shape are the same."""
    return np.random.default_rng(list(name.encode())).normal(size=shape)


def _is_table(module: Any, name: str, value: Any, heads: int) -> bool:
    """Whether a parameter is a table that is looked up and has an entry for every head."""
    owner = module.get_submodule(name.rpartition(".")[0])
    embeds = isinstance(owner, import_torch().nn.Embedding) or name.endswith("bias_table")
    return embeds and value.ndim == 2 and heads in value.shape
