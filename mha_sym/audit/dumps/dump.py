"""Checking a dump: the input, weights, output and intermediates that code in any language has written to a file.

Defines `Dump`, `load_dump` and `check_dump`.  Nothing is run: each array that is there is compared with the stage of
the proven form of that name.  Files are read in `mha_sym.audit.dumps.file`, masks in `mha_sym.audit.dumps.masks`; what
a dump does not say of itself is in `mha_sym.audit.dumps.settings`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from einops import rearrange

from mha_sym.attention.forms import Options, combined
from mha_sym.attention.layouts import CANONICAL, LAYOUTS, Layout, find_layout
from mha_sym.audit.backing import prove_specification
from mha_sym.audit.call import copies_of, for_every_query_head, letters
from mha_sym.audit.compare import evidence_of
from mha_sym.audit.compared import Convention
from mha_sym.audit.diagnosis.inquiry import inquire
from mha_sym.audit.draw import classes, coincidences
from mha_sym.audit.dumps.arrays import expected_shape, finite, floating, shaped
from mha_sym.audit.dumps.file import LIMIT, SUFFIXES, Stored, read_arrays, read_config
from mha_sym.audit.dumps.masks import Masks, read_masks
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.precision import ROUNDOFF, Array
from mha_sym.audit.reports.report import CheckReport
from mha_sym.audit.rounding import likely_format
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import Specification, exact_scale, inputs_of
from mha_sym.errors import DataProblem, Problem

_INPUTS = ("x", "x_q", "x_k", "x_v")
_MASKS = ("mask", "keep")


@dataclass(frozen=True)
class Dump:
    """A dump that has been understood: what `mha_sym.audit.check.evidence_of` needs, and what is known of it.

    Attributes:
        impl: the dump as an implementation whose ``call`` returns what was dumped.
        spec: the proven form with its conventions.
        setting: sizes and arrays.
        shown: the stages that are there, in the order of axes of `STAGES`.
        conventions: what was found or said.
    """

    impl: Implementation
    spec: Specification
    setting: Setting
    shown: Mapping[str, Array]
    conventions: tuple[Convention, ...]


def check_dump(
    path: str | Path, config: str | Path | None = None, *, explain: bool = True, **given: Any
) -> CheckReport:
    """Compare every array of a dump with the proven form.

    Args:
        path: a file ``.npz`` or ``.safetensors``.
        config: a TOML file with settings (`DumpSettings`), if there is one.
        explain: whether it is looked into what is wrong, besides where.
        given: settings by name.

    Raises:
        Problem: if the dump cannot be read or is not what it should be.
    """
    started = time.perf_counter()
    dump = load_dump(path, config, **given)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large for any number is told as such
        found = dump.spec.values(dump.setting.arrays, dump.setting.sizes)
    evidence = evidence_of(dump.impl, dump.spec, dump.setting, found, dump.shown, "dump")
    return CheckReport(
        target=str(path), compared=evidence.compared, conventions=dump.conventions,
        findings=inquire([evidence], dump.conventions) if explain else None,
        coincide=classes(coincidences(dump.setting.sizes)), dtype=dump.impl.dtype,
        backing=prove_specification(dump.impl), notes=(*dump.impl.notes, *_if_rounded(evidence)),
        seconds=time.perf_counter() - started,
    )  # fmt: skip


def _if_rounded(on: Evidence) -> tuple[str, ...]:
    """For an output that is off by about as much as a coarser format rounds: what to say then."""
    kind = likely_format([on])
    if kind is None:
        return ()
    how = f'dtype = "{kind}" in a TOML file (--config FILE.toml), and it is judged in that'
    return (f"it is off by no more than {kind} rounds: if it was computed in that, say {how}",)


def is_dump(target: str) -> bool:
    """Whether a TARGET of the command names a dump.

    Example:
        >>> is_dump("layer0.npz"), is_dump("layer.py:attention")
        (True, False)
    """
    return Path(target).suffix.lower() in SUFFIXES


def check_dump_target(path: str, **options: Any) -> CheckReport:
    """`check_dump` for the command: a problem becomes part of the report."""
    try:
        return check_dump(path, **options)
    except Problem as problem:
        return CheckReport(target=path, problem=problem)


def load_dump(path: str | Path, config: str | Path | None = None, **given: Any) -> Dump:
    """Read a dump and make sense of it.

    Args and errors are those of `check_dump`.
    """
    file = Path(path)
    settings = DumpSettings.read({} if config is None else read_config(Path(config)), str(config or ""), **given)
    arrays = _named(read_arrays(file), settings, file.name)
    if "y" not in arrays:
        raise DataProblem(f"{file.name} holds no output 'y'", expected="y (b, t, m)", got=", ".join(sorted(arrays)))
    try:
        return understood(arrays, settings, file.name)
    except DataProblem as problem:
        if settings.layout is None and "wrong axes" in problem.what and not problem.hint:
            problem.hint = (
                "if the weights lie otherwise than was supposed, --layout NAME, such as linear for (out, in): "
                f"'mha-sym identify {file.name}' tries them all"
            )
        raise


def understood(arrays: Mapping[str, Stored], settings: DumpSettings, name: str) -> Dump:
    """Arrays under the names that are meant, as a dump; stages may be missing.

    Raises:
        Problem: if arrays are missing, surplus or of the wrong shape, hold NaN, or mix formats.
    """
    layout = _layout(arrays, settings, name)
    weights = {one: arrays[one] for one in arrays if one not in (*_INPUTS, *_MASKS, *STAGES)}
    _refuse_missing_input(arrays, name)
    dtype = _format(arrays, settings, name)
    for one, stored in arrays.items():
        floating(one, stored, name)
    sizes = _sizes(layout, weights, arrays, settings, name)
    masks = read_masks({one: arrays[one] for one in _MASKS if one in arrays}, settings.causal, sizes, settings.axes)
    impl = _implementation(layout, weights, arrays, settings, dtype, name)
    shown = {word: _stage(word, arrays[word].values, impl, sizes, name) for word in STAGES if word in arrays}
    inputs = _inputs(arrays, impl, sizes, name)
    for one, stored in weights.items():
        finite(one, stored.values, _weight_axes(layout, one, impl), name)
    values = {one: stored.values.astype(np.float64) for one, stored in weights.items()}
    setting = Setting(sizes, {**values, **inputs, **masks.arrays}, {}, masks.keep, masks.mask, "dumped")
    impl = replace(impl, call=_replaying(shown), takes=("x",))
    return Dump(impl, _specification(impl, masks), setting, shown, _conventions(impl, settings, masks, sizes))


def _replaying(shown: Mapping[str, Array]) -> Any:
    """What was dumped, whenever it is called; the order of axes is that of `STAGES` already."""

    def dumped(*_: Any) -> dict[str, Array]:
        return {word: value.copy() for word, value in shown.items()}

    return dumped


# ---------------------------------------------------------------- names


def _named(found: Mapping[str, Stored], settings: DumpSettings, name: str) -> dict[str, Stored]:
    """The arrays under the names that are meant."""
    for one in (*settings.names.values(), *settings.ignore):
        if one not in found:
            turned = one in (*_INPUTS, *_MASKS, *STAGES, *CANONICAL) and one in settings.names.values()
            raise DataProblem(
                f"{name} has no array {one!r}", expected=", ".join(found), where="names, ignore",
                hint="the name that is meant comes first: w_q = \"Wq\"" if turned else "",
            )  # fmt: skip
    kept = {one: value for one, value in found.items() if one not in settings.ignore}
    meant = [settings.meant(one) for one in kept]
    twice = {one for one in meant if meant.count(one) > 1}
    if twice:
        raise DataProblem(f"two arrays are named {sorted(twice)[0]!r}", where=name, got=", ".join(kept))
    return dict(zip(meant, kept.values(), strict=True))


def _layout(arrays: Mapping[str, Stored], settings: DumpSettings, name: str) -> Layout:
    """The layout that is said, or the one whose parameters have these names."""
    if settings.layout is not None:
        return find_layout(settings.layout)
    have = {one for one in arrays if one not in (*_INPUTS, *_MASKS, *STAGES)}
    if not have:
        raise DataProblem(
            f"{name} holds no weights", expected="w_q, w_k, w_v and w_o", got=", ".join(arrays) or "nothing"
        )
    grouped = settings.kv_heads not in (None, settings.heads)
    canonical = LAYOUTS["grouped" if grouped else "combined"]
    fitting = fitting_layouts(have)
    if _known_names(canonical) & have and not (fitting and have - _known_names(canonical)):
        return canonical
    if len(fitting) == 1:
        return fitting[0]
    several = ", ".join(one.name for one in fitting)
    raise DataProblem(
        "the names of the weights fit several layouts" if fitting else "the names of the weights fit no known layout",
        where=name, got=several or ", ".join(sorted(have)), expected="" if fitting else "w_q, w_k, w_v and w_o",
        hint=f"say --layout NAME, or let 'mha-sym identify {name}' find it" if fitting else
        "give their meaning under [names] in a TOML file, or --layout NAME",
    )  # fmt: skip


def _known_names(layout: Layout) -> set[str]:
    return set(layout.stored("qkvo"))


def fitting_layouts(names: set[str]) -> list[Layout]:
    """The layouts whose parameters have exactly these names.

    Example:
        >>> [one.name for one in fitting_layouts({"in_proj_weight", "out_proj.weight"})]
        ['torch_packed']
    """
    return [one for one in LAYOUTS.values() if set(one.stored(one.biases(names))) == names]


def _refuse_missing_input(arrays: Mapping[str, Stored], name: str) -> None:
    inputs = [one for one in _INPUTS if one in arrays]
    if inputs not in (["x"], ["x_q", "x_k", "x_v"]):
        raise DataProblem(
            f"{name} holds no input" if not inputs else f"{name} does not hold one set of inputs",
            expected="x, or x_q, x_k and x_v", got=", ".join(inputs or sorted(arrays)),
        )  # fmt: skip


# ---------------------------------------------------------------- formats and values


def _format(arrays: Mapping[str, Stored], settings: DumpSettings, name: str) -> str:
    """The format in which the code computed."""
    if settings.dtype is not None:
        if settings.dtype not in ROUNDOFF:
            raise DataProblem(f"no format {settings.dtype!r}", where="dtype", expected=", ".join(ROUNDOFF))
        return settings.dtype
    numbers = {one: stored.dtype for one, stored in arrays.items() if one not in _MASKS}
    first = numbers["y"]
    for one, dtype in numbers.items():
        if dtype != first and "float" in dtype and "float" in first:
            raise DataProblem(
                f"the arrays mix formats: y holds {first}, {one} holds {dtype}", where=name,
                hint="say in which one the code computed: dtype = \"...\" in a TOML file",
            )  # fmt: skip
    return first


# ---------------------------------------------------------------- sizes


def _sizes(
    layout: Layout, weights: Mapping[str, Stored], arrays: Mapping[str, Stored], settings: DumpSettings, name: str
) -> dict[str, int]:
    """All sizes: those of the weights, and those of the inputs."""
    said = {"h": settings.heads, "G": settings.kv_heads if layout.grouped else None}
    known = {size: value for size, value in said.items() if value is not None}
    for size, value in known.items():
        if value < 1:
            raise DataProblem(f"{size} cannot be {value}", expected="at least 1")
    if "h" not in known and not layout.heads_are_an_axis():
        raise DataProblem(f"how many heads does {name} have?", hint="give heads, on the command line --heads N")
    try:
        found = layout.sizes(weights, known)
    except DataProblem as problem:
        narrow = not layout.grouped and {"w_q", "w_k"} <= set(weights) and "positions" in problem.what
        if narrow and not problem.hint:
            problem.hint = "fewer key and value heads: --kv-heads N; weights that lie otherwise: --layout NAME"
        if "no place" in problem.what:
            problem.hint = problem.hint or 'leave it out: ignore = ["..."] in a TOML file'
        problem.where = problem.where or f"{name}, layout {layout.name}"
        raise
    found["d_v"] = found.get("d_v", found["d_k"])
    tokens = _tokens(arrays, settings, name)
    sizes = {**tokens, **found}
    scores = math.prod(sizes[one] for one in ("B", "h", "T", "S"))
    if scores * 8 > LIMIT:
        raise DataProblem(
            f"the scores of {name} would have {scores:,} entries", expected=f"at most {LIMIT // 8:,}",
            hint="dump fewer samples or positions; faults show at small sizes",
        )  # fmt: skip
    return sizes


def _tokens(arrays: Mapping[str, Stored], settings: DumpSettings, name: str) -> dict[str, int]:
    """B, T and S, from the inputs."""
    found: dict[str, int] = {}
    for word, tokens in (("x", "T"), ("x_q", "T"), ("x_k", "S")):
        if word in arrays:
            shape = arrays[word].shape
            axes = ("B", tokens, "d_model") if settings.batch_first else (tokens, "B", "d_model")
            if len(shape) != 3:
                letters = "(b, t, m)" if settings.batch_first else "(t, b, m)"
                raise DataProblem(f"{word} has the wrong axes", where=name, expected=letters, got=str(shape))
            if 0 in shape:
                empty = ", ".join(f"{axis} = 0" for axis, size in zip(axes, shape, strict=True) if size == 0)
                raise DataProblem(
                    f"{word} is empty: {empty}", where=name, expected="sizes of at least 1", got=f"shape {shape}"
                )
            batch, count = shape[:2] if settings.batch_first else (shape[1], shape[0])
            found = {"B": batch, **found, tokens: count}
    return {**found, "S": found.get("S", found["T"])}


# ---------------------------------------------------------------- arrays


def _inputs(
    arrays: Mapping[str, Stored], impl: Implementation, sizes: Mapping[str, int], name: str
) -> dict[str, Array]:
    found = {}
    for word in ("x_q", "x_k", "x_v"):
        source = word if word in arrays else "x"
        tokens, width = ("t", "d_model") if word == "x_q" else ("s", {"x_k": "d_key", "x_v": "d_value"}[word])
        here = {**sizes, "d_model": sizes.get(width, sizes["d_model"])}
        order = f"b {tokens} m" if impl.batch_first else f"{tokens} b m"
        value = arrays[source].values
        shaped(source, value, impl.axes.get(source, order), here, name)
        finite(source, value, order.split(), name)
        ordered = rearrange(value, f"{impl.axes.get(source, order)} -> b {tokens} m")
        found[f"X_{word[-1]}"] = np.ascontiguousarray(ordered, dtype=np.float64)
    return found


def _stage(word: str, value: Array, impl: Implementation, sizes: Mapping[str, int], name: str) -> Array:
    """A stage with the axes of `STAGES`; keys and values of shared heads are copied to the query heads."""
    order, copies = impl.order(word), copies_of(impl, word, value.shape, sizes)
    here = {**sizes, "h": sizes["h"] // copies} if copies > 1 else sizes
    shaped(word, value, order, here, name)
    finite(word, value, expected_shape(order, sizes)[0], name)
    used = {one: n for one, n in letters(here).items() if one in order}
    ordered = rearrange(value.astype(np.float64), f"{order} -> {STAGES[word]}", **used)
    return np.ascontiguousarray(for_every_query_head(impl, word, ordered, copies))


def _weight_axes(layout: Layout, stored: str, impl: Implementation) -> list[str]:
    return [one.name for one in layout.parameters(layout.dims(), impl.biases)[stored].axes]


# ---------------------------------------------------------------- what it is compared with


def _implementation(
    layout: Layout, weights: Mapping[str, Stored], arrays: Mapping[str, Stored], settings: DumpSettings, dtype: str,
    name: str,
) -> Implementation:  # fmt: skip
    known = {word: order for word, order in settings.axes.items() if word not in _MASKS}
    return Implementation(
        call=lambda x: x, layout=layout, takes=("x",) if "x" in arrays else ("x_q", "x_k", "x_v"),
        heads=settings.heads, kv_heads=settings.kv_heads if layout.grouped else None,
        weights={one: stored.values for one, stored in weights.items()}, scale=settings.scale,
        batch_first=settings.batch_first, axes=known, dtype=dtype, name=name,
        framework="torch" if dtype == "bfloat16" else "numpy",  # NumPy has no such format; nothing is run
    )  # fmt: skip


def _specification(impl: Implementation, masks: Masks) -> Specification:
    """The combined form with the layout, scale and masks of the dump."""
    d = impl.how_stored.dims()
    w = impl.how_stored.weights(d, impl.biases)
    x = inputs_of(w, d)
    options = Options(masks.additive(d), masks.kept(d), exact_scale(impl))
    return Specification(d, x, w, options, combined(d, x, w, options))


def _conventions(
    impl: Implementation, settings: DumpSettings, masks: Masks, sizes: Mapping[str, int]
) -> tuple[Convention, ...]:
    layout = impl.how_stored
    read = "the shapes of its weights"
    heads = str(sizes["h"]) + (f", of which {sizes['R']} read one key and value head" if "G" in sizes else "")
    rows = [
        ("layout", f"{layout.name}: {layout.words}", "the user" if settings.layout else "the names of its weights"),
        ("heads", heads, "the user" if settings.heads else read),
        ("bias", ", ".join(f"b_{letter.upper()}" for letter in impl.biases) or "none", "the names of its weights"),
        ("batch_first", "yes, (b, t, m)" if impl.batch_first else "no, (t, b, m)",
         "by default" if impl.batch_first else "the user"),
        ("scale", "1/sqrt(d_k)" if impl.scale is None else str(impl.scale),
         "by default" if impl.scale is None else "the user"),
        ("mask", masks.words, masks.said_by),
        ("computed in", impl.dtype, "the user" if settings.dtype else "the format of y"),
    ]  # fmt: skip
    return tuple(Convention(*row) for row in rows)
