"""A torch module for every number of heads and every width: attributes that hold sizes become what they stand for.

Defines `widened` and `TIES`.  A module that was built for 4 heads of 6 features holds 4, 6 and 24 in its attributes;
with other numbers there, and weights of other shapes, it is the module that its class would build for those.  What was
read as what is said in the notes.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from mha_sym.audit.implementation import Implementation
from mha_sym.axes import size_symbol

#: attributes that hold no size, whatever the number
_NO_SIZES = re.compile(r"(?:.*_)?(?:idx|index|layer|layers|block|max|pos|positions|window|p|eps|axis)(?:_.*)?")
_H, _K = size_symbol("h"), size_symbol("d_k")
#: what must hold of the sizes
TIES: dict[str, sympy.Expr | int] = {"d_v": _K, "d_model": _H * _K}


def widened(module: Any, impl: Implementation, sizes: Mapping[str, int]) -> Implementation | None:
    """An implementation that takes the number of heads and weights of any shape; None where numbers are ambiguous.

    Args:
        module: the module that ``impl.call`` runs.
        impl: the module as it is, with weights of its own.
        sizes: the sizes that these have.

    Its features of values are as many as those of queries, and ``d_model = h d_k``, as far as they are in the module.
    """
    readings = _readings(module, _meanings(sizes))
    if readings is None or impl.takes is None or impl.how_stored.grouped:
        return None
    word = next(n for n, one in enumerate(impl.takes) if one in ("x", "x_q"))

    def call(*values: Any) -> Any:
        *given, heads = values
        with _set(module, readings, {_H: heads, _K: given[word].shape[-1] // heads}):
            return impl.call(*given)

    said = ", ".join(f"{one.path} as {one.meaning}" for one in readings)
    return replace(
        impl, call=call, takes=(*impl.takes, "heads"), weights=None, heads=None, bias=impl.biases,
        tied=tuple(TIES), trained=None, module=None, notes=(*impl.notes, f"read as sizes: {said}"),
    )  # fmt: skip


@dataclass(frozen=True)
class _Reading:
    """An attribute, and the size that it holds."""

    owner: Any
    name: str
    path: str
    meaning: sympy.Expr


def _meanings(sizes: Mapping[str, int]) -> dict[sympy.Expr, float]:
    """What numbers in attributes may stand for, and their values; nothing where widths are not tied as in `TIES`."""
    at = {size_symbol(name): size for name, size in sizes.items()}
    if any(sizes.get(name) != sympy.sympify(one).subs(at) for name, one in TIES.items()):
        return {}
    meanings = (_H, _K, _H * _K, 3 * _H * _K, 1 / sympy.sqrt(_K), sympy.sqrt(_K))
    return {one: float(one.subs(at)) for one in meanings}


def _readings(module: Any, meanings: Mapping[sympy.Expr, float]) -> list[_Reading] | None:
    """The attributes that hold one of these numbers, None if a number may stand for two things."""
    found = []
    for path, owner in module.named_modules():
        if path and type(owner).__module__.startswith("torch.nn."):
            continue  # linear maps know their widths, and do not use them
        for name, value in vars(owner).items():
            if isinstance(value, bool) or not isinstance(value, int | float) or _NO_SIZES.fullmatch(name.lower()):
                continue
            fitting = [meaning for meaning, one in meanings.items() if math.isclose(value, one, rel_tol=4e-16)]
            if len(fitting) > 1:
                return None
            found += [_Reading(owner, name, f"{path}.{name}".lstrip("."), one) for one in fitting]
    return found if any(one.meaning == _H for one in found) else None


@contextlib.contextmanager
def _set(module: Any, readings: list[_Reading], at: Mapping[sympy.Symbol, Any]) -> Iterator[None]:
    """Other numbers in the attributes, and the old ones again afterwards."""
    before = [vars(one.owner)[one.name] for one in readings]
    try:
        for one in readings:
            vars(one.owner)[one.name] = _value(one.meaning, at)
        yield
    finally:
        for one, value in zip(readings, before, strict=True):
            vars(one.owner)[one.name] = value


def _value(meaning: sympy.Expr, at: Mapping[sympy.Symbol, Any]) -> Any:
    """A product of sizes, or a root of one, in numbers of Python or torch's symbolic ones."""
    made: Any = 1
    for base, power in sorted(meaning.as_powers_dict().items(), key=str):
        one = int(base) if base.is_Integer else at[base]
        made = made * one if power.is_Integer else one ** float(power)
    return made
