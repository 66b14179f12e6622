"""Multi-head attention with named axes: state it, prove it for all sizes, run it, count it, check code against it.

Lists the public names.  Each is imported from its module when it is first used, so that ``import mha_sym`` costs
nothing; nothing is defined here.

Example:
    >>> import mha_sym
    >>> mha_sym.product(mha_sym.axis("h"), mha_sym.axis("k", "d_k"))
    (h k): d_k*h
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

#: the modules of the public names
_MODULES: dict[str, tuple[str, ...]] = {
    "axes": ("Axis", "Index", "Permutation", "axis", "blocks", "product"),
    "expr": (
        "NODES", "Expr",
        "Input", "Scalar", "Table", "Compare", "Map", "Contract", "Reduce", "Softmax", "Split", "Join", "Transpose",
        "Repeat", "Rename", "Reshape", "Permute", "Select", "Stack", "Concat", "Total", "Blocks", "Block", "Named",
    ),
    "pattern": ("einsum", "rearrange", "repeat"),
    "evaluate": ("evaluate",),
    "trace": ("trace",),
    "count": ("count",),
    "proof.entry": ("entry",),
    "proof.prover": ("prove",),
    "proof.theorem": ("Assumption", "Claim", "Control", "Theorem", "Verdict"),
    "attention.dims": ("combined_weights", "dims", "head_weights"),
    "attention.forms": ("combined", "head_sum", "separate"),
    "audit": ("Implementation", "check"),
    "errors": ("Problem",),
}  # fmt: skip

_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """The public name ``name``, imported now."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This module, in which ``trace``, ``count`` and ``evaluate`` stay functions once their modules are loaded.

    The import system sets every loaded submodule as an attribute of its package, which would put the module
    ``mha_sym.trace`` in the place of the function ``trace``.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
