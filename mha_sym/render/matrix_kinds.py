"""What a line at the height of matrices is made of.

Defines `Matrix`, its kinds, and `has_rows`.  How they are read and written is in `mha_sym.render.matrices`; what they
are in numbers is in `mha_sym.render.computed.matrix_values`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mha_sym.proof.terms import Entry, Index, Term, Var


@dataclass(frozen=True)
class Name:
    """The matrix of an entry: its ``labels``, the member of a ``family``, or the head whose ``block`` it is.

    ``axes`` are the positions in the entry by which its rows and columns go, or its columns only; ``turned`` if the
    first of them is that of the columns.
    """

    entry: Entry
    axes: tuple[Index, ...]
    labels: tuple[Index, ...] = ()
    family: tuple[Index, ...] = ()
    block: tuple[Index, ...] = ()
    turned: bool = False


@dataclass(frozen=True)
class Plus:
    """A sum of matrices; a single row among them is added to every row."""

    args: tuple[Matrix, ...]


@dataclass(frozen=True)
class Heads:
    """A sum over heads."""

    var: Var
    body: Matrix


@dataclass(frozen=True)
class Product:
    """A product of two matrices."""

    left: Matrix
    right: Matrix


@dataclass(frozen=True)
class Scaled:
    """A matrix times numbers, which may be one over something, or numbers of a head, such as a gate ``g[r]``."""

    numbers: tuple[Term, ...]
    arg: Matrix


@dataclass(frozen=True)
class Weights:
    """A softmax along the columns, of what a mask keeps."""

    scores: Matrix
    keep: Matrix | None


Matrix = Name | Plus | Heads | Product | Scaled | Weights


def has_rows(matrix: Matrix) -> bool:
    """Whether something is not a single row that may be added to every row."""
    match matrix:
        case Name(axes=axes):
            return len(axes) == 2
        case Plus(args):
            return any(map(has_rows, args))
        case Heads(_, inner) | Product(inner, _) | Scaled(_, inner) | Weights(inner, _):
            return has_rows(inner)
