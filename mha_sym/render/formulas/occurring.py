"""What occurs in some terms and in the definitions that they rest on.

Defines `Occurring`, `entries_of`, `names_of` and `variables_in`; what the signs mean is said in
`mha_sym.render.vocabulary`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mha_sym.proof.rules import Definition
from mha_sym.proof.terms import (
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Part,
    Perm,
    Size,
    Term,
    Var,
    children,
)
from mha_sym.render.formulas.defined import shown_definition


class Occurring:
    """Names, positions, sizes and bijections in the order of first occurrence.

    Example:
        >>> from mha_sym.proof.terms import At
        >>> found = Occurring()
        >>> found.read(Entry("X", (At(0),)))
        >>> list(found.names)
        ['X']
    """

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        #: the definitions that were opened, as they are shown
        self.opened: dict[str, tuple[Entry, Term]] = {}
        self.variables: dict[Var, None] = {}
        self.sizes: dict[str, None] = {}
        self.bijections: dict[str, None] = {}
        self.brackets = False
        self.digits = False
        self._domains: set[Domain] = set()

    def read(self, term: Term) -> None:
        """Take in a term."""
        match term:
            case Entry(name, at):
                self.names[name] = None
                for index in at:
                    self.place(index)
            case Size(name, _):
                self.sizes[name] = None
            case Cmp(_, left, right, _):
                self.brackets = True
                self.place(left)
                self.place(right)
            case Bind(_, var, _):
                self.place(var)
        for child in children(term):
            self.read(child)

    def open(self, definitions: Mapping[str, Definition]) -> None:
        """Read the definitions of all names, of those in them, and so on."""
        waiting = list(self.names)
        while waiting:
            name = waiting.pop(0)
            definition = definitions.get(name)
            if definition is not None and name not in self.opened:
                before = len(self.names)
                entry, body = self.opened[name] = shown_definition(name, definition)
                for index in entry.at:
                    self.place(index)
                self.read(body)
                waiting += list(self.names)[before:]

    def place(self, index: Index) -> None:
        """Take in a position."""
        match index:
            case Var(_, whole):
                if index not in self.variables:
                    self.variables[index] = None
                    self._domain(whole)
            case Join(whole, parts):
                self._domain(whole)
                for one in parts:
                    self.place(one)
            case Part(inner, whole, _) | Inj(inner, whole, _):
                self.digits = self.digits or (isinstance(index, Part) and isinstance(inner, Var))
                self._domain(whole)
                self.place(inner)
            case Perm(name, _, inner):
                self.bijections[name] = None
                self.place(inner)

    def _domain(self, whole: Domain) -> None:
        if whole not in self._domains:
            self._domains.add(whole)
            self.read(whole.size)


def names_of(term: Term) -> Iterator[str]:
    """The names of the tensors in a term, as often as they occur.

    Example:
        >>> from mha_sym.proof.terms import Mul
        >>> list(names_of(Mul((Entry("a", ()), Entry("b", ()), Entry("a", ())))))
        ['a', 'b', 'a']
    """
    return (one.name for one in entries_of(term))


def entries_of(term: Term) -> Iterator[Entry]:
    """The entries in a term, as often as they occur."""
    waiting = [term]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Entry):
            yield one
        else:
            waiting += reversed(children(one))


def variables_in(term: Term) -> set[Var]:
    """The positions in a term."""
    found = Occurring()
    found.read(term)
    return set(found.variables)
