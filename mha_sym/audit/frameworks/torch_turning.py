"""The tables of rotary positions that a torch module makes by itself, or keeps, found in its graph.

Defines `tables_of`, and `refuse_complex` for code that turns pairs as complex numbers.  This runs the module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mha_sym.audit.frameworks.own_tables import Own, own_of
from mha_sym.audit.frameworks.torch_modules import first_output
from mha_sym.axes import size_symbol
from mha_sym.blame import import_torch
from mha_sym.errors import TargetProblem
from mha_sym.importers.graph import Array
from mha_sym.importers.session import HINTS


def tables_of(module: Any, weights: Mapping[str, Array], width: int, dtype: str) -> Own | None:
    """The tables of a module that takes ``x (b, t, m)``, None if it makes none.

    Args:
        module: the module, in the format and mode in which it is looked at.
        weights: its parameters.
        width: the width of x.
        dtype: the format.

    Raises:
        Problem: if the module cannot be followed.
    """
    from mha_sym.importers.from_torch.code import Spec, from_code

    batch, length = size_symbol("B"), size_symbol("T")
    kind = getattr(import_torch(), dtype)
    specs = {name: Spec(tuple(value.shape), kind, "param") for name, value in weights.items()}
    specs["x"] = Spec((batch, length, width), kind)

    def code(given: Mapping[str, Any], size: Callable[[Any], Any]) -> dict[str, Any]:
        del size  # all sizes are those of x
        return {"y": first_output(module, {name: given[name] for name in weights}, (given["x"],), {})}

    graph = from_code(code, specs, {one: HINTS[one.name] for one in (batch, length)}, type(module).__name__).graph
    return own_of(graph, length)


def refuse_complex(run: Callable[[], Any], title: str) -> None:
    """Refuse code that makes complex numbers: multiplied by them, pairs are turned, and no proof knows them.

    Args:
        run: runs the code once.
        title: what messages call it.

    Raises:
        TargetProblem: if it makes some.
    """
    torch = import_torch()
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types for it
        """Looks at the result of every operation."""

        met = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = func(*args, **(kwargs or {}))
            self.met = self.met or (isinstance(made, torch.Tensor) and made.is_complex())
            return made

    watch = Watching()  # type: ignore[no-untyped-call]
    with watch:
        run()
    if watch.met:
        raise TargetProblem(
            f"{title} turns by complex numbers, which is not understood here", where=title,
            expected="pairs of features and cosines and sines",
            hint="write the pairs out (x1 cos - x2 sin, x1 sin + x2 cos), or take cos and sin as arguments and say "
            "rotary='interleaved', which turns neighbours as complex numbers do",
        )  # fmt: skip
