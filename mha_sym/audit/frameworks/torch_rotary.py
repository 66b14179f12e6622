"""Torch modules that are handed tables of rotary positions, as those of the transformers package.

Defines `Handing` (by which arguments) and `from_rotary_module`.  With cosines of 1 and sines of 0 such a module is
plain attention, which tells how its weights lie; then tables of positions tell which features it turns.  This runs the
module.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

from mha_sym.attention.rotary import PAIRS, Rotary, Tables
from mha_sym.audit.frameworks.naming import HEADS, MASKS_CALLED, attribute
from mha_sym.audit.frameworks.rotary_found import found
from mha_sym.audit.frameworks.torch_modules import first_output
from mha_sym.audit.functions import leaving
from mha_sym.audit.implementation import Implementation
from mha_sym.errors import Problem, TargetProblem

#: the parameters by which tables are handed over, both in one or each in its own
_PAIRS = (("position_embeddings",), ("cos", "sin"), ("rope_cos", "rope_sin"), ("cosines", "sines"))
#: attributes that hold the number of features of a head, and of those that are turned
_HEAD_WIDTHS = ("head_dim", "head_size", "d_head", "dim_head", "head_width", "d_k")
_TURNED = ("rotary_ndims", "rotary_dim", "rotary_dims", "rope_dim", "rot_dim")
#: the arguments of the implementation
_TAKES = ("weights", "x", "cos", "sin")

#: a module, and the format in which it is to compute, as an implementation
Find = Callable[[Any, str], Implementation]


@dataclass(frozen=True)
class Handing:
    """How a module is called: its tables, and what it wants besides an input.

    Attributes:
        tables: the parameter for the pair of tables, or the two for one each.
        absent: parameters without a default, which are handed None.
        mask: a parameter that is added to the scores and may not be None; it is handed zeros.
        sin_first: whether a pair of tables has that of the sines first.
    """

    tables: tuple[str, ...]
    absent: tuple[str, ...] = ()
    mask: str = ""
    sin_first: bool = False

    def named(self, x: Any, cos: Any, sin: Any) -> dict[str, Any]:
        """The named arguments; a mask that is handed over takes the place of what stands for one."""
        both = (sin, cos) if self.sin_first else (cos, sin)
        given = {self.tables[0]: both} if len(self.tables) == 1 else dict(zip(self.tables, both, strict=True))
        if self.mask:
            given[self.mask] = x.new_zeros((1, 1, 1, 1))
        return {**dict.fromkeys(self.absent), **given}


def handing_of(module: Any) -> Handing | None:
    """How a module is handed tables of rotary positions; None if it takes none."""
    parameters = inspect.signature(module.forward).parameters
    tables = next((names for names in _PAIRS if set(names) <= set(parameters)), None)
    if tables is None:
        return None
    first = next(iter(parameters))
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [n for n, one in parameters.items() if one.default is one.empty and one.kind not in kinds]
    return Handing(tables, tuple(n for n in needed if n not in (first, *tables)))


def from_rotary_module(module: Any, handing: Handing, find: Find) -> Implementation:
    """A module as an implementation that takes the tables, too.

    Args:
        module: a torch module.
        handing: by which arguments it takes the tables.
        find: finds what its weights mean, once it takes x alone.

    Raises:
        Problem: what ``find`` says, if it does not run, or is attention under no reading of its weights.
    """
    supposed: Implementation | None = None
    refused: Problem | None = None
    for way in _ways(module, handing):
        for width in dict.fromkeys(widths(module)):
            try:
                made, fits = _found(module, way, width, find)
            except TargetProblem as problem:
                refused = refused or problem
                continue
            if fits:
                return made
            supposed = supposed or made
    if supposed is None:
        raise refused or TargetProblem("the module does not say how many features are turned")
    return supposed


def _ways(module: Any, handing: Handing) -> Iterator[Handing]:
    """The ways of calling it: with nothing for what it wants besides, then with zeros for its mask; sines first."""
    ways = [handing]
    mask = next((n for n in MASKS_CALLED if n in inspect.signature(module.forward).parameters), None)
    if mask is not None:
        ways.append(replace(handing, absent=tuple(n for n in handing.absent if n != mask), mask=mask))
    yield from ways
    if len(handing.tables) == 1:
        yield from (replace(one, sin_first=True) for one in ways)


def _found(module: Any, handing: Handing, width: int, find: Find) -> tuple[Implementation, bool]:
    """The module with tables of some width, and whether a convention was found that it has.

    Some compute their softmax in single precision, whatever they are handed.
    """
    tried, first = _conventions(module, width), list[Implementation]()
    if not tried:
        raise TargetProblem(f"tables of width {width} are none of pairs")
    for dtype in ("float64", "float32"):
        plain = find(_fed(module, handing, width), dtype)
        every = [_with_tables(plain, handing, one, module) for one in tried]
        made = found(every)
        if made is not None:
            return made, True
        first += every[:1]
    return first[0], False


def _conventions(module: Any, width: int) -> list[Rotary]:
    """What tables of some width may do: turn all features, or the first ones; or pairs of features twice as many."""
    heads = [features for features in _head_widths(module) if features >= width]
    made: list[Rotary] = []
    for features in heads:
        ways: tuple[tuple[int, Tables], ...] = ((width, "feature"), (2 * width, "pair"))
        for count, tables in ways:
            if count % 2 == 0 and count <= features:
                made += [Rotary(one, None if count == features else count, tables) for one in PAIRS]
    return list(dict.fromkeys(made))


# ---------------------------------------------------------------- the module that takes x alone, and with tables


def _fed(module: Any, handing: Handing, width: int) -> Any:
    """A copy of the module that takes x, and is handed tables that turn nothing unless it is given some."""
    plain = copy.deepcopy(module)

    def forward(self: Any, x: Any, *tables: Any, **masks: Any) -> Any:
        cos, sin = tables or (x.new_ones((*x.shape[:2], width)), x.new_zeros((*x.shape[:2], width)))
        return type(self).forward(self, x, **{**handing.named(x, cos, sin), **masks})

    plain.forward = MethodType(forward, plain)  # bound, so that a copy of the module has it with itself
    return plain


def _with_tables(plain: Implementation, handing: Handing, rotary: Rotary, module: Any) -> Implementation:
    """The implementation that takes x as one that takes tables."""

    def call(weights: Mapping[str, Any], x: Any, cos: Any, sin: Any, **named: Any) -> Any:
        return first_output(plain.module, weights, (x, cos, sin), named)

    given = (*handing.tables, *handing.absent, handing.mask, next(iter(inspect.signature(module.forward).parameters)))
    plain = leaving(plain, module.forward, given)
    notes = [*plain.notes]
    if handing.mask:
        notes.append(f"{handing.mask} was handed over as zeros, as it is added without a question")
    notes += [f"{name} was handed over as None" for name in handing.absent]
    notes += [f"{handing.tables[0]} holds the sines first"] if handing.sin_first else []
    return replace(
        plain, call=call, takes=_TAKES, axes={"cos": "b t k", "sin": "b t k"}, rotary=rotary, notes=tuple(notes),
        trained=None, said={**plain.said, "rotary": "found by running it"},
    )  # fmt: skip


# ---------------------------------------------------------------- how wide


def widths(module: Any) -> Iterator[int]:
    """How wide its tables may be: as its attributes say, then as wide as a head, then half as wide."""
    config = getattr(module, "config", None)
    said = attribute(module, _TURNED)
    if said is not None:
        yield from (said, *([said // 2] if said % 2 == 0 else []))
    every = getattr(config, "rope_parameters", None) or {}
    for share in (every.get("partial_rotary_factor"), getattr(config, "partial_rotary_factor", None)):
        if isinstance(share, int | float):
            yield from (int(width * share) for width in _head_widths(module))
    yield from _head_widths(module)
    yield from (width // 2 for width in _head_widths(module) if width % 2 == 0)


def _head_widths(module: Any) -> list[int]:
    """How many features a head may have: as an attribute says, or a width of its weights over the number of heads."""
    own, heads = attribute(module, _HEAD_WIDTHS), attribute(module, HEADS)
    if own is not None:
        return [own]
    sizes = sorted({n for one in module.parameters() for n in one.shape})
    return [n // heads for n in sizes if heads and n % heads == 0]
