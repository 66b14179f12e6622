"""The words for what attention code takes, and which of them the names of its parameters stand for.

Defines `TAKES`, `KEEPS`, `MASKS`, `word_of` and `words_of`.  Names propose; whether they were understood shows when the
code is run.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from mha_sym.attention.layouts import CANONICAL, LAYOUTS
from mha_sym.audit.stub import function_stub
from mha_sym.errors import TargetProblem

#: what an implementation may take besides stored weights by name: word, order of axes, meaning
TAKES: dict[str, tuple[str, str]] = {
    "x": ("b t m", "the input of self-attention"),
    "x_q": ("b t m", "the input that the queries are made of"),
    "x_k": ("b s m", "the input that the keys are made of"),
    "x_v": ("b s m", "the input that the values are made of"),
    "x_kv": ("b s m", "the one input that keys and values are made of"),
    "weights": ("", "all stored weights, a dict by name"),
    "heads": ("", "the number of heads, an int"),
    "kv_heads": ("", "the number of key and value heads where there are fewer, an int"),
    "mask": ("t s", "a mask that is added to the scores, or None"),
    "keep": ("t s", "a boolean mask, True where a query may attend to a key, or None"),
    "drop": ("t s", "a boolean mask, True where a query may not attend to a key, or None"),
    "key_keep": ("b s", "a boolean padding mask, True for keys that count, or None"),
    "key_drop": ("b s", "a boolean padding mask, True for keys that are padding, or None"),
    "causal": ("", "whether later keys are hidden, a bool"),
    "cos": ("t k", "the cosines of rotary positions, (t, r) or (t, r/2) for the r features that are turned"),
    "sin": ("t k", "the sines of rotary positions, as cos"),
    "head_mask": ("h", "a gate for every head, 1 keeps it and 0 removes it, or None"),
    "need_weights": ("", "whether the attention weights are to be returned too, a bool"),
}

#: those of them that are boolean masks, and all that hide keys
KEEPS: tuple[str, ...] = ("keep", "drop", "key_keep", "key_drop")
MASKS: tuple[str, ...] = ("mask", *KEEPS, "causal")

#: other spellings of parameters that are understood, in lower case and without underscores
_SPELLINGS: dict[str, str] = {
    "inputs": "x", "hiddenstates": "x", "query": "x_q", "key": "x_k", "value": "x_v", "xq": "x_q", "xk": "x_k",
    "xv": "x_v", "queries": "x_q", "keys": "x_k", "values": "x_v", "xkv": "x_kv",
    **dict.fromkeys(("context", "memory", "kv", "encoderhiddenstates", "keyvaluestates"), "x_kv"),
    "numheads": "heads", "nheads": "heads", "nhead": "heads", "h": "heads", "params": "weights",
    "attnmask": "mask", "iscausal": "causal", "keykeep": "key_keep", "keydrop": "key_drop",
    "needweights": "need_weights", "headmask": "head_mask", "kvheads": "kv_heads", "numkvheads": "kv_heads",
    "nkvheads": "kv_heads", "numkeyvalueheads": "kv_heads",
    **{name.replace("_", ""): name for name in CANONICAL},
}  # fmt: skip

#: names that mean keys and values kept from before as well, where they may be left out
_PERHAPS = ("memory", "kv")


def words_of(call: Callable[..., Any], stored: tuple[str, ...]) -> dict[str, str]:
    """The parameters of a function that can be filled, and the word for each.

    What is ``x`` by itself is what queries are made of where keys and values have an input of their own.

    Raises:
        TargetProblem: for a parameter that has no default and no name that is known.

    Example:
        >>> words_of(lambda hidden_states, context, w_q: None, ("w_q",))
        {'hidden_states': 'x_q', 'context': 'x_kv', 'w_q': 'w_q'}
    """
    try:
        signature = inspect.signature(getattr(call, "forward", call))  # a torch module says it there
    except (TypeError, ValueError) as trouble:
        raise TargetProblem(f"the parameters of {call!r} are not known", hint="say takes=(...)") from trouble
    found = {}
    for name, parameter in signature.parameters.items():
        word = word_of(name, stored)
        if name in _PERHAPS and parameter.default is not parameter.empty:
            continue
        if word is not None:
            found[name] = word
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise _not_understood(call, name, list(signature.parameters), stored)
    if "x_kv" not in found.values():
        return found
    return {name: "x_q" if word == "x" else word for name, word in found.items()}


def _not_understood(
    call: Callable[..., Any], name: str, parameters: Sequence[str], stored: tuple[str, ...]
) -> TargetProblem:  # fmt: skip
    """What to say of a parameter that has no known name: a layout that has it, or a description to paste."""
    title = getattr(call, "__qualname__", type(call).__name__)
    having = [one.name for one in LAYOUTS.values() if word_of(name, one.stored("qkvo")) is not None]
    if having:
        return TargetProblem(
            f"parameter {name!r} of {title} is a weight of another layout than was said", expected=", ".join(stored),
            hint=f"say --layout NAME, in Python layout=..., one of {', '.join(having)}; 'mha-sym identify' tries them",
        )  # fmt: skip
    known = {one: word for one in parameters if (word := word_of(one, stored)) is not None}
    stub = function_stub(title, parameters, known)
    return TargetProblem(
        f"parameter {name!r} of {title} is not understood", got=f"{title}({', '.join(parameters)})",
        expected=", ".join((*TAKES, *stored)),
        hint=f"describe it, with the words in the order of its parameters: {stub}",
    )  # fmt: skip


def word_of(parameter: str, stored: tuple[str, ...]) -> str | None:
    """The word of `TAKES`, or the stored name, that a parameter of this name stands for; None if it is not known.

    Example:
        >>> word_of("num_heads", ()), word_of("W_Q", ("w_q",))
        ('heads', 'w_q')
    """
    if parameter in TAKES or parameter in stored:
        return parameter
    word = _SPELLINGS.get(re.sub("_", "", parameter.lower()))
    return word if word in TAKES or word in stored else None
