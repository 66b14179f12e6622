"""The table of notation, row by row, and what is said below it: the same in every form of a derivation.

Defines `SignRow`, `sign_rows`, `only`, `naming`, and `likened`, which is said of a false equation.  Formulas are in the
script of a `Notation`; how a table looks is decided by the renderers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mha_sym.proof.terms import Join, Part, Var
from mha_sym.render import sentences
from mha_sym.render.convention import COLUMNS
from mha_sym.render.derivation import Derivation
from mha_sym.render.false_equations import MARK, FalseEquation
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.notation import Notation, Symbol
from mha_sym.render.formulas.scripts import Latex
from mha_sym.render.matrices import sliced, stage
from mha_sym.render.prose import Piece, latex_formula, pieces, unicode_prose
from mha_sym.render.vocabulary import AXIS_WORDS, GivenRow, LetterRow, NamedRow, Vocabulary

Words = tuple[Piece, ...]

#: of more tensors of one name than this the first and the last are told
OTHERS = 4


@dataclass(frozen=True)
class SignRow:
    """A sign, what it ranges over, and what it means; ``values`` are the numbers of a constant."""

    sign: str
    range: str
    meaning: Words
    values: str = ""


#: weights of a head, and the letter above them in the paper
PAPER = {"W_Q": "Q", "W_K": "K", "W_V": "V"}


def sign_rows(words: Vocabulary, note: Notation) -> Iterator[SignRow]:
    """The rows: positions, permutations, brackets, what is given.

    Example:
        >>> from mha_sym.proof.terms import Size
        >>> from mha_sym.render.formulas.scripts import Unicode
        >>> rows = tuple(LetterRow(("j",), Size(size), f"feature of a {what}") for size, what in
        ...     (("d_k", "key"), ("d_v", "value")))
        >>> row, = sign_rows(Vocabulary(letters=rows), Unicode())
        >>> row.range, said(row.meaning)
        ('0 ≤ j < d_k or d_v', 'feature of a key (d_k), feature of a value (d_v)')
    """
    for rows in _alike(words.letters):
        yield _letters(rows, words, note)
    for one in words.bijections:
        last = f"{plain(note.term(one.size))} {note.MINUS} 1"
        range_ = f"0, {note.ANY}, {last}"
        yield SignRow(note.permuted(one.name, False, note.DOT), range_, (Piece(one.words, False),))
    if words.brackets:
        yield SignRow(
            f"[{note.ANY}]", f"0{note.OR}1", (Piece("1 if what stands in the bracket holds, else 0", False),)
        )
    yield from (_given(one, note) for one in words.given)
    yield from (_named(one, note) for one in words.named)


def only(words: Vocabulary, *parts: str) -> Vocabulary:
    """The table without all rows but those of some parts: ``letters``, ``bijections``, ``given``, ``named``."""
    gone = {name: () for name in ("letters", "bijections", "given", "named") if name not in parts}
    return replace(words, brackets=words.brackets and "bijections" in parts, **gone)  # type: ignore[arg-type]


def said(words: Words) -> str:
    """Words and formulas as they are."""
    return "".join(one.text for one in words)


def _alike(rows: Iterable[LetterRow]) -> Iterator[list[LetterRow]]:
    """Positions that go by the same letter, although their axes differ."""
    found: dict[str, list[LetterRow]] = {}
    for row in rows:
        found.setdefault(row.letters[0], []).append(row)
    yield from found.values()


def _letters(rows: Sequence[LetterRow], words: Vocabulary, note: Notation) -> SignRow:
    names = [note.letter(name) for name in dict.fromkeys(name for row in rows for name in row.letters)]
    sizes = list(dict.fromkeys(plain(note.term(row.size)) for row in rows))
    range_ = f"0 {note.LEAST} {names[0]} < {note.OR.join(sizes)}"
    joined = [row.made_of for row in rows if isinstance(row.made_of, Join)]
    whole = rows[0].letters[0]
    meaning = _made_of(joined, whole, words.digits, note) if joined else _counted(rows, note)
    return SignRow(", ".join(names), range_, tuple(meaning))


def _counted(rows: Sequence[LetterRow], note: Notation) -> Iterator[Piece]:
    """What a position is; if its letter has several axes, in which of them."""
    for n, row in enumerate(rows):
        yield Piece(", " * bool(n) + row.words, False)
        if len(rows) > 1:
            yield from (Piece(" ", False), Piece(f"({plain(note.term(row.size))})", True))


def _made_of(joins: Sequence[Join], name: str, digits: bool, note: Notation) -> Iterator[Piece]:
    """Of what a joined position is made, and how it is taken apart if that occurs."""
    for n, one in enumerate(joins):
        whole = Var(name, one.domain)
        yield from [Piece("; or ", False)] if n else []
        yield Piece(f"{note.index(whole)} = {note.index(one)}", True)
        for place, part in enumerate(one.parts if digits else ()):
            yield Piece(", " if place else ", so ", False)
            yield Piece(f"{note.index(part)} = {note.index(Part(whole, one.domain, place))}", True)


def _given(given: GivenRow, note: Notation) -> SignRow:
    shape = f" {note.TIMES} ".join(plain(note.term(one)) for one in given.shape)
    values = "" if given.values is None else sentences.nested(given.values)
    return SignRow(plain(note.term(given.entry)), shape, (Piece(given.words, False),), values)


def _named(named: NamedRow, note: Notation) -> SignRow:
    """A tensor that is defined where it occurs, and those of the same name."""
    shape = f" {note.TIMES} ".join(plain(note.term(one)) for one in named.shape)
    others = [_name(one, note) for one in named.others]
    shown = others if len(others) <= OTHERS else [others[0], note.ANY, others[-1]]
    more = ((Piece(", " if n else "; also ", False), Piece(one, True)) for n, one in enumerate(shown))
    return SignRow(
        plain(note.term(named.entry)), shape, (*_formulas(named.words, note), *(one for two in more for one in two))
    )


def _formulas(text: str, note: Notation) -> Iterator[Piece]:
    """A sentence with its formulas in a notation."""
    write = latex_formula if isinstance(note, Latex) else unicode_prose
    yield from (Piece(write(one.text), True) if one.formula else one for one in pieces(text))


def _name(name: str, note: Notation) -> str:
    symbol = note.names[name]
    return note.name(symbol, [symbol.label] if symbol.label else [])


def likened(says: FalseEquation, note: Notation) -> Words:
    """Which tensors of a false equation are made like which ones of the theorem, in a sentence; nothing if none are."""
    found = [(row.entry.name, says.untold[row.entry.name]) for row in says.defined if row.entry.name in says.untold]
    if not found:
        return ()
    texts = [
        (Piece(", " if n else "", False), Piece(_name(one, note), True), Piece(" as " if n else " is made as ", False),
         Piece(_name(model, note), True))
        for n, (one, model) in enumerate(found)
    ]  # fmt: skip
    return tuple(piece for text in texts for piece in text if piece.text)


# ---------------------------------------------------------------- below the table


def naming(found: Derivation, note: Notation) -> Iterator[Words]:
    """How names are to be read that have something above, below or behind them; only what occurs is explained."""
    rows = found.vocabulary.letters
    head = note.letter(next((row.letters[0] for row in rows if row.words == AXIS_WORDS["h"]), "r"))
    if any(row.words == AXIS_WORDS["h"] for row in rows):
        yield _told("", "Positions count from 0, and so do heads: ", f"{head} = 0", " is what papers call head 1")
    symbols = sorted(found.vocabulary.names.values(), key=lambda one: len(one.root))
    for row in found.vocabulary.sizes:
        if any(one.root == row.name for one in symbols):
            beside = "; with positions or a head beside it, it is the tensor of that name"
            yield _told(note.size_name(row.name), f" alone is the number of {row.words}{beside}")
    plain_ones = [one for one in symbols if not one.label and not one.heads]
    lines = "\n".join(plain(stage(claim, note)) for claim in found.claims)
    slices = [(one, sliced(note, one, head)) for one in plain_ones]
    if (shown := next(((one, text) for one, text in slices if text and text in lines), None)) is not None:
        yield _told(shown[1], ": the matrix of ", note.name(shown[0]), " in head ", head, ", for any sequence")
    own = next((note.name(one, [head]) for one in symbols if one.label and not one.block.endswith(MARK)), "")
    if own:
        yield _told(own, ": belongs to head ", head, " alone, as in the formula for one head")
    blocks = [(one, note.name(one, [head])) for one in plain_ones if one.given]
    if (part := next(((one, text) for one, text in blocks if text in lines and text != own), None)) is not None:
        yield _told(part[1], ": the block of ", note.name(part[0]), " that belongs to head ", head)
    turned = any(words == COLUMNS for words, _ in found.assumptions)
    yield from _papers_name(symbols, head, f"{lines}\n{own}", note, "the transpose of " * turned)
    if (block := next((one for one in symbols if one.block and not one.block.endswith(MARK)), None)) is not None:
        whole = note.name(replace(block, block=""))
        yield _told(note.name(block), ": the part of ", whole, f" in block {block.block} of an axis made of blocks")
    biases = [note.names[row.entry.name] for row in found.vocabulary.given if row.words.startswith("bias")]
    shown_ones = (text for one in biases for text in (note.name(one), note.name(one, [head])) if f"+ {text}" in lines)
    if (bias := next(shown_ones, "")):
        yield _told(bias, ": in a sum with matrices, a bias is added at every position of a sequence")
    masks = (text for one, cut in slices for text in (cut, note.name(one)) if text)
    if (mask := next((text for text in masks if f"; {text})" in lines), "")) and "softmax" in lines:
        yield _told("", "After a semicolon in softmax stands a mask: the keys count for which ", mask, " is 1")
    if (again := next((one for one in symbols if one.number), None)) is not None:
        first, other = note.name(replace(again, number=0)), note.name(again)
        sign = "Numbers" if again.numbered else "Primes"
        what = f"{sign} tell tensors of one name apart, such as "
        yield _told("", what, first, " and ", other, ": made alike, of different parts, as their definitions say")
    if any(one.heads and not one.label for one in symbols):
        yield _told("", "What stands before a semicolon in brackets says which tensor of a family is meant")


def _papers_name(symbols: Iterable[Symbol], head: str, lines: str, note: Notation, turned: str) -> Iterator[Words]:
    """What the paper calls the weights of a head, if they occur; its heads count from 1."""
    for one in symbols:
        name = note.name(replace(one, number=0), [head])
        if one.root in PAPER and not one.number and (one.label or name in lines):
            above = "W_{i}^{" + PAPER[one.root] + "}" if isinstance(note, Latex) else f"W_i^{PAPER[one.root]}"
            yield _told(name, f": {turned}what Vaswani et al. 2017 write ", above, ", counting heads from 1")
            return


def _told(*parts: str) -> Words:
    """Formulas and words in turn, beginning with a formula."""
    return tuple(Piece(text, not n % 2) for n, text in enumerate(parts) if text)
