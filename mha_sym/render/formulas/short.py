"""One definition as one line of text, as short as it can be read: ``S[b,r,t,s] = ... where s ≤ t, else -10⁹``.

Defines `definition_line`.  Terms are folded by `mha_sym.render.formulas.folded` first; what occurs several times, a
compound position or a stack of arrays, gets a name that is explained at the end of the line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mha_sym.proof.checker import Goal
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import (
    ONE,
    Add,
    At,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Term,
    Var,
    fields,
    flat_args,
    free,
)
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.folded import Folder
from mha_sym.render.formulas.letters import tidy
from mha_sym.render.formulas.notation import FACTOR, PRODUCT, SUM, Notation, Written
from mha_sym.render.formulas.occurring import names_of
from mha_sym.render.formulas.places import merged, occurring
from mha_sym.render.formulas.scripts import SUPERSCRIPT, Latex, Unicode

#: letters for a compound position that is named, first choice first
_LETTERS = ("c", "e", "i", "p")
#: a line of no more characters is written without such names
_WIDE = 90
#: powers of ten from here on are written as such
_LARGE = 10**4


class _Short(Notation):
    """Positions without zeros and without a factor of one, ``[t < s]``, roots of products, and powers of ten."""

    TEXT = "{}"

    def _place(self, parts: Sequence[Index], shape: Sequence[Domain]) -> Written:
        addends = []
        for n, one in enumerate(parts):
            if one == At(0) or shape[n].size == ONE:
                continue
            sizes = [factor for d in shape[n + 1 :] for factor in flat_args(d.size, Mul)]
            times = self._product_of(one, sizes)
            addends.append(times)
        return self._added(addends)

    def _index(self, index: Index) -> Written:
        if not isinstance(index, Inj):
            return super()._index(index)
        number, texts = 0, list[str]()
        for block in index.domain.blocks[: index.number]:
            count, symbols = self._counted(block)
            number, texts = (number, [*texts, self._times(count, symbols)]) if symbols else (number + count, texts)
        rows: list[Written] = [(text, PRODUCT if self.SPACE in text else FACTOR) for text in texts]
        rows += [(str(number), FACTOR)] if number else []
        return self._added(rows if index.index == At(0) else [*rows, self._index(index.index)])

    def _added(self, rows: Sequence[Written]) -> Written:
        return rows[0] if len(rows) == 1 else (" + ".join(text for text, _ in rows) or "0", SUM if rows else FACTOR)

    def _times(self, number: int, symbols: Sequence[str]) -> str:
        return self.SPACE.join([*([str(number)] if number != 1 else []), *symbols])

    def _product_of(self, index: Index, sizes: Sequence[Term]) -> Written:
        """A digit times some sizes."""
        known = Domain("", Mul((ONE, *sizes)))
        number, symbols = self._counted(known)
        if isinstance(index, At):
            number *= index.number
            held = []
        else:
            text, kind = self._index(index)
            held = [text if kind == FACTOR or (not symbols and number == 1) else f"({text})"]
            if not symbols and number == 1:
                return text, kind
        texts = [str(number)] * (number != 1 or not (held or symbols)) + held + symbols
        return self.SPACE.join(texts), PRODUCT if len(texts) > 1 else FACTOR

    def _counted(self, domain: Domain) -> tuple[int, list[str]]:
        text = self._size((domain,))
        inner = text[1:-1] if text.startswith("(") else text
        first, _, rest = inner.partition(self.SPACE)
        if first.isdigit():
            return int(first), [rest] if rest else []
        return 1, [inner]

    def compare(self, op: str, left: str, right: str) -> str:
        """``[t < s]`` for ``[t ≤ s - 1]``."""
        return f"[{self.relation(op, left, right)}]"

    def relation(self, op: str, left: str, right: str) -> str:
        """The relation without a bracket."""
        strict = f" {self.MINUS} 1"
        if op == "le" and right.endswith(strict):
            return f"{left} < {right.removesuffix(strict)}"
        return f"{left} {self.LEAST if op == 'le' else '='} {right}"

    def condition(self, term: Term) -> str:
        """A term that is 0 or 1 as words."""
        match term:
            case Cmp(op, left, right, offset):
                return self.relation(op, self.index(left), self._shifted(right, offset))
            case Mul():
                return self.TEXT.format(" and ").join(map(self.condition, flat_args(term)))
            case Add(args):  # 1 - what is 0 or 1
                inner = Mul(tuple(one for one in flat_args(args[1], Mul) if not isinstance(one, Num)))
                return f"{self.TEXT.format('not ')}({self.condition(inner)})"
        return plain(self.term(term))


class _ShortUnicode(_Short, Unicode):
    def number(self, value: Fraction) -> str:
        """``1/2``, ``10⁹``, ``10⁻⁹``."""
        power = _power_of_ten(value)
        return f"10{str(power).translate(SUPERSCRIPT)}" if power else super().number(value)

    def apply(self, name: str, arg: Term, level: int) -> str:
        """``exp(x)``, ``√(h d_k)``."""
        if name != "sqrt":
            return super().apply(name, arg, level)
        text, kind = self.written(arg, level)
        return f"√{text}" if kind == FACTOR else f"√({text})"


class _ShortLatex(_Short, Latex):
    TEXT = r"\text{{{}}}"

    def number(self, value: Fraction) -> str:
        r"""``\tfrac{1}{2}``, ``10^{9}``."""
        power = _power_of_ten(value)
        return f"10^{{{power}}}" if power else super().number(value)

    def apply(self, name: str, arg: Term, level: int) -> str:
        r"""``\sqrt{h\,d_k}``."""
        return super().apply(name, arg, level) if name != "sqrt" else rf"\sqrt{{{plain(self.written(arg, level)[0])}}}"


def _power_of_ten(value: Fraction) -> int:
    """The exponent of a power of ten that is far from one, else 0."""
    size = max(value.numerator, value.denominator)
    far = size >= _LARGE and min(value.numerator, value.denominator) == 1 and str(size).strip("0") == "1"
    return (len(str(size)) - 1) * (1 if value > 1 else -1) if far else 0


# ---------------------------------------------------------------- the line


@dataclass(frozen=True)
class _Line:
    """What a line says: both sides, and the compound position that has a name."""

    left: Term
    right: Term
    letter: Var | None = None
    place: Index | None = None


def definition_line(goal: Goal, context: Context, latex: bool = False) -> str:
    """``left = right`` for all positions, folded.

    Args:
        goal: what the left side is defined as.
        context: the tables and 0/1 arrays that it rests on.
        latex: whether LaTeX is written, for mathematics mode.
    """
    folder = Folder(context.tables, frozenset(context.booleans))
    line = _Line(tidy(folder.folded(goal.left)), tidy(folder.folded(tidy(goal.right))))
    if len(_text(line, folder, _ShortUnicode())) > _WIDE:
        line = _named(line)
    return _text(line, folder, _ShortLatex() if latex else _ShortUnicode())


def _text(line: _Line, folder: Folder, write: _Short) -> str:
    text = f"{plain(write.term(line.left))} = {_right(line.right, folder, write)}"
    return text + "".join(_explained(line, folder, write))


def _right(term: Term, folder: Folder, write: _Short) -> str:
    found = folder.either(term)
    if found is None:
        return plain(write.term(term))
    condition, yes, no = found
    where, other = write.TEXT.format(" where "), write.TEXT.format(", else ")
    return f"{plain(write.term(yes))}{where}{write.condition(condition)}{other}{plain(write.term(no))}"


def _explained(line: _Line, folder: Folder, write: _Short) -> Iterator[str]:
    """What the names at hand mean."""
    used = {name for side in (line.left, line.right) for name in names_of(side)}
    rows = []
    if line.letter is not None and line.place is not None:
        rows.append(f"{write.letter(line.letter.name)} = {plain(write.index(line.place))}")
    for stack in folder.stacks.values():
        if stack.name in used:
            parts = (plain(write.term(Entry(name, ()))) for name in stack.parts)
            rows.append(f"{plain(write.term(Entry(stack.name, ())))} = ({', '.join(parts)})")
    if rows:
        yield write.TEXT.format(" with ") + ", ".join(rows)


def _named(line: _Line) -> _Line:
    """The line with the compound position that occurs most often under a name, if one does so more than once."""
    counts = Counter(occurring((line.left, line.right)))
    place, times = counts.most_common(1)[0] if counts else (None, 0)
    if place is None or times < 2:
        return line
    taken = free((line.left, line.right)) | {one.name for one in _bound(line.right)}
    letter = next((one for one in _LETTERS if one not in taken), "")
    if not letter or not isinstance(place, Join):
        return line
    var = Var(letter, place.domain)
    return _Line(_put(line.left, place, var), _put(line.right, place, var), var, place)


def _bound(node: Any) -> Iterator[Var]:
    if isinstance(node, Var):
        yield node
    elif not isinstance(node, str | int | bool | Fraction | Domain):
        for one in fields(node):
            yield from _bound(one)


def _put(node: Any, place: Index, var: Var) -> Any:
    """A term or position with a compound position written as a letter wherever a digit of it is taken."""
    if isinstance(node, str | int | bool | Fraction | Domain):
        return node
    if isinstance(node, Part) and node.index == place:
        return merged(Part(var, node.domain, node.number))
    if isinstance(node, tuple):
        return tuple(_put(one, place, var) for one in node)
    return type(node)(*(_put(one, place, var) for one in fields(node)))
