"""Descriptions to paste: what to write where the parameters of a function or of a torch module are not known.

Defines `function_stub` and `module_stub`.  They guess from names and shapes; the check decides whether the guess holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mha_sym.attention.layouts import CANONICAL

#: words inside parameter names, and the weights that they usually stand for; the first that fits is taken
_MEANT: tuple[tuple[str, str], ...] = (
    ("qkv|in_proj|c_attn|query_key_value", "qkv"), ("^kv|[._]kv|to_kv", "kv"),
    ("(^|[._])o_?(proj)?[._]|out|mix|c_proj|dense|merge|final|unify", "o"),
    ("(^|[._]|w)_?q|query", "q"), ("(^|[._]|w)_?k|key", "k"), ("(^|[._]|w)_?v|value", "v"),
)  # fmt: skip


def function_stub(name: str, parameters: Sequence[str], known: Mapping[str, str]) -> str:
    """A description of a function that has parameters without a known name; those are taken in the usual order.

    Args:
        name: how the function is called.
        parameters: its parameters, in order.
        known: the words of those that are known.

    Example:
        >>> function_stub("f", ["x", "a", "b", "c", "d", "heads"], {"x": "x", "heads": "heads"})
        "Implementation(call=f, takes=('x', 'w_q', 'w_k', 'w_v', 'w_o', 'heads'))"
    """
    free = iter([one for one in CANONICAL if one not in known.values()])
    words = [known.get(one) or next(free, "...") for one in parameters]
    return f"Implementation(call={name}, takes=({', '.join(map(repr, words))}{',' if len(words) == 1 else ''}))"


def module_stub(kind: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """A description of a torch module by the names of its parameters, as good as they tell.

    Example:
        >>> module_stub("Attention", {"to_qkv.weight": (72, 24), "mix.weight": (24, 24)})
        "Implementation(call=Attention(...), heads=..., layout='packed_linear', names={'w_qkv': 'to_qkv.weight',
         'w_o': 'mix.weight'}, framework='torch')"
    """
    names: dict[str, str] = {}
    for parameter, shape in shapes.items():
        letters = next((what for words, what in _MEANT if re.search(words, parameter, re.IGNORECASE)), "")
        if letters and len(shape) in (1, 2):
            names.setdefault(f"{'w' if len(shape) == 2 else 'b'}_{letters}", parameter)
    packed = {"w_qkv": "packed_linear", "w_kv": "..."}
    layout = next((layout for name, layout in packed.items() if name in names), "linear")
    told = ", ".join(f"{ours!r}: {theirs!r}" for ours, theirs in names.items()) or "..."
    return f"Implementation(call={kind}(...), heads=..., layout={layout!r}, names={{{told}}}, framework='torch')"
