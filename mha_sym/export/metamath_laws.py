"""The law behind a step, as an axiom scheme of Metamath: as general as the step allows, and no more.

Defines `law_of`.  Factors and addends that a law leaves alone become variables, under the condition that no bound
variable of the law occurs in them that does not occur here; free positions become variables always.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mha_sym.export.metamath_terms import Syntax, Tree

#: laws about any numbers: what stands on both sides may be anything
FOR_ANY = {
    "arithmetic", "distribute", "sum_of_sum", "pull", "exchange", "take_out", "collect", "factor", "constant_sum",
    "exp_of_sum", "exp_product", "inverse_of_exp", "inverse_of_product",
}  # fmt: skip
#: laws that put a position for the variable of the sum: what it does not occur in may be anything
PUTTING = {"delta", "reindex", "split_sum", "enumerate_sum"}


@dataclass(frozen=True)
class Law:
    """``left = right`` in variables, the condition that some are distinct, and what they stand for in a step."""

    left: Tree
    right: Tree
    distinct: str
    put: Mapping[Tree, Tree]


def law_of(syntax: Syntax, rule: str, old: Tree, new: Tree) -> Law:
    """The scheme of which ``old = new`` is an instance by a rule."""
    shared = set(_numbers(syntax, old)) & set(_numbers(syntax, new)) - {old, new}
    chosen = shared if rule in FOR_ANY else set()
    if rule in PUTTING:
        chosen = {one for one in shared if old.kids[1] not in syntax.occurring(one)}
    if rule == "alike":
        chosen = {one for one in shared if not set(syntax.occurring(one)) & set(_binders(syntax, old, set()))}
        chosen = {one for one in chosen if not set(syntax.occurring(one)) & set(_binders(syntax, new, set()))}
    while True:
        binders = {*_binders(syntax, old, chosen), *_binders(syntax, new, chosen)}
        tops = {*_tops(old, chosen), *_tops(new, chosen)}
        # what binds a variable that the law binds, too, and what holds another part of the law, is not left alone
        clash = {one for one in tops if binders & set(_binders(syntax, one, set())) or _within(one) & (tops - {one})}
        if not clash:
            break
        chosen = chosen - clash
    scheme = _Scheme(syntax, chosen, binders)
    left, right = scheme.tree(old), scheme.tree(new)
    return Law(left, right, scheme.distinct(), {variable: tree for tree, variable in scheme.variables.items()})


def _numbers(syntax: Syntax, tree: Tree) -> Iterator[Tree]:
    """The numbers in an expression that may be left alone: no constants."""
    if syntax.kind(tree) == "real":
        if tree.kids:
            yield tree
        for kid in tree.kids:
            yield from _numbers(syntax, kid)


def _tops(tree: Tree, chosen: set[Tree]) -> Iterator[Tree]:
    """What is left alone of an expression."""
    if tree in chosen:
        yield tree
    else:
        for kid in tree.kids:
            yield from _tops(kid, chosen)


def _within(tree: Tree) -> set[Tree]:
    """All parts of an expression, and itself."""
    return {tree}.union(*map(_within, tree.kids))


def _binders(syntax: Syntax, tree: Tree, chosen: set[Tree]) -> Iterator[Tree]:
    """The variables bound in an expression, outside what is left alone."""
    if tree not in chosen and syntax.kind(tree) == "real":
        for kid in tree.kids:
            if syntax.kind(kid) == "var":
                yield kid
            yield from _binders(syntax, kid, chosen)


class _Scheme:
    """Puts variables for what is left alone, for free positions and for bound variables."""

    def __init__(self, syntax: Syntax, chosen: set[Tree], binders: set[Tree]) -> None:
        self.syntax, self.chosen, self.binders = syntax, chosen, binders
        self.variables: dict[Tree, Tree] = {}

    def tree(self, tree: Tree) -> Tree:
        kind = self.syntax.kind(tree)
        free = kind == "pos" and (tree.label.startswith("f.") or tree.label == "place")
        bound = kind == "var" or (free and bool(tree.kids) and tree.kids[0] in self.binders)
        if tree in self.chosen or kind == "var" or (free and not bound):
            if tree not in self.variables:
                number = sum(self.syntax.kind(one) == kind for one in self.variables)
                self.variables[tree] = self.syntax.meta(kind, number)
            return self.variables[tree]
        return self.syntax.make(tree.label, *map(self.tree, tree.kids)) if tree.kids else tree

    def distinct(self) -> str:
        """The conditions: bound variables differ, and do not occur in what stands for what they do not occur in."""
        rows = []
        bound = [one for one in self.variables if self.syntax.kind(one) == "var"]
        if len(bound) > 1:
            rows.append([self.variables[one] for one in bound])
        for tree, variable in self.variables.items():
            if tree not in bound:
                inside = self.syntax.occurring(tree)
                rows += [[one_, variable] for one in bound if one not in inside for one_ in (self.variables[one],)]
        return "".join(f"$d {' '.join(map(self.syntax.text, row))} $. " for row in rows)
