"""Terms against plain loops: substitution, positions as numbers, and what the key of a term tells apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mha_sym.proof.terms import (
    ONE,
    ZERO,
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
    Part,
    Perm,
    Size,
    Term,
    TermError,
    Var,
    at_path,
    children,
    domain_key,
    equal,
    fixed_number,
    flat_args,
    free,
    fresh_var,
    join,
    key,
    part,
    perm,
    put_path,
    rebuild,
    rename_apart,
    subst,
    sum_over,
)
from tests.proof.engine import Unclear, World, agree, place, value
from tests.proof.random_terms import (
    BLOCKS,
    CONTEXT,
    HK,
    KH,
    NAMES,
    SIX,
    SIZES,
    STATED,
    THREE,
    TWO,
    H,
    K,
    S,
    T,
    indices,
    number,
    terms,
)

WORLDS = [World(sizes, CONTEXT, seed) for seed, sizes in enumerate(SIZES)]


def environment(world: World, seed: int) -> dict[str, int]:
    """A place for every stated variable."""
    return {name: (7 * seed + 3 * n) % world.size(d) for n, (name, d) in enumerate(STATED.items())}


def known(term: Term, world: World, env: Mapping[str, int]) -> Any:
    """The value; draws on which it is unclear do not count."""
    try:
        return value(term, world, env)
    except Unclear:
        assume(False)


def same(left: Any, right: Any) -> bool:
    try:
        return agree(left, right)
    except Unclear:
        assume(False)
        raise


worlds = st.sampled_from(WORLDS)
seeds = st.integers(0, 5)
stated = st.sampled_from(sorted(STATED))


# ---------------------------------------------------------------- substitution


@given(terms(STATED), stated, st.data(), worlds, seeds)
def test_substitution_is_evaluation_at_the_new_place(
    term: Term, name: str, data: st.DataObject, world: World, seed: int
) -> None:
    index = data.draw(indices(STATED, STATED[name]))
    env = environment(world, seed)
    there = {**env, name: place(index, world, env)}
    assert same(known(subst(term, {name: index}), world, env), known(term, world, there))


@given(terms(STATED), st.data(), worlds, seeds)
def test_substitution_is_simultaneous(term: Term, data: st.DataObject, world: World, seed: int) -> None:
    """``s := t'`` and ``t := s'`` at once exchange them, whatever is bound inside."""
    new = {name: data.draw(indices(STATED, STATED[name])) for name in ("s", "t", "r", "c")}
    env = environment(world, seed)
    there = {**env, **{name: place(index, world, env) for name, index in new.items()}}
    assert same(known(subst(term, new), world, env), known(term, world, there))


@given(terms(STATED), worlds, seeds)
def test_a_value_rests_on_the_free_variables_alone(term: Term, world: World, seed: int) -> None:
    env = {name: n for name, n in environment(world, seed).items() if name in free(term)}
    known(term, world, env)  # a KeyError would be a variable that `free` does not know


@given(st.data(), worlds, seeds)
def test_positions_are_numbers(data: st.DataObject, world: World, seed: int) -> None:
    """Replacing variables in a position, with all that `join`, `part` and `perm` simplify."""
    domain = data.draw(st.sampled_from([H, K, T, S, HK, KH, SIX, BLOCKS]))
    index = data.draw(indices(STATED, domain, depth=3))
    new = {name: data.draw(indices(STATED, STATED[name], depth=2)) for name in sorted(free(index))}
    env = environment(world, seed)
    there = {**env, **{name: place(one, world, env) for name, one in new.items()}}
    found = place(subst(index, new), world, env)
    assert found == place(index, world, there)
    assert 0 <= found < world.size(domain)


S_IN, T_IN = Var("s", S), Var("t", T)


def test_a_bound_variable_gives_way() -> None:
    """``exp(sum_s x[s, t])`` at ``t := s``: the sum must not take the new s."""
    inside = Apply("exp", sum_over(S_IN, Entry("x", (S_IN, T_IN))))
    outer = sum_over(Var("t", S), Mul((inside, Apply("inv", inside))))
    for term in (inside, Apply("inv", inside), Mul((inside, inside)), Bind("max", S_IN, Entry("x", (S_IN, T_IN)))):
        moved = subst(term, {"t": S_IN})
        assert "s" in free(moved)
        assert key(moved) != key(subst(term, {"t": At(0)}))
    assert subst(outer, {"t": S_IN}) == outer


def test_a_fresh_variable_is_not_taken_either() -> None:
    body = Entry("x", (Var("s", S), Var("s1", S), Var("t", S)))
    moved = subst(sum_over(Var("s", S), body), {"t": Var("s", S), "s1": Var("s2", S)})
    assert isinstance(moved, Bind)
    assert moved.var.name not in {"s", "s1", "s2"}
    assert free(moved) == {"s", "s2"}
    assert fresh_var(Var("s9", S), {"s1", "s2"}).name == "s3"
    assert rename_apart(sum_over(Var("s", S), body), frozenset({"s", "s2"})).var.name == "s3"


def test_only_what_is_free_is_replaced() -> None:
    term = sum_over(S_IN, Mul((Entry("x", (S_IN,)), sum_over(S_IN, Entry("y", (S_IN,))))))
    assert subst(term, {"s": At(0)}) == term


# ---------------------------------------------------------------- positions as arithmetic


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_product_positions_are_quotient_and_remainder(sizes: dict[str, int]) -> None:
    world = World(sizes, CONTEXT)
    h, d = sizes["h"], sizes["d"]
    c, r, j = Var("c", HK), Var("r", H), Var("j", K)
    for n in range(h * d):
        env = {"c": n, "r": n // d, "j": n % d}
        assert place(Part(c, HK, 0), world, env) == n // d
        assert place(Part(c, HK, 1), world, env) == n % d
        assert place(Join(HK, (r, j)), world, env) == n
        for m in range(2):  # (r, j) of (h k) read as a position of (k h): coordinates of the same number
            there = place(part(Join(HK, (r, j)), KH, m), world, env)
            assert there == ((n // h) if m == 0 else n % h)
        places = tuple(part(Join(HK, (r, j)), KH, m) for m in range(2))
        assert [part(join(KH, places), HK, m) for m in range(2)] == [r, j]  # a raw reshape, and back
    assert [part(Join(HK, (r, j)), HK, m) for m in range(2)] == [r, j]
    assert join(HK, (Part(c, HK, 0), Part(c, HK, 1))) == c
    assert part(join(HK, (r, j)), HK, 1) == j
    assert perm("pi", True, perm("pi", False, r)) == r


def test_positions_that_look_alike_are_kept_apart() -> None:
    c, e, r, j = Var("c", HK), Var("e", HK), Var("r", H), Var("j", K)
    assert isinstance(join(HK, (Part(c, HK, 1), Part(c, HK, 0))), Join)  # the wrong way round
    assert isinstance(join(HK, (Part(c, HK, 0), Part(e, HK, 1))), Join)  # of two different positions
    assert isinstance(join(HK, (Part(c, KH, 0), Part(c, KH, 1))), Join)  # of another product
    assert isinstance(part(join(KH, (j, r)), HK, 0), Part)
    assert perm("pi", False, perm("pi", False, r)) == Perm("pi", False, Perm("pi", False, r))
    assert perm("rho", True, perm("pi", False, r)) == Perm("rho", True, Perm("pi", False, r))
    there = tuple(part(Join(HK, (r, j)), KH, m) for m in range(2))
    assert isinstance(part(join(KH, there[::-1]), HK, 0), Part)
    assert isinstance(part(join(KH, (there[0], j)), HK, 0), Part)


@given(st.lists(st.integers(0, 2), min_size=3, max_size=3), st.permutations([TWO, THREE, Domain("e", number(5))]))
def test_fixed_positions_are_computed(places: list[int], axes: list[Domain]) -> None:
    world = World({}, CONTEXT)
    shape = (TWO, THREE, Domain("e", number(5)))
    parts = tuple(At(min(n, int(d.size.value) - 1)) for n, d in zip(places, shape, strict=True))  # type: ignore[union-attr]
    for n in range(3):
        whole, other = Domain("c", number(30), shape), Domain("c", number(30), tuple(axes))
        simple, plain = part(Join(whole, parts), other, n), Part(Join(whole, parts), other, n)
        assert isinstance(simple, At)
        assert simple.number == place(plain, world, {})
    whole = Domain("c", number(30), shape)
    flat = fixed_number(Join(whole, parts))
    assert flat == place(Join(whole, parts), world, {})
    assert flat is not None
    assert [part(At(flat), whole, n) for n in range(3)] == list(parts)
    assert fixed_number(Join(HK, (At(0), At(0)))) is None
    assert fixed_number(Join(SIX, (At(1), Var("b", THREE)))) is None


def test_all_fixed_positions_of_small_axes() -> None:
    """Written out: the first factor is the slowest; where a size is a symbol nothing is computed."""
    whole = Domain("c", number(24), (TWO, THREE, Domain("e", number(4))))
    mixed = Domain("c", Mul((number(2), Size("h"))), (TWO, H))
    place_ = 0
    for i in range(2):
        for j in range(3):
            for k in range(4):
                parts = (At(i), At(j), At(k))
                assert fixed_number(Join(whole, parts)) == place_
                assert [part(At(place_), whole, n) for n in range(3)] == list(parts)
                swapped = Domain("c", number(24), (whole.factors[2], THREE, TWO))
                found = [part(Join(whole, parts), swapped, n) for n in range(3)]
                assert found == [At(place_ // 6), At(place_ % 6 // 2), At(place_ % 2)]
                place_ += 1
    assert fixed_number(Join(mixed, (At(1), At(0)))) is None
    assert fixed_number(Join(whole, (At(1), Var("b", THREE), At(0)))) is None
    assert part(At(1), mixed, 0) == Part(At(1), mixed, 0)
    assert part(Var("c", whole), whole, 0) == Part(Var("c", whole), whole, 0)


# ---------------------------------------------------------------- equality


def renamed(term: Term, env: Mapping[str, Index], rng: Any, taken: int = 0) -> Term:
    """The same term with other bound names, and the arguments of sums and products in another order."""
    match term:
        case Bind(op, var, body):
            fresh = Var(f"n{taken}", var.domain)
            return Bind(op, fresh, renamed(body, {**env, var.name: fresh}, rng, taken + 1))
        case Entry(name, at):
            return Entry(name, tuple(plain_subst(i, env) for i in at))
        case Cmp(op, left, right, offset):
            return Cmp(op, plain_subst(left, env), plain_subst(right, env), offset)
        case _:
            inside = [renamed(c, env, rng, taken) for c in children(term)]
            if isinstance(term, Add | Mul):
                rng.shuffle(inside)
            return rebuild(term, tuple(inside))


def plain_subst(index: Index, new: Mapping[str, Index]) -> Index:
    """Variables replaced and nothing simplified; written apart from `subst_index`."""
    match index:
        case Var(name, _):
            return new.get(name, index)
        case At():
            return index
        case Join(domain, parts):
            return Join(domain, tuple(plain_subst(p, new) for p in parts))
        case Part(inner, domain, n):
            return Part(plain_subst(inner, new), domain, n)
        case Inj(inner, domain, n):
            return Inj(plain_subst(inner, new), domain, n)
        case Perm(name, inverse, inner):
            return Perm(name, inverse, plain_subst(inner, new))
    raise TypeError(index)


@given(terms(STATED), st.randoms(use_true_random=False))
def test_bound_names_and_order_do_not_matter(term: Term, rng: Any) -> None:
    assert key(renamed(term, {}, rng)) == key(term)


@st.composite
def edits(draw: st.DrawFn, term: Term) -> Term:
    """The term with one subterm changed a little: what the key has to notice, or to see through."""
    paths: list[tuple[int, ...]] = []

    def visit(node: Term, path: tuple[int, ...]) -> None:
        paths.append(path)
        for n, child in enumerate(children(node)):
            visit(child, (*path, n))

    visit(term, ())
    path = draw(st.sampled_from(paths))
    node = at_path(term, path)
    match node:
        case Entry(name, at) if at:
            n = draw(st.integers(0, len(at) - 1))
            new: Term = Entry(name, (*at[:n], At(0), *at[n + 1 :]))
        case Cmp(op, left, right, offset):
            new = draw(st.sampled_from([Cmp(op, left, right, offset + 1), Cmp(op, right, left, offset)]))
        case Add(args) | Mul(args):
            new = draw(st.sampled_from([Add(args), Mul(args), rebuild(node, args[1:] or (ZERO,)), args[0]]))
        case Bind(op, var, body):
            other = draw(st.sampled_from([Var(n, var.domain) for n in NAMES]))
            new = draw(st.sampled_from([Bind(op, other, body), Bind("max" if op == "sum" else "sum", var, body), body]))
        case Apply(name, arg):
            new = draw(st.sampled_from([arg, Apply("inv", arg), Apply(name, Mul((arg,)))]))
        case _:
            new = ONE
    return put_path(term, path, new)


@given(st.data(), terms(STATED), seeds)
def test_equal_keys_are_equal_values(data: st.DataObject, term: Term, seed: int) -> None:
    other = data.draw(edits(term))
    assume(free(other) <= set(STATED))
    if key(other) == key(term):
        for world in WORLDS:
            env = environment(world, seed)
            assert same(known(other, world, env), known(term, world, env))


ODD = [
    "a", "a'", 'a"', "a\\", "'", '"', "#0", "#1", "~", ",", "a,b", "]", "[", ")(", "E'a'[]", "s'a'^1", "<1>", "1", "",
]  # fmt: skip


@st.composite
def odd_terms(draw: st.DrawFn, depth: int = 2) -> Term:
    """Small terms with names made to be confused."""
    name = draw(st.sampled_from(ODD))
    domain = Domain(draw(st.sampled_from(ODD)), draw(st.sampled_from([Size(n) for n in ODD[:6]] + [ONE])))
    image = Perm(name, draw(st.booleans()), Var("a", domain))
    index = draw(st.sampled_from([Var(name, domain), At(0), image, Var("#0", domain)]))
    kinds = ["entry", "size", "bracket"] + (["bind", "apply", "add", "mul"] if depth else [])
    match draw(st.sampled_from(kinds)):
        case "entry":
            return Entry(name, draw(st.sampled_from([(), (index,), (index, At(0))])))
        case "size":
            return Size(name, draw(st.sampled_from([Fraction(1), Fraction(1, 2)])))
        case "bracket":
            return Cmp(draw(st.sampled_from(["le", "eq"])), index, At(0), draw(st.sampled_from([0, 1, -1])))
        case "bind":
            return Bind(draw(st.sampled_from(["sum", "max"])), Var(name, domain), draw(odd_terms(depth - 1)))
        case "apply":
            return Apply(draw(st.sampled_from(["exp", "inv", f"fn:{name}"])), draw(odd_terms(depth - 1)))
        case kind:
            args = tuple(draw(st.lists(odd_terms(depth - 1), max_size=2)))
            return Add(args) if kind == "add" else Mul(args)


def shape(term: Term, env: tuple[str, ...] = ()) -> Any:
    """What the key stands for, as nested tuples and bags: bound names by depth, sums and products as bags."""

    def where(index: Index) -> Any:
        match index:
            case Var(name, domain):
                if name in env:
                    return "bound", len(env) - 1 - env[::-1].index(name)
                return "free", name, extent(domain)
            case At(n):
                return "at", n
            case Perm(name, inverse, inner):
                return "perm", name, inverse, where(inner)
        raise TypeError(index)

    def extent(domain: Domain) -> Any:
        return shape(domain.size)

    match term:
        case Num(n):
            return "num", n
        case Size(name, power):
            return "size", name, power
        case Entry(name, at):
            return "entry", name, tuple(map(where, at))
        case Cmp(op, left, right, offset):
            return "cmp", op, where(left), where(right), offset
        case Bind(op, var, body):
            return op, extent(var.domain), shape(body, (*env, var.name))
        case Apply(name, arg):
            return "apply", name, shape(arg, env)
        case _:
            bag = [shape(arg, env) for arg in flat(term, type(term))]
            return bag[0] if len(bag) == 1 else (type(term).__name__, frozenset(Counter(bag).items()))


def flat(term: Term, kind: type) -> list[Term]:
    return [a for arg in children(term) for a in flat(arg, kind)] if isinstance(term, kind) else [term]


@given(odd_terms(), odd_terms())
def test_no_name_makes_two_terms_look_alike(left: Term, right: Term) -> None:
    assert (key(left) == key(right)) == (shape(left) == shape(right))


def test_all_small_terms_with_odd_names_differ() -> None:
    """Exhaustively, since random pairs seldom come close."""
    found: dict[str, Any] = {}
    for name in ODD:
        for other in ODD:
            domain = Domain("", Size(other))
            for index in (Var(name, domain), Perm(name, False, Var(other, H)), Perm(name, True, Var(other, H))):
                for term in (
                    Entry(other, (index,)), Entry(name, (index, index)), Cmp("le", index, At(0)),
                    Cmp("eq", index, At(0)), Cmp("le", At(0), index, 1),
                    sum_over(Var(name, domain), Entry(other, (index,))),
                    Apply(f"fn:{name}", Size(other)), Mul((Size(name), Size(other))), Add((Size(name), Size(other))),
                ):  # fmt: skip
                    assert found.setdefault(key(term), shape(term)) == shape(term)
    assert len(found) == len(set(map(repr, found.values())))


def test_keys_see_what_a_bracket_or_a_position_says() -> None:
    r, c = Var("r", H), Var("c", HK)
    kinds: list[Term] = [
        Cmp("le", r, At(1)), Cmp("le", At(1), r), Cmp("eq", r, At(1)), Cmp("le", r, At(1), 1), Cmp("le", r, At(11)),
        Cmp("le1", r, At(1)),
        Entry("x", (Part(c, HK, 0),)), Entry("x", (Part(c, KH, 0),)), Entry("x", (Part(c, HK, 1),)),
        Entry("x", (Inj(r, BLOCKS, 0),)), Entry("x", (Inj(r, BLOCKS, 1),)), Entry("x", (Perm("pi", False, r),)),
        Entry("x", (Perm("pi", True, r),)), Entry("x", (r,)), Entry("x", (r, r)), Entry("x", ()), Entry("xx", ()),
        Entry("x", (Part(Join(HK, (r, Var("j", K))), KH, 0),)), Entry("x", (Part(Join(HK, (r, Var("j", K))), KH, 1),)),
        sum_over(Var("i", H), Entry("x", (Var("i", H),))), sum_over(Var("i", K), Entry("x", (Var("i", K),))),
        Bind("max", Var("i", H), Entry("x", (Var("i", H),))), sum_over(Var("i", H), ONE), sum_over(Var("i", HK), ONE),
        sum_over(Var("i", KH), ONE), sum_over(Var("i", BLOCKS), ONE), Size("h"), Size("h", Fraction(1, 2)),
        Num(Fraction(1, 2)), Add(()), Mul(()), ZERO, ONE, Apply("exp", ONE), Apply("inv", ONE), Apply("fn:exp", ONE),
    ]  # fmt: skip
    assert len(set(map(key, kinds))) == len(kinds)


def test_inner_and_outer_sums_are_not_mistaken_for_each_other() -> None:
    i, j = Var("i", H), Var("j", H)
    x = Entry("x", (i, j))
    twice = sum_over(i, sum_over(j, x))
    assert key(twice) == key(sum_over(j, sum_over(i, Entry("x", (j, i)))))
    assert key(twice) != key(sum_over(j, sum_over(i, x)))
    assert key(sum_over(i, sum_over(i, Entry("x", (i, i))))) != key(sum_over(i, sum_over(j, x)))


# ---------------------------------------------------------------- caches and places


def test_caches_do_not_confuse_what_python_calls_equal() -> None:
    """True == 1 == Fraction(1); a key must still be right whichever was seen first."""
    for one in (Num(True), Num(1), ONE):  # type: ignore[arg-type]
        domain = Domain("e", one)
        assert domain_key(domain) == domain_key(Domain("e", ONE))
        assert free(Mul((one, Entry("x", (Var("i", domain),))))) == {"i"}
    assert key(Num(Fraction(2, 2))) == key(ONE)
    assert Add((ONE, ZERO)) != Mul((ONE, ZERO))
    assert free(Add((Entry("x", (Var("i", H),)),))) == free(Mul((Entry("x", (Var("i", H),)),)))
    assert domain_key(HK) != domain_key(Domain("c", HK.size)) != domain_key(Domain("c", HK.size, (), (H, K)))
    assert domain_key(Domain("a", ONE)) == domain_key(Domain("b", ONE))


@given(terms(STATED))
def test_paths_find_and_replace(term: Term) -> None:
    assert put_path(term, (), ONE) == ONE
    for n, child in enumerate(children(term)):
        assert at_path(term, (n,)) == child
        assert put_path(term, (n,), child) == term
        assert at_path(put_path(term, (n,), ONE), (n,)) == ONE
    for path in ((len(children(term)),), (-1,)):
        with pytest.raises(TermError):
            at_path(term, path)
        with pytest.raises(TermError):
            put_path(term, path, ONE)


def test_equal_opens_nesting_but_not_across_kinds() -> None:
    x, y, z = (Entry(n, ()) for n in "xyz")
    assert equal(Add((x, Add((y, z)))), Add((z, y, x)))
    assert equal(Mul((Mul((x,)), y)), Mul((y, x)))
    assert not equal(Add((x, Mul((y, z)))), Add((x, y, z)))
    assert not equal(Add((x, x)), x)
    assert equal(Mul((x,)), x) and equal(Add((Mul((x,)),)), x)
    assert flat_args(Add((x, Add((y, Mul((z,))))))) == (x, y, Mul((z,)))
    assert key(Var("x", H)) != key(At(0))
