"""What a control says, as an equation in the signs of the theorem that it is close to.

Defines `FalseEquation` and `false_equation`.  Tensors that the theorem has keep their names there.  Those that it has
not are marked, and of them those are told that are made in another way than the ones without the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from mha_sym.errors import AxisProblem
from mha_sym.proof.checker import Goal
from mha_sym.proof.meaning import Meaning, goals
from mha_sym.proof.rules import Definition
from mha_sym.proof.terms import At, Entry, Term, children, domain_key, key, rebuild
from mha_sym.proof.theorem import Claim, Counterexample
from mha_sym.render.formulas.defined import shown_definition
from mha_sym.render.formulas.letters import tidy
from mha_sym.render.formulas.notation import Symbol
from mha_sym.render.formulas.occurring import names_of
from mha_sym.render.formulas.symbols import heads_of
from mha_sym.render.vocabulary import DefinedRow

#: what a tensor that the theorem has not is marked with
MARK = "false"


@dataclass(frozen=True)
class FalseEquation:
    """``left = right`` for all ``variables``, which is false.

    Attributes:
        defined: the tensors that the theorem has not, in the order in which they occur.
        untold: names of those that are made of others as the ones of the theorem are, and which ones these are.
        symbols: how they are called.
        close: whether its signs are those of the theorem; at other sizes they are not.
    """

    left: Term
    right: Term
    variables: tuple[str, ...] = ()
    defined: tuple[DefinedRow, ...] = ()
    untold: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, Symbol] = field(default_factory=dict)
    close: bool = True

    @property
    def where(self) -> tuple[DefinedRow, ...]:
        """The definitions that have to be told."""
        return tuple(row for row in self.defined if row.entry.name not in self.untold)

    @property
    def terms(self) -> tuple[Term, ...]:
        """All terms that are shown."""
        return (self.left, self.right, *(one for row in self.where for one in (row.entry, row.body)))


def false_equation(control: Claim, found: Counterexample | None, meaning: Meaning) -> FalseEquation:
    """The equation of a control.

    Args:
        control: the statement.
        found: where it fails; of several goals the one in which that is.
        meaning: what the names of the theorem stand for; permutations and inputs that are new are put into it.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input, Named
        >>> x, meaning = Input("X", (axis("t", "T"),)), Meaning()
        >>> _ = goals(meaning, "twice", Named(x + x, "Y"), x * 2)
        >>> false = false_equation(Claim("thrice", Named(x * 3, "Y"), Named(x + x, "Y")), None, meaning)
        >>> false.left.name, false.right.name, len(false.where), false.symbols[false.left.name].block
        ("Y'@thrice", 'Y', 1, 'false')
    """
    own, marked = _copy(meaning), True
    try:
        stated = goals(own, control.name, control.left, control.right)
    except AxisProblem:  # at other sizes inputs of the same names are other ones
        own, marked = Meaning(), False
        stated = goals(own, control.name, control.left, control.right)
    goal = _goal(stated, found)
    new = _new([goal.left, goal.right], own.definitions, meaning.definitions if marked else {})
    names = {name: f"{name}@{control.name}" for name in new}
    if marked:
        meaning.bijections |= own.bijections
        meaning.given |= own.given
    letters = tuple(v.name for v in goal.variables)
    return FalseEquation(
        _written(goal.left, names, letters), _written(goal.right, names, letters), letters,
        defined=tuple(_row(name, own, names) for name in new),
        untold={names[name]: other for name, other in _untold(new, own, meaning).items()},
        symbols=dict(_symbols(new, own, names, marked)), close=marked,
    )  # fmt: skip


def _copy(meaning: Meaning) -> Meaning:
    """A meaning of its own, which begins with what is known."""
    return replace(
        meaning, definitions=dict(meaning.definitions), given=dict(meaning.given), named=dict(meaning.named),
        booleans=set(meaning.booleans), tables=dict(meaning.tables), bijections=dict(meaning.bijections),
        positive=list(meaning.positive),
    )  # fmt: skip


def _goal(stated: Sequence[Goal], found: Counterexample | None) -> Goal:
    """The goal in which the counterexample is, if that can be told from fixed positions; else the first."""
    if found is not None and len(stated) > 1:
        wanted = set(found.index.values())
        for goal in stated:
            fixed = [one for side in (goal.left, goal.right) if isinstance(side, Entry) for one in side.at]
            numbers = {one.number for one in fixed if isinstance(one, At)}
            if numbers and numbers <= wanted:
                return goal
    return stated[0]


def _new(terms: Iterable[Term], definitions: Mapping[str, Definition], known: Mapping[str, object]) -> list[str]:
    """Names of tensors that are not known, in the order in which they occur, and of those that they rest on."""
    found: dict[str, None] = {}
    waiting = list(terms)
    while waiting:
        for name in names_of(waiting.pop(0)):
            if name in definitions and name not in known and name not in found:
                found[name] = None
                waiting.append(definitions[name].body)
    return list(found)


def _renamed(term: Term, name: Callable[[str], str]) -> Term:
    """The term with another name for every tensor; parts with the names that they have stay the same objects."""
    if isinstance(term, Entry):
        new = name(term.name)
        return term if new == term.name else Entry(new, term.at)
    inside = children(term)
    told = tuple([_renamed(child, name) for child in inside])
    return term if all(map(is_, told, inside)) else rebuild(term, told)


def _written(term: Term, names: Mapping[str, str], taken: Iterable[str]) -> Term:
    return tidy(_renamed(term, lambda one: names.get(one, one)), frozenset(taken))


def _row(name: str, own: Meaning, names: Mapping[str, str]) -> DefinedRow:
    definition = own.definitions[name]
    renamed = _renamed(definition.body, lambda one: names.get(one, one))
    entry, body = shown_definition(names[name], replace(definition, body=renamed))
    return DefinedRow(entry, body, own.named[name].reason)


def _untold(new: Sequence[str], own: Meaning, meaning: Meaning) -> dict[str, str]:
    """The tensors that are made as usual; if all are, those among them that are made of others that do not fit."""
    models: dict[str, str] = {}
    for name in new:
        _find_model(name, own, meaning, models)
    alike = {name: models[name] for name in new if models.get(name)}
    if len(alike) < len(new):
        return alike
    known = set(meaning.definitions)
    return {name: model for name, model in alike.items() if not known & set(names_of(own.definitions[name].body))}


def _find_model(name: str, own: Meaning, meaning: Meaning, models: dict[str, str]) -> None:
    """Put a tensor of the theorem into ``models`` that is called the same, but for primes, and made in the same way.

    Of several that one is taken that is made of the models of what this one is made of.  There is none that would leave
    open which of the theorem's own tensors this one is made of.
    """
    if name in models:
        return
    others = [other for other in meaning.definitions if _root(other) == _root(name)]
    wanted = _made(name, own) if others else ""
    alike = [other for other in others if _made(other, meaning) == wanted]
    inside = set(names_of(own.definitions[name].body))
    for one in inside & set(own.definitions) - set(meaning.definitions):
        _find_model(one, own, meaning, models)
    shown = inside & set(meaning.definitions)
    alike = [other for other in alike if shown <= set(names_of(meaning.definitions[other].body))]
    made_of = {models.get(one) or one for one in inside}
    alike.sort(key=lambda other: (made_of != set(names_of(meaning.definitions[other].body)), len(other)))
    models[name] = alike[0] if alike else ""


def _made(name: str, meaning: Meaning) -> str:
    """A text equal for definitions that are alike but for the primes of what they are made of."""
    definition = meaning.definitions[name]
    numbered = {v.name: f"{n}{domain_key(v.domain)}" for n, v in enumerate(definition.params)}

    def root(one: str) -> str:
        """Without primes, but for what is made of something given that has the same name."""
        return one if one not in meaning.definitions else _root(one) + "'" * (_root(one) in meaning.given)

    return key(_renamed(definition.body, root), numbered)


def _root(name: str) -> str:
    return name.rstrip("'")


def _symbols(new: Sequence[str], own: Meaning, names: Mapping[str, str], marked: bool) -> Iterable[tuple[str, Symbol]]:
    """How the new tensors are called, those of one name told apart by primes."""
    count: dict[str, int] = {}
    for name in new:
        root, _, block = _root(name).partition(".")
        number = count[root + block] = count.get(root + block, -1) + 1
        stem, _, label = root.partition("^")
        mark = ",".join(filter(None, (block, MARK if marked else "")))
        yield names[name], Symbol(stem, mark, number, False, label.strip("()"), heads_of(name, own))
