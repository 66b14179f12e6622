"""Torch modules of any make: how their parameters are called and lie, found by names, shapes and a probe in numbers.

Defines `from_module`, and `found` for modules that are not known.  Names propose (``to_qkv``, ``c_attn``, ``out_proj``,
...), shapes admit, and a run of the module on random weights decides: a reading counts if the specification gives the
module's output within the bound, on two draws.  This runs the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mha_sym.attention.layouts import Layout
from mha_sym.audit.frameworks.joined import NOTE
from mha_sym.audit.frameworks.naming import (
    HEADS,
    KV_HEADS,
    attribute,
)
from mha_sym.audit.frameworks.own_tables import Own, first_fitting, turning
from mha_sym.audit.frameworks.rotary_found import found as fitting
from mha_sym.audit.frameworks.torch_joined import with_projection
from mha_sym.audit.frameworks.torch_modules import (
    from_torch,
    undescribed,
)
from mha_sym.audit.frameworks.torch_probe import Probe
from mha_sym.audit.frameworks.torch_rotary import from_rotary_module, handing_of
from mha_sym.audit.frameworks.torch_turning import refuse_complex, tables_of
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving.imported import fixed_sizes
from mha_sym.blame import import_torch
from mha_sym.errors import Problem, TargetProblem


def from_module(module: Any, name: str = "", said: Said | None = None) -> Implementation:
    """A torch module as an implementation: that of torch itself as it is documented, others as they are found to be.

    Args:
        module: the module.
        name: what reports call it.
        said: what the user says of it, where it is found.

    Raises:
        TargetProblem: for a module of which no reading is attention.
    """
    if isinstance(module, import_torch().nn.MultiheadAttention):
        return from_torch(module, name)
    said = said or Said()
    handing = handing_of(module)
    whole = module if handing is not None else with_projection(module)
    if whole is not module:
        made = found(whole, name, undescribed(module, name), said=said)
        return replace(made, notes=(*made.notes, NOTE))
    if handing is not None:
        title = name or type(module).__qualname__
        return from_rotary_module(
            module, handing, lambda one, dtype: found(one, title, undescribed(one, title), dtype, said)
        )
    return found(module, name, undescribed(module, name), said=said)


@dataclass(frozen=True)
class Said:
    """What the user says of a module: its layout, and numbers of heads that it does not say itself."""

    layout: Layout | None = None
    heads: int | None = None
    kv_heads: int | None = None


def found(
    module: Any, name: str, refusal: Problem, dtype: str = "float64", said: Said | None = None
) -> Implementation:  # fmt: skip
    """A module as an implementation, if there is one reading of its parameters under which it is attention.

    Args:
        module: any module that takes ``x (b, t, m)``, or queries, keys and values.
        name: what reports call it.
        refusal: the complaint if nothing is found.
        dtype: the precision in which it is to compute.
        said: what the user says of it.

    Raises:
        Problem: the refusal, with what was tried.
    """
    said = said or Said()
    heads = attribute(module, HEADS) or said.heads
    if heads is None:
        raise refusal
    _divides(module, heads, name or type(module).__qualname__)
    kv_heads = attribute(module, KV_HEADS) or said.kv_heads

    def probed(kind: str) -> Probe:
        return Probe(module, heads, kv_heads, name, kind, said.layout)

    try:
        probe = probed(dtype)
    except TargetProblem as problem:
        single = _in_single(probed, dtype, f"run in float64 it raises ({problem.what})")
        if single is None:
            raise
        return single
    made = probe.found()
    if made is None and probe.rounds():
        made = _in_single(probed, dtype, "it computes in float32 by itself, whatever it is handed")
    if made is not None:
        return made
    own, why = None, ""
    try:
        own = tables_of(probe.module, {**probe.weights, **probe.tables}, probe.width, dtype)
    except Problem as problem:
        why = problem.one_line()
    if own is not None:
        return _turned(module, probe, own, refusal, said)
    refuse_complex(probe.once, probe.name)
    probe.refuse_positions(why)
    return probe.supposed(refusal)


def _in_single(probed: Callable[[str], Probe], dtype: str, why: str) -> Implementation | None:
    """A module that does not compute in doubles, if it is found to be attention in single precision."""
    if dtype != "float64":
        return None
    try:
        made = probed("float32").found()
    except TargetProblem:  # it is told in doubles
        return None
    return None if made is None else replace(made, notes=(*made.notes, f"{why}: it is judged in float32"))


def _divides(module: Any, heads: int, name: str) -> None:
    """Refuse a number of heads that no width of the weights is a multiple of."""
    shapes = {one: tuple(value.shape) for one, value in module.named_parameters() if value.ndim > 1}
    if shapes and all(size % heads for shape in shapes.values() for size in shape):
        raise TargetProblem(
            f"{heads} heads do not divide any width of the weights of {name}", where=name,
            got="; ".join(f"{one} {shape}" for one, shape in list(shapes.items())[:4]),
            expected=f"h d_k columns, a multiple of {heads}",
        )  # fmt: skip


def _turned(module: Any, probe: Probe, own: Own, refusal: Problem, said: Said) -> Implementation:
    """A module that makes tables of rotary positions by itself: what it is without them, and what they turn.

    Some compute their tables in single precision, whatever the weights are.
    """
    probe.without(own)
    made = probe.found() or probe.supposed(refusal)
    described = turning(replace(made, call=probe.call), own, fixed_sizes(made)["d_k"])
    if probe.dtype == "float64" and fitting(described) is None:
        return found(module, probe.name, refusal, "float32", said)
    return first_fitting(described)


# ---------------------------------------------------------------- the probe
