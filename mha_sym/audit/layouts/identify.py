"""Finding the layout and the conventions under which a dump, or an implementation, is multi-head attention.

Defines `identify` and `Identified`.  Every reading of the stored weights that their shapes allow
(`mha_sym.audit.layouts.readings`) is combined with every scale, diagonal, meaning of a mask and order of the input, and
those that reproduce the output within the bound are told: all of them, since more than one may.  Two readings that
agree here may still differ elsewhere.  Where none does, packed weights are also read shard by shard.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.audit.call import run
from mha_sym.audit.cases import cases_of
from mha_sym.audit.dumps.arrays import finite
from mha_sym.audit.dumps.dump import is_dump
from mha_sym.audit.dumps.file import Stored, read_arrays, read_config
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.layouts.readings import Reading, Seen, fits, matching, read, without_equals
from mha_sym.audit.layouts.shards import Shards, shards_of
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import refuse_unreached
from mha_sym.audit.target import as_implementation, load
from mha_sym.errors import DataProblem, Problem, TargetProblem


@dataclass(frozen=True)
class Identified:
    """The readings that reproduce the output.

    Attributes:
        target: what was looked at.
        found: the readings, the plainest first.
        tried: how many were tried.
        sizes: the sizes at which the output was reproduced.
        seconds: the time it took.
    """

    target: str
    found: tuple[Reading, ...]
    tried: int
    sizes: Mapping[str, int]
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 if exactly one reading reproduces the output, 1 if none does or several do."""
        return 0 if len(self.found) == 1 else 1

    def text(self) -> str:
        """For people, in plain text."""
        sizes = ", ".join(f"{name}={n}" for name, n in self.sizes.items())
        if not self.found:
            return f"{self.target}: none of {self.tried} readings reproduces the output"
        head = f"{self.target}: {len(self.found)} of {self.tried} readings reproduce the output, at {sizes}"
        rows = [f"  {one}\n      {one.layout.words}" for one in self.found]
        more = ["", "  They cannot be told apart on this output; other sizes may."] if len(self.found) > 1 else []
        return "\n".join([head, "", *rows, *more])

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "target": self.target, "tried": self.tried, "sizes": dict(self.sizes), "seconds": round(self.seconds, 3),
            "readings": [
                {
                    "layout": one.layout.name, "words": one.layout.words, "rows": dict(one.layout.rows),
                    "scale": one.scale, "causal": one.causal, "mask": one.mask, "batch_first": one.batch_first,
                }
                for one in self.found
            ],
        }  # fmt: skip


def identify(target: Any, *, config: str | Path | None = None, seed: int = 0, **given: Any) -> Identified:
    """Find the layout and conventions under which something is multi-head attention.

    Args:
        target: a dump, a TARGET as on the command line, a function, or an `Implementation`.
        config: settings of a dump.
        seed: determines what an implementation is run on.
        given: settings of a dump, or ``heads`` and ``kv_heads`` of an implementation.

    Raises:
        Problem: if the dump cannot be read, or the implementation cannot be run in any way.
    """
    started = time.perf_counter()
    runs = _from_dump(target, config, given) if _names_dump(target) else _from_code(target, seed, given)
    tried = 0
    sizes: Mapping[str, int] = {}
    kept: list[Reading] = []
    for reading, dump, ok in matching(runs[0]):
        tried += 1
        if ok and all(fits(read(other, reading)) for other in runs[1:]):
            assert dump is not None  # it fits
            sizes = sizes or dump.setting.sizes
            kept.append(reading)
    if not tried:
        _refuse_untried(runs[0])
    unique = tuple(without_equals(kept, runs[0]))
    if not unique:
        unique, sizes, more = _in_shards(runs)
        tried += more
    return Identified(runs[0].name, unique, tried, sizes, time.perf_counter() - started)


def _refuse_untried(seen: Seen) -> None:
    """Complain where the number of heads is what is wanting.

    Raises:
        DataProblem: where no reading can be made without it.
    """
    if seen.settings.heads is None:
        raise DataProblem(
            f"how many heads {seen.name} has is not known: no reading could be tried", where=seen.name,
            expected="--heads N, or heads in a TOML file (--config FILE.toml)",
            got="; ".join(f"{name} {one.shape}" for name, one in seen.arrays.items()),
        )  # fmt: skip


def _in_shards(runs: Sequence[Seen]) -> tuple[tuple[Reading, ...], Mapping[str, int], int]:
    """The first way in which packed weights lie shard by shard, with its conventions; its sizes, and how many tried."""
    names, tried = set(LAYOUTS["packed"].stored("qkvo")), 0
    first, heads = runs[0], runs[0].settings.heads
    if "w_qkv" not in first.arrays or heads is None:
        return (), {}, tried
    stored = {name: one.values for name, one in first.arrays.items() if name in names}
    for way in shards_of(stored, heads, first.settings.kv_heads):
        named = Layout(way.name, way.mend, way.base.rows, way.base.same)
        together = [_together(one, way) for one in runs]
        kept: list[Reading] = []
        sizes: Mapping[str, int] = {}
        for reading, dump, ok in matching(together[0], [named]):
            tried += 1
            if ok and dump is not None and all(fits(read(other, reading)) for other in together[1:]):
                kept.append(reading)
                sizes = dump.setting.sizes
        if kept:
            return tuple(without_equals(kept, together[0])), sizes, tried
    return (), {}, tried


def _together(seen: Seen, way: Shards) -> Seen:
    """What was seen, with its shards put together."""
    values = way.together({name: one.values for name, one in seen.arrays.items()})
    return replace(seen, arrays={name: Stored(values[name], one.dtype) for name, one in seen.arrays.items()})


def _names_dump(target: Any) -> bool:
    return isinstance(target, str | Path) and is_dump(str(target))


def _from_dump(target: str | Path, config: str | Path | None, given: Mapping[str, Any]) -> list[Seen]:
    settings = DumpSettings.read({} if config is None else read_config(Path(config)), str(config or ""), **given)
    arrays = {settings.meant(name): value for name, value in read_arrays(Path(target)).items()}
    arrays = {name: value for name, value in arrays.items() if name not in settings.ignore}
    if "y" not in arrays:
        raise DataProblem(f"{Path(target).name} holds no output 'y'", expected="y (b, t, m)", got=", ".join(arrays))
    for one, stored in arrays.items():
        if stored.values.dtype.kind == "f" and one != "mask":  # no reading reproduces what is no number
            finite(one, stored.values, [f"axis {n}" for n in range(stored.values.ndim)], Path(target).name)
    return [Seen(arrays, settings, Path(target).name)]


# ---------------------------------------------------------------- code


def _from_code(target: Any, seed: int, given: Mapping[str, Any]) -> list[Seen]:
    """What an implementation gives on two draws, with weights stored in a way in which it runs at all."""
    found = load(target) if isinstance(target, str) else target
    known = {name: value for name, value in given.items() if name in ("heads", "kv_heads") and value is not None}
    impl = as_implementation(found, target if isinstance(target, str) else "", **known)
    refused: Problem | None = None
    if not set(impl.arguments) & _all_stored():
        refuse_unreached(impl)
    for layout in _storable(impl):
        for tied in (("d_v", "d_model"), ("d_v",), ()) if not layout.grouped else ((),):
            tried = replace(impl, layout=layout, tied=impl.tied or tied)
            try:
                return [_seen(tried, seed, draw) for draw in range(2)]
            except Problem as problem:
                refused = refused or problem
    raise refused or TargetProblem("it takes no weights that are known", where=impl.title)


def _storable(impl: Implementation) -> list[Layout]:
    """Layouts whose parameters are the arguments of an implementation."""
    words = {one for one in impl.arguments if one in _all_stored()} or set(impl.stored)
    fitting = [one for one in LAYOUTS.values() if words <= set(one.stored("qkvo")) and set(one.stored("")) <= words]
    return [impl.how_stored, *(one for one in fitting if one != impl.how_stored)]


def _all_stored() -> set[str]:
    return {name for one in LAYOUTS.values() for name in one.stored("qkvo")}


def _seen(impl: Implementation, seed: int, draw: int) -> Seen:
    case = cases_of(impl)[0]
    setting = draw_setting(impl, case, seed, draw)
    y = run(impl, setting.arguments, setting.sizes)["y"]
    arrays = {name: Stored(setting.arrays[name], "float64") for name in impl.how_stored.stored(impl.biases)}
    inputs = {"x": "X_q"} if case.same else {"x_q": "X_q", "x_k": "X_k", "x_v": "X_v"}
    arrays |= {name: Stored(setting.arrays[source], "float64") for name, source in inputs.items()}
    arrays["y"] = Stored(y, "float64")
    heads, groups = setting.sizes["h"], setting.sizes.get("G")
    return Seen(arrays, DumpSettings(heads=heads, kv_heads=groups, dtype=impl.dtype), impl.title)
