"""What a dump does not say of itself: sizes and conventions, from flags or a TOML file.

Defines `DumpSettings`.  What follows from them is in `mha_sym.audit.dumps.dump`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from mha_sym.attention.layouts import Layout
from mha_sym.errors import DataProblem


@dataclass(frozen=True)
class DumpSettings:
    """What a dump does not say of itself; each may stand in a TOML file under the same name.

    Attributes:
        heads: the number of query heads.
        kv_heads: the number of key and value heads, where there are fewer.
        causal: whether later keys are hidden; ``"top-left"`` (key s is hidden from query t if s > t) or
            ``"bottom-right"`` (the last query sees every key) where there are more or fewer keys than queries.
        layout: how the weights are stored, a name of `mha_sym.attention.layouts.LAYOUTS`.
        scale: what ``q . k`` is multiplied by, ``1/sqrt(d_k)`` if omitted.
        batch_first: False if inputs and output are ``(t, b, m)``.
        dtype: the format in which the code computed; that of ``y`` if omitted.
        names: the names that are meant, and those in the file, where they differ: ``{"w_q": "Wq"}``.
        axes: the order of axes of an array where it is another: ``{"q": "b t h k"}``.
        ignore: arrays that are not looked at.
    """

    heads: int | None = None
    kv_heads: int | None = None
    causal: bool | str = False
    layout: Layout | str | None = None
    scale: float | None = None
    batch_first: bool = True
    dtype: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()

    def meant(self, name: str) -> str:
        """What is meant by a name in the file.

        Example:
            >>> DumpSettings(names={"w_q": "Wq"}).meant("Wq")
            'w_q'
        """
        return next((ours for ours, theirs in self.names.items() if theirs == name), name)

    @staticmethod
    def read(config: Mapping[str, Any], where: str = "", **given: Any) -> DumpSettings:
        """Settings from a file, and those that are given beside it, which count more.

        Raises:
            DataProblem: for a setting that is not known or of the wrong kind.

        Example:
            >>> DumpSettings.read({"heads": 4}, kv_heads=2).kv_heads
            2
        """
        known = {one.name: _KINDS[one.name] for one in fields(DumpSettings)}
        for name, value in config.items():
            if name not in known:
                close = get_close_matches(name, known, 1)
                raise DataProblem(
                    f"no setting {name!r}", where=where, expected=", ".join(known),
                    hint=f"did you mean {close[0]}?" if close else "",
                )  # fmt: skip
            if not isinstance(value, known[name]) or (isinstance(value, bool) and bool not in known[name]):
                kinds = " or ".join(kind.__name__ for kind in known[name])
                raise DataProblem(f"setting {name} cannot be {value!r}", where=where, expected=kinds)
            if isinstance(value, dict | list) and not all(isinstance(one, str) for one in _members(value)):
                raise DataProblem(f"setting {name} cannot be {value!r}", where=where, expected="texts")
        said = {name: value for name, value in given.items() if value is not None}
        return DumpSettings(**{**config, **said})


def _members(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


_KINDS: dict[str, tuple[type, ...]] = {
    "heads": (int,), "kv_heads": (int,), "causal": (bool, str), "layout": (str,), "scale": (int, float),
    "batch_first": (bool,), "dtype": (str,), "names": (dict,), "axes": (dict,), "ignore": (list, tuple),
}  # fmt: skip
