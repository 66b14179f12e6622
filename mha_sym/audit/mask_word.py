"""What a parameter that is called ``mask`` means: numbers to be added, or booleans, found out by running the code.

Defines `mask_as_meant`.  Where a description says what the code takes, nothing is guessed.
"""

from __future__ import annotations

from dataclasses import replace

from mha_sym.audit.cases import cases_of
from mha_sym.audit.compare import witness
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import Wishes, settled
from mha_sym.audit.specification import specification
from mha_sym.errors import Problem

#: the words for boolean masks, and what true means in them
_BOOLEAN = {"keep": "may attend", "drop": "may not attend"}


def mask_as_meant(impl: Implementation, wishes: Wishes) -> tuple[Implementation, tuple[str, ...]]:
    """The implementation, its ``mask`` read as boolean where it is right only so, and a note that says so."""
    if impl.takes is not None or "mask" not in impl.arguments or set(_BOOLEAN) & set(impl.arguments):
        return impl, ()
    if _agrees(impl, wishes):
        return impl, ()
    for word, meaning in _BOOLEAN.items():
        read = _taking(impl, word)
        if _agrees(read, wishes):
            return read, (f"its mask was found to be boolean, true where a query {meaning}; it was checked as {word}",)
    return impl, ()


def _taking(impl: Implementation, word: str) -> Implementation:
    """The same call with ``mask`` under another word."""
    names, call = tuple(impl.by_parameter), impl.call
    words = tuple(word if one == "mask" else one for one in impl.by_parameter.values())
    return replace(
        impl, call=lambda *values: call(**dict(zip(names, values, strict=True))), takes=words, name=impl.title
    )


def _agrees(impl: Implementation, wishes: Wishes) -> bool:
    """Whether one draw for each way of calling agrees."""
    try:
        found, plan, _ = settled(impl, cases_of(impl, wishes.causal), wishes)
        for one in plan:
            setting = draw_setting(found, one.case, wishes.seed, 0, one.wishes.sizes, wishes.lengths)
            if witness(found, specification(found, one.case), setting, one.case.name).wrong:
                return False
    except Problem:
        return False
    return True
