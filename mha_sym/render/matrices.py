"""A claim at the height of matrices: ``S_r = Q^(r) K^(r)ᵀ / √d_k = S^(r)``, where the field writes no positions.

Defines `Height` and `matrices_of`, which reads the lines of a claim as matrices, `stage`, which writes them,
`statement`, the claim entry by entry, `same_formula`, and `sliced`, the name of a matrix in one head.  Rows and columns
are the last two positions of a claim; positions of sequences in a batch are left out, those of heads become labels, and
the part of a given matrix that belongs to a head has the head above it.  What is no product, sum or softmax of matrices
is written entry by entry.  That the matrices are what the entries say is checked in
`mha_sym.render.computed.matrix_values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from mha_sym.proof.terms import (
    Add,
    Apply,
    Bind,
    Cmp,
    Entry,
    Index,
    Join,
    Mul,
    Num,
    Perm,
    Size,
    Term,
    Var,
    children,
    flat_args,
    free,
    key,
    subst,
)
from mha_sym.render.formulas.breaks import deeper, mark, plain
from mha_sym.render.formulas.notation import Notation, Symbol
from mha_sym.render.formulas.occurring import entries_of, variables_in
from mha_sym.render.formulas.scripts import Latex
from mha_sym.render.matrix_kinds import Heads, Matrix, Name, Plus, Product, Scaled, Weights, has_rows

if TYPE_CHECKING:
    from mha_sym.render.derivation import ClaimPart

#: of more lines than this between the sides of a claim only the first and the last are shown
SHOWN = 9

#: letters of positions in a batch and of heads
BATCH, HEAD = "b", "r"


@dataclass(frozen=True)
class Height:
    """The lines of a claim that were read as matrices, with the terms that they are; row and column of both."""

    row: Index
    column: Index
    lines: tuple[tuple[Matrix, Term], ...]


def matrices_of(claim: ClaimPart, names: Mapping[str, Symbol]) -> Height | None:
    """The lines of a claim at the height of matrices, sides first and last; None if it has none."""
    found = _Reader.of(claim, names)
    sides = [found.whole(side) for side in (claim.left, claim.right)] if found else []
    if found is None or not all(sides):
        return None
    between = [(found.whole(term), term) for term in _between(claim)]
    lines = [(sides[0], claim.left), *between, (sides[1], claim.right)]
    return Height(*found.places, tuple((matrix, term) for matrix, term in lines if matrix is not None))


def stage(claim: ClaimPart, notation: Notation) -> str:
    """What equals what, with marks where it may be broken: in matrices if that can be done, else entry by entry."""
    found = claim.height
    texts = [_Text(notation).whole(matrix) for matrix, _ in found.lines] if found else []
    if not texts or texts[0] == texts[-1] or not (texts[0] and texts[-1]):
        return statement(claim, notation)
    between = list(dict.fromkeys(filter(None, texts[1:-1])))
    shown = between if len(between) <= SHOWN else [between[0], between[-1]]
    return f" {mark(0)}= ".join(dict.fromkeys([texts[0], *shown, texts[-1]]))


def statement(claim: ClaimPart, notation: Notation) -> str:
    """``left = right``, with marks where it may be broken; one formula alone if it is both sides."""
    if same_formula(claim, notation):
        return notation.term(claim.left)
    return notation.equation(claim.left, claim.right)


def same_formula(claim: ClaimPart, notation: Notation) -> bool:
    """Whether both sides of a proved claim are written alike, and there are no lines between them."""
    short = claim.good and all(len(one.steps) <= 2 for one in claim.proofs)
    return short and plain(notation.term(claim.left)) == plain(notation.term(claim.right))


def sliced(notation: Notation, symbol: Symbol, head: str) -> str:
    """The name of a tensor's matrix in a head: ``Q_r``; nothing if it cannot be written so."""
    return _labelled(notation, symbol, head) if _may_be_sliced(symbol) else ""


def _may_be_sliced(symbol: Symbol) -> bool:
    return not (symbol.label or "_" in symbol.root or symbol.block)


def _between(claim: ClaimPart) -> Iterator[Term]:
    """The lines of a claim, from the terms of its left side to those of its right; other claims are used at once."""
    if len(claim.proofs) == 1 and isinstance(claim.right, Entry):
        for step, after in pairwise(claim.proofs[0].steps[1:]):
            if not isinstance(step.term, Entry) and (step.rule, after.rule) != ("lemma", "lemma"):
                yield step.term


# ---------------------------------------------------------------- reading


class _NoMatrix(Exception):
    """A term that is not made of matrices."""


@dataclass(frozen=True)
class _Reader:
    """Reads terms whose rows and columns go by two positions, ``places``, which are made of the ``variables``."""

    names: Mapping[str, Symbol]
    places: tuple[Index, Index]
    row: str
    column: str
    variables: frozenset[str]

    @staticmethod
    def of(claim: ClaimPart, names: Mapping[str, Symbol]) -> _Reader | None:
        """For a claim about two positions besides those of batch and head, or about a joined one."""
        places = _sides(claim, names)
        if len(places) != 2 or not all(isinstance(one, Var | Join) for one in places):
            return None
        used = frozenset(name for one in places for name in free(one))
        return _Reader(names, (places[0], places[1]), key(places[0]), key(places[1]), used)

    def whole(self, term: Term) -> Matrix | None:
        """The term, or None if it is not made of matrices."""
        try:
            return self.matrix(term, self.row, self.column)
        except _NoMatrix:
            return None

    def matrix(self, term: Term, row: str, column: str) -> Matrix:
        """The term as a matrix with these rows and columns."""
        match term:
            case Entry():
                return self.entry(term, row, column)
            case Add():
                return Plus(tuple(self.matrix(arg, row, column) for arg in flat_args(term)))
            case Bind("sum", var, body) if var.domain.name == HEAD:
                return Heads(var, self.matrix(body, row, column))
            case Bind("sum", var, body):
                factors = _factors(body)
                numbers = tuple(one for one in factors if _is_number_of_head(one))
                product = self.product([one for one in factors if one not in numbers], var, row, column)
                return Scaled(numbers, product) if numbers else product
            case Mul():
                return self.scaled(flat_args(term), row, column)
        raise _NoMatrix

    def entry(self, entry: Entry, row: str, column: str) -> Name:
        """A name with its labels, turned over if its rows are columns."""
        places, labels, family, block = self._places(entry)
        self._need_name(entry, labels, family, block)
        keys = list(map(key, places))
        if keys not in ([row, column], [column], [column, row]):  # a row that is added to every row goes by its name
            raise _NoMatrix
        turned = keys == [column, row]
        return Name(entry, tuple(places), tuple(labels), tuple(family), tuple(block), turned)

    def product(self, factors: Sequence[Term], var: Var, row: str, column: str) -> Product:
        """A sum of products of two matrices, or of a row and a matrix, over the position between them."""
        if len(factors) != 2:
            raise _NoMatrix
        first, second = factors
        if self._goes_by(first, column) or (self._goes_by(second, row) and not self._goes_by(second, column)):
            first, second = second, first
        middle = key(var)
        found = Product(self.matrix(first, row, middle), self.matrix(second, middle, column))
        if not has_rows(found.right) or not self._goes_by(first, middle):
            raise _NoMatrix
        return found

    def _goes_by(self, term: Term, place: str) -> bool:
        """Whether rows or columns of a term go by a position."""
        return any(place in map(key, self._places(one)[0]) for one in entries_of(term))

    def scaled(self, factors: Sequence[Term], row: str, column: str) -> Matrix:
        """A matrix with a number in front of it, divided by one, or a softmax."""
        numbers = tuple(one for one in factors if isinstance(one, Num | Size) or _is_number_of_head(one))
        others = [one for one in factors if one not in numbers]
        if not numbers:
            return self.softmax(others, row, column)
        if len(others) != 1:
            raise _NoMatrix
        return Scaled(numbers, self.matrix(others[0], row, column))

    def softmax(self, factors: Sequence[Term], row: str, column: str) -> Weights:
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
        masks = [self.matrix(one, row, column) for one in above if isinstance(one, Entry)]
        if len(scores) != 1 or len(masks) + 1 != len(above):
            raise _NoMatrix
        return Weights(self.matrix(scores[0], row, column), masks[0] if masks else None)

    def _letters(self, terms: Sequence[Term], column: str) -> Iterator[str]:
        """The letter of the columns."""
        for term in terms:
            for one in _entries(term):
                yield from (p.name for p in one.at if isinstance(p, Var) and key(p) == column)
        raise _NoMatrix

    def _places(self, entry: Entry) -> tuple[list[Index], list[Index], list[Index], list[Index]]:
        """Positions of rows and columns, labels, positions in a family, and the head to which a part belongs."""
        heads = self.names.get(entry.name, Symbol("")).heads
        family, rest = list(entry.at[:heads]), list(entry.at[heads:])
        places, labels, block = list[Index](), list[Index](), list[Index]()
        for one in rest:
            if _is_head(one):
                labels.append(one)
            elif isinstance(one, Join) and key(one) not in (self.row, self.column) and self._in_parts(entry):
                block += [part for part in one.parts if _is_head(part)]
                places += [part for part in one.parts if not _is_head(part)]
            elif not _is_batch(one):
                places.append(one)
        if self.variables & {name for one in (*labels, *family, *block) for name in free(one)}:
            raise _NoMatrix  # another tensor for every row or column is no matrix
        return places, labels, family, block

    def _in_parts(self, entry: Entry) -> bool:
        """Whether parts of a tensor may go by its name: it is given, and nothing else has such a name."""
        symbol = self.names.get(entry.name, Symbol(""))
        return symbol.given and not any(one.root == symbol.root and one.label for one in self.names.values())

    def _need_name(
        self, entry: Entry, labels: Sequence[Index], family: Sequence[Index], block: Sequence[Index]
    ) -> None:
        """Refuse what `_Text` has no name for."""
        symbol = self.names.get(entry.name, Symbol(entry.name))
        if (len(block) > 1 or labels or family) if block else labels and (family or not _may_be_sliced(symbol)):
            raise _NoMatrix


# ---------------------------------------------------------------- writing


@dataclass(frozen=True)
class _Text:
    """Writes matrices."""

    notation: Notation

    def whole(self, matrix: Matrix) -> str:
        """The text, with marks where it may be broken."""
        match matrix:
            case Name():
                return self._turned(self._name(matrix)) if matrix.turned else self._name(matrix)
            case Plus(args):
                return f" {mark(1)}+ ".join(map(self.whole, args))
            case Heads(var, body):
                return self.notation.binder("sum", self.notation.letter(var.name), "") + self._factor(body)
            case Product(left, right):
                return f"{self._factor(left)}{mark(2)}{self.notation.SPACE}{self._factor(right)}"
            case Scaled(numbers, arg):
                return self._scaled(numbers, self._factor(arg))
            case Weights(scores, keep):
                name = r"\operatorname{softmax}" if isinstance(self.notation, Latex) else "softmax"
                return name + self.notation.group(self.whole(scores) + (f"; {self.whole(keep)}" if keep else ""))

    def _factor(self, matrix: Matrix) -> str:
        """The matrix, in parentheses if it is a sum."""
        return self.notation.group(deeper(self.whole(matrix))) if isinstance(matrix, Plus) else self.whole(matrix)

    def _scaled(self, numbers: Sequence[Term], inside: str) -> str:
        below = [Size(one.name, -one.power) for one in numbers if isinstance(one, Size) and one.power < 0]
        if len(below) == len(numbers) == 1:
            under = self.notation.term(below[0])
            return rf"\frac{{{inside}}}{{{under}}}" if isinstance(self.notation, Latex) else f"{inside} / {under}"
        of_heads = [one for one in numbers if not isinstance(one, Num | Size)]
        plain_ = [one for one in numbers if isinstance(one, Num | Size)]
        texts = [self.notation.factors(plain_, False, 0)] * bool(plain_) + [*map(self._number, of_heads), inside]
        return self.notation.SPACE.join(texts)

    def _number(self, term: Term) -> str:
        """A number of a head: ``g_r``, or a difference with brackets."""
        symbol = self.notation.names.get(term.name) if isinstance(term, Entry) else None
        if isinstance(term, Entry) and symbol and len(term.at) == 1 and _may_be_sliced(symbol):
            return sliced(self.notation, symbol, self.notation.index(term.at[0]))
        text = self.notation.term(term)
        return self.notation.group(deeper(text)) if isinstance(term, Add) else text

    def _name(self, matrix: Name) -> str:
        note = self.notation
        symbol = note.names.get(matrix.entry.name, Symbol(matrix.entry.name))
        shown = [note.index(one) for one in matrix.family]
        if matrix.block:
            return note.name(symbol, [note.index(matrix.block[0])])
        if matrix.labels:
            return sliced(note, symbol, ",".join(map(note.index, matrix.labels)))
        if symbol.label:
            return note.name(symbol, shown or [symbol.label])
        return note.name(symbol) + note.at((), shown)

    def _turned(self, name: str) -> str:
        if not isinstance(self.notation, Latex):
            return f"{name}ᵀ"
        above = re.search(r"\^\{[^{}]*\}$", name)
        return rf"{name[:-1]}\mathsf{{T}}}}" if above else rf"{name}^{{\mathsf{{T}}}}"


def _labelled(notation: Notation, symbol: Symbol, label: str) -> str:
    """A name with the label of a head below it: ``Q_r``, ``Q'_r``; above it if there is a number below: ``Q_1^(r)``."""
    if symbol.numbered:
        return notation.name(symbol, [label])
    name, primes = notation.name(replace(symbol, number=0)), "'" * symbol.number
    if isinstance(notation, Latex):
        return f"{name}_{{{label}}}{primes}"
    return f"{name}{primes}_{label}" if len(label) == 1 else f"{name}{primes}_({label})"


def _is_batch(index: Index) -> bool:
    return isinstance(index, Var) and index.name == index.domain.name == BATCH


def _is_head(index: Index) -> bool:
    inner = index.index if isinstance(index, Perm) else index
    return isinstance(inner, Var) and inner.domain.name == HEAD and not list(free(inner))[1:]


def _is_number_of_head(term: Term) -> bool:
    """Whether a term is a number for every head, such as ``g[r]`` or ``1 - [q = r]``."""
    if isinstance(term, Entry):
        return bool(term.at) and all(map(_is_head, term.at))
    if isinstance(term, Cmp):
        return _is_head(term.left) and _is_head(term.right)
    inside = [one for one in children(term) if not isinstance(one, Num)]
    return isinstance(term, Add | Mul) and bool(inside) and all(map(_is_number_of_head, inside))


def _sides(claim: ClaimPart, names: Mapping[str, Symbol]) -> list[Index]:
    """The positions of rows and of columns: those of the left side, or the variables if that is no single entry."""
    if isinstance(claim.left, Entry):
        heads = names.get(claim.left.name, Symbol("")).heads
        return [one for one in claim.left.at[heads:] if not _is_batch(one) and not _is_head(one)]
    inside = {one.name: one for one in variables_in(claim.left)}
    places = [inside[name] for name in claim.variables if name in inside]
    places = [one for one in places if not _is_batch(one) and not _is_head(one)]
    rows = [one for one in places if any(one in entry.at[-2:-1] for entry in entries_of(claim.left))]
    return [*rows, *(one for one in places if one not in rows)]


def _factors(term: Term) -> Sequence[Term]:
    """The factors of a term; those that do not depend on the position of a sum stand before it."""
    if isinstance(term, Bind) and term.op == "sum":
        inner = _factors(term.body)
        outside = [one for one in inner if term.var.name not in free(one)]
        inside = tuple(one for one in inner if term.var.name in free(one))
        return [*outside, Bind("sum", term.var, Mul(inside) if len(inside) > 1 else inside[0])] if inside else [term]
    return flat_args(term) if isinstance(term, Mul) else (term,)


def _entries(term: Term) -> Iterator[Entry]:
    if isinstance(term, Entry):
        yield term
    elif isinstance(term, Apply):
        yield from _entries(term.arg)
    elif isinstance(term, Mul | Add):
        for arg in term.args:
            yield from _entries(arg)
