"""The values on the way to the outputs of many sets of faults, each once: what they are made of, and by which step.

Defines `Course`, which numbers these values, and `Node`.  Two sets that differ in the join only share everything before
it; a step is built again only where what it looks at is another.  The steps are those of the recipe, in its order.
Nothing is computed here; that is done in `mha_sym.audit.diagnosis.staged`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from mha_sym.attention.forms import project
from mha_sym.audit.diagnosis.program import Program, argument, program_of
from mha_sym.audit.evidence import Forms, permutes
from mha_sym.audit.faults import Fault, faults, faults_of_positions
from mha_sym.audit.recipe import Edits, Moves, Site, Slot, chosen
from mha_sym.errors import AxisProblem
from mha_sym.expr import Expr, Input

#: what a step makes: for each result a program, or the number of the argument that is handed on as it is
_Made = tuple[Program | int, ...]
#: makes the results of a slot from a site and the expressions of its arguments
_Make = Callable[..., tuple[Expr, ...]]


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A value.

    Attributes:
        program: what makes it.
        reads: the numbers of the values that it is made of.
        depth: how many steps it takes.
        axes: a number for its axes.
    """

    program: Program
    reads: tuple[int, ...]
    depth: int
    axes: int


@dataclass(frozen=True, eq=False, slots=True)
class _Place:
    """A site on which steps are taken, what is done to the output in the end, and numbers for its parts by name."""

    at: Site
    undo: tuple[Slot, ...]
    number: int
    parts: dict[str, int]


class _Watched:
    """A site, or its weights, that writes down which of its parts are looked at."""

    def __init__(self, of: Any, read: set[str], prefix: str = "") -> None:
        self._of, self._read, self._prefix = of, read, prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if name == "w" and not self._prefix:
            return _Watched(value, self._read, "w.")
        self._read.add(self._prefix + name)
        return value


class Course:
    """The values of the forms of one layer.

    Attributes:
        forms: the forms.
        nodes: the values; what a value is made of has smaller numbers.
    """

    def __init__(self, forms: Forms) -> None:
        self.nodes: list[Node] = []
        self.forms = forms
        self._numbers: dict[Hashable, int] = {}
        self._places: dict[Hashable, _Place | None] = {}
        self._heads_made: dict[Hashable, tuple[int, ...]] = {}
        #: by slot and axes: what is looked at, and what was made by the numbers of that
        self._made: dict[Hashable, dict[tuple[str, ...], dict[tuple[int, ...], _Made | None]]] = {}
        self._programs: dict[Expr, Program] = {}
        self._equal: dict[Hashable, int] = {}
        self._same: dict[int, tuple[Any, int]] = {}

    def number(self, which: tuple[Fault, ...]) -> int | None:
        """The number of the output with these faults; None if the code could not run on these axes."""
        slots, moves = chosen(*(one.edits for one in which if self.forms.is_possible(one)))
        try:
            return self._output(slots, moves)
        except AxisProblem:
            return None

    @cached_property
    def singles(self) -> dict[str, int]:
        """The number of the output of every single fault that is possible here, by name.

        Those that change nothing here, and those that make the output random, are left out.
        """
        positions = faults_of_positions() if self.forms.at.angles is not None else ()
        wanted = (one for one in (*faults(), *positions) if not one.random and not one.at_sizes)
        numbers = {one.name: self.number((one,)) for one in wanted if self.forms.is_possible(one)}
        right = self.number(())
        return {name: number for name, number in numbers.items() if number is not None and number != right}

    @cached_property
    def turning(self) -> frozenset[str]:
        """Those of the single faults that put heads into an order that has to be found."""
        return frozenset(name for name, number in self.singles.items() if self._permutes(number))

    def _permutes(self, number: int) -> bool:
        waiting, seen = [number], set[int]()
        while waiting:
            n = waiting.pop()
            if permutes(self.nodes[n].program.expr):
                return True
            seen.add(n)
            waiting += [m for m in self.nodes[n].reads if m not in seen]
        return False

    # ------------------------------------------------------------ the recipe

    def _output(self, slots: Edits, moves: Moves) -> int:
        place = self._place(moves["around"], moves["before"])
        q, k, v = self._heads(place, slots, moves["heads"])
        scores = self._one(place, slots["masked"], self._one(place, slots["product"], q, k))
        weights = self._one(place, slots["softmax"], scores)
        for one in moves["reweighted"]:
            weights = self._one(place, one, weights)
        c = self._one(place, slots["join"], self._one(place, slots["mix"], weights, v))
        y = self._one(place, slots["output"], c)
        for one in moves["after"]:
            y = self._one(place, one, y)
        for back in reversed(place.undo):
            y = self._step(place, back, (y,), _of_output(back))[0]
        return y

    def _heads(self, place: _Place, slots: Edits, moves: tuple[Slot, ...]) -> tuple[int, ...]:
        """The numbers of queries, keys and values."""
        key = (place.number, *(slots[name] for name in ("split_q", "split_k", "split_v", "positions")), moves)
        if key not in self._heads_made:
            q, k, v = (self._one(place, slots[f"split_{letter}"], self._flat(place.at, letter)) for letter in "qkv")
            q, k = self._step(place, slots["positions"], (q, k), slots["positions"])
            found: tuple[int, ...] = (q, k, v)
            for one in moves:
                found = self._step(place, one, found, _of_three(one))
            self._heads_made[key] = found
        return self._heads_made[key]

    def _flat(self, at: Site, letter: str) -> int:
        """The number of a projection."""
        n, d, w = "qkv".index(letter), at.d, at.w
        token, feature = d.t if letter == "q" else d.s, d.hv if letter == "v" else d.hk
        weight, bias = getattr(w, f"w_{letter}"), getattr(w, f"b_{letter}")
        key = ("flat", *map(self._of, (at.x[n], weight, bias)), token, feature, d.b)
        if key not in self._numbers:
            made = Program(project(at.x[n], token, weight, feature, bias, d), (), None)
            self._numbers[key] = self._new(made, ())
        return self._numbers[key]

    def _place(self, around: tuple[Slot, ...], before: tuple[Slot, ...]) -> _Place:
        key = (around, before)
        if key not in self._places:
            self._places[key] = self._made_place(around, before)
        place = self._places[key]
        if place is None:
            raise AxisProblem("it cannot be made on these axes")
        return place

    def _made_place(self, around: tuple[Slot, ...], before: tuple[Slot, ...]) -> _Place | None:
        at, undo = self.forms.at, []
        try:
            for one in around:
                at, back = one(at)
                undo.append(back)
            for one in before:
                at = one(at)
        except AxisProblem:
            return None
        return _Place(at, tuple(undo), len(self._places), {})

    # ------------------------------------------------------------ steps

    def _one(self, place: _Place, slot: Slot, *reads: int) -> int:
        return self._step(place, slot, reads, _of_one(slot))[0]

    def _step(self, place: _Place, slot: Slot, reads: tuple[int, ...], make: _Make) -> tuple[int, ...]:
        """The numbers of what a slot makes of values."""
        tables = self._made.setdefault((slot, *(self.nodes[n].axes for n in reads)), {})
        for names, table in tables.items():
            key = self._parts(place, names)
            if key in table:
                made = table[key]
                break
        else:
            read = set[str]()
            made = self._new_step(place, reads, make, read)
            names = tuple(sorted(read))
            tables.setdefault(names, {})[self._parts(place, names)] = made
        if made is None:
            raise AxisProblem("it cannot be made on these axes")
        return tuple(reads[one] if isinstance(one, int) else self._value(one, reads) for one in made)

    def _new_step(self, place: _Place, reads: tuple[int, ...], make: _Make, read: set[str]) -> _Made | None:
        given = [argument(n, self.nodes[m].program.expr.axes) for n, m in enumerate(reads)]
        try:
            exprs = make(_Watched(place.at, read), *given)
        except AxisProblem:
            return None
        return tuple(given.index(e) if isinstance(e, Input) and e in given else self._program(e) for e in exprs)

    def _program(self, expr: Expr) -> Program:
        if expr not in self._programs:
            self._programs[expr] = program_of(expr)
        return self._programs[expr]

    def _value(self, program: Program, reads: tuple[int, ...]) -> int:
        used = tuple(reads[n] for n in program.takes)
        key = (id(program), used)
        if key not in self._numbers:
            self._numbers[key] = self._new(program, used)
        return self._numbers[key]

    def _new(self, program: Program, reads: tuple[int, ...]) -> int:
        depth = 1 + max((self.nodes[n].depth for n in reads), default=-1)
        self.nodes.append(Node(program, reads, depth, self._of(program.expr.axes)))
        return len(self.nodes) - 1

    # ------------------------------------------------------------ numbers for what is looked at

    def _parts(self, place: _Place, names: tuple[str, ...]) -> tuple[int, ...]:
        parts = place.parts
        for name in names:
            if name not in parts:
                of, _, attribute = name.rpartition(".")
                parts[name] = self._of(getattr(place.at.w if of else place.at, attribute))
        return tuple([parts[name] for name in names])

    def _of(self, what: Any) -> int:
        """A number for something, the same for what is equal; trees are compared once for each object."""
        known = self._same.get(id(what))
        if known is None:
            known = self._same[id(what)] = (what, self._equal.setdefault(what, len(self._equal)))
        return known[1]


@lru_cache(maxsize=12)
def course_of(forms: Forms) -> Course:
    """The course of some forms; the same object for the same ones, since runs that differ in numbers only share it."""
    return Course(forms)


def _of_one(slot: Slot) -> _Make:
    return lambda at, *args: (slot(at, *args),)


def _of_three(slot: Slot) -> _Make:
    return lambda at, *qkv: slot(at, qkv)


def _of_output(back: Slot) -> _Make:
    return lambda at, y: (back(y),)
