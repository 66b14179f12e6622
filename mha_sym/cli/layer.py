"""A layer from the sizes on the command line, for ``mha-sym trace`` and ``mha-sym count``.

Defines `layer_options`, `Sizes` and `stages`.  The layer is always built at symbolic sizes; sizes that are given are
values of the symbols.  No size is guessed from another one except ``d_k = d_v = d_model / h``, the convention of the
usual interfaces, and that only where it comes out whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mha_sym.errors import DataProblem

if TYPE_CHECKING:
    from mha_sym.attention.forms import Stages

F = TypeVar("F", bound=Callable[..., Any])

FORMS = ("combined", "separate", "head_sum")
_SIZES = {
    "batch": "batch size B",
    "length": "number of tokens T",
    "keys": "number of keys S, for cross-attention; T if omitted",
    "d-model": "width of the model",
    "heads": "number of heads h",
    "d-k": "width of a head's queries and keys; d_model / h if omitted",
    "d-v": "width of a head's values; d_model / h if omitted",
}


def layer_options(command: F) -> F:
    """The options for the sizes and the form of a layer."""
    command = click.option(
        "--form", type=click.Choice(FORMS), default="combined", show_default=True, help="How the layer is written."
    )(command)
    for name, words in reversed(_SIZES.items()):
        command = click.option(f"--{name}", type=click.IntRange(min=1), metavar="N", help=f"The {words}.")(command)
    return command


@dataclass(frozen=True)
class Sizes:
    """The sizes that are given; the others stay symbols."""

    batch: int | None = None
    length: int | None = None
    keys: int | None = None
    d_model: int | None = None
    heads: int | None = None
    d_k: int | None = None
    d_v: int | None = None

    def known(self) -> dict[str, int]:
        """The numbers for the symbols, by their names.

        Raises:
            DataProblem: if a head's width is not given and ``d_model / h`` is not whole.

        Example:
            >>> Sizes(d_model=12, heads=3, d_v=7).known()
            {'d_model': 12, 'h': 3, 'd_k': 4, 'd_v': 7}
        """
        found = {
            "B": self.batch,
            "T": self.length,
            "S": self.keys,
            "d_model": self.d_model,
            "h": self.heads,
            "d_k": self.d_k or self._width("d_k"),
            "d_v": self.d_v or self._width("d_v"),
        }
        return {name: size for name, size in found.items() if size is not None}

    def _width(self, name: str) -> int | None:
        if self.d_model is None or self.heads is None:
            return None
        width, rest = divmod(self.d_model, self.heads)
        if rest:
            option = "--" + name.replace("_", "-")
            raise DataProblem(
                f"d_model / h = {self.d_model}/{self.heads} is not whole, so it cannot be the default of {name}",
                hint=f"that h divides d_model is a convention of interfaces, not of attention: give {option}",
            )
        return width


def stages(form: str, cross: bool, bias: bool = False) -> Stages:
    """The layer of that form at symbolic sizes; cross-attention has keys of its own."""
    from mha_sym.attention import forms
    from mha_sym.attention.dims import combined_weights, cross_inputs, dims, head_weights, self_inputs

    d = dims(S="S" if cross else None)
    weights = combined_weights(d, bias) if form == "combined" else head_weights(d, bias)
    build = {"combined": forms.combined, "separate": forms.separate, "head_sum": forms.head_sum}[form]
    return build(d, cross_inputs(d) if cross else self_inputs(d), weights)
