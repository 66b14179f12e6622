"""Plain functions as implementations: what is known of them by the names and defaults of their parameters.

Defines `from_function`, and the notes on what was handed over and what was not: `with_notes_on_needs`, `leaving`,
`handing`.  Nothing here calls the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mha_sym.attention.layouts import CANONICAL
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.parameters import words_of


def from_function(call: Callable[..., Any], **described: Any) -> Implementation:
    """A plain function as an implementation: its arguments by the names of its parameters.

    The arrays are torch tensors if an annotation says ``Tensor``.

    Example:
        >>> def attention(x, W_Q, W_K, W_V, W_O, num_heads):
        ...     return x
        >>> from_function(attention).arguments
        ('x', 'w_q', 'w_k', 'w_v', 'w_o', 'heads')
    """
    notes = getattr(call, "__annotations__", {})
    torch = any("Tensor" in str(getattr(note, "__name__", note)) for note in notes.values())
    described = {"layout": _usual_layout(call, described), **described}
    impl = Implementation(call=call, framework="torch" if torch else "numpy", **described)
    inverse = {theirs: ours for ours, theirs in impl.stored.items()}
    given = {} if "takes" in described else words_of(call, tuple(inverse))
    made = impl
    if "takes" not in described:
        made = leaving(impl, call, given)
        made = replace(made, notes=(*made.notes, *_always_given(call, given)))
    return with_notes_on_needs(made, made.by_parameter) if made.needed else made


#: how the notes on masks that are always handed over end
_NO_DEFAULT = " has no default: where nothing is hidden it was handed over as "


def with_notes_on_needs(impl: Implementation, parameters: Mapping[str, str]) -> Implementation:
    """The same with a note on each mask that is handed over where nothing is hidden, too.

    Args:
        impl: the implementation.
        parameters: its parameters, and the word for each.
    """
    neutral = {"mask": "zeros", "keep": "all True", "key_keep": "all True"}
    masks = [(name, word) for name, word in parameters.items() if word in impl.needed]
    made = [f"{name}{_NO_DEFAULT}{neutral.get(word, 'all False')}" for name, word in masks]
    return replace(impl, notes=(*(one for one in impl.notes if _NO_DEFAULT not in one), *made))


def leaving(impl: Implementation, call: Callable[..., Any], given: Collection[str]) -> Implementation:
    """The same, with the parameters of a function that have defaults and are never given named in verdicts and a note.

    Args:
        impl: what was made of the function.
        call: the function.
        given: its parameters that are given.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads, hide=None):
        ...     return x
        >>> from_function(attention).headline
        'attention called without hide'
    """
    every = inspect.signature(call).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    left = (one for one in every if one.default is not one.empty and one.kind not in kinds)
    names = tuple(one.name for one in left if one.name not in given)
    return replace(impl, without=(*impl.without, *names), notes=(*impl.notes, *([left_note(names)] if names else [])))


def left_note(names: Sequence[str]) -> str:
    """What is said of parameters that are never given.

    Example:
        >>> left_note(("hide", "cache"))
        'nothing is said of hide, cache: it was called without them, as their defaults have it'
    """
    what = "it, as its default has" if len(names) == 1 else "them, as their defaults have"
    return f"{_LEFT}{', '.join(names)}: it was called without {what} it"


_LEFT = "nothing is said of "


def handing(impl: Implementation, name: str) -> Implementation:
    """The same when a parameter of this name is handed over after all."""
    names = tuple(one for one in impl.without if one != name)
    old = left_note(impl.without) if impl.without else None
    new = [left_note(names)] if names else []
    notes = [part for one in impl.notes for part in (new if one == old else [one])]
    return replace(impl, without=names, notes=tuple(notes))


def _always_given(call: Callable[..., Any], given: Mapping[str, str]) -> Iterator[str]:
    """A note on an input of keys and values that may be left out."""
    parameters = inspect.signature(call).parameters
    for name, word in given.items():
        if word == "x_kv" and parameters[name].default is not inspect.Parameter.empty:
            yield f"{name} was handed over in every call: nothing is said of self-attention, without it"


def _usual_layout(call: Callable[..., Any], described: Mapping[str, Any]) -> str:
    """What a function is taken to store where its layout is not said: one matrix for all heads, groups or not."""
    if {"layout", "takes"} & set(described):
        return "combined"
    grouped = described.get("kv_heads") is not None or "kv_heads" in words_of(call, tuple(CANONICAL)).values()
    return "grouped" if grouped else "combined"
