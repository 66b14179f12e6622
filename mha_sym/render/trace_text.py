"""A trace as a table of text or as JSON: the words in which each step is told.

Defines `trace_table` and `trace_json`; the steps come from `mha_sym.trace`, and nothing about axes is worked out
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from mha_sym.axes import Axis, Index, Permutation
from mha_sym.expr import (
    Block,
    Blocks,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Total,
    Transpose,
)
from mha_sym.render.columns import columns
from mha_sym.render.formulas.size_text import at_sizes, size_text
from mha_sym.trace import Renaming, Step

Sizes = Mapping[str, int] | None


def trace_table(steps: Sequence[Step], sizes: Sizes = None) -> str:
    """The steps as a table: step, value, operation, axes with their sizes, what happened.

    Args:
        steps: from `mha_sym.trace`.
        sizes: numbers for symbolic sizes, by name; sizes that are not given stay symbols.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> print(trace_table(trace_pattern((2, 5, 12), "b t (h k) -> b h t k", sizes={"h": 3})))
        step  value      operation  axes                      what happened
        ────  ─────────  ─────────  ────────────────────────  ───────────────────────────────
           1  x          input      (b: 2, t: 5, (h k): 12)   given
           2             split      (b: 2, t: 5, h: 3, k: 4)  (h k) of x becomes h, k
           3  pattern 1  transpose  (b: 2, h: 3, t: 5, k: 4)  t and h of step 2 change places
    """
    rows: list[Sequence[str] | str] = []
    family: tuple[Index, ...] = ()
    for step in steps:
        if step.family != family and step.family:
            rows.append(f"for each {', '.join(_index(one, sizes) for one in step.family)}:")
        family = step.family
        indent = "  " * len(family)
        value = indent + (step.name or ", ".join(step.stages))
        operation = _OPERATIONS.get(step.operation, step.operation)
        rows.append([str(step.number), value, operation, _axes(step.axes, sizes), words(step, steps, sizes)])
    return columns(["step", "value", "operation", "axes", "what happened"], rows, right=[0])


def trace_json(steps: Sequence[Step], sizes: Sizes = None) -> dict[str, Any]:
    """The steps as plain data: ``{"sizes": ..., "steps": [...]}``; a size is a number, or a text if symbolic.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> found = trace_json(trace_pattern((2, 5, 12), "b t (h k) -> b t h k", sizes={"h": 3}))
        >>> found["steps"][1]["changes"], found["steps"][1]["axes"][2:]
        ({'split': ['(h k)']}, [{'name': 'h', 'size': 3}, {'name': 'k', 'size': 4}])
    """
    return {"sizes": dict(sizes or {}), "steps": [_step_json(step, steps, sizes) for step in steps]}


def _step_json(step: Step, steps: Sequence[Step], sizes: Sizes) -> dict[str, Any]:
    changes = {one.name: getattr(step.change, one.name) for one in fields(step.change)}
    return {
        "step": step.number,
        "name": step.name,
        "operation": step.operation,
        "reads": list(step.reads),
        "inputs": [_axes_json(axes, sizes) for axes in step.inputs],
        "axes": _axes_json(step.axes, sizes),
        "changes": {name: _change_json(value) for name, value in changes.items() if value},
        "for_each": [{"index": one.name, "axis": one.axis.name, "size": _size(one.axis, sizes)} for one in step.family],
        "stages": list(step.stages),
        "reason": step.reason,
        "what": words(step, steps, sizes),
    }


def _change_json(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return [
        {"old": one.old.name, "new": one.new.name} if isinstance(one, Renaming) else one.name for one in value
    ]


def _size(one: Axis, sizes: Sizes) -> int | str:
    size = at_sizes(one.size, sizes)
    return int(size) if size.is_Integer else size_text(size)


def _axes_json(axes: Iterable[Axis], sizes: Sizes) -> list[dict[str, int | str]]:
    return [{"name": one.name, "size": _size(one, sizes)} for one in axes]


def _axes(axes: Iterable[Axis], sizes: Sizes) -> str:
    return "(" + ", ".join(f"{one.name}: {_size(one, sizes)}" for one in axes) + ")"


def _index(index: Index, sizes: Sizes) -> str:
    size = _size(index.axis, sizes)
    return f"{index.name} in {index.axis.name}" + ("" if size == index.axis.name else f" ({size} times)")


# ---------------------------------------------------------------- the words of each step

#: operations of the language whose names are not words
_OPERATIONS = {"mul": "multiply", "neg": "negate", "inv": "invert", "scalar": "number", "named": "name"}

_ROLES = {"data": "given", "weight": "weight", "bias": "bias", "mask": "mask", "gate": "gate"}

_COMPARISONS = {"le": "≤", "lt": "<", "ge": "≥", "gt": ">", "eq": "=", "ne": "≠"}


@dataclass(frozen=True, slots=True)
class _Told:
    """A step with what its words need: how its operands are called, and the sizes that are known."""

    step: Step
    reads: tuple[str, ...]
    sizes: Sizes

    @property
    def first(self) -> str:
        """How the first operand is called."""
        return self.reads[0]


def words(step: Step, steps: Sequence[Step], sizes: Sizes = None) -> str:
    """What happened in a step, in one line.

    Raises:
        NotImplementedError: for a node that `WORDS` does not know.

    Example:
        >>> from mha_sym.trace import trace_pattern
        >>> steps = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", sizes={"h": 3})
        >>> words(steps[-1], steps)
        '(h k) of x becomes h, k'
    """
    if type(step.node) not in WORDS:
        raise NotImplementedError(f"{type(step.node).__name__} has no row in mha_sym.render.trace_text.WORDS")
    reads = tuple(steps[place - 1].name or f"step {place}" for place in step.reads)
    return WORDS[type(step.node)](step.node, _Told(step, reads, sizes))


def _names(axes: Iterable[Axis]) -> str:
    return ", ".join(one.name for one in axes)


def _input(node: Input, told: _Told) -> str:
    return _ROLES[node.role] + (", every entry 0 or 1" if node.boolean else "")


def _scalar(node: Scalar, told: _Told) -> str:
    return size_text(at_sizes(node.value, told.sizes))


def _compare(node: Compare, told: _Told) -> str:
    offset = "" if node.offset == 0 else f" {'+' if node.offset > 0 else '-'} {abs(node.offset)}"
    return f"1 where {node.left.name} {_COMPARISONS[node.op]} {node.right.name}{offset}, else 0"


def _map(node: Map, told: _Told) -> str:
    reads = iter(told.reads)
    parts = [_scalar(arg, told) if isinstance(arg, Scalar) else next(reads) for arg in node.args]
    text = {
        "add": " + ".join(parts),
        "mul": " times ".join(parts),
        "neg": f"minus {parts[0]}",
        "exp": f"exp of {parts[0]}",
        "inv": f"1 over {parts[0]}",
    }.get(node.op) or f"{node.op.removeprefix('fn:')} of {', '.join(parts)}, a function known only by name"
    return text + "".join(
        f"; {name} is the same along {_names(a for a in node.axes if a not in axes)}"
        for name, axes in zip(told.reads, told.step.inputs, strict=True)
        if len(axes) < len(node.axes)
    )


def _contract(node: Contract, told: _Told) -> str:
    if len(told.reads) == 1:
        return f"{told.first} summed over {_names(node.summed)}" if node.summed else _reordered(told)
    text = f"{' times '.join(told.reads)}"
    return f"{text}, summed over {_names(node.summed)}" if node.summed else text


def _reduce(node: Reduce, told: _Told) -> str:
    done = "summed" if node.op == "sum" else "reduced to the largest entry"
    return f"{told.first} {done} over {_names(node.over)}"


def _softmax(node: Softmax, told: _Told) -> str:
    kept = "" if node.keep is None else f", 0 where {told.reads[-1] if len(told.reads) > 1 else told.first} is 0"
    return f"every row of {told.first} along {_names(node.over)} becomes weights that add up to 1{kept}"


def _split(node: Split, told: _Told) -> str:
    return f"{node.axis_.name} of {told.first} becomes {_names(node.axis_.factors)}"


def _join(node: Join, told: _Told) -> str:
    return f"{_names(node.factors)} of {told.first} become {_names(told.step.change.joined)}"


def _transpose(node: Transpose, told: _Told) -> str:
    return _reordered(told)


def _reordered(told: _Told) -> str:
    moved = told.step.change.moved
    if not moved:
        return f"{told.first} as it is"
    if len(moved) == 2:
        return f"{moved[1].name} and {moved[0].name} of {told.first} change places"
    return f"{told.first} with its axes in another order"


def _repeat(node: Repeat, told: _Told) -> str:
    return f"{told.first} copied along {_names(node.added)}" if node.added else _reordered(told)


def _rename(node: Rename, told: _Told) -> str:
    return f"axis {node.old.name} of {told.first} is read as axis {node.new.name}"


def _reshape(node: Reshape, told: _Told) -> str:
    return f"raw reshape: the entries of {told.first} in row-major order, whatever the axes meant"


def permutation_name(perm: Permutation) -> str:
    """A permutation as text: ``pi``, or ``pi⁻¹`` for its inverse."""
    return perm.name + ("⁻¹" if perm.inverted else "")


def _permute(node: Permute, told: _Told) -> str:
    return f"position i of {node.perm.axis.name} is position {permutation_name(node.perm)}(i) of {told.first}"


def _select(node: Select, told: _Told) -> str:
    at = node.at.name if isinstance(node.at, Index) else str(node.at)
    return f"{told.first} at {node.axis_.name} = {at}"


def _stack(node: Stack, told: _Told) -> str:
    return f"{told.first} for all {node.index.name}, along the new axis {node.index.axis.name}"


def _concat(node: Concat, told: _Told) -> str:
    name = _names(told.step.change.joined)
    return f"{told.first} for all {node.index.name} side by side: {node.along.name} becomes {name}"


def _total(node: Total, told: _Told) -> str:
    return f"{told.first} added up over all {node.index.name}"


def _blocks(node: Blocks, told: _Told) -> str:
    return f"{', '.join(told.reads)} end to end along {_names(told.step.change.joined)}"


def _block(node: Block, told: _Told) -> str:
    return f"block {node.axis_.blocks[node.number].name} of axis {node.axis_.name} of {told.first}"


#: the words of each node
WORDS: dict[type[Expr], Callable[[Any, _Told], str]] = {
    Input: _input,
    Scalar: _scalar,
    Table: lambda node, told: "constants",
    Compare: _compare,
    Map: _map,
    Contract: _contract,
    Reduce: _reduce,
    Softmax: _softmax,
    Split: _split,
    Join: _join,
    Transpose: _transpose,
    Repeat: _repeat,
    Rename: _rename,
    Reshape: _reshape,
    Permute: _permute,
    Select: _select,
    Stack: _stack,
    Concat: _concat,
    Total: _total,
    Blocks: _blocks,
    Block: _block,
    Named: lambda node, told: f"{told.first} under another name",
}
