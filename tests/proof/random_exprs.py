"""Random expressions, random correct rewrites of them, and random wrong edits.

`expression` draws an expression over given axes, `rewritten` one that is equal to it, and `edited` one that is most
likely not (an edit may happen to change nothing: ask another engine).  All take a ``random.Random``, or
what hypothesis gives in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from random import Random
from typing import Any

import sympy

from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product, size_symbol
from mha_sym.errors import AxisProblem
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
    Total,
    Transpose,
    is_boolean,
    walk,
)

B, T, U, S = axis("b", "B"), axis("t", "T"), axis("u", "T"), axis("s", "S")
H, G, K, M = axis("h"), axis("g", "h"), axis("k", "d_k"), axis("m", "d_model")
HK = product(H, K)
PARTS = blocks(axis("past", "P"), axis("new", "N"))
PLAIN = (B, T, U, S, H, G, K, M)
PI, RHO = Permutation("pi", H), Permutation("rho", T)

Axes = tuple[Axis, ...]


class Names:
    """Names not used before, so that no two things have one name."""

    def __init__(self) -> None:
        self.numbers = count()

    def __call__(self, stem: str) -> str:
        return f"{stem}{next(self.numbers)}"


def axes_of(rng: Random) -> Axes:
    """A few axes in some order: sometimes a product, sometimes a concatenation, two often of one size."""
    own = rng.sample(PLAIN, rng.randint(1, 3))
    if rng.random() < 0.3:
        own = [a for a in own if a not in (H, K)] + [HK]
    if rng.random() < 0.1:
        own.append(PARTS)
    rng.shuffle(own)
    return tuple(own)


def expression(rng: Random, over: Axes, nodes: int = 6, names: Names | None = None) -> Expr:
    """A random expression over these axes, of about so many nodes."""
    names = names or Names()
    if nodes <= 1 or not over:
        return Input(names("x"), over)
    kinds: list[Callable[[Random, Axes, int, Names], Expr | None]] = [
        _sum_of_two, _product_of_two, _scaled, _contraction, _contraction, _softmax, _softmax, _transposed, _split,
        _joined, _repeated, _family_sum, _stacked, _concatenated, _named, _permuted, _exponential, _reduced, _blocks,
    ]  # fmt: skip
    while True:
        made = rng.choice(kinds)(rng, over, nodes, names)
        if made is not None:
            return made


def _sum_of_two(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    left = expression(rng, over, nodes // 2, names)
    return Map("add", (left, expression(rng, _some(rng, over), nodes // 2, names)))


def _product_of_two(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    left = expression(rng, over, nodes // 2, names)
    return Map("mul", (left, expression(rng, _some(rng, over), nodes // 2, names)))


def _some(rng: Random, over: Axes) -> Axes:
    return tuple(a for a in over if rng.random() < 0.6)


def _scaled(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    number = rng.choice([sympy.Integer(2), sympy.Integer(-1), sympy.Rational(1, 3), 1 / sympy.sqrt(size_symbol("d_k"))])
    return Map("mul", (expression(rng, over, nodes - 1, names), Scalar(number)))


def _contraction(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    extra = [a for a in PLAIN if a.name not in _inside(over)]
    summed = rng.sample(extra, min(len(extra), rng.randint(1, 2)))
    groups: list[list[Axis]] = [[] for _ in range(rng.randint(2, 3))]
    for one in over:
        for group in rng.sample(groups, rng.choice([1, 1, 2])):
            group.append(one)
    for one in summed:
        for group in rng.sample(groups, 2):
            group.append(one)
    args = []
    for group in groups:
        rng.shuffle(group)
        args.append(expression(rng, tuple(group), nodes // len(groups), names))
    return Contract(tuple(args), over)


def _inside(over: Axes) -> set[str]:
    return {a.name for a in over} | {f.name for a in over for f in a.primitive()}


def _softmax(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    keep: Expr | None = None
    if rng.random() < 0.5:
        keep = Input(names("keep"), _some(rng, over), "mask", True)
        pair = [a for a in over if a.size in (T.size, S.size)]
        if len(pair) == 2 and rng.random() < 0.6:
            keep = Compare(rng.choice(["le", "ge"]), pair[0], pair[1], rng.choice([0, 0, 1]))
    return Softmax(expression(rng, over, nodes - 1, names), (rng.choice(over),), keep)


def _transposed(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    order = rng.sample(over, len(over))
    return Transpose(expression(rng, tuple(order), nodes - 1, names), over)


def _split(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    for n in range(len(over) - 1):
        if over[n : n + 2] == (H, K):
            return Split(expression(rng, (*over[:n], HK, *over[n + 2 :]), nodes - 1, names), HK)
    return None


def _joined(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    if HK not in over:
        return None
    n = over.index(HK)
    return Join(expression(rng, (*over[:n], H, K, *over[n + 1 :]), nodes - 1, names), (H, K))


def _repeated(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    return Repeat(expression(rng, _some(rng, over), nodes - 1, names), over)


def _without(over: Axes, one: Axis) -> Axes:
    return tuple(a for a in over if a != one)


def _family_sum(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    if {"h", "(h k)"} & _inside(over):
        return None
    r = Index(names("r"), H)
    parts = [Select(expression(rng, (*over, H), nodes // 2, names), H, r)]
    if rng.random() < 0.7:
        parts.append(Select(expression(rng, (H, *_some(rng, over)), nodes // 2, names), H, r))
    return Total(parts[0] if len(parts) == 1 else Map("mul", tuple(parts)), r)


def _stacked(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    if over[0] != H:
        return None
    r = Index(names("r"), H)
    inner = list(over)
    rng.shuffle(inner)
    body = Select(expression(rng, tuple(inner), nodes - 2, names), H, r)
    return Stack(body if body.axes == over[1:] else Transpose(body, over[1:]), r)


def _concatenated(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    if HK not in over:
        return None
    r, n = Index(names("r"), H), over.index(HK)
    inner = (H, *over[:n], K, *over[n + 1 :])
    return Concat(Select(expression(rng, inner, nodes - 2, names), H, r), r, K)


def _named(rng: Random, over: Axes, nodes: int, names: Names) -> Expr:
    return Named(expression(rng, over, nodes - 1, names), names("N"))


def _permuted(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    perm = rng.choice([PI, RHO, PI.inverse()])
    return Permute(expression(rng, over, nodes - 1, names), perm) if perm.axis in over else None


def _exponential(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    if rng.random() < 0.6:
        return None
    return Map("exp", (expression(rng, over, nodes - 1, names),))


def _reduced(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    extra = [a for a in PLAIN if a.name not in _inside(over)]
    if not extra:
        return None
    one = rng.choice(extra)
    inner = [*over, one]
    rng.shuffle(inner)
    made = Reduce("sum", expression(rng, tuple(inner), nodes - 1, names), (one,))
    return made if made.axes == over else Transpose(made, over)


def _blocks(rng: Random, over: Axes, nodes: int, names: Names) -> Expr | None:
    if PARTS not in over:
        return None
    args = [expression(rng, tuple(p if a == PARTS else a for a in over), nodes // 2, names) for p in PARTS.blocks]
    return Blocks(tuple(args), PARTS.blocks)


# ---------------------------------------------------------------- the places of an expression


def paths(expr: Expr) -> list[tuple[tuple[str, int], ...]]:
    """All places, as fields and positions from the root."""
    found: list[tuple[tuple[str, int], ...]] = [()]
    for name, n, child in _slots(expr):
        found += [((name, n), *rest) for rest in paths(child)]
    return found


def _slots(expr: Expr) -> list[tuple[str, int, Expr]]:
    found: list[tuple[str, int, Expr]] = []
    for one in fields(expr):
        value = getattr(expr, one.name) if one.init else None
        if isinstance(value, Expr):
            found.append((one.name, -1, value))
        elif isinstance(value, tuple):
            found += [(one.name, n, item) for n, item in enumerate(value) if isinstance(item, Expr)]
    return found


def at(expr: Expr, path: Sequence[tuple[str, int]]) -> Expr:
    for name, n in path:
        expr = getattr(expr, name) if n < 0 else getattr(expr, name)[n]
    return expr


def put(expr: Expr, path: Sequence[tuple[str, int]], new: Expr) -> Expr:
    """The expression with another at a place."""
    if not path:
        return new
    (name, n), rest = path[0], path[1:]
    value: Any = getattr(expr, name)
    if n < 0:
        return replace(expr, **{name: put(value, rest, new)})
    return replace(expr, **{name: (*value[:n], put(value[n], rest, new), *value[n + 1 :])})


# ---------------------------------------------------------------- correct rewrites


@dataclass
class Rewriter:
    """Correct rewrites by name; each gives an expression with the same axes and values, or None."""

    rng: Random
    names: Names

    def apply(self, expr: Expr, times: int) -> tuple[Expr, list[str]]:
        """Some rewrites, each rule as likely as another, at random places where they apply; and what they were."""
        done: list[str] = []
        while len(done) < times:
            name, rule = self.rng.choice(RULES)
            places = paths(expr)
            self.rng.shuffle(places)
            for path in places:
                node = at(expr, path)
                new = rule(self, node)
                if new is not None and new != node and (is_boolean(new) or not _is_keep(expr, path)):
                    expr = put(expr, path, new)
                    done.append(name)
                    break
        return expr, done

    # each method: the node, and an equal expression with the same axes in the same order

    def transposed_twice(self, e: Expr) -> Expr | None:
        order = tuple(self.rng.sample(e.axes, len(e.axes)))
        return Transpose(Transpose(e, order), e.axes) if len(order) > 1 else None

    def joined_and_split(self, e: Expr) -> Expr | None:
        for n in range(len(e.axes) - 1):
            pair = e.axes[n : n + 2]
            if not any(a.blocks for a in pair):
                return Split(Join(e, pair), product(*pair))
        return None

    def split_and_joined(self, e: Expr) -> Expr | None:
        return next((Join(Split(e, a), a.factors) for a in e.axes if a.factors), None)

    def commuted(self, e: Expr) -> Expr | None:
        if isinstance(e, Map) and e.op in ("add", "mul") and len(e.args) > 1:
            made = Map(e.op, e.args[::-1])
            return made if made.axes == e.axes else Transpose(made, e.axes)
        if isinstance(e, Contract):
            return Contract(e.args[::-1], e.out)
        return None

    def reassociated(self, e: Expr) -> Expr | None:
        if not isinstance(e, Contract) or len(e.args) < 3:
            return None
        rest = e.args[2:]
        wanted = {a for arg in rest for a in arg.axes} | set(e.out)
        inner = tuple(a for a in dict.fromkeys(a for arg in e.args[:2] for a in arg.axes) if a in wanted)
        return Contract((Contract(e.args[:2], inner), *rest), e.out)

    def shifted(self, e: Expr) -> Expr | None:
        if not isinstance(e, Softmax):
            return None
        constant = Input(self.names("shift"), tuple(a for a in e.axes if a not in e.over and self.rng.random() < 0.7))
        return replace(e, arg=e.arg + constant)

    def mask_twice(self, e: Expr) -> Expr | None:
        if not isinstance(e, Softmax) or e.keep is None:
            return None
        return replace(e, keep=Map("mul", (e.keep, e.keep)))

    def masked_outside(self, e: Expr) -> Expr | None:
        """Weights that are 0 where nothing is kept may be multiplied with the mask once more."""
        if not isinstance(e, Softmax) or e.keep is None:
            return None
        return Map("mul", (e, e.keep))

    def written_out(self, e: Expr) -> Expr | None:
        if not isinstance(e, Softmax):
            return None
        power: Expr = Map("exp", (e.arg,))
        if e.keep is not None:
            power = Map("mul", (power, e.keep))
        return Map("mul", (power, Map("inv", (Reduce("sum", power, e.over),))))

    def named(self, e: Expr) -> Expr | None:
        return Named(e, self.names("name"))

    def unnamed(self, e: Expr) -> Expr | None:
        return e.arg if isinstance(e, Named) else None

    def permuted_and_back(self, e: Expr) -> Expr | None:
        for perm in self.rng.sample([PI, RHO, PI.inverse(), RHO.inverse()], 4):
            if perm.axis in e.axes:
                return Permute(Permute(e, perm), perm.inverse())
        return None

    def heads_permuted_together(self, e: Expr) -> Expr | None:
        """A sum over the heads does not ask for their order."""
        if isinstance(e, Contract):
            for perm in (PI, RHO, PI.inverse()):
                if perm.axis in e.summed:
                    return Contract(tuple(Permute(a, perm) if perm.axis in a.axes else a for a in e.args), e.out)
        if isinstance(e, Reduce) and e.op == "sum" and H in e.over:
            return replace(e, arg=Permute(e.arg, PI))
        return None

    def family_permuted(self, e: Expr) -> Expr | None:
        if not isinstance(e, Total) or e.index.axis != H or any(isinstance(n, Stack | Concat) for n in walk(e.body)):
            return None
        return Total(_selected(e.body, e.index, lambda arg: Permute(arg, PI)), e.index)

    def softmax_permuted(self, e: Expr) -> Expr | None:
        """A softmax commutes with a permutation of any axis."""
        if not isinstance(e, Softmax):
            return None
        for perm in (PI, RHO):
            if perm.axis in e.axes and (e.keep is None or not isinstance(e.keep, Compare)):
                keep = e.keep
                if keep is not None and perm.axis in keep.axes:
                    keep = Permute(keep, perm)
                return Permute(Softmax(Permute(e.arg, perm), e.over, keep), perm.inverse())
        return None

    def factor_out_of_contraction(self, e: Expr) -> Expr | None:
        if not isinstance(e, Contract):
            return None
        for n, arg in enumerate(e.args):
            if isinstance(arg, Map) and arg.op == "mul" and len(arg.args) > 1:
                return Contract((*e.args[:n], *arg.args, *e.args[n + 1 :]), e.out)
        return None

    def distributed(self, e: Expr) -> Expr | None:
        if not isinstance(e, Contract):
            return None
        for n, arg in enumerate(e.args):
            if isinstance(arg, Map) and arg.op == "add":
                rows = [a if a.axes == arg.axes else Repeat(a, arg.axes) for a in arg.args]
                return Map("add", tuple(Contract((*e.args[:n], a, *e.args[n + 1 :]), e.out) for a in rows))
        return None

    def scaled_and_back(self, e: Expr) -> Expr | None:
        size = self.rng.choice([sympy.Integer(2), sympy.sqrt(size_symbol("d_k")), size_symbol("h") / 3])
        return Map("mul", (Map("mul", (e, Scalar(size))), Scalar(1 / size)))

    def added_and_back(self, e: Expr) -> Expr | None:
        other = Input(self.names("y"), e.axes)
        return Map("add", (Map("add", (e, other)), Map("neg", (other,))))

    def negated_twice(self, e: Expr) -> Expr | None:
        return Map("neg", (Map("neg", (e,)),))

    def stacked(self, e: Expr) -> Expr | None:
        for one in e.axes:
            if one in (H, T) and _closed(e):
                r = Index(self.names("r"), one)
                made = Stack(Select(e, one, r), r)
                return made if made.axes == e.axes else Transpose(made, e.axes)
        return None

    def concatenated(self, e: Expr) -> Expr | None:
        if isinstance(e, Join) and e.factors == (H, K):
            r = Index(self.names("r"), H)
            return Concat(Select(e.arg, H, r), r, K)
        return None

    def totalled(self, e: Expr) -> Expr | None:
        r = Index(self.names("r"), H)
        if isinstance(e, Reduce) and e.op == "sum" and e.over == (H,):
            return Total(Select(e.arg, H, r), r)
        if isinstance(e, Contract) and H in e.summed:
            args = tuple(Select(a, H, r) if H in a.axes else a for a in e.args)
            return Total(Contract(args, e.out), r)
        return None

    def contracted(self, e: Expr) -> Expr | None:
        if isinstance(e, Reduce) and e.op == "sum":
            return Contract((e.arg,), e.axes)
        return None

    def renamed_and_back(self, e: Expr) -> Expr | None:
        for old, new in ((T, U), (H, G), (U, T)):
            if old in e.axes and new.name not in _inside(e.axes):
                return Rename(Rename(e, old, new), new, old)
        return None

    def reshaped_and_back(self, e: Expr) -> Expr | None:
        if len(e.axes) < 2 or any(a.blocks for a in e.axes):
            return None
        shape = self.rng.choice([e.axes[::-1], (product(*e.axes[:2]), *e.axes[2:])])
        return Reshape(Reshape(e, shape), e.axes)

    def repeated_and_selected(self, e: Expr) -> Expr | None:
        if "g" in _inside(e.axes):
            return None
        return Select(Repeat(e, (G, *e.axes)), G, 0)

    def exponents_added(self, e: Expr) -> Expr | None:
        if isinstance(e, Map) and e.op == "exp" and isinstance(e.args[0], Map) and e.args[0].op == "add":
            made = Map("mul", tuple(Map("exp", (a,)) for a in e.args[0].args))
            return made if made.axes == e.axes else None
        return None

    def cut_and_put_together(self, e: Expr) -> Expr | None:
        if PARTS in e.axes:
            return Blocks(tuple(Block(e, PARTS, n) for n in range(2)), PARTS.blocks)
        return None

    def divided_into_itself(self, e: Expr) -> Expr | None:
        """``e = e exp(z) exp(-z)``."""
        z = Input(self.names("z"), e.axes)
        return Map("mul", (e, Map("exp", (z,)), Map("exp", (Map("neg", (z,)),))))


RULES: list[tuple[str, Callable[[Rewriter, Expr], Expr | None]]] = [
    (name, rule) for name, rule in vars(Rewriter).items() if callable(rule) and name != "apply" and name[0] != "_"
]


def _selected(e: Expr, index: Index, change: Callable[[Expr], Expr]) -> Expr:
    if isinstance(e, Select) and e.at == index:
        return replace(e, arg=change(_selected(e.arg, index, change)))
    for name, n, child in _slots(e):
        e = put(e, ((name, n),), _selected(child, index, change))
    return e


def _closed(e: Expr) -> bool:
    """Whether no family index is free."""
    bound = [n.index for n in walk(e) if isinstance(n, Stack | Concat | Total)]
    return all(n.at in bound for n in walk(e) if isinstance(n, Select) and isinstance(n.at, Index))


def _is_keep(expr: Expr, path: Sequence[tuple[str, int]]) -> bool:
    return any(name == "keep" for name, _ in path)


def rewritten(rng: Random, expr: Expr, times: int, names: Names | None = None) -> tuple[Expr, list[str]]:
    """An expression with the same value, and the names of the rewrites that led to it."""
    return Rewriter(rng, names or Names()).apply(expr, times)


# ---------------------------------------------------------------- wrong edits


def edited(rng: Random, expr: Expr, names: Names | None = None) -> tuple[Expr, str] | None:
    """An expression with the same axes and one thing wrong, and what; None if that edit fits nowhere."""
    names = names or Names()
    name, edit = rng.choice(EDITS)
    places = paths(expr)
    rng.shuffle(places)
    for path in places:
        node = at(expr, path)
        try:
            new = edit(rng, node, names)
            if new is not None and new != node:
                return put(expr, path, new if new.axes == node.axes else Transpose(new, node.axes)), name
        except AxisProblem:
            continue
    return None


def _axes_swapped(rng: Random, e: Expr, names: Names) -> Expr | None:
    """Two axes of one size exchanged."""
    other = axis("spare", "T" if T in e.axes else "h")
    for one, two in ((T, U), (H, G)):
        if one in e.axes and two in e.axes:
            return Rename(Rename(Rename(e, one, other), two, one), other, two)
    return None


def _factor_dropped(rng: Random, e: Expr, names: Names) -> Expr | None:
    if isinstance(e, Map) and len(e.args) > 1:
        kept = rng.choice(e.args)
        return kept if set(kept.axes) == set(e.axes) else Repeat(kept, e.axes)
    return None


def _bigger(rng: Random, e: Expr, names: Names) -> Expr | None:
    return Map("mul", (e, Scalar(rng.choice([sympy.Integer(2), sympy.sqrt(size_symbol("h")), -sympy.Integer(1)]))))


def _added(rng: Random, e: Expr, names: Names) -> Expr | None:
    return Map("add", (e, Input(names("extra"), _some(rng, e.axes))))


def _mask_moved(rng: Random, e: Expr, names: Names) -> Expr | None:
    if not isinstance(e, Compare):
        return None
    return rng.choice([replace(e, offset=e.offset + 1), replace(e, op="ge" if e.op == "le" else "le")])


def _mask_forgotten(rng: Random, e: Expr, names: Names) -> Expr | None:
    return replace(e, keep=None) if isinstance(e, Softmax) else None


def _inverted(rng: Random, e: Expr, names: Names) -> Expr | None:
    return Permute(e.arg, e.perm.inverse()) if isinstance(e, Permute) else None


def _permuted_once(rng: Random, e: Expr, names: Names) -> Expr | None:
    perm = rng.choice([PI, RHO])
    return Permute(e, perm) if perm.axis in e.axes else None


def _other_axis(rng: Random, e: Expr, names: Names) -> Expr | None:
    if isinstance(e, Softmax):
        return replace(e, over=(rng.choice(e.axes),))
    return None


def _interleaved(rng: Random, e: Expr, names: Names) -> Expr | None:
    """Factors of a product axis read in the wrong order."""
    if isinstance(e, Split) and e.axis_ == HK:
        return Reshape(e.arg, tuple(p for a in e.arg.axes for p in ((K, H) if a == HK else (a,))))
    if isinstance(e, Join) and e.factors == (H, K):
        swapped = tuple(K if a == H else H if a == K else a for a in e.arg.axes)
        return Reshape(Transpose(e.arg, swapped), e.axes)
    return None


def _raw(rng: Random, e: Expr, names: Names) -> Expr | None:
    """A transpose done as a reshape."""
    if isinstance(e, Transpose) and e.order != e.arg.axes and not any(a.blocks for a in e.axes):
        return Reshape(e.arg, e.order)
    return None


def _other_input(rng: Random, e: Expr, names: Names) -> Expr | None:
    return Input(names("other"), e.over, e.role, e.boolean) if isinstance(e, Input) else None


def _always_first(rng: Random, e: Expr, names: Names) -> Expr | None:
    return replace(e, at=0) if isinstance(e, Select) and isinstance(e.at, Index) else None


def _not_summed(rng: Random, e: Expr, names: Names) -> Expr | None:
    """The maximum, or the first entry, in place of the sum."""
    if isinstance(e, Reduce) and e.op == "sum" and len(e.over) == 1:
        return rng.choice([replace(e, op="max"), Select(e.arg, e.over[0], 0)])
    return None


def _negated_exponent(rng: Random, e: Expr, names: Names) -> Expr | None:
    return Map("exp", (Map("neg", e.args),)) if isinstance(e, Map) and e.op == "exp" else None


EDITS: list[tuple[str, Callable[[Random, Expr, Names], Expr | None]]] = [
    (edit.__name__.strip("_"), edit)
    for edit in (
        _axes_swapped, _factor_dropped, _bigger, _added, _mask_moved, _mask_forgotten, _inverted, _permuted_once,
        _other_axis, _interleaved, _raw, _other_input, _always_first, _not_summed, _negated_exponent,
    )
]  # fmt: skip
