"""What is to be done with one layer: which conversion, at which sizes, and what comes out.

Defines `Wish`, `Planned` and `planned`.  Everything that would need arithmetic, or would lose something, is refused
here, before a byte is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mha_sym.arrays import size_value
from mha_sym.attention.conversion import Conversion, conversion
from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.checkpoint.layers import Layer, names_in_file
from mha_sym.checkpoint.tensor import Tensor, words
from mha_sym.errors import DataProblem, Problem
from mha_sym.expr import Expr, inputs

#: layouts of libraries that do not divide scores by the square root of d_k, and those that hold one key and value head
_UNSCALED, _ONE_GROUP = frozenset({"t5"}), frozenset({"starcoder", "falcon_7b"})

#: layouts that only say how weights lie; the others are those of libraries, which compute with them in their own way
_GENERIC = ("combined", "separate", "linear", "packed", "grouped")


@dataclass(frozen=True)
class Wish:
    """What is asked for.

    Attributes:
        source: the layout that is given.
        target: the layout that is wanted.
        heads: the number of heads, if it is said.
        kv_heads: the number of key and value heads, if it is said.
        repeat_kv: whether key and value heads may be copied for the query heads that read them.
        zero_biases: whether biases that the source has not are to be stored as zeros.
    """

    source: Layout
    target: Layout
    heads: int | None = None
    kv_heads: int | None = None
    repeat_kv: bool = False
    zero_biases: bool = False


@dataclass(frozen=True)
class Planned:
    """One layer and its conversion.

    Attributes:
        layer: where it is.
        conversion: what is done with it.
        sizes: its sizes, by symbol.
        given: the tensors of the source, by stored name.
        wanted: the tensors of the target, by stored name.
        copies: how many query heads read a key and value head that one of the layouts stores once for each; 1 if none.
    """

    layer: Layer
    conversion: Conversion
    sizes: Mapping[str, int]
    given: Mapping[str, Tensor]
    wanted: Mapping[str, Tensor]
    copies: int = 1

    @property
    def bytes(self) -> int:
        """The most bytes of tensors that are held at a time while one tensor is made."""
        return max(
            self.wanted[name].bytes + sum(self.given[one.name].bytes for one in inputs(expr))
            for name, expr in self.conversion.made.items()
        )


#: biases that are given, those that are made as zeros, and whether every head has a key and value head of its own
_Key = tuple[str, str, bool]


def refuse_scale(wish: Wish) -> None:
    """Refuse layouts of two libraries whose scores have different scales: weights would have to be multiplied.

    Raises:
        Problem: if so.
    """
    one, other = wish.source.name, wish.target.name
    unlike = (one in _UNSCALED) != (other in _UNSCALED)
    if unlike and not any(name.startswith(_GENERIC) for name in (one, other)):
        raise Problem(
            "queries would have to be multiplied by sqrt(d_k) or its inverse, which is no conversion of a layout",
            where=f"{one} to {other}", hint="linear only says how weights lie; convert to that, and scale as you need",
        )


def planned(layer: Layer, tensors: Mapping[str, Tensor], wish: Wish, known: dict[_Key, Conversion]) -> Planned:
    """What is to be done with a layer.

    Args:
        layer: where it is.
        tensors: what the file holds.
        wish: what is asked for.
        known: the conversions of the layers before, to which that of this one is added.

    Raises:
        Problem: naming the layer, if its shapes do not fit or the target cannot hold it.
    """
    given = {stored: tensors[name] for stored, name in layer.names.items()}
    try:
        sizes = _sizes_or_other(given, wish)
        copies = _copies(sizes, wish)
        key = (layer.biases, _zeros(layer, wish), copies == 1)
        made = known[key] if key in known else known.setdefault(key, _conversion(wish, key))
        sizes = _for_target(sizes, made, copies)
        wanted = _wanted(made, sizes, layer, given)
    except Problem as problem:
        raise _in_layer(problem, layer) from None
    return Planned(layer, made, sizes, given, wanted, copies)


def _in_layer(problem: Problem, layer: Layer) -> Problem:
    """The same problem, which says in which layer it is."""
    where = f"layer {layer.prefix or 'without a prefix'}" + (f", {problem.where}" if problem.where else "")
    said = {"expected": problem.expected, "got": problem.got, "axes": problem.axes, "hint": problem.hint}
    return type(problem)(problem.what, where=where, **said)  # type: ignore[arg-type]  # the fields of a problem


# ---------------------------------------------------------------- sizes


def _sizes(given: Mapping[str, Tensor], wish: Wish) -> dict[str, int]:
    """The sizes that the shapes fix, with the numbers of heads that are said."""
    if wish.heads is None and not wish.source.heads_are_an_axis():
        raise DataProblem("the number of heads cannot be told from the shapes", hint="give --heads N")
    known = {} if wish.heads is None else {"h": wish.heads}
    if wish.source.grouped:
        one = 1 if wish.source.name in _ONE_GROUP else None
        groups = wish.kv_heads if wish.kv_heads is not None else one
        known |= {} if groups is None else {"G": groups}
    return wish.source.sizes(given, known)


def _sizes_or_other(given: Mapping[str, Tensor], wish: Wish) -> dict[str, int]:
    """The same; if shapes do not fit, with the layouts of the same names that they do fit."""
    try:
        return _sizes(given, wish)
    except DataProblem as problem:
        own = wish.source.name
        others = [one for one in LAYOUTS.values() if one.name != own and set(given) <= set(one.stored("qkvo"))]
        fitting = [one.name for one in others if _fits(given, replace(wish, source=one))]
        if fitting:
            problem.hint = f"{' and '.join(fitting)} has the same names, and these shapes fit it: --from {fitting[0]}"
        raise


def _fits(given: Mapping[str, Tensor], wish: Wish) -> bool:
    """Whether shapes are those of a layout."""
    if not set(wish.source.stored("")) <= set(given):
        return False
    try:
        _sizes(given, wish)
    except Problem:
        return False
    return True


def _copies(sizes: Mapping[str, int], wish: Wish) -> int:
    """How many query heads read one key and value head that only one of the two layouts stores once."""
    heads, groups = sizes["h"], sizes.get("G", wish.kv_heads or sizes["h"])
    if heads % groups:
        raise DataProblem(f"{heads} heads do not divide into {groups} key and value heads", expected="h = G R")
    if wish.target.name in _ONE_GROUP and groups != 1:
        raise DataProblem(
            f"{wish.target.name} has one key and value head, and the layer has {groups}",
            hint="where its heads are copies of one, give --kv-heads 1",
        )
    if wish.source.grouped == wish.target.grouped or heads == groups:
        if not wish.source.grouped and not wish.target.grouped and groups != heads:
            raise DataProblem("neither layout has fewer key and value heads than heads", got=f"--kv-heads {groups}")
        return 1
    if wish.source.grouped and not wish.repeat_kv:
        raise DataProblem(
            f"{wish.target.name} has a key and value head for every head, and the layer has {groups} for {heads}",
            hint="--repeat-kv copies each for the heads that read it: a larger file, the same results",
        )
    return heads // groups


def _for_target(sizes: Mapping[str, int], made: Conversion, copies: int) -> dict[str, int]:
    """All sizes, after a check that the target can have them."""
    found = dict(sizes)
    found.setdefault("d_v", found["d_k"])
    for name, what in (("d_key", "keys"), ("d_value", "values")):
        width = found.setdefault(name, found["d_model"])
        if width != found["d_model"] and name not in made.target.input_widths():
            raise DataProblem(
                f"layout {made.target.name} has one width for all inputs", where=f"the input of {what}",
                got=f"{name}={width}, d_model={found['d_model']}",
            )
    if "v" in made.target.same and found["d_v"] != found["d_k"]:
        raise DataProblem(
            f"layout {made.target.name} has values as wide as keys", got=f"d_v={found['d_v']}, d_k={found['d_k']}"
        )
    found = made.target.with_parts(found)
    found.setdefault("G", found["h"] // copies)
    found.setdefault("R", found["h"] // found["G"])
    return found


# ---------------------------------------------------------------- what comes out


def _zeros(layer: Layer, wish: Wish) -> str:
    able = "".join(letter for letter in "qkvo" if f"b_{letter}" in wish.target.rows)
    return "".join(letter for letter in able if letter not in layer.biases) if wish.zero_biases else ""


def _conversion(wish: Wish, key: _Key) -> Conversion:
    try:
        return conversion(wish.source, wish.target, *key[:2], own_heads=key[2])
    except Problem as problem:
        if "zeros" in problem.hint:
            problem.hint = "--zero-biases stores zeros in its place, which changes no result"
        raise


def _wanted(
    made: Conversion, sizes: Mapping[str, int], layer: Layer, given: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    names = names_in_file(made.target)
    found = {}
    for stored, expr in made.made.items():
        shape = tuple(size_value(one, sizes) for one in made.wanted[stored].axes)
        found[stored] = Tensor(layer.prefix + names[stored], _kind(stored, expr, made, given), shape)
    return found


def _kind(stored: str, expr: Expr, made: Conversion, given: Mapping[str, Tensor]) -> str:
    """The format of what is made: that of all it is made of."""
    sources = [given[one.name] for one in inputs(expr)] or [given[made.source.row("w_o").stored]]
    words(sources[0])  # which refuses what is not moved one by one
    for one in sources:
        if one.kind != sources[0].kind:
            raise DataProblem(
                f"{stored} would be made of two formats",
                got=f"{sources[0].name} {sources[0].kind}, {one.name} {one.kind}",
                hint="a change of format is no conversion of a layout; store them in one format first",
            )
    return sources[0].kind
