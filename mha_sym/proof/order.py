"""The order in which bound indices are written, so that sums equal up to their order come out alike.

Defines `canonical_key`, a text that does not depend on the order of nested sums, and `nest_order`, the
order it chooses: indices are coloured by where they occur, ties are tried out.  Not trusted: a bad choice
can only make a proof fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby, islice, permutations, product

from mha_sym.proof.terms import Add, Apply, Bind, Mul, Term, Var, domain_key, flat_args, free, key

#: how many orders of alike indices are tried before the first is taken
TRIES = 120

Env = tuple[tuple[str, str], ...]


def nest(term: Term) -> tuple[list[Var], Term]:
    """The variables of directly nested sums, outermost first, and what is summed."""
    variables = []
    while isinstance(term, Bind) and term.op == "sum":
        variables.append(term.var)
        term = term.body
    return variables, term


def canonical_key(term: Term, env: Mapping[str, str], depth: int = 0) -> str:
    """A text equal for terms equal up to bound names and the order of sums, products and nested sums."""
    names = free(term)
    return _key(term, tuple(sorted((n, label) for n, label in env.items() if n in names)), depth)


@lru_cache(maxsize=1 << 16)
def _key(term: Term, env: Env, depth: int) -> str:
    labels = dict(env)
    match term:
        case Bind("sum", _, _):
            variables, body = nest(term)
            if len({v.name for v in variables}) < len(variables):
                return key(term, labels, depth)
            order = nest_order(variables, body, labels, depth)
            inner = {**labels, **{v.name: f"#{depth + n}" for n, v in enumerate(order)}}
            domains = "".join(domain_key(v.domain) for v in order)
            return f"N{domains}({canonical_key(body, inner, depth + len(order))})"
        case Bind(op, var, body):
            inner = {**labels, var.name: f"#{depth}"}
            return f"B{op}{domain_key(var.domain)}({canonical_key(body, inner, depth + 1)})"
        case Add() | Mul():
            keys = sorted(canonical_key(arg, labels, depth) for arg in flat_args(term))
            return f"{'+' if isinstance(term, Add) else '*'}({','.join(keys)})"
        case Apply(name, arg):
            return f"A{name}({canonical_key(arg, labels, depth)})"
        case _:
            return key(term, labels, depth)


def nest_order(variables: list[Var], body: Term, env: Mapping[str, str], depth: int) -> list[Var]:
    """The order in which nested sums are written."""
    if len(variables) < 2:
        return variables
    colours = _colours(variables, body, env, depth)
    ranked = sorted(variables, key=lambda v: colours[v.name])
    groups = [list(group) for _, group in groupby(ranked, key=lambda v: colours[v.name])]
    if all(len(group) == 1 for group in groups):
        return ranked

    def text(order: list[Var]) -> str:
        inner = {**env, **{v.name: f"#{depth + n}" for n, v in enumerate(order)}}
        return canonical_key(body, inner, depth + len(order))

    orders = product(*(islice(permutations(group), TRIES) for group in groups))  # which makes lists of them first
    return min(([v for group in order for v in group] for order in islice(orders, TRIES)), key=text)


def _colours(variables: list[Var], body: Term, env: Mapping[str, str], depth: int) -> dict[str, str]:
    """A colour for each variable: refined by the atoms it occurs in until nothing changes."""
    atoms = [(atom, free(atom)) for atom in (flat_args(body) if isinstance(body, Mul) else (body,))]
    colours = {v.name: domain_key(v.domain) for v in variables}
    below = depth + len(variables)
    while True:
        texts = {}
        for name, colour in colours.items():
            labels = {**env, **{n: f"~{c}" for n, c in colours.items()}, name: "*"}
            seen = sorted(canonical_key(atom, labels, below) for atom, names in atoms if name in names)
            texts[name] = f"{colour}:{'&'.join(seen)}"
        rank = {text: f"{number:03}" for number, text in enumerate(sorted(set(texts.values())))}
        if len(rank) == len(set(colours.values())):
            return {name: rank[text] for name, text in texts.items()}
        colours = {name: rank[text] for name, text in texts.items()}
