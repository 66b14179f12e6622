"""What people call the parts of attention: attributes that hold numbers of heads, and names of parameters.

Defines `attribute`, `namings`, `libraries`, `under` and `supposed`.
Names propose; what computes decides (`mha_sym.audit.layouts.readings`).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mha_sym.attention.layouts import LAYOUTS, Layout

#: attributes that hold the number of heads, and of key and value heads
HEADS = ("num_heads", "n_heads", "n_head", "num_attention_heads", "nhead", "heads", "n_heads_q", "h", "H")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_heads", "n_kv_head")
#: parameters of modules that are masks between queries and keys, of whatever kind
MASKS_CALLED = ("attention_mask", "attn_mask", "mask")
#: what people call the matrices
_CALLED = {
    "qkv": r"(?:.*_)?(?:qkv|c_attn|in_proj|query_key_value|w_?pack|packed|attn)(?:_.*)?",
    "q": r"(?:.*_)?(?:q|queries|query|wq)(?:_.*)?", "k": r"(?:.*_)?(?:k|keys?|wk)(?:_.*)?",
    "v": r"(?:.*_)?(?:v|values?|wv)(?:_.*)?",
    "o": r"(?:.*_)?(?:o|out|output|c_proj|proj|mix|dense|wo|final|unify|merge|projection)(?:_.*)?",
}  # fmt: skip


def attribute(module: Any, words: Sequence[str]) -> int | None:
    """The first of some attributes of a module, or of its ``config``, that is a positive number."""
    for holder in (module, getattr(module, "config", None)):
        for word in words:
            value = getattr(holder, word, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return None


def namings(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, str]]:
    """Names of a layout for the module's parameters: its own if they are known, then what they sound like.

    Yields:
        Stored names of a layout to names of the module.
    """
    known = [one for one in LAYOUTS.values() if set(one.stored(one.biases(shapes))) == set(shapes)]
    plain = all(one.grouped for one in known) and _as_many_keys(shapes)  # grouped by name, not by shape
    if known and not plain:
        yield {name: name for name in shapes}
    weights = [name for name, shape in shapes.items() if len(shape) > 1]
    biases = [name for name, shape in shapes.items() if len(shape) == 1]
    for letters in _letterings(weights):
        made = dict(zip((f"w_{one}" for one in letters), weights, strict=True))
        matched = {f"b_{one}": _bias_of(weight, biases) for one, weight in zip(letters, weights, strict=True)}
        named = {ours: theirs for ours, theirs in matched.items() if theirs is not None}
        if set(named.values()) == set(biases):
            yield {**made, **named}
    if known and plain:
        yield {name: name for name in shapes}


def libraries(shapes: Mapping[str, tuple[int, ...]]) -> list[Layout]:
    """The layouts of libraries whose parameters have these names.

    Example:
        >>> [one.name for one in libraries({"q_proj.weight": (), "k_proj.weight": (), "v_proj.weight": (),
        ...                                 "o_proj.weight": ()})]
        ['llama']
    """
    every = (one for one in LAYOUTS.values() if set(one.stored(one.biases(shapes))) == set(shapes))
    return [one for one in every if all(re.search(r"[./]|proj", name) for name in one.stored("qkvo"))]


def _as_many_keys(shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether keys are made by as large a matrix as queries."""
    found = {letter(name): shape for name, shape in shapes.items() if len(shape) > 1}
    return found.get("q") == found.get("k")


def _letterings(weights: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Which matrix is which: as they are called, else in any order, the usual one first."""
    every = {2: ("qkv", "o"), 4: ("q", "k", "v", "o")}.get(len(weights))
    if every is None:
        return
    called = [letter(name) for name in weights]
    if sorted(c or "" for c in called) == sorted(every):
        yield tuple(c or "" for c in called)
        return
    yield from itertools.permutations(every)


def letter(parameter: str) -> str | None:
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


def under(layout: Layout, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str] | None:
    """Names of a layout that was said for the module's parameters; None if it cannot have them.

    Example:
        >>> shapes = {"to_qkv.weight": (36, 12), "to_out.weight": (12, 12)}
        >>> under(LAYOUTS["timm_vit"], shapes)
        {'qkv.weight': 'to_qkv.weight', 'proj.weight': 'to_out.weight'}
    """
    for names in namings(shapes):
        if set(names) == set(layout.stored(layout.biases(names))):
            return names
        packed = {t: f"{t[:2]}qkv" if "w_qkv" in names and t[-1] in "qkv" else t for t in layout.rows}
        made = {layout.row(t).stored: names[one] for t, one in packed.items() if one in names}
        if set(made.values()) == set(shapes):
            return made
    return None


def supposed(
    proposed: Iterable[Mapping[str, str]], shapes: Mapping[str, tuple[int, ...]], separate: str, packed: str
) -> tuple[Mapping[str, str], Layout] | None:
    """What the names of matrices say by themselves, where nothing fits: names of a layout, and which one.

    Where keys are made by a smaller matrix than queries it is the layout with groups of heads.

    Args:
        proposed: what `namings` yields.
        shapes: the matrices.
        separate: the layout if queries, keys and values have a matrix each.
        packed: the layout if they have one together.

    Example:
        >>> shapes = {"to_qkv.weight": (36, 12), "to_out.weight": (12, 12)}
        >>> names, layout = supposed(namings(shapes), shapes, "linear", "packed_linear")
        >>> names, layout.name
        ({'w_qkv': 'to_qkv.weight', 'w_o': 'to_out.weight'}, 'packed_linear')
    """
    letters = sorted(letter(name) or "" for name in shapes)
    if letters == ["k", "o", "q", "v"] and not _as_many_keys(shapes):
        separate = {"linear": "grouped_linear", "combined": "grouped"}[separate]
    layout = {("k", "o", "q", "v"): separate, ("o", "qkv"): packed}.get(tuple(letters))
    meant = {f"w_{one}" for one in letters}  # not the names of a layout that was tried in vain
    names = next((one for one in proposed if meant <= set(one)), None)
    return None if layout is None or names is None else (names, LAYOUTS[layout])
