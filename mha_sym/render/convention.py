"""Other ways of writing the same derivation: another letter for heads, vectors as columns, axes by name.

Defines `Convention` and `rewritten`, which makes a derivation in one convention of a derivation in the usual one; what
writes it needs not know.  Nothing that is said to be checked is checked anew: only signs change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from mha_sym.proof.terms import (
    Apply,
    Bind,
    Cmp,
    Domain,
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
    children,
    flat_args,
    rebuild,
)
from mha_sym.proof.theorem import Counterexample
from mha_sym.render.derivation import ClaimPart, ControlPart, Derivation, Proof, Step
from mha_sym.render.false_equations import FalseEquation
from mha_sym.render.formulas.changes import changed
from mha_sym.render.formulas.notation import Symbol
from mha_sym.render.formulas.occurring import entries_of
from mha_sym.render.matrices import Height
from mha_sym.render.matrix_kinds import Heads, Matrix, Name, Plus, Product, Scaled, Weights
from mha_sym.render.pictures.moves import Move
from mha_sym.render.prose import pieces
from mha_sym.render.vocabulary import DefinedRow, LetterRow, Vocabulary

#: what axes are called where they go by names, by the letter of their positions
AXIS_NAMES = {
    "b": "batch", "t": "query", "s": "key", "m": "model", "r": "head", "j": "feature", "c": "joined",
}  # fmt: skip

#: the number of heads, where the letter h is that of a head
HEADS = "n_h"

COLUMNS = (
    "vectors are columns here: every matrix is the transpose of the one in code that multiplies x by W from the right, "
    "and factors stand in the other order"
)
#: said besides if sentences speak of shapes or of how arrays are rearranged
ARRAYS = "shapes in sentences, and axes that are split, transposed and joined there, are those of arrays in code"
#: features come before tokens where vectors are columns, and heads are split and joined without a transposition
_MOVED = {
    "split of the feature axis, then transpose": "split of the feature axis",
    "transpose back, then join": "join of heads and features",
}
NAMES = (
    "axes go by names here, as in named tensor notation: query(t) is position t in the axis query, and the order of "
    "the axes means nothing"
)


@dataclass(frozen=True)
class Convention:
    """How a derivation is written.

    Attributes:
        head: the letter of a head; with ``h`` the number of heads is ``n_h``.
        vectors: ``row`` for x W, ``column`` for W x.
        axes: whether positions in entries are told apart by the names of their axes.
    """

    head: Literal["r", "h", "i"] = "r"
    vectors: Literal["row", "column"] = "row"
    axes: bool = False


USUAL = Convention()


def rewritten(found: Derivation, convention: Convention) -> Derivation:
    """The same derivation in another convention.

    Example:
        >>> from mha_sym.render.vocabulary import Vocabulary
        >>> from mha_sym.proof.theorem import Verdict
        >>> plain = Derivation("n", "Head r of h", "", "", Verdict.PROVED, "", (), Vocabulary(), (), (), (), 0)
        >>> rewritten(plain, Convention(head="h")).title
        'Head h of n_h'
    """
    return found if convention == USUAL else _Writing(found, convention).derivation()


class _Writing:
    """One derivation, written anew."""

    def __init__(self, found: Derivation, convention: Convention) -> None:
        self.found, self.convention = found, convention
        self.letters = _letters(found.vocabulary, convention.head)
        self.sizes = {"h": HEADS} if convention.head == "h" else {}
        self.heads = {name: symbol.heads for name, symbol in found.vocabulary.names.items()}
        entries = [row.entry for row in found.vocabulary.given] + [row.entry for row in self._defined()]
        columns = {e.name: self._columns(e) for e in entries} if convention.vectors == "column" else {}
        self.turned = {name: count for name, count in columns.items() if count}
        self.axes = {e.name: tuple(map(_axis_name, e.at)) for e in entries} if convention.axes else {}

    def _defined(self) -> list[DefinedRow]:
        rows = list(self.found.vocabulary.defined)
        rows += [row for claim in self.found.claims for row in (*claim.opened, *claim.defined)]
        return [*rows, *(row for one in self.found.controls if one.says for row in one.says.defined)]

    def _sentences(self) -> list[str]:
        found = self.found
        return [found.title, found.words, *(one.words for one in found.claims), *(one.words for one in found.controls)]

    def _columns(self, entry: Entry) -> int:
        """How many axes at the end of a tensor are the columns of matrices: two if those are split by heads, or none.

        All axes before the rows may be batch axes; a tensor whose axis before the last is a batch or head axis, as
        ``c[b,r,t]`` is, has no matrices.
        """
        rows = entry.at[self.heads.get(entry.name, 0) :][-3:]
        if len(rows) > 1 and not _is_batch(rows[-2]):
            return 1
        features = isinstance(rows[-1], Var) and rows[-1].domain.name == "j" if len(rows) == 3 else False
        return 2 if features and not _is_batch(rows[0]) else 0

    def derivation(self) -> Derivation:
        """All of it."""
        found, text = self.found, self.text
        notes = [COLUMNS] * bool(self.turned) + [NAMES] * bool(self.axes)
        notes += [ARRAYS] * (bool(self.turned) and any(map(_speaks_of_arrays, self._sentences())))
        assumptions = [(text(words), None if one is None else self.term(one)) for words, one in found.assumptions]
        return replace(
            found, title=text(found.title), words=text(found.words), scope=text(found.scope),
            assumptions=(*((words, None) for words in notes), *assumptions),
            vocabulary=self.vocabulary(found.vocabulary),
            claims=tuple(map(self.claim, found.claims)), controls=tuple(map(self.control, found.controls)),
        )  # fmt: skip

    # ------------------------------------------------------------ parts

    def vocabulary(self, words: Vocabulary) -> Vocabulary:
        """The table of notation."""
        return replace(
            words,
            sizes=tuple(replace(row, name=self.sizes.get(row.name, row.name)) for row in words.sizes),
            letters=tuple(map(self.letter, words.letters)),
            given=tuple(
                replace(
                    row, entry=self.entry(row.entry), shape=self.turn(row.entry.name, tuple(map(self.term, row.shape))),
                    values=self.values(row.entry.name, row.values),
                )
                for row in words.given
            ),
            defined=tuple(map(self.definition, words.defined)),
            named=tuple(
                replace(
                    row, entry=self.entry(row.entry), words=self.text(row.words),
                    shape=self.turn(row.entry.name, tuple(map(self.term, row.shape))),
                )
                for row in words.named
            ),
            bijections=tuple(
                replace(row, size=self.term(row.size), words=self.text(row.words)) for row in words.bijections
            ),
            names={name: self.symbol(one) for name, one in words.names.items()},
            letters_for={self.letters.get(name, name): letter for name, letter in words.letters_for.items()},
        )  # fmt: skip

    def symbol(self, symbol: Symbol) -> Symbol:
        """A name: the head above it by its new letter, a block of heads below it by its new size."""
        block, comma, more = symbol.block.partition(",")
        label = self.letters.get(symbol.label, symbol.label)
        return replace(symbol, label=label, block=self.sizes.get(block, block) + comma + more)

    def letter(self, row: LetterRow) -> LetterRow:
        """A row of letters."""
        made_of = None if row.made_of is None else self.index(row.made_of)
        letters = tuple(self.letters.get(name, name) for name in row.letters)
        return replace(row, letters=letters, size=self.term(row.size), made_of=made_of)

    def definition(self, row: DefinedRow) -> DefinedRow:
        """A definition."""
        return DefinedRow(self.entry(row.entry), self.term(row.body), self.text(row.words))

    def claim(self, claim: ClaimPart) -> ClaimPart:
        """A claim with its lines."""
        conditions = tuple(replace(one, term=self.term(one.term)) for one in claim.conditions)
        found = replace(
            claim, words=self.text(claim.words), left=self.term(claim.left), right=self.term(claim.right),
            variables=tuple(self.letters.get(name, name) for name in claim.variables),
            proofs=tuple(map(self.proof, claim.proofs)), moves=tuple(map(self.move, claim.moves)),
            conditions=conditions, opened=tuple(map(self.definition, claim.opened)),
            defined=tuple(map(self.definition, claim.defined)),
            counterexample=claim.counterexample and self.counterexample(claim.counterexample),
            stuck=claim.stuck and (self.term(claim.stuck[0]), self.term(claim.stuck[1])),
            rechecked=tuple(map(self.named, claim.rechecked)),
            checked=replace(claim.checked, sizes=tuple(map(self.named, claim.checked.sizes))),
        )  # fmt: skip
        return replace(found, height=claim.height and self.height(claim.height))

    def height(self, found: Height) -> Height:
        """The lines in matrices."""
        row, column = self.index(found.row), self.index(found.column)
        return Height(row, column, tuple((self.matrix(matrix), self.term(term)) for matrix, term in found.lines))

    def matrix(self, matrix: Matrix) -> Matrix:
        """A matrix; where vectors are columns it is turned over, so that products go the other way."""
        match matrix:
            case Name(entry, axes, labels, family, block, turned):
                itself = len(axes) > 1 and bool(self.turned) and entry.name not in self.turned
                at = [tuple(map(self.index, one)) for one in (axes, labels, family, block)]
                return Name(self.entry(entry), at[0], at[1], at[2], at[3], turned != itself)
            case Plus(args):
                return Plus(tuple(map(self.matrix, args)))
            case Heads(var, body):
                return Heads(self.var(var), self.matrix(body))
            case Product(left, right):
                factors = self.matrix(left), self.matrix(right)
                return Product(*reversed(factors)) if self.turned else Product(*factors)
            case Scaled(numbers, arg):
                return Scaled(tuple(map(self.term, numbers)), self.matrix(arg))
            case Weights(scores, keep):
                return Weights(self.matrix(scores), keep and self.matrix(keep))

    def counterexample(self, found: Counterexample) -> Counterexample:
        """Where a claim fails."""
        index = {self.letters.get(name, name): number for name, number in found.index.items()}
        given = {name: self.values(name, values) for name, values in found.inputs.items()}
        return replace(found, sizes=self.named(found.sizes), index=index, inputs=given)

    def proof(self, proof: Proof) -> Proof:
        """The lines; what each changed is found anew, since factors have moved."""
        steps = [replace(one, term=self.term(one.term), reason=self.text(one.reason)) for one in proof.steps]
        new = [replace(step, changed=changed(before.term, step.term)) for before, step in pairwise(steps)]
        return Proof(proof.goal, tuple[Step, ...]([*steps[:1], *new]))

    def move(self, move: Move) -> Move:
        """A station; an array in memory keeps the order of its axes."""
        return replace(move, sizes=tuple(map(self.term, move.sizes)), at=tuple(map(self.index, move.at)))

    def control(self, control: ControlPart) -> ControlPart:
        """A control with its counterexample."""
        given, every = (
            {name: self.values(name, values) for name, values in found.items()}
            for found in (control.given, control.inputs)
        )
        place = {self.letters.get(name, name): number for name, number in control.place.items()}
        return replace(
            control, words=self.text(control.words), sizes=self.named(control.sizes), place=place, given=given,
            inputs=every, says=control.says and self.says(control.says),
        )  # fmt: skip

    def says(self, says: FalseEquation) -> FalseEquation:
        """A false equation, and what it speaks of."""
        return replace(
            says, left=self.term(says.left), right=self.term(says.right),
            variables=tuple(self.letters.get(name, name) for name in says.variables),
            defined=tuple(map(self.definition, says.defined)),
        )  # fmt: skip

    def named(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Sizes by their new names."""
        return {self.sizes.get(name, name): size for name, size in sizes.items()}

    def values(self, name: str, values: Any) -> Any:
        """Numbers of a tensor, in the order of its axes."""
        columns = self.turned.get(name, 0)
        return np.moveaxis(np.asarray(values), -1 - columns, -1) if columns and values is not None else values

    # ------------------------------------------------------------ terms

    def term(self, term: Term) -> Term:
        """A term."""
        match term:
            case Entry():
                return self.entry(term)
            case Size(name, power):
                return Size(self.sizes.get(name, name), power)
            case Cmp(op, left, right, offset):
                return Cmp(op, self.index(left), self.index(right), offset)
            case Bind(op, var, body):
                return Bind(op, self.var(var), self.term(body))
            case Mul() if self.turned:
                return Mul(tuple(_reversed([self.term(arg) for arg in flat_args(term)])))
            case _:
                return rebuild(term, tuple(map(self.term, children(term))))

    def entry(self, entry: Entry) -> Entry:
        """An entry: positions of a matrix change places, and get the names of their axes."""
        at = tuple(map(self.index, entry.at))
        known = self.axes.get(entry.name, ())
        if known:
            heads = self.heads.get(entry.name, 0)
            shown = [Perm(axis, False, one) for axis, one in zip(known[heads:], at[heads:], strict=True)]
            at = (*at[:heads], *shown)
        return Entry(entry.name, self.turn(entry.name, at))

    def turn(self, name: str, axes: tuple[Any, ...]) -> tuple[Any, ...]:
        """What belongs to the axes of a tensor, in their new order."""
        row = len(axes) - 1 - self.turned.get(name, len(axes))
        return axes if row < 0 else (*axes[:row], *axes[row + 1 :], axes[row])

    def var(self, var: Var) -> Var:
        """A position by its new letter."""
        return Var(self.letters.get(var.name, var.name), self.domain(var.domain))

    def index(self, index: Index) -> Index:
        """A position."""
        match index:
            case Var():
                return self.var(index)
            case Join(domain, parts):
                return Join(self.domain(domain), tuple(map(self.index, parts)))
            case Part(inner, domain, number):
                return Part(self.index(inner), self.domain(domain), number)
            case Inj(inner, domain, number):
                return Inj(self.index(inner), self.domain(domain), number)
            case Perm(name, inverse, inner):
                return Perm(name, inverse, self.index(inner))
            case _:
                return index

    def domain(self, domain: Domain) -> Domain:
        """What a position ranges over."""
        factors, blocks = tuple(map(self.domain, domain.factors)), tuple(map(self.domain, domain.blocks))
        return Domain(domain.name, self.term(domain.size), factors, blocks)

    # ------------------------------------------------------------ words

    def text(self, text: str) -> str:
        """A sentence: letters in its formulas, and what is said of rows and columns."""
        found = "".join(self._formula(one.text) if one.formula else self._words(one.text) for one in pieces(text))
        return found[:1].upper() + found[1:] if text[:1].isupper() and found[:1] != text[:1] else found

    def _formula(self, formula: str) -> str:
        new = {**self.letters, **self.sizes}
        if new:
            pattern = rf"(?<![A-Za-z])({'|'.join(new)})(?![A-Za-z0-9_])"
            formula = re.sub(pattern, lambda found: new[found[1]], formula)
        return _PRODUCT.sub(_other_order, formula) if self.turned else formula

    def _words(self, words: str) -> str:
        if not self.turned:
            return words
        for moved, here in _MOVED.items():
            words = words.replace(moved, here)
        return re.sub(r"(?i)\b(row|column)", _exchanged, words)


def _letters(words: Vocabulary, head: str) -> dict[str, str]:
    """New letters of positions; one that has the letter of heads already gives way."""
    if head == "r":
        return {}
    taken = {name for row in words.letters for name in row.letters}
    free = next(letter for letter in "lpquvwxyz" if letter not in taken)
    return {"r": head} | ({head: free} if head in taken else {})


def _speaks_of_arrays(text: str) -> bool:
    return bool(re.search(r"\(B, |\b(?:reshaped?|transposed?|head axis)\b", text))


def _is_batch(index: Index) -> bool:
    """Whether a position is that of a sequence or of a head: what has these apart are matrices of their own."""
    return isinstance(index, Var) and index.domain.name in ("b", "r", "pruned")


def _axis_name(index: Index) -> str:
    """The name of the axis in which the general position of a tensor lies."""
    name = index.domain.name if isinstance(index, Var | Join) else "c"
    return AXIS_NAMES.get(name, name)


def _reversed(args: list[Term]) -> list[Term]:
    """Factors in the other order but for numbers; exponentials over their sum and what masks them stay together."""
    weights = [arg for arg in args if isinstance(arg, Apply)]
    masks = {arg.name for one in weights for arg in entries_of(one)} if weights else set()
    kept = [arg for arg in args if isinstance(arg, Cmp) or (isinstance(arg, Entry) and arg.name in masks)]
    together = [arg for arg in args if arg in weights or (weights and arg in kept)]
    numbers = [arg for arg in args if isinstance(arg, Num | Size)]
    others = [arg for arg in args if arg not in together and arg not in numbers]
    return [*numbers, *reversed(others), *together]


_FACTOR = (
    r"(?:Concat\([^()]*(?:\([^()]*\)[^()]*)*\)"
    r"|(?:b_[A-Z]|[A-Z](?:_[A-Za-z0-9]+)?)(?:\^\(\w\))?(?:\^T)?)"
)
#: a product of matrices in a sentence
_PRODUCT = re.compile(rf"(?<![\w^(]){_FACTOR}(?: {_FACTOR})+(?![\w^(\[])")


def _other_order(found: re.Match[str]) -> str:
    return " ".join(reversed(re.findall(_FACTOR, found[0])))


def _exchanged(found: re.Match[str]) -> str:
    word = "column" if found[1].lower() == "row" else "row"
    return word.capitalize() if found[1][0].isupper() else word
