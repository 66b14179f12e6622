"""Calling an implementation and judging what comes back before any number is compared.

Defines `run`, `run_once`, `Unsteady`, `NotFinite`, `Narrower` and `letters`.  An implementation that raises, changes
its input, answers differently the second time, or returns the wrong kind, shape, dtype or NaN is refused here in one
clear line; whether its numbers are right is judged in `mha_sym.audit.compare`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from einops import rearrange

from mha_sym.audit.frameworks.jax_layers import in_doubles
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.precision import ROUNDOFF, Array, roundoff
from mha_sym.blame import guarded, import_torch
from mha_sym.errors import DataProblem, TargetProblem

#: the letters of axes, and the sizes that they have
LETTERS: dict[str, str] = {
    "b": "B", "t": "T", "s": "S", "m": "d_model", "n": "d_key", "p": "d_value", "h": "h", "k": "d_k", "v": "d_v",
}  # fmt: skip


def letters(sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of every letter.

    Example:
        >>> letters({"B": 2, "T": 5})
        {'b': 2, 't': 5}
    """
    return {letter: sizes[name] for letter, name in LETTERS.items() if name in sizes}


class Unsteady(TargetProblem):
    """An implementation answers differently when it is called again on the same input."""


class Narrower(TargetProblem):
    """An implementation answers in a shorter format than it was handed."""

    dtype = ""


class NotFinite(DataProblem):
    """What an implementation returns holds NaN or infinities."""


def run_once(
    impl: Implementation, values: Mapping[str, Any], sizes: Mapping[str, int], finite: bool = True
) -> dict[str, Array]:  # fmt: skip
    """The stages of one call; it is not looked at whether a second one would give the same.

    NaN and infinities are refused unless ``finite`` is False; all else is as for `run`.
    """
    given = {word: _handed_over(value, impl) for word, value in values.items()}
    return _stages(impl, _invoke(impl, given), sizes, finite)


def run(
    impl: Implementation, values: Mapping[str, Any], sizes: Mapping[str, int], finite: bool = True
) -> dict[str, Array]:  # fmt: skip
    """The stages that an implementation returns, as float64 arrays with their axes in the order of `STAGES`.

    Args:
        impl: the implementation.
        values: a value for each of its arguments, arrays as NumPy arrays in the order of axes that it wants.
        sizes: all sizes.
        finite: whether NaN and infinities are refused.

    Raises:
        TargetProblem: if it raises or changes what it is given; `Unsteady` if it answers differently the second time.
        DataProblem: for a wrong shape, a dtype that is not floating, NaN or infinities.
    """
    given = {word: _handed_over(value, impl) for word, value in values.items()}
    first = _stages(impl, _invoke(impl, given), sizes, finite)
    _unchanged(impl, given, values)
    copies = {word: _handed_over(value, impl) for word, value in values.items()}
    again = _stages(impl, _invoke(impl, copies), sizes, finite)
    for word, value in first.items():
        _same_again(impl, word, value, again.get(word))
    return first


# ---------------------------------------------------------------- the call


def _handed_over(value: Any, impl: Implementation) -> Any:
    """A copy of a value as the implementation takes it."""
    if isinstance(value, Mapping):
        return {name: _handed_over(one, impl) for name, one in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    boolean = value.dtype == bool
    if impl.framework == "torch":
        torch = import_torch()
        tensor = torch.from_numpy(value.copy())
        return tensor if boolean else tensor.to(getattr(torch, impl.dtype))
    return value.copy() if boolean else value.astype(impl.dtype, copy=True)


def _invoke(impl: Implementation, given: Mapping[str, Any]) -> Any:
    uses_torch = impl.framework == "numpy" and "torch" in getattr(impl.call, "__globals__", {})
    return guarded(_bound(impl, given), f"{impl.title} raised", _HANDED if uses_torch else "")


_HANDED = "it was handed NumPy arrays; for torch say Implementation(framework='torch') or annotate with torch.Tensor"


def _bound(impl: Implementation, given: Mapping[str, Any]) -> Callable[[], Any]:
    """The call with its arguments in place: in order if ``takes`` says the order, by name otherwise."""
    given = {**given, **_hiding_nothing(impl, given)}
    if impl.takes is not None:
        return _without_gradients(impl, lambda: impl.call(*(given[word] for word in impl.arguments)))
    parameters = inspect.signature(impl.call).parameters
    nameless = [p for p in impl.by_parameter if parameters[p].kind is inspect.Parameter.POSITIONAL_ONLY]
    by_place = [given[impl.by_parameter[p]] for p in nameless]
    by_name = {p: given[word] for p, word in impl.by_parameter.items() if p not in nameless}
    return _without_gradients(impl, lambda: impl.call(*by_place, **by_name))


def _hiding_nothing(impl: Implementation, given: Mapping[str, Any]) -> dict[str, Any]:
    """Masks that hide nothing, for those that the code needs and that nothing is handed over as."""
    words = [word for word in impl.needed if given[word] is None]
    if not words:
        return {}
    sizes: dict[str, Any] = {"1": 1, "h": given.get("heads") or impl.heads or 1}
    for word, token in (("x_q", "t"), ("x_k", "s"), ("x_kv", "s"), ("x", "t"), ("x", "s")):
        order = impl.order(word).replace("t", token).split()
        sizes |= dict(zip(order, given[word].shape, strict=True)) if word in given else {}
    return {word: _full(impl, [sizes[n] for n in impl.order(word).split()], word) for word in words}


def _full(impl: Implementation, shape: Sequence[Any], word: str) -> Any:
    """Zeros that are added, or what keeps every key."""
    if impl.framework == "torch":
        torch = import_torch()
        kind = getattr(torch, impl.dtype) if word == "mask" else torch.bool
        return torch.full(tuple(shape), word.endswith("keep"), dtype=kind)
    return np.full(tuple(shape), word.endswith("keep"), dtype=impl.dtype if word == "mask" else bool)


def _without_gradients(impl: Implementation, work: Callable[[], Any]) -> Callable[[], Any]:
    """The same call as torch makes it for inference, on one thread: these arrays are small."""
    if impl.framework != "torch":
        return in_doubles(work)
    torch = import_torch()

    def inside() -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.no_grad():
                return work()
        finally:
            torch.set_num_threads(threads)

    return inside


def _unchanged(impl: Implementation, given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for word, value in values.items():
        pairs = value.items() if isinstance(value, Mapping) else [(word, value)]
        for name, before in pairs:
            after = given[word][name] if isinstance(value, Mapping) else given[word]
            if isinstance(before, np.ndarray) and not np.array_equal(_as_numpy(after), before.astype(float)):
                raise TargetProblem(
                    f"{impl.title} changes its input {name!r} in place",
                    expected="an input that is the same after the call", hint="copy it before writing into it",
                )  # fmt: skip


# ---------------------------------------------------------------- what comes back


def _stages(
    impl: Implementation, result: Any, sizes: Mapping[str, int], finite: bool = True
) -> dict[str, Array]:  # fmt: skip
    named = _named(impl, result)
    found = {word: _stage(impl, word, named[word], sizes) for word in STAGES if named.get(word) is not None}
    for word, array in found.items() if finite else ():
        _finite(impl, word, array)
    return found


def _named(impl: Implementation, result: Any) -> dict[str, Any]:
    """What was returned, under the words of `STAGES`."""
    if isinstance(result, Mapping):
        for word in result:
            if word not in STAGES:
                raise TargetProblem(
                    f"{impl.title} returns a dict with a key {word!r} that is no stage", expected=", ".join(STAGES)
                )
        if result.get("y") is None:
            raise TargetProblem(f"{impl.title} returns a dict without the output 'y'", got=", ".join(result))
        return dict(result)
    parts = tuple(result) if isinstance(result, tuple | list) else (result,)
    if len(parts) != len(impl.returns) or (isinstance(result, tuple | list) and len(impl.returns) == 1):
        expected = "an array" if len(impl.returns) == 1 else f"a tuple ({', '.join(impl.returns)})"
        raise TargetProblem(
            f"{impl.title} returns {_described(result)} where {expected} was expected",
            hint="say in Implementation(returns=('y', 'weights')) what the parts are, or return a dict of stages",
        )
    named = dict(zip(impl.returns, parts, strict=True))
    if named.get("y", result) is None:
        raise TargetProblem(f"{impl.title} returns nothing (None) as y", expected="an array")
    return named


def _described(result: Any) -> str:
    if result is None:
        return "nothing (None)"
    kind = type(result).__name__
    return f"a {kind} of {len(result)}" if isinstance(result, tuple | list) else f"a value of type {kind}"


def copies_of(impl: Implementation, word: str, shape: Sequence[int], sizes: Mapping[str, int]) -> int:
    """How many query heads read each head of a stage that is there once a key and value head; 1 for all others."""
    places = re.findall(r"\([^)]*\)|\S+", impl.order(word))
    if word not in ("k", "v") or "G" not in sizes or len(shape) != len(places):
        return 1
    return sizes["R"] if shape[places.index("h")] == sizes["G"] else 1


def for_every_query_head(impl: Implementation, word: str, value: Array, copies: int) -> Array:
    """Keys or values ``(b, g, s, ...)`` copied to the query heads that read them, ``(b, h, s, ...)``."""
    if copies == 1:
        return value
    in_turn = "(r g" in impl.how_stored.row(f"w_{word}").right
    return np.tile(value, (1, copies, 1, 1)) if in_turn else np.repeat(value, copies, axis=1)


def _stage(impl: Implementation, word: str, value: Any, sizes: Mapping[str, int]) -> Array:
    copies = copies_of(impl, word, getattr(value, "shape", ()), sizes)
    order, size = impl.order(word), letters({**sizes, "h": sizes["h"] // copies} if copies > 1 else sizes)
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise TargetProblem(f"{impl.title} returns {_described(value)} as {word}", expected="an array")
    _floating(impl, word, value)
    axes = re.findall(r"\([^)]*\)|\S+", order)
    expected = [int(np.prod([size.get(name, 1) for name in one.strip("()").split()])) for one in axes]
    if list(value.shape) != expected:
        raise DataProblem(
            f"{impl.title} returns {word} in the wrong shape",
            expected="(" + ", ".join(f"{one}: {n}" for one, n in zip(axes, expected, strict=True)) + ")",
            got=str(tuple(value.shape)), hint=_shape_hint(word, expected, list(value.shape)),
        )  # fmt: skip
    array = _as_numpy(value)
    used = {name: size[name] for name in set(re.findall(r"[a-z]", order))}
    return for_every_query_head(impl, word, rearrange(array, f"{order} -> {STAGES[word]}", **used), copies)


def _floating(impl: Implementation, word: str, value: Any) -> None:
    dtype = str(value.dtype).removeprefix("torch.")
    if "float" not in dtype:
        raise DataProblem(
            f"{impl.title} returns {word} as {dtype}", expected="floating-point numbers", got=dtype,
            hint="attention is over the reals; give the real part" if "complex" in dtype else "do not cast the result",
        )  # fmt: skip
    _as_precise(impl, word, dtype)


def _as_precise(impl: Implementation, word: str, dtype: str) -> None:
    """Refuse a shorter format than that in which it is to compute: its bound would be too narrow."""
    if dtype in ROUNDOFF and roundoff(dtype) > roundoff(impl.dtype):
        problem = Narrower(
            f"{impl.title} returns {word} as {dtype} where it was handed {impl.dtype}",
            hint=f"say dtype={dtype!r} in its description if it computes in that",
        )
        problem.dtype = dtype
        raise problem


def _shape_hint(word: str, expected: list[int], got: list[int]) -> str:
    if got == [expected[1], expected[0], *expected[2:]]:
        return "the first two axes are exchanged; if the code is sequence first, say batch_first=False"
    if sorted(expected) == sorted(got):
        return f"the axes are in another order; say it in Implementation(axes={{{word!r}: ...}})"
    return ""


def _as_numpy(value: Any) -> Array:
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    return np.asarray(value).astype(np.float64)


def _finite(impl: Implementation, word: str, array: Array) -> None:
    allowed = np.isneginf(array) if word == "scores" else np.zeros((), dtype=bool)
    bad = np.argwhere(~(np.isfinite(array) | allowed))
    if len(bad):
        raise NotFinite(
            f"{impl.title} returns {array[tuple(bad[0])]} in {word}",
            where=f"{word}[{at(word, bad[0])}], the first of {len(bad)} such entries",
            expected="a finite number in every entry", hint=_nan_hint(word, array, bad),
        )  # fmt: skip


def _nan_hint(word: str, array: Array, bad: Array) -> str:
    """What the place of NaN says: rows of queries that keep no key."""
    rows = sorted(set(bad[:, STAGES[word].split().index("t")].tolist())) if "t" in STAGES[word].split() else []
    whole = len(bad) % array.shape[-1] == 0 and np.isnan(array[tuple(bad[0][:-1])]).all()
    if not rows or not whole or len(rows) == array.shape[STAGES[word].split().index("t")]:
        return ""
    if rows == [0]:
        return "NaN only in the first row: the causal mask hides the diagonal, too, so that row 0 keeps no key"
    return f"NaN in rows t = {', '.join(map(str, rows[:6]))} only: these queries keep no key"


def at(word: str, place: Any) -> str:
    """A position in a stage by the names of its axes.

    Example:
        >>> at("y", (1, 0, 4))
        'b=1, t=0, m=4'
    """
    axes = re.findall(r"\([^)]*\)|\S+", STAGES[word])
    return ", ".join(f"{name}={int(i)}" for name, i in zip(axes, place, strict=True))


def _same_again(impl: Implementation, word: str, first: Array, again: Array | None) -> None:
    finite = np.isfinite(first)
    # the order in which threads add up may differ from call to call, hence not exactly equal
    slack = 1e3 * roundoff(impl.dtype) * float(np.max(np.abs(first), where=finite, initial=0.0))
    if again is None or np.any(np.abs(np.where(finite, first, 0) - np.where(finite, again, 0)) > slack):
        raise Unsteady(
            f"{impl.title} is random from call to call: {word} differs on the same input",
            hint="switch off what is random, such as dropout (in torch: .eval()), or seed it anew in every call",
        )
