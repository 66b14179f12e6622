"""A form that stands in for an implementation, so that a test calls it with its own arrays and masks.

Defines `Substitute` (the correct form, or a faulty one, as a function), `Call`, `Outcome` and `attempt`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from einops import rearrange

from mha_sym.attention.layouts import CANONICAL
from mha_sym.audit.dumps.dump import Dump, understood
from mha_sym.audit.dumps.file import Stored
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.effect import Surroundings, difference, orders
from mha_sym.audit.evidence import Evidence, predicted
from mha_sym.audit.faults import Fault, holds
from mha_sym.audit.implementation import KEEPS, Implementation
from mha_sym.audit.parameters import word_of
from mha_sym.audit.precision import Array
from mha_sym.audit.target import as_implementation, load
from mha_sym.errors import AxisProblem, Problem, TargetProblem

#: how a call without names is understood
_USUAL = ("x", "w_q", "w_k", "w_v", "w_o", "heads")

_STORED = tuple(CANONICAL)


@dataclass(frozen=True)
class Call:
    """One call of a substitute.

    Attributes:
        sizes: all sizes.
        around: what the layer had besides.
        possible: whether the fault could show in such a call at all.
        difference: how far the faulty output was from the correct one, relative to the largest entry.
    """

    sizes: Mapping[str, int]
    around: Surroundings
    possible: bool
    difference: float


@dataclass(frozen=True)
class Outcome:
    """What a test did with a substitute.

    Attributes:
        caught: whether it raised.
        calls: the calls that it made.
        message: what it raised.
        impossible: whether such code cannot run on what the test handed over.
    """

    caught: bool
    calls: tuple[Call, ...]
    message: str = ""
    impossible: bool = False


@dataclass(frozen=True)
class Substitute:
    """A form as a function that is called like the implementation in whose place it stands.

    Attributes:
        impl: how that is called; None for the usual order and names.
        target: where the test finds it, ``module:object``, if it is not handed over.
        fault: what is wrong with the form; None for the correct one.
        calls: the calls made so far.
    """

    impl: Implementation | None = None
    target: str = ""
    fault: Fault | None = None
    calls: list[Call] = field(default_factory=list)

    @staticmethod
    def like(found: Any, target: str, described: Mapping[str, Any]) -> Substitute:
        """A substitute for an implementation, or for what a target names."""
        found = load(target) if target and found is None else found
        impl = None if found is None else as_implementation(found, **described)
        return Substitute(impl, target)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the form on what the implementation would be handed."""
        words = self._words(args, kwargs)
        layer = _layer(words, self.impl)
        evidence = Evidence("", 0, layer.spec, layer.setting, {}, {}, {}, ())
        right = predicted(evidence, {"y": evidence.forms.right.y})["y"]
        faulty, possible = self._faulty(evidence, right)
        self.calls.append(Call(layer.setting.sizes, _around(layer, words), possible, difference(right, faulty)))
        order = "b t m" if layer.impl.batch_first else "t b m"
        shown = np.full(right.shape, np.nan) if faulty is None else faulty
        return _like(np.ascontiguousarray(rearrange(shown, f"b t m -> {order}")), words)

    def _words(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What was handed over, under the words of `mha_sym.audit.implementation.TAKES` and stored names."""
        if self.impl is not None and self.impl.takes is None:
            bound = inspect.signature(self.impl.call).bind(*args, **kwargs)
            bound.apply_defaults()
            return {word: bound.arguments[name] for name, word in self.impl.by_parameter.items()}
        order = _USUAL if self.impl is None else self.impl.arguments
        names = tuple(self.impl.stored.values()) if self.impl is not None else _STORED
        found = dict(zip(order, args, strict=False))
        for name, value in kwargs.items():
            word = word_of(name, names)
            if word is None:
                raise TargetProblem(f"argument {name!r} is not understood", hint="say like=..., an implementation")
            found[word] = value
        return found

    def _faulty(self, evidence: Evidence, right: Array) -> tuple[Array | None, bool]:
        """The faulty output, and whether the fault could show; the correct one where it could not."""
        fault = self.fault
        if fault is None or not fault.possible(evidence.forms.at):
            return right, False
        form = evidence.forms.form(fault)
        if form is None or not holds(fault.ties, evidence.setting.sizes):
            raise AxisProblem(f"{fault.name}: such code cannot run on these axes")
        return predicted(evidence, {"y": form.y}, orders(form.y, evidence.setting.sizes)).get("y"), True


# ---------------------------------------------------------------- from a call to a layer


def _layer(words: Mapping[str, Any], impl: Implementation | None) -> Dump:
    """The proven form with the arrays of a call."""
    arrays = {word: _array(value) for word, value in words.items() if hasattr(value, "shape")}
    nested = words.get("weights")
    if isinstance(nested, Mapping):
        arrays |= {name: _array(value) for name, value in nested.items()}
    if impl is not None and impl.weights is not None:
        arrays = {**{name: _array(value) for name, value in impl.weights.items()}, **arrays}
    if "x_kv" in arrays:
        both = arrays.pop("x_kv")
        arrays |= {"x_k": both, "x_v": both}
    causal = bool(words.get("causal")) or (impl is not None and impl.causal)
    named = _masks(arrays, impl)
    stored = {name: Stored(value, str(value.dtype)) for name, value in named.items()}
    settings = DumpSettings(
        heads=words.get("heads") or (impl.heads if impl else None), kv_heads=words.get("kv_heads"),
        layout=impl.how_stored if impl else None, causal=causal, batch_first=impl.batch_first if impl else True,
        scale=impl.scale if impl else None, dtype="float64",
    )  # fmt: skip
    return understood(stored, settings, "a call of the implementation")


def _masks(arrays: Mapping[str, Array], impl: Implementation | None) -> dict[str, Array]:
    """Masks in all their forms as the two of a dump, ``mask`` and ``keep``."""
    own = set(KEEPS)
    found = {name: value for name, value in arrays.items() if name not in own}
    keep: Array | None = None
    for name in own & set(arrays):
        value = arrays[name].astype(bool)
        value = ~value if name in ("drop", "key_drop") else value
        value = value[:, None, None, :] if name.startswith("key_") and value.ndim == 2 else value
        value = value[:, None] if value.ndim == 3 else value
        keep = value if keep is None else np.asarray(keep & value)
    return found if keep is None else {**found, "keep": keep}


def _array(value: Any) -> Array:
    array = np.asarray(value.detach().cpu().double().numpy() if hasattr(value, "detach") else value)
    return array if array.dtype == bool else array.astype(np.float64)


def _like(y: Array, words: Mapping[str, Any]) -> Any:
    """The output as the input was: of its library and format."""
    x = words.get("x", words.get("x_q"))
    if hasattr(x, "detach"):
        import torch

        return torch.from_numpy(y).to(x.dtype)
    return y.astype(np.asarray(x).dtype)


def _around(layer: Dump, words: Mapping[str, Any]) -> Surroundings:
    at = Evidence("", 0, layer.spec, layer.setting, {}, {}, {}, ()).forms.at
    return Surroundings(
        biases=layer.impl.biases == "qkvo", causal=at.causal is not None, padding=at.padding is not None,
        additive=at.mask is not None, cross=not at.same, groups=at.kv is not None,
    )  # fmt: skip


# ---------------------------------------------------------------- running a test


def attempt(test: Callable[..., Any], substitute: Substitute) -> Outcome:
    """Run a test once, with a substitute in the place of the implementation."""
    used = replace(substitute, calls=[])
    try:
        _run(test, used)
    except AxisProblem as problem:
        return Outcome(True, tuple(used.calls), problem.what, impossible=True)
    except TargetProblem:
        raise
    except BaseException as raised:  # a failing test may raise anything, and pytest's own outcomes are no exceptions
        if isinstance(raised, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise
        return Outcome(True, tuple(used.calls), _said(raised))
    return Outcome(False, tuple(used.calls))


def _said(raised: BaseException) -> str:
    if isinstance(raised, Problem):
        return raised.one_line()
    return f"{type(raised).__name__}: {' '.join(str(raised).split())}"[:300]


def _run(test: Callable[..., Any], substitute: Substitute) -> None:
    if not substitute.target:
        test(substitute)
        return
    place, _, name = substitute.target.rpartition(":")
    *inside, last = name.split(".")
    owner: Any = importlib.import_module(place)
    for part in inside:
        owner = getattr(owner, part)
    before = getattr(owner, last)
    setattr(owner, last, substitute)
    try:
        test()
    finally:
        setattr(owner, last, before)
