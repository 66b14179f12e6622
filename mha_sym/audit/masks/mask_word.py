"""What a parameter that is called ``mask`` means: numbers to be added, or booleans, found out by running the code.

Defines `mask_as_meant`, and `with_gates`, which hands over a head mask.  Where a description says what the code takes,
nothing is guessed; of a torch module that was found to be attention without masks, the parameters that are called like
masks are tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mha_sym.audit.call import run
from mha_sym.audit.cases import cases_of, with_any_keys
from mha_sym.audit.compare import witness
from mha_sym.audit.frameworks.naming import MASKS_CALLED
from mha_sym.audit.frameworks.position_tables import WithoutTables
from mha_sym.audit.functions import handing, with_notes_on_needs
from mha_sym.audit.implementation import KEEPS, TAKES, Implementation
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import Wishes, settled
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem

_NONE = inspect.Parameter.empty
#: what a mask between queries and keys may be besides added
_BOOLEAN = ("keep", "drop")
#: parameters of modules that are masks by their names, and what they may mean, the usual meaning first
_MEANINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(MASKS_CALLED, ("mask", *_BOOLEAN)),
    **dict.fromkeys(("key_padding_mask", "padding_mask"), ("key_drop", "key_keep")),
    **{word: (word,) for word in KEEPS},
}
_ORDERS = {"t s": ("t s", "b 1 t s"), "b s": ("b s",), "h": ("h", "1 h 1 1")}
_GATES = "head_mask"
_WORDS = {
    "mask": "added to the scores", "keep": "true where a query may attend", "drop": "true where a query may not attend",
    "key_keep": "true for keys that count", "key_drop": "true for keys that are padding",
}  # fmt: skip


def mask_as_meant(impl: Implementation, wishes: Wishes) -> tuple[Implementation, tuple[str, ...]]:
    """The implementation, its ``mask`` read as boolean where it is right only so, and a note that says so."""
    if impl.module is not None and impl.takes is not None and not set(_WORDS) & set(impl.takes):
        return _of_module(impl, wishes)
    if impl.takes is not None or "mask" not in impl.arguments or set(_BOOLEAN) & set(impl.arguments):
        return impl, ()
    if _agrees(impl, wishes):
        return impl, ()
    for word in _BOOLEAN:
        read = _taking(impl, word)
        if _agrees(read, wishes):
            return read, (f"its mask was found to be boolean, {_WORDS[word]}; it was checked as {word}",)
    return impl, ()


def _of_module(impl: Implementation, wishes: Wishes) -> tuple[Implementation, tuple[str, ...]]:
    """A module that takes x, and perhaps tables, with the first of its masks, if one meaning of it fits.

    A name that means one thing is taken at its word, so that what is wrong with it is found.
    """
    forwards = (type(impl.module).forward, impl.module.forward)  # one may stand for the other, without its masks
    parameters = {name: one for code in forwards for name, one in inspect.signature(code).parameters.items()}
    for name in (one for one in _MEANINGS if one in parameters and parameters[one].default in (None, _NONE)):
        tried = [(read, word) for word in _MEANINGS[name] for read in _handed(impl, name, word)]
        for read, word in tried:
            if _agrees(read, wishes):
                return read, (f"its {name} was found to be {_WORDS[word]}",)
        if len(_MEANINGS[name]) == 1:
            return tried[0][0], (f"its {name} is taken to be {_WORDS[name]}",)
        if all(_ignored(read, word) for read, word in tried):
            return tried[0][0], (f"its {name} has no effect",)
        every = "; ".join(_WORDS[word] for word in _MEANINGS[name])
        rest = handing(impl, name)
        apart = replace(rest, without=(name, *rest.without))
        return apart, (
            f"with its {name} it gives what attention gives under no meaning that was tried ({every}): what is said "
            f"here holds for calls without {name}; describe it, takes=('x', 'mask') or 'keep', to have it judged",
        )
    return impl, ()


def _ignored(impl: Implementation, word: str) -> bool:
    """Whether a mask, as it is handed over, changes nothing of the output; not where it cannot be run with it."""
    case = next((one for one in cases_of(impl) if one.name != "no mask"), None)
    if case is None:
        return False
    try:
        found, plan, _ = settled(impl, (case,), Wishes(draws=1))
        setting = draw_setting(found, plan[0].case, 0, 0, plan[0].wishes.sizes)
        shown = [run(found, {**setting.arguments, **one}, setting.sizes)["y"] for one in ({}, {word: None})]
    except Problem:
        return False
    return setting.arguments.get(word) is not None and bool((shown[0] == shown[1]).all())


def with_gates(impl: Implementation) -> tuple[Implementation, ...]:
    """An implementation with a head mask among its arguments, in every way in which it may take one; none if it cannot.

    A module may want a vector, or one with axes to spread it over scores.
    """
    if _GATES in impl.arguments:
        return (impl,)
    left = impl.module is not None and impl.takes is not None and _GATES in impl.without
    return tuple(_handed(impl, _GATES, _GATES)) if left else ()


def _handed(impl: Implementation, name: str, word: str) -> Iterator[Implementation]:
    """The module with a mask as its parameter of this name, in every order of axes."""
    assert impl.takes is not None

    def called(code: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values, **more: code(
            *values[:-1], **({} if values[-1] is None else {name: values[-1]}), **more
        )

    inner = impl.call
    call = replace(inner, module=called(inner.module)) if isinstance(inner, WithoutTables) else called(inner)
    for order in _ORDERS[TAKES[word][0]]:
        yield replace(
            handing(impl, name), call=call, takes=(*impl.takes, word), axes={**impl.axes, word: order},
            trained=None if impl.trained is None else called(impl.trained),
        )  # fmt: skip


def _taking(impl: Implementation, word: str) -> Implementation:
    """The same call with ``mask`` under another word."""
    names, call = tuple(impl.by_parameter), impl.call
    words = tuple(word if one == "mask" else one for one in impl.by_parameter.values())
    needs = tuple(word if one == "mask" else one for one in impl.needed)
    return with_notes_on_needs(replace(
        impl, call=lambda *values: call(**dict(zip(names, values, strict=True))), takes=words, name=impl.title,
        needs=needs,
    ), dict(zip(names, words, strict=True)))  # fmt: skip


def _agrees(impl: Implementation, wishes: Wishes) -> bool:
    """Whether one draw for each way of calling agrees."""
    try:
        cases = (*cases_of(impl, wishes.causal), *with_any_keys(impl, wishes.causal))
        found, plan, _ = settled(impl, cases, wishes)
        for one in plan:
            setting = draw_setting(found, one.case, wishes.seed, 0, one.wishes.sizes, wishes.lengths)
            if witness(found, specification(found, one.case), setting, one.case.name).wrong:
                return False
    except Problem:
        return False
    return True
