"""Torch while it is traced: what asks sizes for their values, or passes by whoever listens, is replaced.

Defines `quiet`.  Everything is as before afterwards.  Importing this file imports torch.
"""

from __future__ import annotations

import contextlib
import logging
import math
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental.proxy_tensor import PythonKeyTracer


def _attention(*args: Any, **more: Any) -> Any:
    """Attention with ``is_causal=length > 1`` or a scale made of sizes, of which torch's own would ask the value."""
    known: list[Any] = [bool(one) if isinstance(one, torch.SymBool) else one for one in args]
    named: dict[str, Any] = {name: bool(one) if isinstance(one, torch.SymBool) else one for name, one in more.items()}
    scale = named.get("scale")
    if isinstance(scale, torch.SymFloat):
        first = known.pop(0) if known else named.pop("query")
        known, named = [first * (scale * _root(first.shape[-1])), *known], {**named, "scale": None}
    return _TORCHS(*known, **named)


_TORCHS: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention


def _root(value: Any) -> Any:
    """The square root of a number, or of a symbolic one without asking for its value."""
    return torch.sym_sqrt(value) if isinstance(value, torch.SymInt | torch.SymFloat) else _PLAIN_ROOT(value)


def _real(value: Any = 0.0) -> Any:
    """A number as a float, or a symbolic one without asking for its value."""
    symbolic: Callable[[Any], Any] = torch.sym_float
    return symbolic(value) if isinstance(value, torch.SymInt | torch.SymFloat) else float(value)


_PLAIN_ROOT = math.sqrt
#: ``x.data`` passes by whoever listens, and ``x.detach()`` gives the same entries
_DATA: Any = torch.Tensor.data


@contextlib.contextmanager
def quiet(users_frame: Callable[[Any, traceback.StackSummary], traceback.StackSummary]) -> Iterator[None]:
    """Torch as a tracer wants it: no search for a best einsum, no fused kernels, no gradients, no log of refusals.

    Args:
        users_frame: picks the frames that are kept of those of a call.
    """
    fast, log = torch.backends.mha.get_fastpath_enabled(), logging.getLogger("torch._subclasses.fake_tensor")
    loud = log.level
    torch.backends.mha.set_fastpath_enabled(False)
    log.setLevel(logging.CRITICAL + 1)
    try:
        with (
            torch.no_grad(),
            torch.backends.opt_einsum.flags(enabled=False),
            mock.patch.object(PythonKeyTracer, "_filter_traceback_frames", users_frame),
            mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", _attention),
            mock.patch.object(torch.nn.functional, "float", _real, create=True),
            mock.patch.object(math, "sqrt", _root),
            mock.patch.object(torch.Tensor, "data", property(torch.Tensor.detach, _DATA.__set__)),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        log.setLevel(loud)
