"""The attention layers in a file of weights: parameters of one layout behind one prefix.

Defines `Layer`, `find_layers` and `names_in_file`.  A prefix such as ``transformer.h.0.attn.`` is a layer if the names
of the layout's parameters stand behind it; shapes are not looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.errors import DataProblem

#: where libraries put parts of a layer into modules of their own, in front of the name: as it is written, then others
_INSIDE: dict[str, tuple[dict[str, str], ...]] = {
    "bert": (
        {"query": "self.", "key": "self.", "value": "self.", "dense": "output."},
        {"query": "attention.", "key": "attention.", "value": "attention.", "dense": "output."},
    ),
}


@dataclass(frozen=True)
class Layer:
    """A layer in a file.

    Attributes:
        prefix: what the names of its tensors begin with.
        names: for each stored parameter of the layout, the name of its tensor.
        biases: those that it has, e.g. ``"qkvo"``.
    """

    prefix: str
    names: Mapping[str, str]
    biases: str


def names_in_file(layout: Layout) -> dict[str, str]:
    """What stands behind the prefix, for every stored parameter of a layout.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> list(names_in_file(LAYOUTS["bert"]).values())[:4]
        ['self.query.weight', 'self.key.weight', 'self.value.weight', 'output.dense.weight']
    """
    return next(_ways(layout))


def listed() -> str:
    """All layouts, with their words and the names of their tensors behind the prefix of a layer.

    Example:
        >>> print(listed().partition("gpt2")[2].partition("nanogpt")[0].strip())
        GPT-2, [Q | K | V], (in, out)
                             c_attn.weight, c_proj.weight, c_attn.bias, c_proj.bias
    """
    width = max(map(len, LAYOUTS))
    rows = []
    for name, layout in LAYOUTS.items():
        rows += [f"{name:<{width}}  {layout.words}", f"{'':<{width}}  {', '.join(names_in_file(layout).values())}"]
    return "\n".join(rows)


def _ways(layout: Layout) -> Iterator[dict[str, str]]:
    """The ways in which the names may stand in a file: as libraries write them, bare, and with other marks between."""
    stored = layout.stored("qkvo")
    for inside in _INSIDE.get(layout.name, ()):
        yield {name: inside.get(name.split(".")[0], "") + name for name in stored}
    yield {name: name for name in stored}
    yield {name: name.translate(str.maketrans("./", "/.")) for name in stored}


def find_layers(names: Sequence[str], layout: Layout, at: Sequence[str] = ()) -> list[Layer]:
    """The layers of a layout, in the order of the file.

    Args:
        names: of all tensors.
        layout: how they are stored.
        at: the prefixes of the layers that are meant; all if none is given.

    Raises:
        DataProblem: if there is none, if a parameter of one is missing, or if something hangs on a parameter that
            the layout does not know, such as the scale of a quantised matrix.

    Example:
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> [layer] = find_layers(["h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight", "wte"], LAYOUTS["gpt2"])
        >>> layer.prefix, layer.biases
        ('h.0.attn.', '')
    """
    taken: set[str] = set()
    found: list[Layer] = []
    partial: dict[str, Layer] = {}
    for way in _ways(layout):
        for one in _behind_prefixes([name for name in names if name not in taken], layout, way):
            if set(layout.stored("")) <= set(one.names):
                found.append(one)
                taken |= set(one.names.values())
            else:
                partial.setdefault(one.prefix, one)
    partial = {prefix: one for prefix, one in partial.items() if not set(one.names.values()) & taken}
    place = {name: number for number, name in enumerate(names)}
    every = sorted([*found, *partial.values()], key=lambda one: min(place[name] for name in one.names.values()))
    if not every:
        raise _no_layer(names, layout)
    chosen = _chosen(every, at)
    for one in chosen:
        _refuse_incomplete(one, layout)
        _refuse_unknown(one, names)
    return chosen


def _behind_prefixes(names: Sequence[str], layout: Layout, way: Mapping[str, str]) -> Iterator[Layer]:
    """What stands behind each prefix; an output matrix alone is of something else, such as a multilayer perceptron."""
    behind: dict[str, dict[str, str]] = {}
    for stored, ending in way.items():
        for name in names:
            prefix = name.removesuffix(ending)
            if name.endswith(ending) and (not prefix or prefix[-1] in "./"):
                behind.setdefault(prefix, {})[stored] = name
    inputs = {layout.row(f"w_{letter}").stored for letter in "qkv"}
    for prefix, found in behind.items():
        if inputs & set(found):
            yield Layer(prefix, found, layout.biases(found))


def _no_layer(names: Sequence[str], layout: Layout) -> DataProblem:
    """What to say where no names fit, with the layouts whose names do."""
    others = [one.name for one in LAYOUTS.values() if _has_names(names, one)]
    return DataProblem(
        f"no layer has the names of layout {layout.name}", expected=", ".join(names_in_file(layout).values()),
        got=f"those of {' or '.join(others)}" if others else "",
        hint="mha-sym identify finds the layout of one layer from its weights, inputs and output",
    )  # fmt: skip


def _has_names(names: Sequence[str], layout: Layout) -> bool:
    """Whether all matrices of a layout stand behind some prefix."""
    needed = set(layout.stored(""))
    return any(needed <= set(one.names) for way in _ways(layout) for one in _behind_prefixes(names, layout, way))


def _chosen(layers: Sequence[Layer], at: Sequence[str]) -> list[Layer]:
    """Those that are meant."""
    if not at:
        return list(layers)
    chosen = []
    for wanted in at:
        stem = wanted.rstrip("./")
        here = [one for one in layers if one.prefix.startswith((f"{stem}.", f"{stem}/"))]
        if not here:
            prefixes = [one.prefix.rstrip("./") for one in layers]
            close = get_close_matches(stem, prefixes, 1, 0) or prefixes[:1]
            raise DataProblem(f"no layer is at {wanted!r}", got=f"{len(layers)} layers, among them {close[0]!r}")
        chosen += [one for one in here if one not in chosen]
    return chosen


def _refuse_incomplete(layer: Layer, layout: Layout) -> None:
    missing = [name for name in layout.stored("") if name not in layer.names]
    if not missing:
        return
    way = next(way for way in _ways(layout) if all(name.endswith(way[stored]) for stored, name in layer.names.items()))
    raise DataProblem(
        f"{layer.prefix}{way[missing[0]]} is missing", where=f"layer {layer.prefix}",
        expected=", ".join(way[name] for name in layout.stored("")), got=", ".join(layer.names.values()),
        hint="--at PREFIX picks the layers that are meant; of a file in several parts give the index that names them",
    )


def _refuse_unknown(layer: Layer, names: Sequence[str]) -> None:
    """Refuse what hangs on a converted parameter: moving the one without the other would change the layer."""
    own = set(layer.names.values())
    for name in layer.names.values():
        stem = _module(name)
        for other in names:
            if other.startswith(stem) and other not in own:
                raise DataProblem(
                    f"{other} goes with {name}, and is nothing that a layout knows", where=f"layer {layer.prefix}",
                    hint="make plain weights of quantised ones and of adapters first",
                )


#: the last words of names that stand for a part of a module
_PARTS = ("weight", "bias", "kernel", "w", "b")


def _module(name: str) -> str:
    """What the names of all parts of a module begin with.

    Example:
        >>> _module("h.0.q_proj.weight"), _module("in_proj_weight")
        ('h.0.q_proj.', 'in_proj_weight.')
    """
    last = re.split(r"[./]", name)[-1]
    return name.removesuffix(last) if last in _PARTS and last != name else f"{name}."
