"""False statements with the best forged proofs that we could think of: what an attacker would hand to the checker.

Defines `ATTACKS`.  Each holds certificates, the last of which is false or says nothing, the context they are handed in
with, and a word of the reason for which they must be refused: another reason would mean that the guard which is aimed
at was never reached.  Statements are false under the reading of `tests.proof.engine`, which shares nothing with the
rules, unless they say nothing (``senseless``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mha_sym.proof.checker import Certificate, Step
from mha_sym.proof.rules import Context, Definition, Goal
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
    Part,
    Perm,
    Size,
    Term,
    Var,
    sum_over,
)
from tests.proof.random_terms import BLOCKS, HK, KH, SIX, THREE, TWO, H, K, S, T, number


@dataclass(frozen=True)
class Attack:
    """Certificates, what they take for granted, and why they must be refused."""

    certificates: tuple[Certificate, ...]
    context: Context
    reason: str
    senseless: bool = False


def step(rule: str, path: tuple[int, ...] = (), **args: Any) -> Step:
    return Step(rule, path, args)


def claim(
    left: Term, right: Term, steps: tuple[Step, ...] = (), variables: tuple[Var, ...] = (), name: str = "false",
    back: tuple[Step, ...] = (),
) -> Certificate:
    return Certificate(Goal(name, variables, left, right), steps, back)


def x(*at: Index) -> Entry:
    return Entry("x", at)


def over(var: Var, body: Term) -> Bind:
    return sum_over(var, body)


def eq(left: Index, right: Index, offset: int = 0) -> Cmp:
    return Cmp("eq", left, right, offset)


def inverse(term: Term) -> Apply:
    return Apply("inv", term)


def exp(term: Term) -> Apply:
    return Apply("exp", term)


TRUE, NOTHING = Context(), (number(0), ONE)
SINGLE = Domain("o", number(1))
r, q, j, c, t, s = Var("r", H), Var("q", H), Var("j", K), Var("c", HK), Var("t", T), Var("s", S)
a, b, six, w = Var("a", TWO), Var("b", THREE), Var("i", Domain("i", number(6))), Var("w", SINGLE)
KEEP = Entry("keep", (s,))
ATTACKS: dict[str, Attack] = {}


def attack(
    name: str, reason: str, *certificates: Certificate, context: Context = TRUE, senseless: bool = False
) -> None:
    assert name not in ATTACKS
    ATTACKS[name] = Attack(certificates, context, reason, senseless)


def always_one(domain: Domain) -> Certificate:
    """``1 = sum_i [i = k]`` for every position ``k``: true, and what most attacks on positions misuse."""
    i, k = Var("i", domain), Var("k", domain)
    return claim(ONE, over(i, eq(i, k)), (), (k,), "one", (step("delta", position=0),))


def at_one(index: Index) -> Step:
    return step("lemma", name="one", at=(index,))


# fmt: off
# ---------------------------------------------------------------- positions outside their axes

#: 6 positions, said to be 2 x 2: the last two would be read as the first
CROOKED = Domain("w", number(6), (TWO, TWO))
SQUARE = Domain("w", number(4), (TWO, TWO))
FOLDED = x(Join(SQUARE, (Part(six, CROOKED, 0), Part(six, CROOKED, 1))))
LAST = {"x": {(n,): Fraction(int(n >= 4)) for n in range(6)}}
attack(
    "a product axis of another size, seen from a plain one", "the axes inside have another size",
    claim(over(six, Entry("D", (six,))), number(2),
          (step("unfold", (0,)), step("enumerate_sum"), *(step("table", (n,)) for n in range(6)), step("arithmetic"))),
    context=Context(definitions={"D": Definition((six,), FOLDED)}, tables=LAST), senseless=True,
)
attack(
    "a lemma at a part of a product axis of another size", "the axes inside have another size",
    always_one(TWO), claim(ONE, over(a, eq(a, Part(six, CROOKED, 0))), (at_one(Part(six, CROOKED, 0)),), (six,)),
    senseless=True,
)
EMPTY = Domain("e", Size("0"))
COUNT = over(Var("i", EMPTY), ONE)
attack(
    "an axis of the size that is called 0", "a size of zero",
    claim(Mul((COUNT, inverse(COUNT))), ONE, (step("cancel", value=0, inverse=1, given=()),), name="cancelled"),
    claim(ONE, ZERO, (step("lemma", name="cancelled", at=(), back=True), step("constant_sum", (0,)),
                      step("arithmetic"), step("arithmetic"))),
    senseless=True,
)
attack("an axis of a size called 0 in another script", "a size of zero",
       claim(over(Var("i", Domain("e", Size("\u0660"))), ONE), ZERO, (step("constant_sum"),)), senseless=True)
attack("an axis of a size called by a digit that is no number", "invalid literal",
       claim(over(Var("i", Domain("e", Size("\u00b2"))), ONE), ZERO, (step("constant_sum"),)), senseless=True)
attack("an axis of size 0", "a size that is no positive integer",
       claim(ZERO, ONE, (at_one(At(0)),)), context=Context(bijections={"pi": Domain("e", number(0))}))
attack("a sum over nothing as 1", "a size that is no positive integer", claim(
    over(Var("i", Domain("e", Add((Size("h"), Mul((number(-1), Size("h"))))))), ONE), ONE), senseless=True)
attack("a fixed position that not every axis has", "a position outside its axis",
       claim(over(r, eq(r, At(2))), ONE, (step("delta", position=0),)))
attack("the same position inside a pair", "a position outside its axis",
       claim(over(c, eq(c, Join(HK, (At(0), At(2))))), ONE, (step("delta", position=0),)))
attack("the same position under a bijection", "a position outside its axis",
       claim(over(r, eq(r, Perm("pi", False, At(2)))), ONE, (step("delta", position=0),)),
       context=Context(bijections={"pi": H}), senseless=True)
attack("the same position in a block", "a position outside its axis",
       claim(over(Var("c", BLOCKS), eq(Var("c", BLOCKS), Inj(At(9), BLOCKS, 1))), ONE, (step("delta", position=0),)))
attack("a lemma at a fixed position that not every axis has", "a position outside its axis",
       always_one(H), claim(ONE, over(r, eq(r, At(2))), (at_one(At(2)),)))
attack("a definition opened where it is not made", "a position outside its axis",
       claim(Entry("D", (At(2),)), ONE, (step("unfold"),)),
       context=Context(definitions={"D": Definition((r,), ONE)}), senseless=True)
attack("a position of three in two", "a position outside its axis",
       claim(over(a, eq(a, b)), ONE, (step("delta", position=0),), (b,)))
attack("a lemma at a variable read in a smaller axis", "a variable that is not in scope",
       always_one(SINGLE), claim(over(a, ONE), ONE, (step("lemma", (0,), name="one", at=(Var("a", SINGLE),)),)))
attack("a variable that nobody stated", "a variable that is not in scope", claim(x(r), ONE), senseless=True)
attack("a position in two axes at once", "the axes inside have another size",
       claim(x(Var("c", Domain("c", Size("h"), (H, K)))), ONE, (), (Var("c", Domain("c", Size("h"), (H, K))),)),
       senseless=True)
attack("a reshape that loses entries", "a position outside its axis",
       claim(x(Part(Join(SIX, (At(0), At(0))), SQUARE, 0)), ONE), senseless=True)

# ---------------------------------------------------------------- bound names

attack("capture by the sum around a definition", "different terms",
       claim(over(s, Entry("D", (s,))), over(s, over(s, Entry("y", (s, s)))), (step("unfold", (0,)),)),
       context=Context(definitions={"D": Definition((t_ := Var("p", S),), over(s, Entry("y", (t_, s))))}))
attack("capture by an exchange", "different terms",
       claim(over(s, over(s, Entry("y", (s, s)))), over(s, over(Var("u", S), Entry("y", (s, Var("u", S))))),
             (step("exchange"),)))
attack("capture by a factor pulled in", "different terms",
       claim(Mul((x(s), over(s, Entry("y", (s,))))), over(s, Mul((x(s), Entry("y", (s,))))),
             (step("pull", position=1),), (s,)))
attack("capture by a split into two factors of one name", "different terms",
       claim(over(Var("c", SQUARE), x(Var("c", SQUARE))), over(a, over(a, x(Join(SQUARE, (a, a))))),
             (step("split_sum"),)))
attack("capture by a lemma", "different terms",
       claim(over(s, Entry("y", (t_, s))), over(s, Entry("y", (t_, s))), (), (t_,), "same"),
       claim(over(s, over(Var("u", S), Entry("y", (s, Var("u", S))))), over(s, over(s, Entry("y", (s, s)))),
             (step("lemma", (0,), name="same", at=(s,), back=False),)))
attack("a factor that depends on the index", "a factor depends on the summed index",
       claim(over(s, Mul((x(s), x(s)))), Mul((over(s, x(s)), over(s, x(s)))), (step("factor", positions=(0,)),)))
attack("a summand that depends on the index", "the summand depends on the index",
       claim(over(s, x(s)), Mul((Size("S"), x(At(0)))), (step("constant_sum"),)))
attack("a bracket about another index of the same name", "not about this index",
       claim(Mul((eq(s, At(0)), over(s, eq(s, At(0))))), Mul((eq(s, At(0)), Size("S"))),
             (step("guard", brackets=(0,), where=(1, 0)), step("constant_sum", (1,))), (s,)))
attack("an index fixed by itself", "the bracket does not fix the index",
       claim(over(r, eq(r, Perm("pi", False, r))), ONE, (step("delta", position=0),)),
       context=Context(bijections={"pi": H}))

# ---------------------------------------------------------------- brackets, permutations, pairs, blocks

attack("a bracket that guards itself", "does not guard itself",
       claim(Mul((KEEP, x(s))), x(s), (step("guard", brackets=(0,), where=(0,)),), (s,)),
       context=Context(booleans=frozenset({"keep"})))
attack("what is no bracket as one", "not a bracket",
       claim(Mul((x(s), x(s))), x(s), (step("guard", brackets=(0,), where=(1,)),), (s,)))
attack("an entry said to be 0 or 1 by nobody", "not a bracket",
       claim(Mul((KEEP, exp(KEEP))), Mul((KEEP, exp(ONE))), (step("guard", brackets=(0,), where=(1, 0)),), (s,)))
attack("two orders that do not meet", "do not meet|that meet",
       claim(Mul((Cmp("le", s, t), Cmp("le", s, r), Cmp("le", t, r))), Mul((Cmp("le", s, t), Cmp("le", s, r))),
             (step("guard", brackets=(0, 1), where=(2,)),), (s, t, r)))
attack("an order with too much room", "not the same bracket",
       claim(Mul((Cmp("le", s, t, 1), Cmp("le", t, r, 1), Cmp("le", s, r, 1))),
             Mul((Cmp("le", s, t, 1), Cmp("le", t, r, 1))), (step("guard", brackets=(0, 1), where=(2,)),), (s, t, r)))
attack("a shifted index fixed", "not a bracket of equality",
       claim(over(r, eq(r, At(0), 5)), ONE, (step("delta", position=0),)))
attack("an order as an equality", "not a bracket of equality",
       claim(over(r, Cmp("le", r, q)), ONE, (step("delta", position=0),), (q,)))
attack("a position equal to the next", "open", claim(eq(r, r, 1), ONE, (step("compare"),), (r,)))
attack("a bijection for its inverse", "open",
       claim(eq(Perm("pi", False, r), Perm("pi", True, q)), eq(r, q), (step("compare"),), (r, q)),
       context=Context(bijections={"pi": H}))
attack("one bijection for another", "open",
       claim(eq(Perm("pi", False, r), Perm("rho", False, q)), eq(r, q), (step("compare"),), (r, q)),
       context=Context(bijections={"pi": H, "rho": H}), senseless=True)
attack("a bijection of another axis of the same size", "a bijection of another axis",
       claim(over(c, x(c)), over(c, x(Perm("pi", False, c))), (step("reindex", name="pi", inverse=False),)),
       context=Context(bijections={"pi": KH}), senseless=True)
attack("a bijection that nobody declared", "no such bijection",
       claim(over(r, x(r)), ONE, (step("reindex", name="pi", inverse=False),)))
attack("pairs of axes in another order", "open",
       claim(eq(Join(HK, (r, j)), Join(KH, (j, r))), ONE, (step("compare"),), (r, j)))
attack("order of pairs part by part", "open",
       claim(Cmp("le", Join(HK, (r, j)), Join(HK, (q, At(0)))), Mul((Cmp("le", r, q), Cmp("le", j, At(0)))),
             (step("compare"),), (r, j, q)))
OTHER_BLOCKS = Domain("c", Add((Size("h"), Size("d"))), (), (K, H))
attack("blocks of different concatenations", "open",
       claim(eq(Inj(r, BLOCKS, 0), Inj(j, OTHER_BLOCKS, 0)), ZERO, (step("compare"),), (r, j)))

# ---------------------------------------------------------------- zero, maxima, exponentials, like terms

for name, zero in {
    "nothing": ZERO, "an empty sum": Add(()), "a difference": Add((x(), Mul((number(-1), x())))), "an entry": x(),
    "one more than an entry": Add((ONE, x())), "a maximum": Bind("max", s, ONE),
    "an even power": Mul((x(), x())), "a row": over(s, Mul((KEEP, exp(x(s))))),
    "a late row": over(r, Cmp("le", At(1), r)), "one of a row": over(r, eq(r, q)),
}.items():
    attack(f"{name} cancelled", "the factor may be zero",
           claim(Mul((zero, inverse(zero))), ONE, (step("cancel", value=0, inverse=1, given=()),), (q,)),
           context=Context(booleans=frozenset({"keep"})), senseless=name in ("a maximum", "one of a row"))
ROW = over(s, Entry("keep", (t, s)))
attack("an assumption about row 0 used for row t", "the factor may be zero",
       claim(Mul((ROW, inverse(ROW))), ONE, (step("cancel", value=0, inverse=1, given=((0, ()),)),), (t,)),
       context=Context(booleans=frozenset({"keep"}), positive=(((), over(s, Entry("keep", (At(0), s)))),)))
attack("an assumption at a position it does not speak of", "a position outside its axis",
       claim(Mul((x(b), inverse(x(b)))), ONE, (step("cancel", value=0, inverse=1, given=((0, (b,)),)),), (b,)),
       context=Context(positive=(((a,), x(a)),)))
attack("an assumption counted from the end", "no such assumption",
       claim(Mul((x(), inverse(x()))), ONE, (step("cancel", value=0, inverse=1, given=((-1, ()),)),)),
       context=Context(positive=(((), Entry("y", ())),)))
attack("one factor for itself and its inverse", "a position is named twice",
       claim(inverse(x()), ONE, (step("cancel", value=0, inverse=0, given=()),)))
attack("one exponential for two", "a position is named twice",
       claim(exp(x()), exp(Add((x(), x()))), (step("exp_product", first=0, second=0),)))
attack("the maximum of a sum", "not a sum",
       claim(Bind("max", s, Add((x(s), Entry("y", (s,))))),
             Add((Bind("max", s, x(s)), Bind("max", s, Entry("y", (s,))))),
             (step("distribute", position=0),)))
attack("a maximum pulled out", "not a sum",
       claim(Mul((x(), Bind("max", s, Entry("y", (s,))))), Bind("max", s, Mul((x(), Entry("y", (s,))))),
             (step("pull", position=1),)))
attack("the exponential of a product", "nothing to take apart",
       claim(exp(Mul((x(), x()))), Mul((exp(x()), exp(x()))), (step("exp_of_sum"),)))
attack("the inverse of a sum", "nothing to take apart",
       claim(inverse(Add((x(), ONE))), Add((inverse(x()), ONE)), (step("inverse_of_product"),)))
attack("unlike terms collected", "not like terms",
       claim(Add((x(), inverse(x()))), Mul((number(2), x())), (step("collect", first=0, second=1),)))
attack("unlike factors taken out", "the factors differ",
       claim(Add((Mul((x(), ONE)), Mul((inverse(x()), ONE)))), Mul((x(), number(2))),
             (step("take_out", positions=((0,), (0,))), step("arithmetic", (1,)))))
attack("factors taken out of the first addend alone", "one choice of factors an addend",
       claim(Add((Mul((x(), ONE)), ONE)), Mul((x(), number(2))), (step("take_out", positions=((0,),)),)))
attack("a product axis written out as a plain one", "not over a plain axis",
       claim(over(Var("c", SIX), ONE), number(5), (step("enumerate_sum"),)))
attack("a plain axis split", "not over a product axis",
       claim(over(six, ONE), number(5), (step("split_sum"),)))

# ---------------------------------------------------------------- names

PAIR = Definition((r, j), Mul((Entry("y", (r,)), Entry("z", (j,)))))
for name, defined in {"defined": Context(definitions={"D": PAIR}),
                      "tabled": Context(tables={"D": {(0, 0): Fraction(1), (0, 1): Fraction(1)}})}.items():
    short = Entry("D", (At(0),))
    attack(f"a {name} name with a position too few, never opened", "has other positions",
           claim(short, short), context=defined, senseless=True)
    attack(f"a {name} name with a position too many, never opened", "has other positions",
           claim(ONE, Entry("D", (At(0), At(0), At(0)))), context=defined, senseless=True)
attack("a definition that uses another with a position too few", "has other positions", claim(ONE, ONE),
       context=Context(definitions={"D": PAIR, "E": Definition((), Entry("D", (At(0),)))}), senseless=True)
attack("an assumption about a defined name with a position too few", "has other positions", claim(ONE, ONE),
       context=Context(definitions={"D": PAIR}, positive=(((r,), Entry("D", (r,))),)), senseless=True)
attack("a definition that rests on itself", "rests on itself",
       claim(ZERO, ONE), context=Context(definitions={"D": Definition((), Add((Entry("D", ()), ONE)))}))
attack("a definition that rests on a later one", "rests on itself", claim(ZERO, ONE), context=Context(
    definitions={"D": Definition((), Entry("E", ())), "E": Definition((), Add((Entry("D", ()), ONE)))}))
attack("a half that is 0 or 1", "one name", claim(Entry("D", ()), ONE),
       context=Context(tables={"D": {(): Fraction(1, 2)}}, booleans=frozenset({"D"})))
attack("a lemma that is not proved yet", "no such lemma",
       claim(ZERO, ONE, (step("lemma", name="false", at=(), back=False),)))
attack("a lemma that proves its namesake", "the lemma says something else",
       claim(ONE, ONE, name="false"), claim(ZERO, ONE, (step("lemma", name="false", at=(), back=False),)))
attack("a name that looks like the end of another", "different terms",
       claim(Add((Entry("x',[])", ()), Entry("y", ()))), Add((Entry("x", ()), Entry("',[]),Entry('y", ())))))
attack("a name that looks like a bound variable", "different terms",
       claim(over(s, x(s)), over(s, x(Var("#0", S))), (), (Var("#0", S),)))
attack("a table read outside", "not at a fixed place",
       claim(Entry("D", (At(7),)), ZERO, (step("table"),)), context=Context(tables={"D": {(0,): Fraction(1)}}),
       senseless=True)
attack("a table read at a place of no fixed number", "not at a fixed place",
       claim(Entry("D", (Join(HK, (At(0), At(1))),)), ONE, (step("table"),)),
       context=Context(tables={"D": {(1,): Fraction(1), (0,): Fraction(2)}}), senseless=True)
