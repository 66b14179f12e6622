"""A claim at the height of matrices: ``S_r = Q^(r) K^(r)ᵀ / √d_k = S^(r)``, where the field writes no positions.

Defines `stage`, and `sliced`, the name of a matrix in one head.  Rows and columns are the last two positions of a
claim; positions of sequences in a batch are left out, those of heads become labels, and the part of a given matrix
that belongs to a head has the head above it.  What is no product, sum or softmax of matrices is written entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Entry,
    Index,
    Join,
    Mul,
    Num,
    Perm,
    Size,
    Term,
    Var,
    flat_args,
    free,
    key,
    subst,
)
from mha_sym.render.breaks import mark
from mha_sym.render.derivation import ClaimPart
from mha_sym.render.notation import Notation, Symbol
from mha_sym.render.scripts import Latex

#: of more lines than this between the sides of a claim only the first and the last are shown
SHOWN = 4

#: letters of positions in a batch and of heads
BATCH, HEAD = "b", "r"


def stage(claim: ClaimPart, notation: Notation) -> str:
    """What equals what, with marks where it may be broken: in matrices if that can be done, else entry by entry."""
    found = _Matrices.of(claim, notation)
    sides = [found.whole(side) for side in (claim.left, claim.right)] if found else []
    if found is None or not all(sides) or sides[0] == sides[1]:
        return notation.equation(claim.left, claim.right)
    between = list(dict.fromkeys(filter(None, map(found.whole, _between(claim)))))
    shown = between if len(between) <= SHOWN else [between[0], between[-1]]
    return f" {mark(0)}= ".join(dict.fromkeys([sides[0], *shown, sides[1]]))


def sliced(notation: Notation, symbol: Symbol, head: str) -> str:
    """The name of a tensor's matrix in a head: ``Q_r``; nothing if it cannot be written so."""
    if symbol.label or "_" in symbol.root or symbol.block or symbol.numbered:
        return ""
    return _labelled(notation, symbol, head)


def _between(claim: ClaimPart) -> Iterator[Term]:
    """The lines of a claim, from the terms of its left side to those of its right; other claims are used at once."""
    if len(claim.proofs) == 1 and isinstance(claim.right, Entry):
        for step, after in pairwise(claim.proofs[0].steps[1:]):
            if not isinstance(step.term, Entry) and (step.rule, after.rule) != ("lemma", "lemma"):
                yield step.term


class _NoMatrix(Exception):
    """A term that is not made of matrices."""


@dataclass(frozen=True)
class _Matrices:
    """Writes terms whose rows and columns go by two positions, which are made of the ``variables``."""

    notation: Notation
    row: str
    column: str
    variables: frozenset[str]

    @staticmethod
    def of(claim: ClaimPart, notation: Notation) -> _Matrices | None:
        """For a claim about two positions besides those of batch and head, or about a joined one."""
        if not isinstance(claim.left, Entry):
            return None
        heads = notation.names.get(claim.left.name, Symbol("")).heads
        places = [one for one in claim.left.at[heads:] if not _is_batch(one) and not _is_head(one)]
        if len(places) != 2 or not all(isinstance(one, Var | Join) for one in places):
            return None
        used = frozenset(name for one in places for name in free(one))
        return _Matrices(notation, key(places[0]), key(places[1]), used)

    def whole(self, term: Term) -> str:
        """The term, or nothing if it is not made of matrices."""
        try:
            return self.text(term, self.row, self.column)
        except _NoMatrix:
            return ""

    def text(self, term: Term, row: str, column: str) -> str:
        """The term as a matrix with these rows and columns."""
        match term:
            case Entry():
                return self.entry(term, row, column)
            case Add():
                return f" {mark(1)}+ ".join(self.text(arg, row, column) for arg in flat_args(term))
            case Bind("sum", var, body) if var.domain.name == HEAD:
                return self.notation.binder("sum", self.notation.letter(var.name), "") + self.factor(body, row, column)
            case Bind("sum", var, body):
                return self.product(flat_args(body) if isinstance(body, Mul) else (body,), var, row, column)
            case Mul():
                return self.scaled(flat_args(term), row, column)
        raise _NoMatrix

    def factor(self, term: Term, row: str, column: str) -> str:
        """The term, in parentheses if it is a sum."""
        text = self.text(term, row, column)
        return self.notation.group(text) if isinstance(term, Add) else text

    def entry(self, entry: Entry, row: str, column: str) -> str:
        """A name with its labels, turned over if its rows are columns."""
        places, labels, family, block = self._places(entry)
        name = self._name(entry, labels, family, block)
        if places in ([row, column], [column]):  # a row that is added to every row goes by its name
            return name
        if places == [column, row]:
            return self._turned(name)
        raise _NoMatrix

    def product(self, factors: Sequence[Term], var: Var, row: str, column: str) -> str:
        """A sum of products of two matrices over the position between them."""
        middle = key(var)
        both = [one for one in factors if isinstance(one, Entry)]
        if len(both) != 2 or len(both) != len(factors):
            raise _NoMatrix
        if row not in self._places(both[0])[0]:
            both.reverse()
        left, right = self.entry(both[0], row, middle), self.entry(both[1], middle, column)
        if not all(len(self._places(one)[0]) == 2 for one in both):
            raise _NoMatrix
        return f"{left}{mark(2)}{self.notation.SPACE}{right}"

    def scaled(self, factors: Sequence[Term], row: str, column: str) -> str:
        """A matrix with a number in front of it, divided by one, or a softmax."""
        numbers = [one for one in factors if isinstance(one, Num | Size)]
        others = [one for one in factors if not isinstance(one, Num | Size)]
        if not numbers:
            return self.softmax(others, row, column)
        if len(others) != 1:
            raise _NoMatrix
        inside = self.factor(others[0], row, column)
        below = [Size(one.name, -one.power) for one in numbers if isinstance(one, Size) and one.power < 0]
        if len(below) == len(numbers) == 1:
            under = self.notation.term(below[0])
            return rf"\frac{{{inside}}}{{{under}}}" if isinstance(self.notation, Latex) else f"{inside} / {under}"
        return f"{self.notation.factors(numbers, False, 0)}{self.notation.SPACE}{inside}"

    def softmax(self, factors: Sequence[Term], row: str, column: str) -> str:
        """Exponentials over their sum along the columns, with a mask if there is one."""
        inverses = [one.arg for one in factors if isinstance(one, Apply) and one.name == "inv"]
        above = [one for one in factors if not (isinstance(one, Apply) and one.name == "inv")]
        if len(inverses) != 1 or not isinstance(inverses[0], Bind) or inverses[0].op != "sum":
            raise _NoMatrix
        var, body = inverses[0].var, inverses[0].body
        over = Var(next(self._letters(above, column)), var.domain)
        if key(subst(body, {var.name: over})) != key(Mul(tuple(above))):
            raise _NoMatrix
        scores = [one.arg for one in above if isinstance(one, Apply) and one.name == "exp"]
        masks = [self.text(one, row, column) for one in above if isinstance(one, Entry)]
        if len(scores) != 1 or len(masks) + 1 != len(above):
            raise _NoMatrix
        name = r"\operatorname{softmax}" if isinstance(self.notation, Latex) else "softmax"
        inside = self.text(scores[0], row, column) + (f"; {masks[0]}" if masks else "")
        return name + self.notation.group(inside)

    def _letters(self, terms: Sequence[Term], column: str) -> Iterator[str]:
        """The letter of the columns."""
        for term in terms:
            for one in _entries(term):
                yield from (p.name for p in one.at if isinstance(p, Var) and key(p) == column)
        raise _NoMatrix

    # ------------------------------------------------------------ names

    def _places(self, entry: Entry) -> tuple[list[str], list[Index], list[Index], list[Index]]:
        """Positions of rows and columns, labels, positions in a family, and the head to which a part belongs."""
        heads = self.notation.names.get(entry.name, Symbol("")).heads
        family, rest = list(entry.at[:heads]), list(entry.at[heads:])
        places, labels, block = list[str](), list[Index](), list[Index]()
        for one in rest:
            if _is_head(one):
                labels.append(one)
            elif isinstance(one, Join) and key(one) not in (self.row, self.column) and self._in_parts(entry):
                block += [part for part in one.parts if _is_head(part)]
                places += [key(part) for part in one.parts if not _is_head(part)]
            elif not _is_batch(one):
                places.append(key(one))
        if self.variables & {name for one in (*labels, *family, *block) for name in free(one)}:
            raise _NoMatrix  # another tensor for every row or column is no matrix
        return places, labels, family, block

    def _in_parts(self, entry: Entry) -> bool:
        """Whether parts of a tensor may go by its name: it is given, and nothing else has such a name."""
        symbol = self.notation.names.get(entry.name, Symbol(""))
        return symbol.given and not any(
            one.root == symbol.root and (one.label or one.heads) for one in self.notation.names.values()
        )

    def _name(self, entry: Entry, labels: Sequence[Index], family: Sequence[Index], block: Sequence[Index]) -> str:
        note = self.notation
        symbol = note.names.get(entry.name, Symbol(entry.name))
        shown = [note.index(one) for one in family]
        if block:
            if len(block) > 1 or labels or shown:
                raise _NoMatrix
            return note.name(symbol, [note.index(block[0])])
        if not labels and symbol.label:
            return note.name(symbol, shown or [symbol.label])
        if not labels:
            return note.name(symbol) + note.at((), shown)
        text = "" if shown else sliced(note, symbol, ",".join(map(note.index, labels)))
        if not text:
            raise _NoMatrix
        return text

    def _turned(self, name: str) -> str:
        if not isinstance(self.notation, Latex):
            return f"{name}ᵀ"
        above = re.search(r"\^\{[^{}]*\}$", name)
        return rf"{name[:-1]}\mathsf{{T}}}}" if above else rf"{name}^{{\mathsf{{T}}}}"


def _labelled(notation: Notation, symbol: Symbol, label: str) -> str:
    """A name with the label of a head below it: ``Q_r``, ``Q'_r``."""
    name, primes = notation.name(replace(symbol, number=0)), "'" * symbol.number
    if isinstance(notation, Latex):
        return f"{name}_{{{label}}}{primes}"
    return f"{name}{primes}_{label}" if len(label) == 1 else f"{name}{primes}_({label})"


def _is_batch(index: Index) -> bool:
    return isinstance(index, Var) and index.name == index.domain.name == BATCH


def _is_head(index: Index) -> bool:
    inner = index.index if isinstance(index, Perm) else index
    return isinstance(inner, Var) and inner.domain.name == HEAD and not list(free(inner))[1:]


def _entries(term: Term) -> Iterator[Entry]:
    if isinstance(term, Entry):
        yield term
    elif isinstance(term, Apply):
        yield from _entries(term.arg)
    elif isinstance(term, Mul | Add):
        for arg in term.args:
            yield from _entries(arg)
