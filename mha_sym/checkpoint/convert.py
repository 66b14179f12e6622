"""Converting a file of weights from one layout to another, and saying what is sure about the result.

Defines `convert`.  Every layer of the layout is converted, every other tensor is carried over as it is.  The file is
written whole or not at all: it takes its place after it was read back and compared with what was given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from mha_sym.attention.conversion import Conversion, conversion
from mha_sym.attention.conversion_theorem import theorem
from mha_sym.attention.layouts import LAYOUTS, Layout, find_layout
from mha_sym.checkpoint.compared import Differs, compare_layer
from mha_sym.checkpoint.files import TensorFile, opened, refuse_other, same_bytes, save
from mha_sym.checkpoint.layers import find_layers
from mha_sym.checkpoint.move import moved
from mha_sym.checkpoint.plan import Planned, Wish, planned, refuse_scale
from mha_sym.checkpoint.report import Converted, Proved
from mha_sym.checkpoint.shards import Shards
from mha_sym.checkpoint.tensor import Tensor, count_nan, words
from mha_sym.errors import DataProblem, Problem
from mha_sym.expr import inputs
from mha_sym.files import refuse_existing, written_whole
from mha_sym.proof.prover import prove
from mha_sym.proof.theorem import Verdict


def convert(
    source: str | Path,
    target: str | Path,
    given: str | Layout,
    wanted: str | Layout,
    *,
    heads: int | None = None,
    kv_heads: int | None = None,
    at: Sequence[str] = (),
    repeat_kv: bool = False,
    zero_biases: bool = False,
    force: bool = False,
) -> Converted:
    """Convert the attention layers in a file of weights from one layout to another.

    Entries are only moved: every one keeps its format and its bits.  All other tensors are carried over.

    Args:
        source: a file ``.safetensors`` or ``.npz``, or ``.safetensors.index.json`` for one in several parts.
        target: the file to write, of either of the first two kinds.
        given: the layout of the weights, a name of `mha_sym.attention.layouts.LAYOUTS`, or ``"auto"`` where names and
            shapes leave one.
        wanted: the layout to store them in.
        heads: the number of heads, where shapes do not tell it.
        kv_heads: the number of key and value heads, where it is another one and shapes do not tell it.
        at: prefixes of the layers that are meant, such as ``transformer.h.0``; all if none is given.
        repeat_kv: copy key and value heads for a layout that has as many of them as heads.
        zero_biases: store zeros for biases that the layer has not and the wanted layout has.
        force: replace a file that is there.

    Raises:
        Problem: if something is missing, does not fit, would be lost, or would need arithmetic.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> place = Path(tempfile.mkdtemp())
        >>> layer = {"h.0.c_attn.weight": np.ones((24, 72)), "h.0.c_proj.weight": np.eye(24)}
        >>> np.savez(place / "a.npz", **layer, wte=np.ones(3))
        >>> done = convert(place / "a.npz", place / "b.npz", "gpt2", "llama", heads=4)
        >>> [one.name for one in done.plans[0].wanted.values()], done.carried
        (['h.0.q_proj.weight', 'h.0.k_proj.weight', 'h.0.v_proj.weight', 'h.0.o_proj.weight'], ('wte',))
    """
    source, target = Path(source), Path(target)
    _refuse_places(source, target, force)
    with opened(source) as file:
        _refuse_parts(file, target)
        layout = _given(given, file, heads, kv_heads, at)
        wish = Wish(layout, find_layout(wanted), heads, kv_heads, repeat_kv, zero_biases)
        refuse_scale(wish)
        plans = _plans(file, wish, at)
        outcome, entries = _outcome(file, plans), _Entries(file, plans)
        proofs = [_proved(one, wish) for one in {id(plan.conversion): plan for plan in plans}.values()]
        try:
            with written_whole(target.resolve()) as (stream, name):
                save(stream, target, list(outcome.values()), entries, file)
                stream.flush()
                compared = _read_back(wish, plans, file, outcome, target, name)
        except OSError as error:
            raise Problem(f"{target} cannot be written: {error.strerror or error}") from error
        carried = _carried(file, plans)
    return Converted(source, target, wish, tuple(plans), carried, tuple(proofs), compared, entries.nan)


def _refuse_places(source: Path, target: Path, force: bool) -> None:
    refuse_other(source)
    refuse_other(target, written=True)
    if target.exists() and source.exists() and os.path.samefile(source, target):
        raise Problem(f"{source} and {target} are one file", hint="write another file, and remove this one afterwards")
    refuse_existing(target, force=force)
    if not target.resolve().parent.is_dir():
        raise Problem(f"{target} cannot be written: there is no directory {target.parent}")
    if target.exists() and not target.is_file():
        raise Problem(f"{target} cannot be written: it is no regular file")


def _refuse_parts(file: TensorFile, target: Path) -> None:
    """Refuse to write over a part of what is read."""
    for part in file.paths if isinstance(file, Shards) else ():
        if target.exists() and os.path.samefile(part, target):
            raise Problem(f"{target} is a part of what is read", hint="write another file")


def _plans(file: TensorFile, wish: Wish, at: Sequence[str]) -> list[Planned]:
    known: dict[tuple[str, str, bool], Conversion] = {}
    return [planned(layer, file.tensors, wish, known) for layer in find_layers(list(file.tensors), wish.source, at)]


# ---------------------------------------------------------------- which layout


def _given(
    layout: str | Layout, file: TensorFile, heads: int | None, kv_heads: int | None, at: Sequence[str]
) -> Layout:
    """The layout that is given, found by names and shapes if it is to be."""
    if layout != "auto":
        return find_layout(layout)
    fitting, first = [], None
    for one in LAYOUTS.values():
        try:
            _plans(file, Wish(one, one, heads, kv_heads), at)
        except DataProblem as problem:
            first = first if first is not None or problem.what.startswith("no layer") else problem
            continue
        fitting.append(one)
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and first is not None:
        raise first
    raise DataProblem(
        "names and shapes do not say in which layout the weights are", where="--from auto",
        got=f"{', '.join(one.name for one in fitting)} all fit" if fitting else "none fits",
        hint="mha-sym identify finds it from the weights, inputs and output of one layer",
    )  # fmt: skip


# ---------------------------------------------------------------- what comes out


def _carried(file: TensorFile, plans: Iterable[Planned]) -> tuple[str, ...]:
    used = {tensor.name for plan in plans for tensor in plan.given.values()}
    return tuple(name for name in file.tensors if name not in used)


def _outcome(file: TensorFile, plans: Iterable[Planned]) -> dict[str, Tensor]:
    """All tensors of the new file, by name."""
    plans = list(plans)
    found = {name: file.tensors[name] for name in _carried(file, plans)}
    for tensor in (one for plan in plans for one in plan.wanted.values()):
        if tensor.name in found:
            raise DataProblem(f"{tensor.name} is there already, and would be written", hint="rename it first")
        found[tensor.name] = tensor
    return found


class _Entries:
    """The entries of every tensor of the new file, made when they are asked for: one tensor at a time."""

    def __init__(self, file: TensorFile, plans: Iterable[Planned]) -> None:
        self.file = file
        self.makers = {tensor.name: (plan, stored) for plan in plans for stored, tensor in plan.wanted.items()}
        self.nan: dict[str, int] = {}

    def __call__(self, tensor: Tensor) -> Iterator[bytes | memoryview]:
        if tensor.name not in self.makers:
            yield from self.file.chunks(tensor.name)
            return
        plan, stored = self.makers[tensor.name]
        expr = plan.conversion.made[stored]
        arrays = {one.name: self.file.read(plan.given[one.name].name) for one in inputs(expr)}
        values = np.ascontiguousarray(moved(expr, arrays, plan.sizes, words(tensor)))
        count = count_nan(values, tensor.kind)
        if count:
            self.nan[tensor.name] = count
        yield values.reshape(-1).view(np.uint8).data


def _read_back(
    wish: Wish, plans: Sequence[Planned], file: TensorFile, outcome: Mapping[str, Tensor], target: Path, name: Path
) -> int:
    """Compare what was written with what was given; the number of weights and biases that were."""
    with opened(target, name) as written:
        if dict(written.tensors) != dict(outcome):
            raise Differs(f"{target} does not hold what was written to it")
        for one in _carried(file, plans):
            if not same_bytes(written.chunks(one), file.chunks(one)):
                raise Differs(f"{one} was not carried over as it was")
        return sum(compare_layer(plan, wish, file, written) for plan in plans)


def _proved(plan: Planned, wish: Wish) -> Proved:
    """The theorem about a conversion, after the prover had it; where copies become one, that of the way back.

    Raises:
        Differs: if it is false; that would be a fault of mha_sym.
    """
    one = plan.conversion
    if plan.copies > 1 and not wish.source.grouped:
        one = conversion(wish.target, wish.source, one.biases, own_heads=False)
    stated = theorem(one)
    report = prove(stated)
    if report.verdict is Verdict.REFUTED:
        raise Differs(f"{stated.name} is false")
    axes = [axis for parameter in one.given.values() for axis in parameter.axes]
    sizes = sorted({str(size) for axis in axes for size in axis.size.free_symbols})
    return Proved(stated.name, report.verdict is Verdict.PROVED, len(stated.claims), tuple(sizes), report)
