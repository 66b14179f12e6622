"""More correct rewrites than those of `tests.proof.random_exprs`, about axes, masks, softmax and sums.

Defines `rewritten`, which draws from both.  Reorderings, splits and permutations are pushed through operations, masks
are moved, sums taken factor by factor, weights normalised last.  Each rule takes a node and gives an expression with
the same axes and values, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from mha_sym.axes import Axis, product
from mha_sym.expr import (
    Contract,
    Expr,
    Join,
    Map,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Select,
    Softmax,
    Split,
    Transpose,
    is_boolean,
)
from tests.proof.random_exprs import RULES, Names, Rewriter, at, paths, put

Axes = tuple[Axis, ...]
Rule = Callable[[Rewriter, Expr], Expr | None]


def rewritten(rng: Random, expr: Expr, times: int, names: Names) -> tuple[Expr, list[str]]:
    """An expression with the same value, and the names of the rewrites that led to it."""
    rewriter, done = Rewriter(rng, names), list[str]()
    for _ in range(50 * times):
        if len(done) == times:
            break
        name, rule = rng.choice(EVERY)
        places = paths(expr)
        rng.shuffle(places)
        for path in places:
            node = at(expr, path)
            new = rule(rewriter, node)
            masks = any(field == "keep" for field, _ in path)
            if new is not None and new != node and (is_boolean(new) or not masks):
                expr = put(expr, path, new)
                done.append(name)
                break
    return expr, done


# ---------------------------------------------------------------- pushed through an operation


def _through(e: Expr, change: Callable[[Expr], Expr], back: Callable[[Expr], Expr], one: set[Axis]) -> Expr | None:
    """An operation entry by entry, or a softmax not over these axes, done on changed arguments and changed back."""
    if isinstance(e, Map) and all(one <= set(arg.axes) or not one & set(arg.axes) for arg in e.args):
        return back(Map(e.op, tuple(change(arg) if one <= set(arg.axes) else arg for arg in e.args)))
    if isinstance(e, Softmax) and not one & set(e.over):
        keep = e.keep
        if keep is not None and one & set(keep.axes):
            keep = change(keep) if one <= set(keep.axes) else Repeat(keep, e.axes)
            keep = change(keep) if keep.axes == e.axes else keep
        return back(Softmax(change(e.arg), e.over, keep))
    return None


def transpose_pushed(rw: Rewriter, e: Expr) -> Expr | None:
    order = tuple(rw.rng.sample(e.axes, len(e.axes)))
    if isinstance(e, Map):
        made: Expr = Map(e.op, tuple(Transpose(arg, order) if len(arg.axes) == len(order) else arg for arg in e.args))
    elif isinstance(e, Softmax):
        made = Softmax(Transpose(e.arg, order), e.over, e.keep)
    elif isinstance(e, Contract):
        made = Contract(tuple(Transpose(a, tuple(rw.rng.sample(a.axes, len(a.axes)))) for a in e.args), order)
    else:
        return None
    return Transpose(made, e.axes)


def join_pushed(rw: Rewriter, e: Expr) -> Expr | None:
    """Two axes that lie side by side joined below an operation, and split above it."""
    for n in range(len(e.axes) - 1):
        pair = e.axes[n : n + 2]
        whole = product(*pair)
        if any(a.blocks for a in pair) or not isinstance(e, Map | Softmax):
            continue

        def joined(arg: Expr, pair: Axes = pair) -> Expr:
            rest = tuple(a for a in arg.axes if a not in pair)
            return Join(Transpose(arg, (*pair, *rest)), pair)

        def split(arg: Expr, whole: Axis = whole) -> Expr:
            return Transpose(Split(arg, whole), e.axes)

        return _through(e, joined, split, set(pair))
    return None


def split_pushed(rw: Rewriter, e: Expr) -> Expr | None:
    """A product axis split below an operation, and joined above it."""
    for whole in e.axes:
        if whole.factors and isinstance(e, Map | Softmax):

            def joined(arg: Expr, whole: Axis = whole) -> Expr:
                rest = tuple(a for a in arg.axes if a not in whole.factors)
                return Transpose(Join(Transpose(arg, (*whole.factors, *rest)), whole.factors), e.axes)

            return _through(e, lambda arg, whole=whole: Split(arg, whole), joined, {whole})
    return None


def permutation_pushed(rw: Rewriter, e: Expr) -> Expr | None:
    """The heads or tokens of a product permuted in all factors that have them, and back in the result."""
    if not isinstance(e, Contract):
        return None
    perms = [node.perm for node in _nodes(e) if isinstance(node, Permute) and node.perm.axis in e.axes]
    if not perms:
        return None
    perm = rw.rng.choice(perms)
    args = tuple(Permute(arg, perm) if perm.axis in arg.axes else arg for arg in e.args)
    return Permute(Contract(args, e.out), perm.inverse())


def _nodes(e: Expr) -> list[Expr]:
    return [e, *(node for child in e.children for node in _nodes(child))]


# ---------------------------------------------------------------- masks and softmax


def mask_inside(rw: Rewriter, e: Expr) -> Expr | None:
    """What stands where nothing is kept does not matter: scores may be multiplied by the mask."""
    if isinstance(e, Softmax) and e.keep is not None:
        return replace(e, arg=Map("mul", (e.arg, e.keep)))
    return None


def mask_after_exponential(rw: Rewriter, e: Expr) -> Expr | None:
    """``keep exp(x) / sum(keep exp(x))``, the mask above and below."""
    if not isinstance(e, Softmax) or e.keep is None:
        return None
    power = Map("mul", (e.keep, Map("exp", (Map("mul", (e.arg, e.keep)),))))
    power_ = power if power.axes == e.axes else Transpose(power, e.axes)
    return Map("mul", (power_, Map("inv", (Reduce("sum", power_, e.over),))))


def maximum_subtracted(rw: Rewriter, e: Expr) -> Expr | None:
    if not isinstance(e, Softmax) or any(one.blocks for one in e.over):  # of blocks laid end to end no maximum is taken
        return None
    return replace(e, arg=e.arg - Reduce("max", e.arg, e.over))


def normalised_last(rw: Rewriter, e: Expr) -> Expr | None:
    """``sum_s softmax(x)_s v_s = (sum_s exp(x_s) v_s) / sum_s exp(x_s)``."""
    if not isinstance(e, Contract):
        return None
    for n, arg in enumerate(e.args):
        if isinstance(arg, Softmax) and set(arg.over) <= set(e.summed) and set(arg.axes) - set(arg.over) <= set(e.out):
            power: Expr = Map("exp", (arg.arg,))
            if arg.keep is not None:
                power = Map("mul", (power, arg.keep))
            above = Contract((*e.args[:n], power, *e.args[n + 1 :]), e.out)
            return Map("mul", (above, Map("inv", (Reduce("sum", power, arg.over),))))
    return None


# ---------------------------------------------------------------- sums


def summed_by_factors(rw: Rewriter, e: Expr) -> Expr | None:
    """A sum over ``(h k)`` as a sum over k of sums over h."""
    if isinstance(e, Reduce) and e.op == "sum" and len(e.over) == 1 and e.over[0].factors:
        whole = e.over[0]
        made: Expr = Split(e.arg, whole)
        for one in rw.rng.sample(whole.factors, len(whole.factors)):
            made = Reduce("sum", made, (one,))
        return made
    return None


def contracted_by_factors(rw: Rewriter, e: Expr) -> Expr | None:
    """A contraction over ``(h k)`` as one over h and k."""
    if isinstance(e, Contract):
        for whole in e.summed:
            taken = {p.name for a in (*e.out, *e.summed) if a != whole for p in a.primitive()}
            if whole.factors and not taken & {p.name for p in whole.factors}:
                return Contract(tuple(Split(a, whole) if whole in a.axes else a for a in e.args), e.out)
    return None


def sum_first(rw: Rewriter, e: Expr) -> Expr | None:
    """An axis that one factor alone has is summed in it before."""
    if isinstance(e, Contract) and len(e.args) > 1:
        for one in e.summed:
            having = [n for n, arg in enumerate(e.args) if one in arg.axes]
            if len(having) == 1:
                n = having[0]
                return Contract((*e.args[:n], Reduce("sum", e.args[n], (one,)), *e.args[n + 1 :]), e.out)
    return None


def summed_under_another_name(rw: Rewriter, e: Expr) -> Expr | None:
    if isinstance(e, Reduce) and len(e.over) == 1 and e.over[0].is_plain and e.op == "sum":
        new = Axis("other", e.over[0].size)
        if "other" not in {a.name for a in e.arg.axes}:
            return Reduce("sum", Rename(e.arg, e.over[0], new), (new,))
    return None


def selected_below(rw: Rewriter, e: Expr) -> Expr | None:
    """A slice of an operation as the operation on slices."""
    if not isinstance(e, Select) or not isinstance(e.arg, Map):
        return None
    args = tuple(replace(e, arg=arg) if e.axis_ in arg.axes else arg for arg in e.arg.args)
    made = Map(e.arg.op, args)
    return made if made.axes == e.axes else Transpose(made, e.axes)


MORE: tuple[Rule, ...] = (
    transpose_pushed, join_pushed, split_pushed, permutation_pushed, mask_inside, mask_after_exponential,
    maximum_subtracted, normalised_last, summed_by_factors, contracted_by_factors, sum_first,
    summed_under_another_name, selected_below,
)  # fmt: skip
EVERY: list[tuple[str, Rule]] = [*RULES, *((rule.__name__, rule) for rule in MORE), *((r.__name__, r) for r in MORE)]
