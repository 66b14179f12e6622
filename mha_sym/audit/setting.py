"""One draw: sizes, arrays for the specification, and the same arrays as the implementation wants them.

Defines `Setting`, `draw_setting`, `ties_of` and `OF_SCALES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from einops import rearrange

from mha_sym.arrays import size_value
from mha_sym.attention.layouts import INPUT_WIDTHS
from mha_sym.attention.rotary import PAIR_COUNT, REST, Rotary
from mha_sym.attention.rows import GROUPS, SHARDS
from mha_sym.audit.call import letters
from mha_sym.audit.cases import Case, any_keep, causal_keep, mask_argument, padding_keep
from mha_sym.audit.draw import SIZES, Same, draw_lengths, draw_sizes, draw_values
from mha_sym.audit.implementation import MASKS, Implementation
from mha_sym.audit.precision import Array, rounded
from mha_sym.audit.specification import mask_axes
from mha_sym.errors import DataProblem, TargetProblem


@dataclass(frozen=True)
class Setting:
    """What one comparison runs on.

    Attributes:
        sizes: all sizes, by name.
        arrays: the inputs of the specification, by name.
        arguments: the arguments of the implementation, by word, in its own order of axes.
        keep: the kept keys, broadcastable to ``(b, h, t, s)``, if any are hidden.
        mask: the additive mask, broadcastable likewise, if there is one.
        weights: ``drawn`` or ``its own``.
    """

    sizes: dict[str, int]
    arrays: dict[str, Array]
    arguments: dict[str, Any]
    keep: Array | None
    mask: Array | None
    weights: str


def ties_of(impl: Implementation) -> tuple[tuple[str, ...], ...]:
    """Which ties of sizes to try, the freest first.

    Example:
        >>> ties_of(Implementation(call=lambda x: x, heads=2, tied=("d_v",)))
        (('d_v',),)
    """
    if impl.tied is not None or impl.weights is not None:
        return (impl.tied or (),)
    if "k" in impl.how_stored.same.values():
        return (("d_v",), ("d_v", "d_model"))
    return ((), ("d_v",), ("d_v", "d_model"))


def draw_setting(
    impl: Implementation, case: Case, seed: int, draw: int,
    sizes: Mapping[str, int] | None = None, lengths: Sequence[int] | None = None,
) -> Setting:  # fmt: skip
    """Sizes and values for one comparison, determined by the seed, the number of the draw and the case.

    The sizes depend on the case only in whether there are as many keys as queries.

    Raises:
        Problem: for sizes or lengths that cannot be, and for weights that do not fit the layout.
    """
    fixed = _solved(impl, _with_pairs(impl, {**_fixed(impl), **(sizes or {})}, draw))
    chosen = _drawn_sizes(impl, case, [seed, draw], fixed)
    chosen = impl.how_stored.with_parts(chosen)
    chosen |= {} if impl.positions is None else impl.positions.sizes(chosen["d_k"])
    rng = np.random.default_rng([seed, draw, *case.name.encode()])
    own = impl.weights is not None and (draw == 0 or "weights" not in impl.arguments)
    weights = _own_weights(impl) if own else _drawn_weights(impl, rng, chosen)
    x = _inputs(impl, case, rng, chosen)
    parts = _kept_parts(case, rng, chosen, lengths, whole=bool(draw % 2))
    arrays: dict[str, Array] = {**weights, **x, **_tables(impl, rng, chosen)}
    if "b s" in parts:
        arrays["key_keep"] = parts["b s"]
    if case.drawn:
        arrays["keep"] = parts["t s"]
    mask = None
    if case.additive:
        arrays["mask"] = draw_values(rng, _mask_shape(impl, chosen), impl.dtype)
        mask = _to_scores(arrays["mask"], impl.order("mask"))
    arguments = _arguments(impl, case, arrays, parts, chosen, weights)
    keep = mask_argument("keep", parts, "b 1 t s", letters(chosen)) if parts else None
    return Setting(chosen, arrays, arguments, keep, mask, "its own" if own else "drawn")


# ---------------------------------------------------------------- sizes

#: how often sizes are drawn again until they are as they are wanted
_AGAIN = 20
#: sizes of which a scale may be made: a constant would look like it if they were the same in every draw
OF_SCALES = ("h", "d_k", "d_v", "d_model")


def _drawn_sizes(impl: Implementation, case: Case, seed: list[int], fixed: Mapping[str, int]) -> dict[str, int]:
    """Sizes with fewer queries than keys and more by turns, and no width the same three times running, if may be.

    Where a causal mask is counted from the end they are never more: the first would be left without a key.
    """
    drawn: list[dict[str, int]] = []
    for draw in range(seed[-1] + 1):
        drawn.append(_next_sizes(impl, case, [*seed[:-1], draw], fixed, drawn[-2:]))
    return drawn[-1]


def _next_sizes(
    impl: Implementation, case: Case, seed: list[int], fixed: Mapping[str, int], before: Sequence[Mapping[str, int]]
) -> dict[str, int]:
    fewer = seed[-1] % 2 == 0 or case.aligned == "bottom-right"
    given = {*fixed, *(["h"] if set(GROUPS.values()) <= set(fixed) else [])}
    twice = [name for name in OF_SCALES if len(before) == 2 and len({one.get(name) for one in before}) == 1]
    best: tuple[bool, dict[str, int]] = (False, {})
    for again in range(_AGAIN):
        rng = np.random.default_rng([*seed, again] if again else seed)
        chosen = draw_sizes(rng, _names(impl), fixed, _same(impl, case, fixed))
        if not {"T", "S"} & set(fixed):
            chosen["T"], chosen["S"] = sorted((chosen["T"], chosen["S"]), reverse=not fewer)
        ordered = {"T", "S"} <= set(fixed) or chosen["T"] == chosen["S"] or (chosen["T"] < chosen["S"]) is fewer
        if ordered and not any(chosen[name] == before[0][name] for name in twice if name not in given):
            return chosen
        best = best if best[1] and best[0] >= ordered else (ordered, chosen)
    return best[1]


def _names(impl: Implementation) -> list[str]:
    layout = impl.how_stored
    optional = {*INPUT_WIDTHS.values(), *GROUPS.values()}
    have = {*layout.input_widths(), *(GROUPS.values() if layout.grouped else ())}
    return [name for name in SIZES if name not in optional or name in have]


def _fixed(impl: Implementation) -> dict[str, int]:
    """The sizes that the implementation fixes: those it states, and those that its weights have."""
    stated = {"h": impl.heads, "G": impl.kv_heads, "d_model": impl.d_model, "d_k": impl.d_k, "d_v": impl.d_v}
    known = {name: value for name, value in stated.items() if value is not None}
    if impl.weights is not None:
        found = impl.how_stored.sizes(_own_weights(impl), known)
        found.pop(SHARDS["l"], None)  # it follows from the number of heads
        return {**found, "d_v": found.get("d_v", found["d_k"])}
    if impl.how_stored.grouped:
        return _groups(impl, known)
    if "h" not in known and "heads" not in impl.arguments and not impl.how_stored.heads_are_an_axis():
        raise TargetProblem(
            f"how many heads does {impl.title} have?", hint="give heads=..., on the command line --heads N"
        )
    shards = impl.how_stored.shards
    return known if shards is None else {"h": 2 * shards, **known}


def _groups(impl: Implementation, known: dict[str, int]) -> dict[str, int]:
    """The sizes of grouped heads, ``h = G R``; a number of key and value heads that may be chosen divides h."""
    given = set(impl.arguments) & {"heads", "kv_heads"}
    for name, word in (("h", "heads"), ("G", "kv_heads")):
        if name not in known and word not in given and not impl.how_stored.heads_are_an_axis():
            raise TargetProblem(
                f"how many {word} does {impl.title} have?", hint=f"give {word}=..., on the command line --{word} N"
                .replace("kv_heads N", "kv-heads N"),
            )  # fmt: skip
    if "h" not in known:
        return known
    heads = known["h"]
    groups = known.get("G") or next((n for n in range(2, heads) if heads % n == 0 and n * n != heads), 1)
    if heads % groups:
        raise DataProblem(
            f"{heads} heads do not divide into {groups} key and value heads", where=impl.title, expected="h = G R"
        )
    return {**known, "G": groups, "R": heads // groups}


def _with_pairs(impl: Implementation, fixed: dict[str, int], draw: int) -> dict[str, int]:
    """The fixed sizes with that of the features of a head, where these are pairs: an even number of them is turned."""
    rotary = impl.positions
    if rotary is None:
        return fixed
    others = {name: size for name, size in fixed.items() if name not in (PAIR_COUNT, REST)}  # they follow from d_k
    if "d_k" in fixed:
        return others
    pairs = fixed.get(PAIR_COUNT, (3, 2, 4, 5)[draw % 4]) if rotary.width is None else rotary.width // 2
    rest = 0 if rotary.width is None else fixed.get(REST, (3, 1, 2, 5)[draw % 4])
    return {**others, "d_k": 2 * pairs + rest}


def _solved(impl: Implementation, fixed: dict[str, int]) -> dict[str, int]:
    """The fixed sizes with those that follow where the heads together are as wide as a model of fixed width."""
    width = fixed.get("d_model", 0)
    if "d_model" not in (impl.tied or ()) or not width or "d_k" in fixed:
        return fixed
    heads = fixed.get("h") or next((n for n in (3, 4, 5, 2) if width % n == 0), 1)
    if width % heads:
        raise DataProblem(
            f"d_model = {width} does not divide into {heads} heads", where=impl.title, expected="h d_k = d_model"
        )
    return {**fixed, "h": heads, "d_k": width // heads, "d_v": width // heads}


def _same(impl: Implementation, case: Case, fixed: Mapping[str, int]) -> Same:
    tied = impl.tied or ()
    same: dict[str, str | tuple[str, str]] = {"h": ("G", "R")} if impl.how_stored.grouped else {}
    if "d_v" in tied or impl.how_stored.same.get("v") == "k":
        same["d_v"] = "d_k"
    if "d_model" in tied:
        same["d_model"] = ("h", "d_k")
    if case.as_many_keys or impl.positions is not None:  # positions are those of queries and of keys
        same["S"] = "T"
    if case.same:
        _one_width(impl, fixed)
        same |= {"d_key": "d_model", "d_value": "d_model"}
    elif "x_kv" in impl.arguments:
        same["d_value"] = "d_key"
    return same


def _one_width(impl: Implementation, fixed: Mapping[str, int]) -> None:
    widths = {fixed[name] for name in ("d_model", "d_key", "d_value") if name in fixed}
    if len(widths) > 1:
        raise TargetProblem(
            f"{impl.title} cannot attend to its own input: the widths differ", got=", ".join(map(str, sorted(widths)))
        )


# ---------------------------------------------------------------- arrays


def _own_weights(impl: Implementation) -> dict[str, Array]:
    """The implementation's weights under the names of the layout."""
    assert impl.weights is not None
    inverse = {theirs: ours for ours, theirs in impl.stored.items()}
    found = {inverse.get(name, name): value for name, value in impl.weights.items()}
    for name, value in found.items():
        if not hasattr(value, "shape") or "float" not in str(value.dtype):
            raise DataProblem(f"weight {name!r} is no array of floating-point numbers", where=impl.title)
    return {name: rounded(_numpy(value), impl.dtype) for name, value in found.items()}


def _numpy(value: Any) -> Array:
    return np.asarray(value.detach().cpu().double().numpy() if hasattr(value, "detach") else value)


def _drawn_weights(impl: Implementation, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    found = {}
    for name, one in impl.how_stored.parameters(impl.how_stored.dims(), impl.biases).items():
        shape = [size_value(axis_, sizes) for axis_ in one.axes]
        fan = sizes["h"] * sizes["d_v"] if "out" in name or name == "w_o" else sizes["d_model"]
        found[name] = draw_values(rng, shape, impl.dtype, 2 if one.role == "bias" else fan)
    return found


def _inputs(
    impl: Implementation, case: Case, rng: np.random.Generator, sizes: Mapping[str, int]
) -> dict[str, Array]:
    def drawn(tokens: str, width: str) -> Array:
        shape = (sizes["B"], sizes[tokens], sizes.get(width, sizes["d_model"]))
        return draw_values(rng, shape, impl.dtype)

    x = drawn("T", "d_model")
    if case.same:
        return {"X_q": x, "X_k": x, "X_v": x}
    keys = drawn("S", "d_key")
    return {"X_q": x, "X_k": keys, "X_v": keys if "x_kv" in impl.arguments else drawn("S", "d_value")}


def _tables(impl: Implementation, rng: np.random.Generator, sizes: Mapping[str, int]) -> dict[str, Array]:
    """Cosines and sines of positions times drawn frequencies, one angle for every pair, as the convention lays them."""
    rotary = impl.positions
    if rotary is None or impl.own is not None:
        return {} if impl.own is None else dict(impl.own(sizes))
    first = rng.permutation(sizes["B"])[:, None, None] if "b" in impl.order("cos").split() else 0
    angles = (first + np.arange(sizes["T"])[:, None]) * rng.uniform(0.2, 2.8, sizes[PAIR_COUNT])
    if rotary.tables == "feature":
        angles = _twice(angles, rotary)
    return {"cos": rounded(np.cos(angles), impl.dtype), "sin": rounded(np.sin(angles), impl.dtype)}


def _twice(table: Array, rotary: Rotary) -> Array:
    """The numbers of pairs as those of their features."""
    return np.concatenate([table] * 2, -1) if rotary.pairs == "halves" else np.repeat(table, 2, -1)


def _table(impl: Implementation, word: str, table: Array) -> Array:
    """A table of rotary positions as the implementation wants it."""
    rotary, order = impl.positions, impl.order(word)
    assert rotary is not None  # it takes the table
    have = " ".join(name for name in ("b", "t", "k") if name in order.split())
    return np.ascontiguousarray(rearrange(_twice(table, rotary) if rotary.tables == "twice" else table,
                                          f"{have} -> {order}"))


def _kept_parts(
    case: Case, rng: np.random.Generator, sizes: Mapping[str, int], lengths: Sequence[int] | None, whole: bool
) -> dict[str, Array]:
    parts = {}
    if case.causal:
        tokens = sizes["T"], sizes["S"]
        parts["t s"] = any_keep(rng, *tokens) if case.drawn else causal_keep(*tokens, case.aligned)
    if case.padding:
        drawn = draw_lengths(rng, sizes["B"], sizes["S"], whole)
        parts["b s"] = padding_keep(drawn if lengths is None else _lengths(lengths, sizes), sizes["S"])
    return parts


def _lengths(lengths: Sequence[int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    if len(lengths) != sizes["B"] or not all(0 <= n <= sizes["S"] for n in lengths):
        raise DataProblem(
            "the lengths do not fit", got=str(list(lengths)),
            expected=f"{sizes['B']} lengths between 0 and {sizes['S']}",
            hint="give sizes={'B': ..., 'S': ...} to match",
        )  # fmt: skip
    return tuple(lengths)


def _mask_shape(impl: Implementation, sizes: Mapping[str, int]) -> list[int]:
    return [size_value(one, sizes) for one in mask_axes(impl, impl.how_stored.dims())]


def _to_scores(mask: Array, order: str) -> Array:
    """The additive mask with the axes of the scores, ones where it lacks them."""
    have = [name for name in order.split() if name != "1"]
    right = " ".join(name if name in have else "1" for name in "bhts")
    return np.asarray(rearrange(mask, f"{' '.join(have)} -> {right}"))


def _arguments(
    impl: Implementation, case: Case, arrays: Mapping[str, Array], parts: Mapping[str, Array],
    sizes: Mapping[str, int], weights: Mapping[str, Array],
) -> dict[str, Any]:  # fmt: skip
    """A value for every argument, in the implementation's own names and orders of axes."""
    named = {impl.stored[name]: value for name, value in weights.items()}
    x = {"x": "X_q", "x_q": "X_q", "x_k": "X_k", "x_v": "X_v", "x_kv": "X_k"}
    plain = {
        "heads": sizes["h"], "kv_heads": sizes.get("G"), "weights": named, "need_weights": case.need_weights,
        "causal": case.causal == "causal", "head_mask": None,  # where it acts is looked into apart
    }  # fmt: skip
    found: dict[str, Any] = {}
    for word in impl.arguments:
        if word in x:
            found[word] = _ordered(arrays[x[word]], word, impl)
        elif word in plain:
            found[word] = plain[word]
        elif word in ("cos", "sin"):
            found[word] = _table(impl, word, arrays[word])
        elif word in MASKS:
            found[word] = _mask(impl, case, word, arrays, parts, sizes)
        else:
            found[word] = named[word]
    return found


def _ordered(value: Array, word: str, impl: Implementation) -> Array:
    tokens = "t" if word in ("x", "x_q") else "s"
    return np.ascontiguousarray(rearrange(value, f"b {tokens} m -> {impl.order(word)}"))


def _mask(
    impl: Implementation, case: Case, word: str, arrays: Mapping[str, Array], parts: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> Array | None:  # fmt: skip
    """The mask that goes in as ``word``; None where this case hides nothing that way."""
    order, size = impl.order(word), letters(sizes)
    own = {"t s": case.causal == word, "b s": case.padding == word}
    mine = {axes: part for axes, part in parts.items() if own[axes]}
    if word == "mask" and case.additive:
        finite = arrays["mask"].reshape([1 if name == "1" else size[name] for name in order.split()])
        return finite + mask_argument(word, mine, order, size)
    return np.ascontiguousarray(mask_argument(word, mine, order, size)) if mine else None
