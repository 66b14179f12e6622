"""Code that takes a mask between queries and keys, called with the causal one always.

Defines `made_causal`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mha_sym.audit.implementation import Implementation
from mha_sym.blame import import_torch

#: words of arguments that can hide later keys, the plainest first
_WORDS = ("causal", "keep", "drop", "mask")


def made_causal(impl: Implementation) -> Implementation | None:
    """An implementation that is causal by itself, made of one that takes a mask; None if it takes none.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads, keep):
        ...     return keep
        >>> made = made_causal(Implementation(call=attention))
        >>> made.causal, made.arguments
        (True, ('x', 'w_q', 'w_k', 'w_v', 'w_o', 'heads'))
        >>> made.call(np.zeros((1, 2, 4)), 0, 0, 0, 0, 2).tolist()
        [[True, False], [True, True]]
    """
    words = impl.arguments
    word = next((one for one in _WORDS if one in words), None)
    if word is None or impl.is_cross or not impl.batch_first:
        return None
    names, call, at = list(impl.by_parameter) if impl.takes is None else [], impl.call, words.index(word)

    def causal(*values: Any) -> Any:
        x = values[words.index("x")]
        given = (*values[:at], _mask(impl, word, x), *values[at:])
        return call(**dict(zip(names, given, strict=True))) if names else call(*given)

    return replace(
        impl, call=causal, takes=words[:at] + words[at + 1 :], causal=True, name=f"{impl.title} with a causal mask",
        notes=(*impl.notes, f"{impl.title} is handed a causal mask as its {word}"),
    )  # fmt: skip


def _mask(impl: Implementation, word: str, x: Any) -> Any:
    """A causal mask as this argument."""
    if word == "causal":
        return True
    shape = [1 if name in ("1", "b", "h") else x.shape[1] for name in impl.order(word).split()]
    lib: Any = import_torch() if impl.framework == "torch" else np
    kind = lib.bool if impl.framework == "torch" else bool
    keep = lib.tril(lib.ones((x.shape[1], x.shape[1]), dtype=kind)).reshape(shape)
    return keep if word == "keep" else ~keep if word == "drop" else lib.where(keep, 0.0, -np.inf)
