"""A layer from the sizes on the command line, for ``mha-sym trace`` and ``mha-sym count``.

Defines `layer_options`, `Sizes` and `stages`.  A size that is not given stays a symbol; no size is ever guessed from
another one except ``d_k = d_v = d_model / h``, the convention of the usual interfaces, and that only where it comes
out whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mha_sym.errors import DataProblem

if TYPE_CHECKING:
    from mha_sym.attention.dims import Dims
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

    def dims(self) -> Dims:
        """The axes of the layer.

        Raises:
            DataProblem: if a head's width is not given and ``d_model / h`` is not whole.

        Example:
            >>> d = Sizes(d_model=12, heads=3, d_v=7).dims()
            >>> d.t, d.k, d.v
            (t: T, k: 4, v: 7)
        """
        from mha_sym.attention.dims import dims

        return dims(
            B=self.batch or "B",
            T=self.length or "T",
            S=self.keys,
            d_model=self.d_model or "d_model",
            h=self.heads or "h",
            d_k=self._width(self.d_k, "d_k"),
            d_v=self._width(self.d_v, "d_v"),
        )

    def _width(self, given: int | None, name: str) -> int | str:
        if given is not None or self.d_model is None or self.heads is None:
            return given or name
        width, rest = divmod(self.d_model, self.heads)
        if rest:
            option = "--" + name.replace("_", "-")
            raise DataProblem(
                f"d_model / h = {self.d_model}/{self.heads} is not whole, so it cannot be the default of {name}",
                hint=f"that h divides d_model is a convention of interfaces, not of attention: give {option}",
            )
        return width


def stages(sizes: Sizes, form: str, bias: bool = False) -> Stages:
    """The layer of that form; cross-attention if the number of keys is given."""
    from mha_sym.attention import forms
    from mha_sym.attention.dims import combined_weights, cross_inputs, head_weights, self_inputs

    d = sizes.dims()
    weights = combined_weights(d, bias) if form == "combined" else head_weights(d, bias)
    x = self_inputs(d) if sizes.keys is None else cross_inputs(d)
    build = {"combined": forms.combined, "separate": forms.separate, "head_sum": forms.head_sum}[form]
    return build(d, x, weights)
