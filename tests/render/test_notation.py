"""Terms as text: what is written means what the term means, and nothing else is written like it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

from mha_sym.axes import axis, blocks, product
from mha_sym.proof.meaning import domain
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
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
    Var,
)
from mha_sym.render.formulas.breaks import deeper, mark, plain, rows
from mha_sym.render.formulas.latex_width import latex_width
from mha_sym.render.formulas.notation import Notation, Symbol
from mha_sym.render.formulas.scripts import Latex, Unicode

H, K, T = axis("h"), axis("k", "d_k"), axis("t", "T")
HK = product(H, K)
r, j, t, c = Var("r", domain(H)), Var("j", domain(K)), Var("t", domain(T)), Var("c", domain(HK))
a, b = Entry("A", (r, t)), Entry("B", (t,))
MINUS, HALF = Num(Fraction(-1)), Fraction(1, 2)


def number(value: int | Fraction) -> Num:
    return Num(Fraction(value))


def inv(term: Term) -> Term:
    return Apply("inv", term)


def exp(term: Term) -> Term:
    return Apply("exp", term)


def both(term: Term, names: dict[str, Symbol] | None = None) -> tuple[str, str]:
    return plain(Unicode(names or {}).term(term)), plain(Latex(names or {}).term(term))


CASES: list[tuple[Term, str, str]] = [
    (a, "A[r,t]", "A[r,t]"),
    (Entry("x", ()), "x", "x"),
    (Add((a, Mul((MINUS, b)))), "A[r,t] - B[t]", "A[r,t] - B[t]"),
    (Mul((MINUS, a)), "-A[r,t]", "-A[r,t]"),
    (Add((b, Mul((number(-2), a)))), "B[t] - 2 A[r,t]", r"B[t] - 2\,A[r,t]"),
    (Add((Mul((MINUS, a)), Num(Fraction(1)))), "1 - A[r,t]", "1 - A[r,t]"),
    (Mul((number(2), Size("d_model"), Size("h"))), "2 d_model h", r"2\,d_{\mathrm{model}}\,h"),
    (Mul((Size("h"), Size("T", Fraction(2)), Size("B"))), "B T² h", r"B\,T^{2}\,h"),
    (Mul((a, Size("d_k", -HALF))), "A[r,t] / √d_k", r"\frac{A[r,t]}{\sqrt{d_{k}}}"),
    (Mul((Size("d_k", -HALF), a, b)), "A[r,t] B[t] / √d_k", r"\frac{A[r,t]\,B[t]}{\sqrt{d_{k}}}"),
    (Mul((a, Add((a, b)))), "A[r,t] (A[r,t] + B[t])", r"A[r,t]\,(A[r,t] + B[t])"),
    (Bind("sum", t, Mul((a, b))), "Σ_t A[r,t] B[t]", r"\sum_{t} A[r,t]\,B[t]"),
    (Mul((Bind("sum", t, b), a)), "(Σ_t B[t]) A[r,t]", r"\Bigl(\sum_{t} B[t]\Bigr)\,A[r,t]"),
    (Bind("sum", t, Add((a, b))), "Σ_t (A[r,t] + B[t])", r"\sum_{t} (A[r,t] + B[t])"),
    (Bind("max", t, b), "max_t B[t]", r"\max_{t} B[t]"),
    (Bind("sum", c, number(1)), "Σ_(c<h d_k) 1", r"\sum_{c<h\,d_{k}} 1"),
    (Mul((a, inv(b), Entry("V", ()))), "(A[r,t] / B[t]) V", r"\frac{A[r,t]}{B[t]}\,V"),
    (Mul((inv(b), a)), "A[r,t] / B[t]", r"\frac{A[r,t]}{B[t]}"),
    (Mul((a, inv(b), inv(exp(b)))), "A[r,t] / (B[t] exp(B[t]))", r"\frac{A[r,t]}{B[t]\,e^{B[t]}}"),
    (inv(b), "1 / B[t]", r"\frac{1}{B[t]}"),
    (exp(Mul((MINUS, b))), "exp(-B[t])", "e^{-B[t]}"),
    (exp(Bind("sum", t, b)), "exp(Σ_t B[t])", r"\exp\Bigl(\sum_{t} B[t]\Bigr)"),
    (Apply("fn:gelu", b), "gelu(B[t])", r"\operatorname{gelu}(B[t])"),
    (Cmp("le", t, At(3), 2), "[t ≤ 3 + 2]", r"[t \le 3 + 2]"),
    (Cmp("eq", r, t, -1), "[r = t - 1]", "[r = t - 1]"),
    (Mul((a, number(0))), "A[r,t] · 0", r"A[r,t]\,\cdot 0"),
    (Mul((number(1), a)), "1 · A[r,t]", r"1 \cdot\,A[r,t]"),
    (number(Fraction(2, 3)), "2/3", r"\tfrac{2}{3}"),
    (Entry("W", (Join(domain(HK), (r, j)), t)), "W[r d_k + j, t]", r"W[r\,d_{k} + j,t]"),
    (Entry("W", (t, Join(domain(HK), (r, j)))), "W[t, r d_k + j]", r"W[t,\,r\,d_{k} + j]"),
    (Entry("W", (Part(c, domain(HK), 0), Part(c, domain(HK), 1))), "W[⌊c/d_k⌋, c mod d_k]",
     r"W[\lfloor c/d_{k}\rfloor,\,c \bmod d_{k}]"),
    (Entry("W", (Perm("pi", False, r), Perm("rho", True, t))), "W[π(r),ρ⁻¹(t)]", r"W[\pi(r),\rho^{-1}(t)]"),
]  # fmt: skip


@pytest.mark.parametrize(("term", "unicode", "latex"), CASES)
def test_terms_in_both_scripts(term: Term, unicode: str, latex: str) -> None:
    assert both(term) == (unicode, latex)


def test_names() -> None:
    names = {
        "Q": Symbol("Q", label="r", heads=1),
        "Q'": Symbol("Q_flat", number=1),
        "Y": Symbol("Y", number=12, numbered=True, heads=1),
        "C": Symbol("Concat", block="pruned"),
    }
    assert both(Entry("Q", (Perm("pi", False, r), t)), names) == ("Q^(π(r))[t]", r"Q^{(\pi(r))}[t]")
    assert both(Entry("Q'", (t,)), names) == ("Q_flat'[t]", r"Q_{\mathrm{flat}}'[t]")
    assert both(Entry("Y", (r, t)), names) == ("Y₁₂[r; t]", r"Y_{12}[r;\,t]")
    assert both(Entry("C", (t,)), names) == ("Concat_pruned[t]", r"\operatorname{Concat}_{\mathrm{pruned}}[t]")
    assert Unicode().letter("r12") == "r₁₂"
    assert Latex().letter("r12") == "r_{12}"
    assert Unicode({}, {"pruned": "a"}).letter("pruned") == "a"


def test_positions_of_concatenations_and_raw_reshapes() -> None:
    whole = blocks(axis("past", "P"), axis("new", "N"))
    n = Var("n", domain(axis("new", "N")))
    assert Unicode().index(Inj(n, domain(whole), 1)) == "P + n"
    digit = Part(Join(domain(product(T, H, K)), (t, r, j)), domain(product(H, T, K)), 1)
    assert Unicode().index(digit) == "⌊(t h d_k + r d_k + j)/d_k⌋ mod T"
    assert Latex().index(digit) == r"\lfloor (t\,h\,d_{k} + r\,d_{k} + j)/d_{k}\rfloor \bmod T"


# ---------------------------------------------------------------- what is written decides the value

DOMAINS = [domain(H), domain(K)]


def indices(depth: int) -> Iterator[Index]:
    yield from (r, j, t, c, At(0), At(1))
    if depth:
        for one in list(indices(depth - 1)):
            yield Part(one, domain(HK), 0)
            yield Part(one, domain(HK), 1)
            yield Perm("pi", False, one)
            yield Perm("pi", True, one)
            yield Join(domain(HK), (one, j))
            yield Join(domain(HK), (r, one))
            yield Part(Join(domain(product(T, H)), (one, r)), domain(product(H, T)), 0)
            yield Part(Join(domain(product(T, H)), (one, r)), domain(product(H, T)), 1)


@pytest.mark.parametrize("notation", [Unicode(), Latex()])
def test_positions_written_alike_are_equal(notation: Notation, values: type) -> None:
    context = Context(bijections={"pi": domain(axis("x", 900))})
    pool = values(context, {"h": 3, "d_k": 5, "T": 7})
    written: dict[str, list[int]] = {}
    places = [{"r": 1, "j": 2, "t": 3, "c": 11}, {"r": 2, "j": 4, "t": 5, "c": 7}, {"r": 0, "j": 3, "t": 6, "c": 13}]
    for index in indices(2):
        found = [pool.number(index, at) for at in places]
        assert written.setdefault(notation.index(index), found) == found


def small_terms() -> list[Term]:
    atoms: list[Term] = [
        a, b, Entry("A", (r, At(0))), number(2), MINUS, number(-2), number(Fraction(1, 2)), number(1), Size("d_k"),
        Size("d_k", -HALF), Size("d_k", HALF), Cmp("le", r, t), Cmp("le", t, r), Cmp("eq", r, t, 1),
    ]  # fmt: skip
    return [*atoms, *_combined(atoms, 50), *_combined([*atoms, *_combined(atoms, 20)], 50)]


def _combined(terms: list[Term], some: int) -> list[Term]:
    drawn = random.Random(5)
    found: list[Term] = [f(x) for x in terms for f in (inv, exp)]
    found += [Bind(op, t, x) for x in terms for op in ("sum", "max")]
    pairs = list(itertools.product(terms, terms))
    drawn.shuffle(pairs)
    found += [kind(pair) for pair in pairs[: 6 * some] for kind in (Add, Mul)]
    triples = [tuple(drawn.choice(terms) for _ in range(3)) for _ in range(2 * some)]
    return found + [kind(triple) for triple in triples for kind in (Add, Mul)]


@pytest.mark.parametrize("notation", [Unicode(), Latex()])
def test_terms_written_alike_are_equal(notation: Notation, values: type) -> None:
    written: dict[str, list[Fraction]] = {}
    pools = [values(Context(), {"h": 3, "d_k": 4, "T": 3}, seed, exact=True) for seed in (1, 2)]
    terms = small_terms()
    for term in terms:
        found = [pool.term(term, {"r": 1, "t": 2}) for pool in pools]
        assert written.setdefault(plain(notation.term(term)), found) == found, term
    assert len(written) > len(terms) / 2  # and not everything is written alike


# ---------------------------------------------------------------- breaking lines


def test_marks_add_nothing_and_stand_at_sums_first() -> None:
    text = Unicode().term(Add((Mul((a, b)), Mul((a, Add((a, b)))))))
    assert rows(text, 200) == [plain(text)]
    assert rows(text, 26) == ["A[r,t] B[t]", "+ A[r,t] (A[r,t] + B[t])"]
    assert " ".join(rows(text, 10)) == plain(text)


def test_breaking_takes_the_outermost_places() -> None:
    text = f"aaaa {mark(0)}+ bbb {deeper(f'(cc {mark(0)}+ dd)')}"
    assert rows(text, 15, indent=0) == ["aaaa", "+ bbb (cc + dd)"]
    assert rows(text, 15, measure=lambda piece: 0.5 * len(piece)) == [plain(text)]


def test_width_of_a_fraction_is_that_of_its_wider_part() -> None:
    assert latex_width(r"\frac{a + b}{c}") == latex_width(r"\frac{c}{a + b}") < latex_width("a + b") + 0.5


def test_wide_fractions_are_written_in_a_line() -> None:
    long = Add(tuple(Entry("S", (At(n), At(n), At(n), At(n))) for n in range(9)))
    narrow = r"\tfrac"
    assert r"\frac{" not in plain(Latex().term(Mul((b, inv(long))))).replace(narrow, "")
    assert plain(Latex().term(Mul((b, inv(long))))).endswith(")^{-1}")
    assert plain(Latex().term(Mul((Size("d_k", -HALF), long)))).startswith(r"\frac{1}{\sqrt{d_{k}}}")
