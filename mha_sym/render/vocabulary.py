"""What the signs in a derivation mean: sizes, letters for positions, given and defined tensors, permutations.

Defines the rows of the table of notation and `vocabulary`, which makes them from what occurs in some terms and from the
`Meaning` that the terms come from.  How anything is written is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mha_sym.axes import Axis
from mha_sym.expr import Expr, Input, Table, walk
from mha_sym.proof.meaning import Meaning, domain, positions
from mha_sym.proof.rules import Definition
from mha_sym.proof.terms import (
    At,
    Domain,
    Entry,
    Index,
    Join,
    Term,
    Var,
    domain_key,
)
from mha_sym.render.formulas.defined import coordinates, shown_definition
from mha_sym.render.formulas.letters import FAMILIES
from mha_sym.render.formulas.notation import Symbol, rank
from mha_sym.render.formulas.occurring import Occurring, names_of, variables_in
from mha_sym.render.formulas.symbols import symbols_of
from mha_sym.render.tensor_words import defined_words, given_words

#: what a position in an axis is, and what its size counts, by the axis' letter in the field
AXIS_WORDS = {
    "b": "sequence in the batch", "t": "position of a query", "s": "position of a key", "m": "feature of a token",
    "h": "head", "k": "feature of a query or key in one head", "v": "feature of a value in one head",
    "pruned": "head that is gated away",
}  # fmt: skip
#: the sizes of axes, as the field writes them
SIZES = {"b": "B", "t": "T", "s": "S", "m": "d_model", "h": "h", "k": "d_k", "v": "d_v"}
SIZE_WORDS = {
    "B": "sequences in the batch", "T": "tokens", "S": "keys", "d_model": "features of a token", "h": "heads",
    "d_k": "features of a query or key in one head", "d_v": "features of a value in one head",
}  # fmt: skip
_COUNTED = {
    "b": SIZE_WORDS["B"], "t": "tokens", "s": SIZE_WORDS["S"], "m": SIZE_WORDS["d_model"], "h": SIZE_WORDS["h"],
    "k": SIZE_WORDS["d_k"], "v": SIZE_WORDS["d_v"], "(h k)": "columns of all heads together",
    "(h v)": "value features of all heads together", "pruned": "heads that are gated away",
}  # fmt: skip
#: what is given, in this order
ROLES = ("data", "mask", "gate", "weight", "bias")

#: letters for positions in axes whose names are words, first choice first
SPARE = "aegovxyz"


@dataclass(frozen=True)
class SizeRow:
    """A symbolic size, and what it counts."""

    name: str
    words: str


@dataclass(frozen=True)
class LetterRow:
    """Letters for positions: ``0 <= letter < size``; ``made_of`` says how a joined position is made of others."""

    letters: tuple[str, ...]
    size: Term
    words: str
    made_of: Index | None = None


@dataclass(frozen=True)
class GivenRow:
    """A tensor that is given: its entry, the sizes of its axes, what it is; ``values`` if it is a constant."""

    entry: Entry
    shape: tuple[Term, ...]
    words: str
    values: Any = None


@dataclass(frozen=True)
class DefinedRow:
    """A tensor that is defined: ``entry = body``, and the words for it."""

    entry: Entry
    body: Term
    words: str


@dataclass(frozen=True)
class NamedRow:
    """A tensor that is defined where it occurs: its entry, the sizes of its axes, what it is, and ``others`` alike."""

    entry: Entry
    shape: tuple[Term, ...]
    words: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class BijectionRow:
    """An arbitrary permutation of the positions in an axis."""

    name: str
    size: Term
    words: str


@dataclass(frozen=True)
class Vocabulary:
    """The table of notation, and how tensors (``names``) and positions (``letters_for``) are written.

    ``named`` are the defined tensors where ``defined`` leaves them to the claims; ``sizes_besides`` are sizes that the
    claims have not.
    ``brackets`` says whether comparisons in brackets occur, ``digits`` whether joined positions are taken apart.
    """

    sizes: tuple[SizeRow, ...] = ()
    sizes_besides: tuple[SizeRow, ...] = ()
    letters: tuple[LetterRow, ...] = ()
    given: tuple[GivenRow, ...] = ()
    defined: tuple[DefinedRow, ...] = ()
    named: tuple[NamedRow, ...] = ()
    bijections: tuple[BijectionRow, ...] = ()
    brackets: bool = False
    digits: bool = False
    names: Mapping[str, Symbol] = field(default_factory=dict)
    letters_for: Mapping[str, str] = field(default_factory=dict)


def vocabulary(
    groups: Iterable[Iterable[Term]], meaning: Meaning, exprs: Sequence[Expr], places: Iterable[Index] = (),
    besides: Iterable[Term] = (),
) -> Vocabulary:
    """The notation of some terms.

    Args:
        groups: terms in the order in which they are read, which is the order in which tensors of one name are
            numbered; after each group come the definitions that it rests on.
        meaning: what their names stand for.
        exprs: the expressions that they come from; their axes say what positions are.
        places: positions that are shown besides.
        besides: terms with names that the meaning does not have; only their other signs are told.

    Example:
        >>> from mha_sym.axes import axis
        >>> meaning, x = Meaning(), Input("X", (axis("t", "T"),))
        >>> (var,), index = positions(x.axes[0], set())[0]
        >>> found = vocabulary([[meaning.at(x, {"t": index}, {})]], meaning, [x])
        >>> found.sizes[0].words, found.letters[0].letters, found.given[0].words
        ('tokens', ('t',), 'input of the layer')
    """
    found = Occurring()
    for group in groups:
        for term in group:
            found.read(term)
        found.open(meaning.definitions)
    for place in places:
        found.place(place)
    known, needed = set(found.variables), set(found.sizes)
    for term in besides:
        found.read(term)
    names = [name for name in found.names if name in meaning.definitions or name in meaning.given]
    given = tuple(_given(names, meaning))
    for row in given:
        found.read(row.entry)
        known |= variables_in(row.entry)
        needed |= _sizes_in(row.entry)
    axes = _axes(exprs)
    sizes = list(_sizes(found.sizes, axes))
    return Vocabulary(
        sizes=tuple(row for row in sizes if row.name in needed),
        sizes_besides=tuple(row for row in sizes if row.name not in needed),
        letters=tuple(_letters(_told(found.variables, known), axes)),
        given=given,
        defined=tuple(_defined(names, meaning, found.opened)),
        bijections=tuple(_bijections(found.bijections, meaning, axes)),
        brackets=found.brackets,
        digits=found.digits,
        names=symbols_of(names, meaning),
        letters_for=_aliases([var.name for var in found.variables], found.names),
    )


def _sizes_in(entry: Entry) -> set[str]:
    found = Occurring()
    found.read(entry)
    return set(found.sizes)


def names_in(terms: Iterable[Term], definitions: Mapping[str, Definition]) -> tuple[str, ...]:
    """The names that some terms rest on, in the order of first occurrence."""
    found: dict[str, None] = {}
    waiting = list(terms)
    for term in waiting:  # which grows
        for name in names_of(term):
            if name not in found and name in definitions:
                waiting.append(definitions[name].body)
            found[name] = None
    return tuple(found)


# ---------------------------------------------------------------- axes, letters and sizes

_Axes = Mapping[tuple[str, str], Axis]


def _axes(exprs: Iterable[Expr]) -> dict[tuple[str, str], Axis]:
    """Every axis in some expressions, by the letter and the domain of its positions."""
    found: dict[tuple[str, str], Axis] = {}

    def add(axis: Axis) -> None:
        found.setdefault((domain(axis).name, domain_key(domain(axis))), axis)
        for part in (*axis.factors, *axis.blocks):
            add(part)

    nodes = {id(node): node for expr in {id(one): one for one in exprs}.values() for node in walk(expr)}
    axes = {id(axis): axis for node in nodes.values() for axis in node.axes}
    for axis in axes.values():
        add(axis)
    return found


def _axis_of(whole: Domain, axes: _Axes) -> Axis | None:
    return axes.get((whole.name, domain_key(whole)))


def _told(variables: Iterable[Var], known: Collection[Var]) -> Iterator[Var]:
    """Positions that are known, and others if their letters are new."""
    letters = {var.name for var in known}
    yield from (var for var in variables if var in known or var.name not in letters)


def _letters(variables: Iterable[Var], axes: _Axes) -> Iterator[LetterRow]:
    """One row a kind of position, the letters of a row in the order in which they are chosen."""
    rows: dict[tuple[str, str], list[Var]] = {}
    for var in variables:
        rows.setdefault((var.domain.name, domain_key(var.domain)), []).append(var)
    order = list(AXIS_WORDS)

    def rank(key: tuple[str, str]) -> tuple[bool, int]:
        axis = axes.get(key)
        return bool(rows[key][0].domain.factors), order.index(axis.name) if axis and axis.name in order else len(order)

    kinds: dict[tuple[str, str], LetterRow] = {}
    for key in sorted(rows, key=rank):
        found, whole = rows[key], rows[key][0].domain
        family = FAMILIES.get(whole.name, (whole.name,))
        names = sorted(dict.fromkeys(v.name for v in found), key=lambda n: (family.index(n) if n in family else 9, n))
        axis = axes.get(key)
        joined = Join(whole, tuple(coordinates(whole.factors))) if whole.factors else None
        words = _axis_words(axis, whole)
        kind = words, domain_key(whole) if joined else str(whole.size)
        letters = dict.fromkeys((*(kinds[kind].letters if kind in kinds else ()), *names))
        kinds[kind] = LetterRow(tuple(letters), whole.size, words, joined)
    yield from kinds.values()


def _axis_words(axis: Axis | None, whole: Domain) -> str:
    """What a position in an axis is: by the name of the axis, or else by its size."""
    name = axis.name if axis else whole.name
    if axis is not None and name not in AXIS_WORDS:
        name = next((letter for letter, size in SIZES.items() if size == str(axis.size)), name)
    return AXIS_WORDS.get(name, f"position in the axis {name}")


def _aliases(names: Sequence[str], tensors: Iterable[str]) -> dict[str, str]:
    """A single letter for every position whose name is a word."""
    taken = {*names, *tensors}
    aliases: dict[str, str] = {}
    for name in names:
        if name not in aliases and len(name.rstrip("0123456789")) > 1:
            letter = next((n for n in SPARE if n not in taken), name)
            aliases[name] = letter
            taken.add(letter)
    return aliases


def _sizes(names: Iterable[str], axes: _Axes) -> Iterator[SizeRow]:
    found = sorted((name for name in names if not name.isdigit()), key=rank)
    for name in found:
        words = "queries" if name == "T" and "S" in found else SIZE_WORDS.get(name)
        yield SizeRow(name, words or _counted(name, axes))


def _counted(name: str, axes: _Axes) -> str:
    """What a size without words of its own counts: positions in the axes that have exactly this size."""
    found = dict.fromkeys(axis.name for axis in axes.values() if str(axis.size) == name and axis.is_plain)
    known = [_COUNTED[one] for one in found if one in _COUNTED] or [f"positions in the axis {one}" for one in found]
    return " and ".join(known) + ", equally many" * (len(known) > 1) or "a factor of other sizes"


# ---------------------------------------------------------------- tensors and bijections


def _given(names: Iterable[str], meaning: Meaning) -> Iterator[GivenRow]:
    """What is given, inputs before weights, else in the order of first occurrence."""

    def role(name: str) -> int:
        node = meaning.given.get(name)
        return ROLES.index(node.role) if isinstance(node, Input) else len(ROLES)

    for name in sorted(names, key=role):
        node = meaning.given.get(name)
        if isinstance(node, Input):
            shape = tuple(domain(a).size for a in node.over)
            yield GivenRow(_entry(name, node.over), shape, given_words(name, node))
        elif isinstance(node, Table):
            shape = tuple(domain(a).size for a in node.over)
            yield GivenRow(_entry(name, node.over), shape, "constant", node.values)


def _entry(name: str, axes: Sequence[Axis]) -> Entry:
    found: list[Index] = []
    taken: set[str] = set()
    for axis in axes:
        if axis.size == 1:
            found.append(At(0))  # its only position
            continue
        (variables, index), *_ = positions(axis, taken, opened=bool(axis.blocks))
        found.append(index)
        taken |= {v.name for v in variables}
    return Entry(name, tuple(found))


def _defined(
    names: Iterable[str], meaning: Meaning, opened: Mapping[str, tuple[Entry, Term]]
) -> Iterator[DefinedRow]:
    """The definitions in the order of first occurrence, each after those it rests on."""
    done: set[str] = set()

    def rows(name: str) -> Iterator[DefinedRow]:
        definition = meaning.definitions.get(name)
        if definition is None or name in done:
            return
        done.add(name)
        entry, body = opened.get(name) or shown_definition(name, definition)
        for other in dict.fromkeys(names_of(body)):
            yield from rows(other)
        root, _, label = name.rstrip("'").partition("^")
        node = meaning.named[name]
        words = node.words or defined_words(root.partition(".")[0], label.strip("()"), node.reason)
        yield DefinedRow(entry, body, words)

    for name in names:
        yield from rows(name)


def named_rows(rows: Iterable[DefinedRow], names: Mapping[str, Symbol]) -> Iterator[NamedRow]:
    """Defined tensors as they stand in a table: those of one name together."""
    found: dict[tuple[str, str, str], list[DefinedRow]] = {}
    for row in rows:
        one = names[row.entry.name]
        found.setdefault((one.root, one.block, one.label), []).append(row)
    for first, *more in found.values():
        places = first.entry.at[names[first.entry.name].heads :]
        shape = tuple(one.domain.size for one in places if isinstance(one, Var | Join))
        yield NamedRow(first.entry, shape, first.words, tuple(row.entry.name for row in more))


def _bijections(names: Iterable[str], meaning: Meaning, axes: _Axes) -> Iterator[BijectionRow]:
    for name in names:
        whole = meaning.bijections[name]
        axis = _axis_of(whole, axes)
        words = _COUNTED.get(axis.name if axis else "", f"positions in the axis {axis.name if axis else whole.name}")
        yield BijectionRow(name, whole.size, f"an arbitrary permutation of the {words}")
