"""Random well-formed terms and positions, with bound names that clash as often as possible.

`terms` and `indices` draw inside a scope (variables by name); few names serve for all axes of one size, so that
shadowing, and equal names inside and outside of exponentials and inverses, are the rule and not the exception.
"""

from __future__ import annotations

from fractions import Fraction

from hypothesis import strategies as st

from mha_sym.proof.rules import Context, Definition
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Size,
    Term,
    Var,
    domain_key,
    part,
    perm,
)

Draw = st.DrawFn
Scope = dict[str, Domain]


def number(n: int | Fraction) -> Num:
    return Num(Fraction(n))


H, K, T, S = Domain("h", Size("h")), Domain("k", Size("d")), Domain("t", Size("T")), Domain("s", Size("S"))
TWO, THREE = Domain("a", number(2)), Domain("b", number(3))
HK = Domain("c", Mul((Size("d"), Size("h"))), (H, K))
KH = Domain("c", Mul((Size("d"), Size("h"))), (K, H))
SIX = Domain("c", number(6), (TWO, THREE))
BLOCKS = Domain("c", Add((Size("h"), Size("d"))), (), (H, K))
DOMAINS = (H, K, T, S, TWO, THREE, HK, KH, SIX, BLOCKS)

#: two assignments of pairwise distinct sizes; three heads in one, two in the other
SIZES = ({"h": 3, "d": 2, "T": 4, "S": 5}, {"h": 2, "d": 3, "T": 5, "S": 4})

#: what the goal states: one variable an axis, with names that bound variables use as well
STATED: Scope = {"s": S, "t": T, "r": H, "j": K, "c": HK, "a": TWO}
NAMES = ("s", "t", "r", "j", "c", "a", "s1")

CONTEXT = Context(
    definitions={
        "D": Definition((Var("s", S), Var("r", H)), Bind("sum", Var("t", T), Mul((
            Entry("x", (Var("s", S), Var("t", T))), Apply("exp", Entry("y", (Var("t", T), Var("r", H))))
        )))),
        "E": Definition((Var("t", T),), Bind("sum", Var("s", S), Bind("sum", Var("r", H), Mul((
            Entry("D", (Var("s", S), Var("r", H))), Cmp("le", Var("s", S), Var("t", T), 1)
        ))))),
        "F": Definition((Var("c", HK),), Mul((
            Entry("z", (part(Var("c", HK), HK, 0),)), Entry("z", (part(Var("c", HK), HK, 1),))
        ))),
    },
    booleans=frozenset({"m"}),
    tables={"q": {(n, k): Fraction(5 * n - k, 2) for n in range(2) for k in range(3)}},
    bijections={"pi": H, "rho": T, "sigma": HK},
)  # fmt: skip


@st.composite
def indices(draw: Draw, scope: Scope, domain: Domain, depth: int = 2) -> Index:
    """A position in a domain."""
    here: list[Index] = [Var(n, d) for n, d in scope.items() if domain_key(d) == domain_key(domain)]
    here.append(At(draw(st.integers(0, int(domain.size.value) - 1))) if isinstance(domain.size, Num) else At(0))
    if depth == 0:
        return draw(st.sampled_from(here))
    kinds = ["here", "here"]
    kinds += ["join", "digit"] if domain.factors else []
    kinds += ["inject"] if domain.blocks else []
    kinds += ["permute"] if any(domain_key(d) == domain_key(domain) for d in CONTEXT.bijections.values()) else []
    kinds += ["part"] if domain in (H, K, TWO, THREE) else []
    match draw(st.sampled_from(kinds)):
        case "join":
            return Join(domain, tuple(draw(indices(scope, f, depth - 1)) for f in domain.factors))
        case "digit":
            other = {HK: KH, KH: HK, SIX: Domain("c", number(6), (THREE, TWO))}[domain]
            parts = tuple(draw(indices(scope, f, depth - 1)) for f in other.factors)
            return Join(domain, tuple(part(Join(other, parts), domain, n) for n in range(2)))
        case "inject":
            block = draw(st.integers(0, 1))
            return Inj(draw(indices(scope, domain.blocks[block], depth - 1)), domain, block)
        case "permute":
            names = [n for n, d in CONTEXT.bijections.items() if domain_key(d) == domain_key(domain)]
            inner = draw(indices(scope, domain, depth - 1))
            return perm(draw(st.sampled_from(names)), draw(st.booleans()), inner)
        case "part":
            whole = draw(st.sampled_from([d for d in (HK, KH, SIX) if domain in d.factors]))
            return part(draw(indices(scope, whole, depth - 1)), whole, whole.factors.index(domain))
    return draw(st.sampled_from(here))


#: the given tensors: what their positions range over
TENSORS = {"x": (S, T), "y": (T, H), "z": (H,), "w": (HK,), "v": (BLOCKS,), "m": (S, T), "u": (SIX, TWO), "g": ()}
DEFINED = {"D": (S, H), "E": (T,), "F": (HK,), "q": (TWO, THREE)}


@st.composite
def entries(draw: Draw, scope: Scope, names: tuple[str, ...] = (*TENSORS, *DEFINED)) -> Entry:
    """An entry of a given or a defined tensor."""
    name = draw(st.sampled_from(names))
    return Entry(name, tuple(draw(indices(scope, d)) for d in {**TENSORS, **DEFINED}[name]))


@st.composite
def brackets(draw: Draw, scope: Scope) -> Cmp:
    """A bracket."""
    left, right = draw(st.sampled_from([(S, T), (T, T), (H, H), (HK, HK), (T, S), (BLOCKS, BLOCKS), (TWO, TWO)]))
    op = draw(st.sampled_from(["le", "eq"]))
    return Cmp(op, draw(indices(scope, left)), draw(indices(scope, right)), draw(st.sampled_from([0, 0, 1, -1])))


numbers = st.sampled_from([number(n) for n in (0, 1, -1, 2, 3)] + [number(Fraction(1, 2)), number(Fraction(-2, 3))])
sizes = st.builds(Size, st.sampled_from(["h", "d", "T", "S", "5"]), st.sampled_from([Fraction(1), Fraction(-1, 2)]))


@st.composite
def terms(draw: Draw, scope: Scope, depth: int = 3, exps: int = 1) -> Term:
    """A term; ``exps`` bounds how deep exponentials stand in one another."""
    if depth == 0:
        return draw(st.one_of(entries(scope, tuple(TENSORS)), entries(scope), numbers, brackets(scope), sizes))
    inner = terms(scope, depth - 1, exps)
    match draw(st.sampled_from(["leaf", "add", "mul", "mul", "sum", "sum", "max", "exp", "inv", "fn"])):
        case "add":
            return Add(tuple(draw(st.lists(inner, min_size=1, max_size=3))))
        case "mul":
            return Mul(tuple(draw(st.lists(inner, min_size=1, max_size=3))))
        case "sum":
            return draw(sums(scope, depth, exps))
        case "max":
            var = draw(variables((S, H, TWO)))
            return Bind("max", var, draw(terms({**scope, var.name: var.domain}, depth - 1, exps)))
        case "exp" if exps:
            return Apply("exp", draw(terms(scope, depth - 1, exps - 1)))
        case "inv":
            return Apply("inv", draw(inner))
        case "fn":
            return Apply("fn:f", draw(inner))
    return draw(terms(scope, 0))


@st.composite
def variables(draw: Draw, domains: tuple[Domain, ...] = DOMAINS, names: tuple[str, ...] = NAMES) -> Var:
    """A variable whose name may well be taken."""
    return Var(draw(st.sampled_from(names)), draw(st.sampled_from(domains)))


@st.composite
def sums(draw: Draw, scope: Scope, depth: int = 2, exps: int = 1, domains: tuple[Domain, ...] = DOMAINS) -> Bind:
    """A sum over some axis."""
    var = draw(variables(domains))
    return Bind("sum", var, draw(terms({**scope, var.name: var.domain}, depth - 1, exps)))


