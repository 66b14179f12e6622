"""Torch modules without an output projection, such as BertSelfAttention: they give the heads side by side.

Defines `with_projection`, which lets such a module multiply what it gives by a matrix W_O of its own, so that it is to
compute what any other does; see `mha_sym.audit.frameworks.joined`.  This runs the module.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any

from mha_sym.audit.frameworks.joined import MARK, first_changed
from mha_sym.audit.frameworks.naming import HEADS, MASKS_CALLED, attribute, letter
from mha_sym.audit.frameworks.torch_modules import first_output, required
from mha_sym.blame import guarded, import_torch
from mha_sym.errors import Problem

#: the matrices of a module that has no output projection, by what they are called after
_WITHOUT = (["k", "q", "v"], ["qkv"])


def with_projection(module: Any) -> Any:
    """A copy of a module that lacks an output projection, with one; any other module as it is.

    Args:
        module: a torch module that takes ``x (b, t, m)`` and gives ``(b, t, (h v))``, by itself or first of several.
    """
    matrices = _matrices(module)
    if sorted(letter(name) or "" for name in matrices) not in _WITHOUT or attribute(module, HEADS) is None:
        return module
    widths = _widths(module, matrices)
    if widths is None:
        return module
    torch = import_torch()
    made = guarded(lambda: copy.deepcopy(module), "copying the module raised")
    owners = [made.get_submodule(name.rpartition(".")[0]) for name in matrices]
    linear = all(isinstance(one, torch.nn.Linear) for one in owners)  # then it lies as theirs, (out, in)
    kind = next(made.parameters())
    shape = widths[::-1] if linear else widths
    made.w_o = torch.nn.Parameter(torch.eye(*shape, dtype=kind.dtype, device=kind.device))
    made.__class__ = _projecting(type(module), linear)
    return made


def _matrices(module: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters with more than one axis, but for tables that are looked up."""
    embedding = import_torch().nn.Embedding
    return {
        name: tuple(value.shape) for name, value in module.named_parameters()
        if value.ndim > 1 and not isinstance(module.get_submodule(name.rpartition(".")[0]), embedding)
    }  # fmt: skip


def _widths(module: Any, matrices: dict[str, tuple[int, ...]]) -> tuple[int, int] | None:
    """The width of what a module gives, and of what it takes; None if it runs at no width of its matrices."""
    torch = import_torch()
    needed = required(module)
    if set(needed) - set(MASKS_CALLED):
        return None
    ran = guarded(lambda: copy.deepcopy(module).eval(), "copying the module raised")
    parameters = dict(ran.named_parameters())
    kind = next(iter(parameters.values()))
    fillings = (None, torch.zeros((1, 1, 1, 1), dtype=kind.dtype)) if needed else (None,)
    for width in dict.fromkeys(n for shape in matrices.values() for n in shape):
        for mask in fillings:
            x = torch.zeros((2, 3, width), dtype=kind.dtype)
            y = _tried(ran, parameters, x, dict.fromkeys(needed, mask))
            if getattr(y, "ndim", 0) == 3 and tuple(y.shape[:2]) == (2, 3):
                return int(y.shape[2]), width
    return None


def _tried(module: Any, parameters: dict[str, Any], x: Any, named: dict[str, Any]) -> Any:
    """What a module gives, None if it raises."""
    torch = import_torch()
    try:
        with torch.no_grad():
            return guarded(lambda: first_output(module, parameters, (x,), named), "the module raised")
    except Problem:
        return None


def _projecting(kind: Any, linear: bool) -> Any:
    """The class of a module, whose first output is multiplied by W_O."""

    def forward(self: Any, *args: Any, **named: Any) -> Any:
        made = kind.forward(self, *args, **named)
        w_o = self.w_o.transpose(0, 1) if linear else self.w_o
        return first_changed(made, lambda one: one @ w_o)

    forward.__signature__ = inspect.signature(kind.forward)  # type: ignore[attr-defined]  # masks are found by it
    named = {"forward": forward, MARK: True, "__module__": kind.__module__, "__qualname__": kind.__qualname__}
    return type(kind.__name__, (kind,), named)
