"""What is to be proved of an implementation: the specification, and the axes of everything that is handed over.

Defines `Statement` and `state`.  The specification is the combined form with the conventions of the implementation, as
in `mha_sym.audit.specification`; here masks are arbitrary, and sizes may be tied to each other or fixed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import sympy

from mha_sym.attention.dims import Dims
from mha_sym.attention.forms import Options, Stages, attend, combined, project, with_positions
from mha_sym.attention.layouts import Layout
from mha_sym.attention.rotary import handed_over, turned_dims
from mha_sym.audit.cases import Case
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.recipe import bottom_right
from mha_sym.audit.specification import angles_of, exact_scale
from mha_sym.axes import Axis, axis, product
from mha_sym.expr import Compare, Expr, Input, Named, Reduce, Rename, Repeat, Transpose, walk
from mha_sym.importers.lifting.lift import Masked
from mha_sym.importers.lifting.scalars import negation, times
from mha_sym.importers.resize import resized
from mha_sym.pattern import einsum, rearrange
from mha_sym.proof.theorem import Assumption

Sizes = Mapping[str, sympy.Expr | int]


_TWICE = Assumption("cos and sin have one number for both features of a pair")


@dataclass(frozen=True)
class Statement:
    """One way of calling an implementation, and what it is to compute.

    Attributes:
        inputs: for each argument that is an array, and each stored weight, what it is: an expression whose axes are
            those of the array, in the order in which it is handed over.
        stages: the specification.
        assumptions: what is taken for granted, such as that every query keeps a key.
        dims: the axes.
        products: blocks of packed parameters, and the product of axes that each is.
        tables: the cosines and sines of rotary positions, as they are handed over or made by the code.
    """

    inputs: dict[str, Expr | Masked]
    stages: Stages
    assumptions: tuple[Assumption, ...]
    dims: Dims
    products: tuple[tuple[Axis, Axis], ...] = ()
    tables: dict[str, Expr] = field(default_factory=dict)


def state(impl: Implementation, case: Case, sizes: Sizes) -> Statement:
    """The statement for one way of calling.

    Args:
        impl: the implementation.
        case: which masks are handed over.
        sizes: sizes that are not free, by name: numbers, or expressions of other sizes.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads):
        ...     return x
        >>> state(Implementation(call=attention), Case("no mask", same=True), {"h": 3}).inputs["w_q"].axes
        (m: d_model, (h k): 3*d_k)
    """
    layout = _grouped_rows(impl.how_stored)
    one = "x" in impl.arguments or (case.same and not layout.input_widths())
    rotary = impl.positions
    tied = one or rotary or (case.causal in ("itself", "causal") and not case.aligned)
    d = layout.dims(**({"S": "T"} if tied else {}))
    d = d if rotary is None else turned_dims(d, rotary)
    parameters = layout.parameters(d, impl.biases)
    x = _inputs(one, d, parameters, "x_kv" in impl.arguments)
    masks = _Masks(impl, case, d)
    angles = angles_of(impl, d)
    options = Options(masks.added, masks.kept(), exact_scale(impl), angles)
    if layout.grouped:
        stages = _grouped(layout, d, parameters, impl.biases, x, options)
    else:
        stages = combined(d, x, layout.weights(d, impl.biases), options)
    given: dict[str, Expr | Masked] = {**masks.given, **_ordered(impl, x), **_renamed(impl, parameters)}
    words = ("cos", "sin")
    tables = {} if rotary is None else {word: handed_over(getattr(angles, word), d, rotary) for word in words}
    given |= {word: _table(one, impl.order(word).split()) for word, one in tables.items() if impl.own is None}
    assumed = (*masks.assumptions(d), *([_TWICE] if rotary is not None and rotary.tables == "twice" else []))
    made = Statement({}, stages, assumed, d, _products(layout, d, parameters, impl.biases))
    known = sizes if rotary is None else rotary.resolved(sizes)
    return replace(
        resized(made, known), inputs={name: resized(one, known) for name, one in given.items()},
        tables={name: resized(one, known) for name, one in tables.items()},
    )  # fmt: skip


def _products(
    layout: Layout, d: Dims, parameters: Mapping[str, Input], biases: str
) -> tuple[tuple[Axis, Axis], ...]:
    """What the blocks of a packed parameter are made of, as the layout has it."""
    found: dict[Axis, Axis] = {}
    for target in layout.targets(biases):
        row = layout.row(target)
        opened, _ = row.opened(parameters[row.stored], d)
        found |= {n.old: n.new for n in walk(opened) if isinstance(n, Rename) and n.new.factors}
    return tuple(found.items())


def _renamed(impl: Implementation, parameters: Mapping[str, Input]) -> dict[str, Expr]:
    """The stored weights under the names that the implementation uses."""
    return {impl.stored[name]: one for name, one in parameters.items()}


def arguments(
    impl: Implementation, case: Case, statement: Statement, given: Mapping[str, Any], size: Callable[[sympy.Expr], Any]
) -> dict[str, Any]:
    """A value for every argument of the code.

    Args:
        impl: the implementation.
        case: the way of calling.
        statement: its statement.
        given: what the front end has for each entry of ``statement.inputs``.
        size: gives a size as the front end has it.
    """
    expressions = [one for one in statement.inputs.values() if not isinstance(one, Masked)]
    leaves = [a for one in expressions for whole in one.axes for a in whole.primitive()]
    groups = next((a.size for a in leaves if a.name == "g"), statement.dims.h.size)
    plain = {
        "heads": size(statement.dims.h.size), "kv_heads": size(groups), "need_weights": case.need_weights,
        "causal": case.causal == "causal", "head_mask": None,
        "weights": {name: given[name] for name in impl.stored.values() if name in given},
    }  # fmt: skip
    same = {"x_k": given["x_q"], "x_v": given["x_q"]} if "x_q" in given and "x_k" not in given else {}
    return {word: {**plain, **same, **given}.get(word) for word in impl.arguments}


# ---------------------------------------------------------------- inputs


def _inputs(one: bool, d: Dims, parameters: Mapping[str, Input], shared: bool) -> tuple[Expr, Expr, Expr]:
    """X as queries, keys and values see it, as wide as the weights that they are multiplied by."""
    if one:
        x = Input("X", (d.b, d.t, d.m))
        keys = Rename(x, d.t, d.s)
        return x, keys, keys
    widths = {a.name: a for one in parameters.values() for a in one.axes}
    of_keys = Input("X_kv" if shared else "X_k", (d.b, d.s, widths.get("n", d.m)))
    of_values = of_keys if shared else Input("X_v", (d.b, d.s, widths.get("p", d.m)))
    return Input("X_q", (d.b, d.t, d.m)), of_keys, of_values


def _ordered(impl: Implementation, x: tuple[Expr, Expr, Expr]) -> dict[str, Expr]:
    """The inputs by the words of the arguments, their axes in the order that the implementation wants."""
    words = ("x",) if "x" in impl.arguments else ("x_q", "x_kv") if "x_kv" in impl.arguments else ("x_q", "x_k", "x_v")
    words = words if isinstance(x[1], Input) else words[:1]  # one array stands for all three
    found = {}
    for word, one in zip(words, x, strict=False):
        if word in impl.arguments:
            order = impl.order(word).split()
            places = [1 if n in "ts" else 0 if n == "b" else 2 for n in order]
            axes = tuple(one.axes[n] for n in places)
            found[word] = one if axes == one.axes else Transpose(one, axes)
    return found


def _table(table: Expr, order: list[str]) -> Expr:
    """A table of rotary positions with its axes in the order that the implementation wants; k is the last."""
    axes = {a.name if a.name in "bt" else "k": a for a in table.axes}
    given = tuple(axes[n] for n in order if n != "1")
    return _with_ones(table if given == table.axes else Transpose(table, given), order, axes)


# ---------------------------------------------------------------- masks


class _Masks:
    """The masks of one way of calling: what is handed over, and what the specification does with it."""

    def __init__(self, impl: Implementation, case: Case, d: Dims) -> None:
        self.axes = {one.name: one for one in (d.b, d.h, d.t, d.s)}
        self.order = (d.b, d.h, d.t, d.s)
        self.given: dict[str, Expr | Masked] = {}
        self.keeps: list[Expr] = []
        self.arbitrary: list[Expr] = []
        self.added: Expr | None = None
        if case.causal in ("itself", "causal"):
            later = bottom_right(d) if case.aligned == "bottom-right" else Compare("le", d.s, d.t)
            self.keeps.append(later)
            self.arbitrary += [] if isinstance(later, Compare) else [later]  # a row may be empty
        words = [case.causal, case.padding, "mask" if case.additive else ""]
        for word in dict.fromkeys(words):
            if word not in ("", "itself", "causal"):
                self._hand_over(word, impl.order(word).split())

    def _hand_over(self, word: str, order: list[str]) -> None:
        over = tuple(self.axes[n] for n in order if n != "1")
        keep = Input("keep" if not word.startswith("key") else "key_keep", over, "mask", boolean=True)
        self.keeps.append(keep)
        self.arbitrary.append(keep)
        kept = _with_ones(keep, order)
        if word == "mask":
            self.added = Input("mask", over, "mask")
            self.given[word] = Masked(_with_ones(self.added, order), kept)
        else:
            self.given[word] = negation(kept) if word.endswith("drop") else kept

    def kept(self) -> Expr | None:
        """All that keep, in one."""
        return times(self.keeps, self.order) if self.keeps else None

    def assumptions(self, d: Dims) -> tuple[Assumption, ...]:
        """No row is empty, where masks are arbitrary."""
        kept = self.kept()
        if not self.arbitrary or kept is None:
            return ()
        return (Assumption("every query keeps at least one key", positive=Reduce("sum", kept, (d.s,))),)


def _with_ones(expr: Expr, order: list[str], letters: Mapping[str, Axis] | None = None) -> Expr:
    """A mask or table with axes of size 1 where the order has a 1."""
    names = letters or {one.name: one for one in expr.axes}
    out = tuple(names[n] if n != "1" else axis(f"unit{place}", 1) for place, n in enumerate(order))
    return expr if len(out) == len(expr.axes) else Repeat(expr, out)


# ---------------------------------------------------------------- grouped heads


def _grouped_rows(layout: Layout) -> Layout:
    """A layout with query heads counted as pairs: h becomes ``g r``, or ``r g`` where they take turns."""
    if not layout.grouped:
        return layout
    pair = _pair(layout)
    rows = {target: _paired(text, pair) for target, text in layout.rows.items()}
    return replace(layout, rows=rows)


def _paired(row: str, pair: str) -> str:
    """A row with a pair in place of h; where heads are an axis of the stored array by themselves it stays one axis."""
    stored, arrow, rest = row.partition("->")
    alone = re.sub(r"(?<![(\w])h(?![\w)])(?![^()]*\))", f"({pair})", stored)
    return re.sub(r"\bh\b", pair, alone + arrow + rest)


def _pair(layout: Layout) -> str:
    return "r g" if any("(r g" in text for text in layout.rows.values()) else "g r"


def _grouped(
    layout: Layout, d: Dims, parameters: Mapping[str, Input], biases: str, x: tuple[Expr, Expr, Expr], o: Options
) -> Stages:
    """The layer with every key and value head used by several query heads and never copied, over the axes g and r."""
    g, r = axis("g", "G"), axis("r", "R")
    pair = _pair(layout).split()
    heads = tuple({"g": g, "r": r}[name] for name in pair)
    w = {target: _shared(layout, target, parameters, d) for target in layout.targets(biases)}
    q = _by_head(project(x[0], d.t, w["w_q"], product(*heads, d.k), w.get("b_q"), d), "Q", " ".join(pair))
    k = _by_head(project(x[1], d.s, w["w_k"], product(g, d.k), w.get("b_k"), d), "K", "g")
    v = _by_head(project(x[2], d.s, w["w_v"], product(g, d.v), w.get("b_v"), d), "V", "g")
    lead = " ".join(pair)
    q, k = with_positions(d, q, k, o)
    scores, weights, z = attend(d, q, k, v, o, f"b {lead}", shared="b g")
    c = Named(rearrange(z, f"b {lead} t v -> b t ({lead} v)"), "C", "transpose back, then join")
    y = einsum(f"b t ({lead} v), ({lead} v) m -> b t m", c, w["w_o"])
    y = y if "b_o" not in w else y + w["b_o"]
    return Stages(q, k, v, scores, weights, z, c, Named(y, "Y", "definition of the product"))


def _by_head(flat: Expr, name: str, heads: str) -> Expr:
    """``(b, token, (heads f))`` as ``(b, heads, token, f)``."""
    token, joined = flat.axes[1].name, flat.axes[2]
    feature = joined.factors[-1].name
    made = Named(flat, f"{name}_flat", "definition of the product")
    split = rearrange(made, f"b {token} ({heads} {feature}) -> b {heads} {token} {feature}")
    return Named(split, name, "split of the feature axis, then transpose")


def _shared(layout: Layout, target: str, parameters: Mapping[str, Input], d: Dims) -> Expr:
    """A canonical weight without copies: ``m (g k)`` where the layout copies to ``m (g r k)``."""
    row = layout.row(target)
    value, left = row.opened(parameters[row.stored], d)
    have = re.findall(r"\w+", left)
    right = " ".join(re.findall(r"\w+|[()]", row.right))
    kept = re.sub(r"\s+", " ", " ".join(n for n in right.split() if n in "()" or n in have))
    kept = kept.replace("( ", "(").replace(" )", ")")
    made = rearrange(value, f"{left} -> {kept}") if left != kept else value
    if layout.same.get("v") == "k" and target in ("w_v", "b_v", "w_o"):
        made = _as_values(made, d)
    return made


def _as_values(expr: Expr, d: Dims) -> Expr:
    """The feature axis k read as v, where a layout has one letter for both."""
    whole: Any = next((a for a in expr.axes if d.k in a.factors), None)
    if whole is None:
        return expr
    parts: tuple[Axis, ...] = tuple(d.v if a == d.k else a for a in whole.factors)
    return Rename(expr, whole, product(*parts))
