"""Reads certificate files strictly: a text becomes terms, goals and steps, or is refused with the place of the fault.

Defines `read` for the format of `mha_sym.proof.schema`.  Besides the trusted files, rechecking a file rests on this
reader, for what it makes of the text is what is checked.  It runs nothing that the text says, and bounds everything by
numbers of the schema.  Whether terms mean anything and steps are right, the checker says.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NoReturn

from mha_sym.proof import schema
from mha_sym.proof.checker import Certificate, Goal, Step
from mha_sym.proof.rules import Context, Definition
from mha_sym.proof.schema import Assumed, Document, Node, Statement, Unreadable
from mha_sym.proof.terms import Add, Domain, Mul, Num, Term

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,11}")
_RATIONAL = re.compile(r"(0|-?[1-9][0-9]*)(?:/([1-9][0-9]*))?")


def read(text: str | bytes) -> Document:
    """The certificates in a text.

    Raises:
        Unreadable: for anything that is not a whole, undamaged and meaningful certificate file.
    """
    try:
        members = _object(_parse(text), "$", "format", "version", "sha256", "theorem", "nodes", "context", "goals")
        _expect(members["format"], "$.format", schema.FORMAT)
        _expect(members["version"], "$.version", schema.VERSION)
        if members["sha256"] != digest({name: item for name, item in members.items() if name != "sha256"}):
            raise Unreadable("$.sha256", "not the digest of the rest: the file was damaged or changed")
    except RecursionError as fault:  # of the JSON decoder or encoder
        raise Unreadable("$", "too many levels of brackets") from fault
    return _Reader(members["nodes"]).document(members)


def digest(members: Mapping[str, Any]) -> str:
    """The digest of all members but the digest."""
    plain = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(plain.encode("ascii")).hexdigest()


# ---------------------------------------------------------------- JSON


def _refuse(where: str, expected: str, got: object) -> NoReturn:
    shown = repr(got) if isinstance(got, str | int | float | None) else f"a {type(got).__name__}"
    raise Unreadable(where, f"expected {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _parse(text: str | bytes) -> Any:
    """The text as JSON without repeated names, fractions and long numbers."""
    if len(text) > schema.MAX_BYTES:
        raise Unreadable("$", f"longer than {schema.MAX_BYTES} bytes")
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8")
        return json.loads(
            plain, object_pairs_hook=_members, parse_int=_integer, parse_float=_no_number, parse_constant=_no_number
        )
    except UnicodeDecodeError as fault:
        raise Unreadable("$", f"byte {fault.start} is not UTF-8") from fault
    except json.JSONDecodeError as fault:
        raise Unreadable("$", f"line {fault.lineno}, column {fault.colno}: {fault.msg}") from fault


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise Unreadable("$", f"the name {next(n for n in names if names.count(n) > 1)!r} occurs twice in one object")
    return found


def _integer(text: str) -> int:
    return int(text) if _WHOLE.fullmatch(text) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    _refuse("$", "whole numbers of at most 12 digits", text)


def _object(value: Any, where: str, *names: str) -> dict[str, Any]:
    """An object with exactly these members."""
    members = _mapping(value, where)
    for name in names:
        if name not in members:
            raise Unreadable(where, f"no member {name!r}")
    for name in members:
        if name not in names:
            raise Unreadable(where, f"unknown member {name[: schema.MAX_NAME]!r}")
    return members


def _mapping(value: Any, where: str) -> dict[str, Any]:
    return value if isinstance(value, dict) and len(value) <= schema.MAX_ITEMS else _refuse(where, "an object", value)


def _items(value: Any, where: str, most: int = schema.MAX_ITEMS) -> Iterator[tuple[Any, str]]:
    """The items of a list with their places."""
    if not isinstance(value, list) or len(value) > most:
        _refuse(where, f"a list of at most {most} items", value)
    return ((item, f"{where}[{number}]") for number, item in enumerate(value))


def _row(value: Any, where: str, length: int) -> list[Any]:
    """A list of so many items."""
    return value if isinstance(value, list) and len(value) == length else _refuse(where, f"a list of {length}", value)


def _expect(value: Any, where: str, expected: str | int) -> None:
    if type(value) is not type(expected) or value != expected:
        _refuse(where, repr(expected), value)


# ---------------------------------------------------------------- values


def _whole(value: Any, where: str, low: int = -schema.MAX_WHOLE, high: int = schema.MAX_WHOLE) -> int:
    if type(value) is not int or not low <= value <= high:
        _refuse(where, f"a whole number from {low} to {high}", value)
    return value


def _number(value: Any, where: str) -> int:
    return _whole(value, where, 0)


def _numbers(value: Any, where: str) -> tuple[int, ...]:
    return tuple(_number(*item) for item in _items(value, where, schema.MAX_PATH))


def _flag(value: Any, where: str) -> bool:
    return value if isinstance(value, bool) else _refuse(where, "true or false", value)


def _text(value: Any, where: str) -> str:
    """Words for a reader: signs that print, and line breaks."""
    if not isinstance(value, str) or len(value) > schema.MAX_TEXT or not value.replace("\n", "").isprintable():
        _refuse(where, f"a text of at most {schema.MAX_TEXT} signs that print", value)
    return value


def _name(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= schema.MAX_NAME or not value.isprintable() or " " in value:
        _refuse(where, f"a name of at most {schema.MAX_NAME} signs without blanks", value)
    return value


def _rational(value: Any, where: str) -> Fraction:
    """A rational in lowest terms, so that there is one way to write it."""
    match = _RATIONAL.fullmatch(value) if isinstance(value, str) and len(value) <= 2 * schema.MAX_DIGITS else None
    number = Fraction(int(match[1]), int(match[2] or 1)) if match else None
    if number is None or str(number) != value:
        _refuse(where, "a rational in lowest terms as a text, such as '-1/2'", value)
    return number


def _power(value: Any, where: str) -> Fraction:
    number = _rational(value, where)
    if max(abs(number.numerator), number.denominator) > schema.MAX_POWER:
        _refuse(where, f"a power of at most {schema.MAX_POWER}", value)
    return number


def _size_name(value: Any, where: str) -> str:
    """The symbol of a size, or a number from 1 whose root is taken."""
    name = _name(value, where)
    if not (name.isidentifier() or (_WHOLE.fullmatch(name) and int(name) > 0)):
        _refuse(where, "a symbol, or a whole number from 1, as a text", value)
    return name


def _word(kind: str) -> Callable[[Any, str], str]:
    words = schema.WORDS[kind]
    return lambda value, where: value if value in words else _refuse(where, " or ".join(map(repr, words)), value)


_VALUES: dict[str, Callable[[Any, str], Any]] = {
    "whole": _whole, "number": _number, "numbers": _numbers, "flag": _flag, "name": _name, "rational": _rational,
    "size": _size_name, "power": _power,
    "choices": lambda value, where: tuple(_numbers(*item) for item in _items(value, where)),
    **{kind: _word(kind) for kind in schema.WORDS},
}  # fmt: skip


def _check_size(domain: Domain, tree: int, where: str) -> None:
    """Bounds for a domain, for its sums may be written out and its size multiplied out."""
    size = domain.size
    if tree > schema.MAX_DOMAIN or _products(size) > schema.MAX_PRODUCTS:
        raise Unreadable(where, "too large a size")
    if isinstance(size, Num) and not (1 <= size.value <= schema.MAX_AXIS and size.value.denominator == 1):
        raise Unreadable(where, f"expected a whole number from 1 to {schema.MAX_AXIS} as a fixed size")


def _products(size: Term) -> int:
    """How many products a size has when multiplied out."""
    match size:
        case Add(args):
            return sum(map(_products, args))
        case Mul(args):
            return math.prod(map(_products, args))
        case _:
            return 1


# ---------------------------------------------------------------- terms, statement, steps


class _Reader:
    """The nodes of one file, and what refers to them."""

    def __init__(self, rows: Any) -> None:
        self.nodes: list[Node] = []
        self.used: set[int] = set()
        self._sizes: list[tuple[int, int]] = []  # nodes of the tree, and its depth
        self._refs: list[int] = []  # of the row that is being read
        known: set[str] = set()
        for row, where in _items(rows, "$.nodes"):
            self._add(row, where)
            if repr(row) in known:
                raise Unreadable(where, "the same node as an earlier one")
            known.add(repr(row))

    def _add(self, row: Any, where: str) -> None:
        kind = row[0] if isinstance(row, list) and row else None
        if not isinstance(kind, str) or kind not in schema.NODES:
            _refuse(where, "a list that begins with a kind of node", kind)
        make, fields = schema.NODES[kind]
        _row(row, where, 1 + len(fields))
        self._refs = []
        values = [
            self.value(holds, value, f"{where}[{number}]")
            for number, (value, holds) in enumerate(zip(row[1:], fields.values(), strict=True), 1)
        ]
        node = make(*values)
        tree = 1 + sum(self._sizes[n][0] for n in self._refs)
        depth = 1 + max((self._sizes[n][1] for n in self._refs), default=0)
        if tree > schema.MAX_TREE or depth > schema.MAX_DEPTH:
            raise Unreadable(where, "too large or too deep a term")
        if isinstance(node, Domain):
            _check_size(node, tree, where)
        self.nodes.append(node)
        self._sizes.append((tree, depth))

    def value(self, holds: str, value: Any, where: str) -> Any:
        """A field or an argument that holds something of a kind."""
        if holds in schema.SORTS:
            return self.ref(value, where, holds)
        if holds in schema.PLURALS:
            return self.refs(value, where, schema.PLURALS[holds])
        if holds == "instances":
            return tuple(self._instance(*item) for item in _items(value, where, schema.MAX_PATH))
        return _VALUES[holds](value, where)

    def ref(self, value: Any, where: str, sort: str) -> Any:
        """The node of an earlier row."""
        number = _whole(value, where, 0, len(self.nodes) - 1) if self.nodes else _refuse(where, "an earlier row", value)
        node = self.nodes[number]
        if not isinstance(node, schema.SORTS[sort]):
            raise Unreadable(where, f"row {number} is no {sort} but a {type(node).__name__}")
        self.used.add(number)
        self._refs.append(number)
        return node

    def refs(self, value: Any, where: str, sort: str) -> tuple[Any, ...]:
        """The nodes of some earlier rows."""
        most = schema.MAX_ARGS if sort == "term" else schema.MAX_PATH
        return tuple(self.ref(*item, sort) for item in _items(value, where, most))

    def _instance(self, value: Any, where: str) -> tuple[int, tuple[Any, ...]]:
        number, at = _row(value, where, 2)
        return _number(number, f"{where}[0]"), self.refs(at, f"{where}[1]", "index")

    # ------------------------------------------------------------ the members of the file

    def document(self, members: Mapping[str, Any]) -> Document:
        """The whole file."""
        theorem = _object(members["theorem"], "$.theorem", "name", "title", "words", "assumptions")
        assumptions = tuple(self._assumed(*item) for item in _items(theorem["assumptions"], "$.theorem.assumptions"))
        context = self._context(members["context"], "$.context", tuple(one for a in assumptions for one in a.positive))
        certificates = tuple(self._certificate(*item) for item in _items(members["goals"], "$.goals"))
        names = [certificate.goal.name for certificate in certificates]
        if not names or len(set(names)) != len(names):
            raise Unreadable("$.goals", "two goals of one name" if names else "no goals")
        if len(self.used) != len(self.nodes):
            unused = next(n for n in range(len(self.nodes)) if n not in self.used)
            raise Unreadable(f"$.nodes[{unused}]", "a node that nothing uses")
        name = _name(theorem["name"], "$.theorem.name")
        title, words = (_text(theorem[one], f"$.theorem.{one}") for one in ("title", "words"))
        goals = tuple(certificate.goal for certificate in certificates)
        return Document(Statement(name, title, words, assumptions, context, goals), certificates)

    def _assumed(self, value: Any, where: str) -> Assumed:
        members = _object(value, where, "words", "positive")
        rows = []
        for item, place in _items(members["positive"], f"{where}.positive"):
            one = _object(item, place, "variables", "term")
            variables = self.refs(one["variables"], f"{place}.variables", "var")
            rows.append((variables, self.ref(one["term"], f"{place}.term", "term")))
        return Assumed(_text(members["words"], f"{where}.words"), tuple(rows))

    def _context(self, value: Any, where: str, positive: tuple[Any, ...]) -> Context:
        members = _object(value, where, "definitions", "booleans", "tables", "bijections")
        named = {one: _named(members[one], f"{where}.{one}") for one in ("definitions", "tables", "bijections")}
        booleans = [_name(*item) for item in _items(members["booleans"], f"{where}.booleans")]
        if booleans != sorted(set(booleans)):
            raise Unreadable(f"{where}.booleans", "not in alphabetical order, or one twice")
        return Context(
            {name: self._definition(*item) for name, item in named["definitions"].items()},
            frozenset(booleans),
            {name: _table(*item) for name, item in named["tables"].items()},
            {name: self.ref(*item, "domain") for name, item in named["bijections"].items()},
            positive,
        )

    def _definition(self, value: Any, where: str) -> Definition:
        members = _object(value, where, "params", "body")
        params = self.refs(members["params"], f"{where}.params", "var")
        return Definition(params, self.ref(members["body"], f"{where}.body", "term"))

    def _certificate(self, value: Any, where: str) -> Certificate:
        members = _object(value, where, "name", "variables", "left", "right", "left_steps", "right_steps")
        variables = self.refs(members["variables"], f"{where}.variables", "var")
        left, right = (self.ref(members[side], f"{where}.{side}", "term") for side in ("left", "right"))
        goal = Goal(_name(members["name"], f"{where}.name"), variables, left, right)
        steps = [
            tuple(self._step(*item) for item in _items(members[side], f"{where}.{side}"))
            for side in ("left_steps", "right_steps")
        ]
        return Certificate(goal, *steps)

    def _step(self, value: Any, where: str) -> Step:
        rule, path, args = _row(value, where, 3)
        if not isinstance(rule, str) or rule not in schema.ARGUMENTS:
            _refuse(f"{where}[0]", "the name of a rule", rule)
        holds = schema.ARGUMENTS[rule]
        members = _object(args, f"{where}[2]", *holds)
        values = {name: self.value(holds[name], members[name], f"{where}[2].{name}") for name in holds}
        return Step(rule, _numbers(path, f"{where}[1]"), values)


def _named(value: Any, where: str) -> dict[str, tuple[Any, str]]:
    """What an object has by names, each with its place."""
    return {_name(name, where): (item, f"{where}.{name}") for name, item in _mapping(value, where).items()}


def _table(value: Any, where: str) -> dict[tuple[int, ...], Fraction]:
    """The values of a constant table by place."""
    cells: dict[tuple[int, ...], Fraction] = {}
    for item, place in _items(value, where):
        at, number = _row(item, place, 2)
        cell = _numbers(at, f"{place}[0]")
        if cell in cells:
            raise Unreadable(f"{place}[0]", "a place that has a value already")
        cells[cell] = _rational(number, f"{place}[1]")
    return cells
