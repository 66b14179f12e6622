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

TYPE_CHECKING = False  # as in typing, which takes longer to load than all of this, and Ctrl-C is not told yet
if TYPE_CHECKING:  # the same names for type checkers and editors; a test keeps both lists alike
    from typing import Any

    from mha_sym.assertions import assert_attention as assert_attention
    from mha_sym.assertions import assert_catches_faults as assert_catches_faults
    from mha_sym.attention.dims import combined_weights as combined_weights
    from mha_sym.attention.dims import dims as dims
    from mha_sym.attention.dims import head_weights as head_weights
    from mha_sym.attention.forms import combined as combined
    from mha_sym.attention.forms import head_sum as head_sum
    from mha_sym.attention.forms import separate as separate
    from mha_sym.audit import Implementation as Implementation
    from mha_sym.audit import check as check
    from mha_sym.audit.critique import critique as critique
    from mha_sym.audit.dumps.dump import check_dump as check_dump
    from mha_sym.audit.layouts.identify import identify as identify
    from mha_sym.axes import Axis as Axis
    from mha_sym.axes import Index as Index
    from mha_sym.axes import Permutation as Permutation
    from mha_sym.axes import axis as axis
    from mha_sym.axes import blocks as blocks
    from mha_sym.axes import product as product
    from mha_sym.checkpoint.convert import convert as convert
    from mha_sym.count import count as count
    from mha_sym.errors import Problem as Problem
    from mha_sym.evaluate import evaluate as evaluate
    from mha_sym.expr import NODES as NODES
    from mha_sym.expr import Block as Block
    from mha_sym.expr import Blocks as Blocks
    from mha_sym.expr import Compare as Compare
    from mha_sym.expr import Concat as Concat
    from mha_sym.expr import Contract as Contract
    from mha_sym.expr import Expr as Expr
    from mha_sym.expr import Input as Input
    from mha_sym.expr import Join as Join
    from mha_sym.expr import Map as Map
    from mha_sym.expr import Named as Named
    from mha_sym.expr import Permute as Permute
    from mha_sym.expr import Reduce as Reduce
    from mha_sym.expr import Rename as Rename
    from mha_sym.expr import Repeat as Repeat
    from mha_sym.expr import Reshape as Reshape
    from mha_sym.expr import Scalar as Scalar
    from mha_sym.expr import Select as Select
    from mha_sym.expr import Softmax as Softmax
    from mha_sym.expr import Split as Split
    from mha_sym.expr import Stack as Stack
    from mha_sym.expr import Table as Table
    from mha_sym.expr import Total as Total
    from mha_sym.expr import Transpose as Transpose
    from mha_sym.pattern import einsum as einsum
    from mha_sym.pattern import rearrange as rearrange
    from mha_sym.pattern import repeat as repeat
    from mha_sym.proof.entry import entry as entry
    from mha_sym.proof.prover import prove as prove
    from mha_sym.proof.theorem import Assumption as Assumption
    from mha_sym.proof.theorem import Claim as Claim
    from mha_sym.proof.theorem import Control as Control
    from mha_sym.proof.theorem import Theorem as Theorem
    from mha_sym.proof.theorem import Verdict as Verdict
    from mha_sym.trace import trace as trace

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
    "checkpoint.convert": ("convert",),
    "proof.entry": ("entry",),
    "proof.prover": ("prove",),
    "proof.theorem": ("Assumption", "Claim", "Control", "Theorem", "Verdict"),
    "attention.dims": ("combined_weights", "dims", "head_weights"),
    "attention.forms": ("combined", "head_sum", "separate"),
    "audit": ("Implementation", "check"),
    "audit.critique": ("critique",),
    "audit.dumps.dump": ("check_dump",),
    "audit.layouts.identify": ("identify",),
    "assertions": ("assert_attention", "assert_catches_faults"),
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
