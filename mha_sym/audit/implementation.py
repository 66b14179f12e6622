"""Implementations: somebody's attention code, described so that it can be called and compared.

Defines `Implementation`: how to call it, which layout its weights have, its sizes and conventions, what it shows of its
inside.  `mha_sym.audit.functions` describes plain functions, `mha_sym.audit.frameworks.torch_modules` torch modules.
Nothing here calls the implementation.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from mha_sym.attention.layouts import Layout, find_layout
from mha_sym.attention.rotary import Rotary
from mha_sym.audit.parameters import KEEPS as KEEPS
from mha_sym.audit.parameters import MASKS as MASKS
from mha_sym.audit.parameters import TAKES as TAKES
from mha_sym.audit.parameters import words_of
from mha_sym.audit.precision import roundoff
from mha_sym.errors import TargetProblem

#: what an implementation may return, and the order of axes that is expected
STAGES: dict[str, str] = {
    "q": "b h t k", "k": "b h s k", "v": "b h s v", "scores": "b h t s", "weights": "b h t s",
    "z": "b h t v", "c": "b t (h v)", "y": "b t m",
}  # fmt: skip

#: the inputs among the words
INPUTS: tuple[str, ...] = ("x", "x_q", "x_k", "x_v", "x_kv")

#: how a causal mask may lie where there are more or fewer keys than queries
ALIGNED: tuple[str, ...] = ("top-left", "bottom-right")

Framework = Literal["numpy", "torch"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Implementation:
    """Attention code to be checked: how it is called, how its weights lie, what its sizes and conventions are.

    It is to compute ``Y = Concat_r(softmax(scale Q^(r) K^(r)^T + mask) V^(r)) W_O + b_O`` with
    ``x (b,t,m)`` in and ``y (b,t,m)`` out.

    Args:
        call: the function.  A torch module may stand here, too: it is copied, put into evaluation mode, and its
            parameters are its weights unless others are given.
        heads: the number of heads; may be omitted if the function takes ``heads``, or if heads are an axis of the
            stored weights.
        kv_heads: the number of key and value heads, where a layout has fewer of them.
        layout: how its weights are stored: a name of `mha_sym.attention.layouts.LAYOUTS`, or a `Layout`.
        takes: the arguments of ``call`` in order: words of `TAKES`, and stored weights by their name in the layout.
            If omitted, the names of its parameters.  Words are inputs ``x (b,t,m)``, or ``x_q (b,t,m)``,
            ``x_k (b,s,m)``, ``x_v (b,s,m)`` or, if the two are one, ``x_kv (b,s,m)``; ``heads``, ``kv_heads``; masks:
            ``mask (t,s)`` is added to the scores, ``keep (t,s)`` is True where a query may attend, ``drop (t,s)``
            where it may not, ``key_keep (b,s)`` and ``key_drop (b,s)`` the same of padding; ``causal`` and
            ``need_weights`` are bools, ``head_mask (h)`` gates; ``weights`` is a dict of all of them.
        returns: what ``call`` returns: words of `STAGES`, one for an array, more for a tuple.  A dict with these
            words as keys is always understood.
        weights: the weights it has of its own, by stored name; if omitted, weights are drawn and handed over.
        names: stored names of the layout to the names that the implementation uses, where they differ.
        d_model, d_k, d_v: sizes that are fixed; those that are not are drawn, pairwise distinct.
        bias: the biases it adds: True for all four, or letters of ``qkvo``; if omitted, those that it takes.
        scale: what ``q . k`` is multiplied by, ``1/sqrt(d_k)`` if omitted.
        causal: it hides later keys by itself, whatever it is handed.
        aligned: how a causal mask lies where there are more or fewer keys than queries: ``top-left`` (query t sees key
            s if s <= t) or ``bottom-right`` (if s <= t + S - T).  If omitted it is checked with as many keys as
            queries, and found out where inputs are three.
        rotary: which features are turned by rotary positions, ``halves``, ``interleaved`` or a
            `mha_sym.attention.rotary.Rotary`; the tables are handed over as ``cos`` and ``sin``, or ``own``.
        own: the tables of rotary positions that the code makes by itself, ``cos`` and ``sin`` over (position, pair), at
            given sizes; `mha_sym.audit.frameworks.own_tables` finds them.
        batch_first: False if inputs and output are ``(t, b, m)``.
        needs: the masks that it cannot do without: where nothing is hidden they are handed over as masks that hide
            nothing, not as None.  If omitted, those whose parameters have no default and are not said to be optional.
        axes: the order of axes of an argument or stage where it is another than in `TAKES` and `STAGES`, e.g.
            ``{"q": "b t h k", "keep": "b 1 t s"}``.
        framework: which arrays ``call`` takes, ``numpy`` or ``torch``.
        dtype: the precision in which it computes.
        tied: what must hold of the sizes for the code to run: ``("d_v",)`` for d_v = d_k, ``("d_v", "d_model")``
            for d_model = h d_k as well.  If omitted it is found out, and reported.
        trained: what ``call`` is in training mode, for a module that was handed over in that mode.
        module: the torch module that ``call`` runs, if it is one that may be looked at.
        name: what reports call it.
        without: parameters with defaults that are never handed over; verdicts say so.
        more: how many tensors it returns besides what is looked at; verdicts say so.
        unlike: whether its weights lie otherwise than in the library whose names they have; reports say so.
        said: conventions and who said so, for the report, e.g. ``{"batch_first": "its attribute batch_first"}``.
        notes: what a reader should know, one sentence each.

    Raises:
        TargetProblem: for an argument, stage or size that is not understood.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x
        >>> Implementation(call=attention, heads=3).arguments
        ('x', 'w_q', 'w_k', 'w_v', 'w_o', 'heads')
    """

    call: Callable[..., Any]
    heads: int | None = None
    kv_heads: int | None = None
    layout: Layout | str = "combined"
    takes: tuple[str, ...] | None = None
    needs: tuple[str, ...] | None = None
    returns: tuple[str, ...] = ("y",)
    weights: Mapping[str, Any] | None = None
    names: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    d_model: int | None = None
    d_k: int | None = None
    d_v: int | None = None
    bias: bool | str = False
    scale: Any = None
    causal: bool = False
    aligned: str = ""
    rotary: Rotary | str | None = None
    own: Callable[[Mapping[str, int]], Mapping[str, Any]] | None = None
    batch_first: bool = True
    axes: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    framework: Framework = "numpy"
    dtype: str = "float64"
    tied: tuple[str, ...] | None = None
    trained: Callable[..., Any] | None = None
    module: Any = None
    name: str = ""
    without: tuple[str, ...] = ()
    more: int = 0
    unlike: bool = False
    said: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise TargetProblem(f"{self.call!r} cannot be called", where="Implementation(call=...)")
        object.__setattr__(self, "layout", find_layout(self.layout))
        if isinstance(self.rotary, str):
            object.__setattr__(self, "rotary", Rotary(self.rotary))  # type: ignore[arg-type]  # it says what it knows
        _positive(self)
        if self.kv_heads is not None and not self.how_stored.grouped:
            raise TargetProblem(
                f"layout {self.how_stored.name} has as many key and value heads as query heads", where=self.title,
                got=f"kv_heads={self.kv_heads}", hint="say a layout with fewer, such as grouped or llama",
            )  # fmt: skip
        _known("takes", self.arguments, (*TAKES, *self.stored.values()), self.title)
        _known("needs", self.needs or (), [one for one in MASKS if one in self.arguments], self.title)
        _known("returns", self.returns, STAGES, self.title)
        _known("axes", self.axes, (*TAKES, *STAGES), self.title)
        _known("tied", self.tied or (), ("d_v", "d_model"), self.title)
        if self.aligned not in ("", *ALIGNED):
            raise TargetProblem(
                f"a causal mask cannot be aligned {self.aligned!r}", where=self.title, expected=" or ".join(ALIGNED)
            )
        _orders(self)
        _tables(self)
        roundoff(self.dtype)
        if self.dtype == "bfloat16" and self.framework != "torch":
            raise TargetProblem("NumPy has no bfloat16", where=self.title, hint="say framework='torch'")
        if not set(self.arguments) & {"x", "x_q"}:
            raise TargetProblem(
                f"{self.title} takes no input",
                expected="a parameter x, or x_q, x_k and x_v",
                got=", ".join(self.arguments),
            )

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.name or getattr(self.call, "__qualname__", type(self.call).__name__)

    @property
    def headline(self) -> str:
        """What verdicts call it: with what was left out, a layout that its names do not say, a scale nobody said."""
        first = " (the first of its outputs)" if self.more else ""
        left = f" called without {', '.join(self.without)}" if self.without else ""
        layout = f" under layout {self.how_stored.name}" if self.unlike else ""
        found = self.scale is not None and self.said.get("scale", "").startswith("found by")
        scale = f" with scale {self.scale}" if found else ""
        notes = "" if not (layout or scale) else " (see the notes)" if layout and scale else " (see the note)"
        return f"{self.title}{first}{left}{layout}{scale}{notes}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words for the arguments, in order."""
        return tuple(self.by_parameter.values()) if self.takes is None else self.takes

    @property
    def by_parameter(self) -> dict[str, str]:
        """The parameters of ``call`` that are passed by name, and the word for each."""
        return words_of(self.call, tuple(self.stored.values()))

    @property
    def needed(self) -> tuple[str, ...]:
        """The masks that are handed over in every call.

        Example:
            >>> Implementation(call=lambda x, w_q, w_k, w_v, w_o, heads, keep, drop=None: x).needed
            ('keep',)
        """
        if self.needs is not None or self.takes is not None:
            return self.needs or ()
        parameters = inspect.signature(getattr(self.call, "forward", self.call)).parameters
        bare = [word for name, word in self.by_parameter.items() if _must_be_given(parameters[name])]
        return tuple(word for word in bare if word in MASKS and word != "causal")

    @property
    def how_stored(self) -> Layout:
        """The layout, looked up."""
        return find_layout(self.layout)

    @property
    def positions(self) -> Rotary | None:
        """The convention of its rotary positions, if it has them."""
        assert not isinstance(self.rotary, str)
        return self.rotary

    @property
    def biases(self) -> str:
        """The biases it adds, letters of ``qkvo``."""
        if self.weights is not None or not self.bias:  # what it has, or takes
            inverse = {theirs: ours for ours, theirs in self.stored.items()}
            have = self.arguments if self.weights is None else self.weights
            return self.how_stored.biases(inverse.get(name, name) for name in have)
        return self.bias if isinstance(self.bias, str) else "qkvo"

    @property
    def stored(self) -> dict[str, str]:
        """Every parameter that the layout knows, and the implementation's name for it."""
        names = (self.how_stored.row(target).stored for target in self.how_stored.rows)
        return {name: self.names.get(name, name) for name in names}

    @property
    def unreached(self) -> tuple[str, ...]:
        """Weights of the layout that it neither takes nor has in ``weights``: what it computes with is not known."""
        if self.weights is not None or "weights" in self.arguments:
            return ()
        return tuple(one for one in self.how_stored.stored(self.biases) if self.stored[one] not in self.arguments)

    @property
    def is_cross(self) -> bool:
        """Whether queries, keys and values have inputs of their own."""
        return "x_q" in self.arguments

    def order(self, word: str) -> str:
        """The order of axes of an argument or stage.

        Example:
            >>> Implementation(call=lambda x: x, heads=2, batch_first=False).order("x")
            't b m'
        """
        if word in self.axes:
            return self.axes[word]
        order = STAGES[word] if word in STAGES else TAKES[word][0]
        if not self.batch_first and word in (*INPUTS, "y"):
            token = order.split()[1]
            return order.replace(f"b {token}", f"{token} b")
        return order


def _must_be_given(parameter: inspect.Parameter) -> bool:
    """Whether a parameter has no default, and is not annotated as one that may be None."""
    return parameter.default is parameter.empty and not re.search(r"None|Optional", str(parameter.annotation))


def _positive(impl: Implementation) -> None:
    letters = {"heads": "h", "kv_heads": "G", "d_model": "d_model", "d_k": "d_k", "d_v": "d_v"}
    for name, letter in letters.items():
        value = getattr(impl, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise TargetProblem(
                f"{name} cannot be {value!r}", where=impl.title, expected=f"a whole number {letter} of at least 1"
            )


def _orders(impl: Implementation) -> None:
    """Refuse an order of axes with letters that the argument or stage does not have."""
    for word, order in impl.axes.items():
        standard = STAGES.get(word) or TAKES[word][0]
        have, known = (re.findall(r"\w+", text) for text in (order, standard))
        mask = word in ("mask", "keep", "drop")
        allowed = {"b", "h", "t", "s"} if mask else {"b", *known} if word in ("cos", "sin") else set(known)
        needed = {"t", "s"} if mask else set(known)
        letters = [letter for letter in have if letter != "1"]
        if not standard or not needed <= set(letters) <= allowed or len(letters) != len(set(letters)):
            raise TargetProblem(
                f"{order!r} is no order of the axes of {word}", where=impl.title, expected=standard or "no axes"
            )


def _tables(impl: Implementation) -> None:
    """Refuse tables of rotary positions without a convention, and a convention without tables."""
    words = [word for word in ("cos", "sin") if word in impl.arguments]
    if len(words) == 1 or (words and impl.rotary is None):
        raise TargetProblem(
            f"{impl.title} takes {' and '.join(words) or 'no table'} of rotary positions", where=impl.title,
            expected="cos and sin, or none if it makes them, and rotary='halves' or 'interleaved' in its description",
            got=f"rotary={impl.rotary}",
        )  # fmt: skip


def _known(field_name: str, words: Any, known: Any, where: str) -> None:
    for word in words:
        if word not in known:
            raise TargetProblem(
                f"{word!r} is not understood", where=f"{where}, {field_name}", expected=", ".join(known)
            )
