"""How the values of the specification may look in code: every order of their axes, some of them joined.

Defines `Looks` and `looks_of`.  This is about numbers on one draw and proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from mha_sym.arrays import all_inputs, size_value
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.proving.claims import opened
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import Specification
from mha_sym.evaluate import evaluate_all
from mha_sym.expr import Expr, Named, walk

#: how far apart equal numbers may be in float64, relatively and at all
_CLOSE = 1e-9, 1e-11
#: code that hides a key writes a score below this
_HIDDEN = -1e8


@dataclass
class Looks:
    """Values of the specification on one draw, each with one axis for each plain axis.

    Attributes:
        arrays: the values by name: stages, named values, weights, inputs.
        found: those of a shape, remembered.
    """

    arrays: Mapping[str, Array]
    found: dict[tuple[int, ...], dict[str, list[Array]]] = field(default_factory=dict)

    def of_shape(self, value: Array, names: Collection[str]) -> Iterator[Array]:
        """All with these names that may stand in the place of a value."""
        for name, looks in self._like(value).items():
            if name in names:
                yield from looks

    def others(self, names: Collection[str], moved: bool, product: bool) -> set[str]:
        """What may be put in the place of a value that has these names.

        Anything if it has none.  Where it has, nothing is wrong with it but the order of its axes, if it was just
        ``moved``, or if it is a ``product`` of queries and keys, and that it may lack a scale.  A mask is left alone:
        to hide what will be hidden once more, or not, says nothing of the line.
        """
        if not names:
            return set(self.arrays)
        found = {"scaled", "scores"} if "raw" in names else set[str]()
        if moved or (product and {"raw", "scaled"} & set(names)):
            found |= {name for name in names if name[:2] not in ("w_", "b_")}
        return found

    def as_one(self, name: str, value: Array) -> list[Array]:
        """One of the values in the shape of another."""
        return self._like(value).get(name, [])

    def names(self, value: Array) -> set[str]:
        """The names of those that a value is."""
        return {name for name, looks in self._like(value).items() if any(_same(value, look) for look in looks)}

    def together(self) -> tuple[tuple[str, ...], ...]:
        """Values that code makes in one line."""
        every = (("q", "k", "v"), *(tuple(f"{kind}_{letter}" for letter in "qkv") for kind in "wb"))
        return tuple(found for row in every if len(found := tuple(one for one in row if one in self.arrays)) > 1)

    def _like(self, value: Array) -> dict[str, list[Array]]:
        if value.dtype.kind != "f" or value.size < 2:
            return {}
        plain = tuple(n for n in value.shape if n != 1)
        if plain not in self.found:
            every = {name: list(_looks(array, plain)) for name, array in self.arrays.items()}
            self.found[plain] = {name: looks for name, looks in every.items() if looks}
        return {name: [look.reshape(value.shape) for look in looks] for name, looks in self.found[plain].items()}


def _looks(array: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """An array in a shape without axes of size 1, its axes in every order that lets adjacent ones be joined to it."""
    array = array.squeeze()
    if array.size == math.prod(shape):
        for order in permutations(range(array.ndim)):
            if _joins([array.shape[n] for n in order], shape):
                yield array.transpose(order).reshape(shape)


def _joins(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether adjacent sizes multiply to a shape."""
    left = list(sizes)
    for wanted in shape:
        have = 1
        while left and have < wanted:
            have *= left.pop(0)
        if have != wanted:
            return False
    return not left


def _same(value: Array, look: Array) -> bool:
    """Whether a value is another, minus infinity and numbers far below all others being one."""
    hidden = look == -np.inf
    return bool(np.allclose(value[~hidden], look[~hidden], *_CLOSE)) and bool((value[hidden] < _HIDDEN).all())


def looks_of(impl: Implementation, spec: Specification, expected: Mapping[str, Array], setting: Setting) -> Looks:
    """The values of a specification on a draw, under the names of stages where they are stages."""
    named = {one.name: one for one in walk(spec.stages.y) if isinstance(one, Named)}
    exprs = {**named, **spec.weights.items()}
    arrays = dict(_evaluated(exprs, setting))
    axes = {word: STAGES[word].replace("(", "").replace(")", "").split() for word in STAGES}
    arrays |= {word: expected[word] for word in STAGES if expected[word].ndim == len(axes[word])}
    arrays |= {word: setting.arrays[word] for word in ("X_q", "X_k", "X_v")}
    arrays |= _before_the_softmax(expected, spec.scale(setting.sizes), setting)
    return Looks({**arrays, **_once_a_group(impl, arrays, setting), **_fused(impl, setting)})


def _evaluated(exprs: Mapping[str, Expr], setting: Setting) -> Iterator[tuple[str, Array]]:
    """Values with product axes opened."""
    inputs = all_inputs(exprs.values())
    named = {symbol.name for node in inputs.values() for a in node.axes for symbol in a.size.free_symbols}
    known = {name: size for name, size in setting.sizes.items() if name in named}
    for name, value in evaluate_all(exprs, setting.arrays, sizes=known).items():
        leaves = [leaf for a in exprs[name].axes for leaf in opened(a)]
        yield name, np.asarray(value).reshape([size_value(a, setting.sizes) for a in leaves])


def _before_the_softmax(expected: Mapping[str, Array], scale: float, setting: Setting) -> dict[str, Array]:
    """Products of queries and keys, scores without a mask, and with minus infinity where a key is hidden."""
    raw = expected["q"] @ expected["k"].swapaxes(-1, -2)
    found = {"raw": raw, "scaled": raw * scale, "exponentials": np.exp(expected["scores"])}
    if setting.keep is not None:
        keep = np.broadcast_to(setting.keep, raw.shape)
        found |= {"hidden": np.where(keep, expected["scores"], -np.inf)}
        found |= {"exponentials": np.where(keep, found["exponentials"], 0.0)}
    return found


def _once_a_group(impl: Implementation, arrays: Mapping[str, Array], setting: Setting) -> dict[str, Array]:
    """Keys and values of each key and value head once, where query heads share them."""
    if not impl.how_stored.grouped:
        return {}
    groups, shared = setting.sizes["G"], setting.sizes["R"]
    found = {}
    for letter in "kv":
        in_turn = "(r g" in impl.how_stored.row(f"w_{letter}").right
        found[f"{letter} of a group"] = arrays[letter][:, :groups] if in_turn else arrays[letter][:, ::shared]
    return found


def _fused(impl: Implementation, setting: Setting) -> dict[str, Array]:
    """The input times a matrix in which those of queries, keys and values lie together, without bias and with it."""
    layout, found = impl.how_stored, dict[str, Array]()
    rows = {target: layout.row(target).stored for target in layout.targets(impl.biases)}
    for kind in ("w", "b"):
        names = [rows[f"{kind}_{letter}"] for letter in "qkv" if f"{kind}_{letter}" in rows]
        shared = next((name for name in names if names.count(name) > 1), None)
        if shared is None:
            break
        stored, width = setting.arrays[shared], setting.sizes["d_model"]
        if kind == "w":
            axis = max(n for n, size in enumerate(stored.shape) if size == width)
            found["fused"] = setting.arrays["X_q"] @ np.moveaxis(stored, axis, 0).reshape(width, -1)
        else:
            found["fused with bias"] = found["fused"] + stored.reshape(-1)
    return found
