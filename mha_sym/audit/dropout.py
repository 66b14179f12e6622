"""Dropout: whether it is what makes an implementation random, and what a module does in training mode.

Defines `explained` (an implementation that answers differently each time, without dropout or on the average) and
`training_note`.  Random output is not compared with anything: it is only said why it is random.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mha_sym.audit.call import NotFinite, Unsteady, run, run_once
from mha_sym.audit.cases import Case
from mha_sym.audit.compare import evidence_of
from mha_sym.audit.faults import find_fault
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.precision import Array, roundoff
from mha_sym.audit.setting import Setting, draw_setting
from mha_sym.audit.settle import Wishes
from mha_sym.audit.specification import specification
from mha_sym.blame import import_torch
from mha_sym.errors import Problem

#: how often it is called for an average, and how many standard errors that may be off in any of the entries
_CALLS, _ERRORS = 400, 6.0
#: so few heads and features that what is dropped leaves few values, where they are free
_FEW = {"h": 2, "d_k": 2, "d_v": 2}


def explained(problem: Unsteady, impl: Implementation, case: Case, wishes: Wishes) -> Unsteady:
    """The problem of an implementation that is random, which names dropout where that is the reason."""
    try:
        setting = draw_setting(impl, case, wishes.seed, 0, wishes.sizes, wishes.lengths)
        how = _switched_off(impl, case, setting) or _on_average(impl, case, setting, wishes)
    except Problem:
        return problem
    if how:
        fault = find_fault("dropout_active")
        problem.what = f"{problem.what}; {fault.name}: {how}"
        problem.hint = fault.mend
    return problem


def _switched_off(impl: Implementation, case: Case, setting: Setting) -> str:
    """What is seen when the dropout of torch does nothing."""
    if impl.framework != "torch":
        return ""
    try:
        with _without_dropout():
            shown = run(impl, setting.arguments, setting.sizes)
    except Problem:  # it stays random: another source of randomness
        return ""
    spec = specification(impl, case)
    found = evidence_of(impl, spec, setting, spec.values(setting.arrays, setting.sizes), shown)
    return "with the dropout of torch switched off it " + ("disagrees" if found.wrong else "agrees")


@contextlib.contextmanager
def _without_dropout() -> Iterator[None]:
    """Every dropout of torch does nothing."""
    functional: Any = import_torch().nn.functional
    names = ("dropout", "scaled_dot_product_attention")
    before = {name: getattr(functional, name) for name in names}

    def attend(*args: Any, **options: Any) -> Any:
        most = 4  # query, key, value and mask; the rate follows
        return before["scaled_dot_product_attention"](*args[:most], **{**options, "dropout_p": 0.0}, **_later(args[5:]))

    functional.dropout = lambda value, *_, **__: value
    functional.scaled_dot_product_attention = attend
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(functional, name, function)


def _later(args: tuple[Any, ...]) -> dict[str, Any]:
    """Arguments of scaled_dot_product_attention behind the rate of dropout, by name."""
    return dict(zip(("is_causal",), args, strict=False))


def _on_average(impl: Implementation, case: Case, setting: Setting, wishes: Wishes) -> str:
    """What the average of many calls is: that of the right output, where weights or outputs are dropped."""
    spec = specification(impl, case)
    right = spec.values(setting.arrays, setting.sizes)["y"]
    seen = np.stack([run_once(impl, setting.arguments, setting.sizes)["y"] for _ in range(_CALLS)])
    error = seen.std(axis=0) / np.sqrt(_CALLS) + 64 * roundoff(impl.dtype) * np.abs(right).max()
    off = np.abs(seen.mean(axis=0) - right) / error
    if off.max() > _ERRORS or seen.std(axis=0).max() < 1e-3 * np.abs(right).max():
        return ""
    values = _values_at_one_token(impl, case, wishes)
    if not 1 < values <= _CALLS // 2:  # noise that is added, or multiplied, never gives the same number twice
        return ""
    return (
        f"its average over {_CALLS} calls is the right output to {off.max():.2g} standard errors, and for one token no"
        f" entry takes more than {values} values, as where weights are dropped or scaled"
    )


def _values_at_one_token(impl: Implementation, case: Case, wishes: Wishes) -> int:
    """The most values that an entry of the output takes in many calls with one token; 0 if it does not run there.

    A weight is dropped or scaled there, and nothing else; so few heads and features give few values.
    """
    given = dict(wishes.sizes or {})
    for sizes in ({**_FEW, "T": 1, "S": 1}, {"T": 1, "S": 1}):
        free = {name: size for name, size in sizes.items() if name not in given}
        try:
            setting = draw_setting(impl, case, wishes.seed, 0, {**given, **free}, wishes.lengths)
            seen = np.stack([run_once(impl, setting.arguments, setting.sizes)["y"] for _ in range(_CALLS)])
        except Problem:
            continue
        return max(len(np.unique(entry)) for entry in seen.reshape(_CALLS, -1).T)
    return 0


# ---------------------------------------------------------------- training mode


def training_note(impl: Implementation, case: Case, wishes: Wishes) -> tuple[str, ...]:
    """What a module that was handed over in training mode does there, where it is not what it does in evaluation."""
    if impl.trained is None:
        return ()
    try:
        setting = draw_setting(impl, case, wishes.seed, 0, wishes.sizes, wishes.lengths)
        usual = run_once(impl, setting.arguments, setting.sizes)["y"]
        there = [run_once(replace(impl, call=impl.trained), setting.arguments, setting.sizes)["y"] for _ in range(2)]
    except NotFinite:  # as it is in evaluation mode, and told of that
        return ()
    except Problem as problem:
        return (f"in training mode, in which it was handed over, it cannot be run: {problem.what}",)
    slack = 1e3 * roundoff(impl.dtype) * float(np.abs(usual).max())
    if _gap(there[0], there[1]) > slack:
        how = f"dropout_active: in training mode its output differs from call to call, by {_gap(*there):.2g} here"
    elif _gap(there[0], usual) > slack:
        how = f"in training mode it computes something else, which differs by {_gap(there[0], usual):.2g} here"
    else:
        return ()
    return (f"{how}; it was handed over in training mode and checked in evaluation mode (module.eval())",)


def _gap(one: Array, other: Array) -> float:
    return float(np.abs(one - other).max())
