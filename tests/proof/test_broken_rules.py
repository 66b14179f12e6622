"""Every rule of the kernel broken on purpose, at least twice: a named check on it must fail, and passes unbroken.

The kernel's source is changed in one place, compiled, and asked what it makes of the evidence in
`tests.proof.test_rules`.  A rule that has fewer than two broken versions here fails a test, and so does an edit that
no longer fits the source.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mha_sym.proof import rules
from mha_sym.proof.rules import RULES
from mha_sym.proof.terms import TermError, equal
from tests.proof.test_rules import DECIDED, DOUBTFUL, EVIDENCE, FULL, GIVEN, MORE, Apply, Mul

SOURCE = Path(rules.__file__).read_text(encoding="utf-8")
Rules = Mapping[str, Callable[..., Any]]


# ---------------------------------------------------------------- checks, by name


def result(made: Rules, name: str) -> None:
    """The rule makes of its example what it should."""
    term, args, expected = EVIDENCE[name].match
    assert equal(made[name](term, FULL, **args), expected)


def results(made: Rules, name: str) -> None:
    """The same of all other examples."""
    for other, term, args, expected in MORE:
        assert other != name or equal(made[name](term, FULL, **args), expected)
    for term, expected in DECIDED if name == "compare" else ():
        assert made[name](term, FULL) == expected


def refusals(made: Rules, name: str) -> None:
    """The rule refuses where a side condition is broken."""
    for _, term, args in EVIDENCE[name].refuse:
        with pytest.raises(TermError):
            made[name](term, FULL, **args)


def positivity(made: Rules, name: str) -> None:
    """What may be zero does not cancel."""
    for one in DOUBTFUL:
        with pytest.raises(TermError):
            made[name](Mul((one, Apply("inv", one))), FULL, value=0, inverse=1, given=GIVEN)


CHECKS = (result, results, refusals, positivity)

#: the rules that an edit breaks, what stands in the kernel, what is put there, and the check that must notice
Row = tuple[str, str, str, Callable[[Rules, str], None]]
BROKEN: tuple[Row, ...] = (
    ("unfold", "return subst(definition.body, _instance(context, definition.params, term.at))",
     "return definition.body", result),
    ("unfold lemma cancel", "        check_position(index, var.domain, context.bijections, None)\n", "        pass\n",
     refusals),
    ("unfold lemma cancel", 'need(len(at) == len(variables), "wrong number of positions")',
     "at = (*at, *variables[len(at):])[: len(variables)]", refusals),
    ("table", "place = tuple(n for n in map(fixed_number, term.at) if n is not None)",
     "place = tuple(n or 0 for n in map(fixed_number, term.at))", refusals),
    ("table", "return Num(context.tables[term.name][place])", "return Num(context.tables[term.name][(0, 0)])", result),
    ("lemma", 'need(equal(right if back else left, term), "the lemma says something else")', "", refusals),
    ("lemma", "return left if back else right", "return left", result),
    ("arithmetic", "if total or not rest", "if not rest", results),
    ("arithmetic", "return Num(1 / value) if value else ZERO", "return Num(1 / value) if value else ONE", results),
    ("arithmetic", "return Size(name, -power)", "return Size(name, power)", results),
    ("arithmetic", "powers[name] -= floor(powers[name])", "powers[name] = Fraction(0)", result),
    ("arithmetic", 'case Apply("exp", Num(value)) if not value:', 'case Apply("exp", Num(value)):', refusals),
    ("distribute sum_of_sum", "Add(tuple(put_path(term, (position,), one) for one in inner.args))", "inner",
     result),
    ("distribute sum_of_sum", "else {_sum(term).var.name}", "else frozenset()", refusals),
    ("pull exchange", "bind = rename_apart(_sum(inner), outer)", "bind = _sum(inner)", results),
    ("pull exchange", "return sum_over(bind.var, put_path(term, (position,), bind.body))",
     "return put_path(term, (position,), bind.body)", result),
    ("take_out", 'need(all(equal(product(out), product(split[0][0])) for out, _ in split), "the factors differ")', "",
     refusals),
    ("take_out", "return Mul((*split[0][0], Add(", "return Mul((*split[0][0][1:], Add(", result),
    ("take_out collect factor exp_product",
     'need(len(set(positions)) == len(positions), "a position is named twice")', "", refusals),
    ("collect", 'need(equal(*bases), "not like terms")', "", refusals),
    ("collect", "return Add((*rest, merged)) if rest else merged", "return merged", result),
    ("factor", 'need(bind.var.name not in free(tuple(out)), "a factor depends on the summed index")', "", refusals),
    ("factor", "return product([*out, sum_over(bind.var, product(rest))])",
     "return product([sum_over(bind.var, product(rest))])", result),
    ("constant_sum", 'need(bind.var.name not in free(bind.body), "the summand depends on the index")', "", refusals),
    ("constant_sum", "return Mul((bind.var.domain.size, bind.body))", "return bind.body", result),
    ("split_sum", 'need(bool(var.domain.factors), "not over a product axis")', "", refusals),
    ("split_sum", "join(var.domain, tuple(new))", "join(var.domain, tuple(reversed(new)))", result),
    ("split_sum", "fresh_var(Var(one.name, one), taken) if one.name in taken else Var(one.name, one)",
     "Var(one.name, one)", results),
    ("enumerate_sum", "for n in range(int(size))", "for n in range(1, int(size))", result),
    ("enumerate_sum", "case Bind(_, Var(name, Domain(_, Num(size), (), ())), body):",
     "case Bind(_, Var(name, Domain(_, Num(size))), body):", refusals),
    ("delta", 'or bracket.op != "eq" or bracket.offset', 'or bracket.op != "eq"', refusals),
    ("delta", "and var.name not in free(there)", "", refusals),
    ("delta", "need(var in (bracket.left, bracket.right) and ", "need(", refusals),
    ("delta", "_instance(context, (var,), (there,))", "{var.name: there}", refusals),
    ("reindex", 'need(equal(context.bijections[name], var.domain), "a bijection of another axis")', "", refusals),
    ("reindex", "need(name in context.bijections and isinstance(inverse, bool)", "need(name in context.bijections",
     refusals),
    ("reindex", "{var.name: Perm(name, inverse, var)}", "{var.name: Perm(name, not inverse, var)}", result),
    ("exp_of_sum inverse_of_product", "return Mul(tuple(Apply(name, one) for one in args))",
     "return Add(tuple(Apply(name, one) for one in args))", result),
    ("exp_of_sum inverse_of_product", 'case Apply("exp" as name, Add(args)) | Apply("inv" as name, Mul(args)):',
     "case Apply(name, Add(args) | Mul(args)):", refusals),
    ("inverse_of_exp", 'return Apply("exp", Mul((Num(Fraction(-1)), arg)))', 'return Apply("exp", arg)', result),
    ("inverse_of_exp", 'case Apply("inv", Apply("exp", arg)):', 'case Apply(_, Apply(_, arg)):', refusals),
    ("exp_product", 'return product([*rest, Apply("exp", Add((left, right)))])',
     'return product([*rest, Apply("exp", Mul((left, right)))])', result),
    ("exp_product", 'case [Apply("exp", left), Apply("exp", right)], rest:',
     "case [left, right], rest:", refusals),
    ("cancel", 'need(equal(Apply("inv", number), over), "the factors are not inverse to each other")', "", refusals),
    ("cancel", 'need(is_positive(number, context, known), "the factor may be zero")', "", refusals),
    ("cancel", "return value > 0", "return value != 0", positivity),
    ("cancel", "return (first or key(sum_over(var, product(brackets))) in known) and", "return", positivity),
    ("cancel", 'case Size() | Apply("exp", _):', "case Size() | Apply():", positivity),
    ("guard", "return put_path(term, where, ONE)", "return put_path(term, where, ZERO)", result),
    ("guard", 'need(equal(_known(term, context, brackets, where), at_path(term, where)), "not the same bracket")', "",
     refusals),
    ("guard spread", "and all(is_bracket(one, context) for one in known)", "", refusals),
    ("guard spread", 'need(bool(where) and where[0] not in brackets, "a bracket does not guard itself")', "", refusals),
    ("guard spread", "or node.var.name not in free(tuple(known))", "or True", refusals),
    ("guard", "offset + more", "offset", results),
    ("guard", "if equal(middle, between):", "if True:", refusals),
    ("spread", "return put_path(term, where, Mul((_known(term, context, brackets, where), at_path(term, where))))",
     "return put_path(term, where, _known(term, context, brackets, where))", result),
    ("compare", 'return left <= right + offset if op == "le" else left == right + offset',
     'return left <= right if op == "le" else left == right', results),
    ("compare", 'and (offset == 0 or (op == "le" and offset > 0))', "", refusals),
    ("compare", "if left <= offset:", "if True:", refusals),
    ("compare", "if equal(whole, other) and number != block:", "if equal(whole, other):", results),
    ("compare", "if (a, x) == (b, y):", "if a == b:", refusals),
    ("compare", 'case Cmp("eq", Join(a, left), Join(b, right), 0) if equal(a, b):',
     'case Cmp(_, Join(a, left), Join(b, right)) if equal(a, b):', refusals),
)  # fmt: skip


def broken(old: str, new: str) -> Rules:
    """The rules with one place of their source changed."""
    assert SOURCE.count(old) == 1, f"this stands in the kernel {SOURCE.count(old)} times: {old}"
    module = ModuleType("broken_rules")
    sys.modules[module.__name__] = module  # where dataclasses look for it
    exec(compile(SOURCE.replace(old, new), module.__name__, "exec"), module.__dict__)
    made: Rules = module.RULES
    return made


def test_every_rule_is_broken_at_least_twice() -> None:
    counts = {name: sum(name in names.split() for names, *_ in BROKEN) for name in RULES}
    assert set(counts) == set(RULES)
    assert {name: n for name, n in counts.items() if n < 2} == {}
    assert {name for names, *_ in BROKEN for name in names.split()} <= set(RULES)


CASES = [(name, *row) for names, *row in BROKEN for name in names.split()]


@pytest.mark.parametrize(("name", "old", "new", "check"), CASES, ids=[f"{c[0]}-{n}" for n, c in enumerate(CASES)])
def test_a_broken_rule_is_noticed(name: str, old: str, new: str, check: Callable[[Rules, str], None]) -> None:
    check(RULES, name)
    with pytest.raises((AssertionError, pytest.fail.Exception, LookupError, TermError)):
        check(broken(old, new), name)
