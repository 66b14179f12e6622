"""One row of a layout: where a canonical weight lies in a stored parameter, and how it is taken out.

Defines `Row`, its one-line form, and its symbolic reading (`Row.axes`, `Row.take`).  The letters are those of
`mha_sym.attention.dims.Dims` (m model feature, h head, k and v head features); g and r for grouped heads, where query
head ``(g r)`` reads the key and value head g; l for the heads of a shard; n and p for the widths of key and value
inputs of their own; and those of `COUNTS`.  A whole layout is in `mha_sym.attention.layouts`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import sympy

from mha_sym.attention.dims import Dims
from mha_sym.axes import Axis, axis, blocks, product
from mha_sym.errors import Problem
from mha_sym.expr import Block, Expr, Rename, Select, Split, find_axis
from mha_sym.pattern import rearrange, repeat

#: letters that count parts of a packed parameter and have a fixed size
COUNTS: dict[str, int] = {"two": 2, "three": 3, "four": 4}

#: letters of the widths of the key and value inputs where they differ from that of the query input
INPUT_WIDTHS: dict[str, str] = {"n": "d_key", "p": "d_value"}

#: letters of grouped heads: key and value heads, and query heads for each of them; h = G R
GROUPS: dict[str, str] = {"g": "G", "r": "R"}

#: the letter of the heads in one shard, where weights lie shard by shard; h is so many times the number of shards
SHARDS: dict[str, str] = {"l": "L"}

_ROW = re.compile(
    r"\s*(?P<stored>[\w./]+)\s*:\s*(?P<left>[^>\[]+?)\s*(\[(?P<part>\d+)\])?"
    r"\s*->\s*(?P<right>[^\[]+?)\s*(\[(?P<pick>\d+)\])?\s*"
)
#: the blocks of a sum, in order
_BLOCKS = ("queries", "keys", "values")

_GROUP = re.compile(r"\((?:[^()]|\([^()]*\))*\)|\w+")


@dataclass(frozen=True, slots=True)
class Row:
    """Where one canonical weight lies: a stored parameter and a pattern.

    A group with ``+`` is made of unlike blocks laid end to end, and ``[n]`` behind the left side takes block n;
    ``[n]`` behind the right side takes position n of its first axis.  A letter r that only the right side has copies:
    each key and value head is read by r query heads.

    Example:
        >>> Row.read("in_proj_weight: (three h k) m -> three m (h k) [1]").pick
        1
        >>> print(Row.read("qkv: (h k + g k + g v) m [1] -> m (g r k)"))
        qkv: (h k + g k + g v) m [1] -> m (g r k)
    """

    stored: str
    left: str
    right: str
    pick: int | None = None
    part: int | None = None

    @staticmethod
    @lru_cache(maxsize=1024)
    def read(text: str) -> Row:
        """A row from its one-line form ``stored: axes [block] -> axes [part]``.

        Raises:
            Problem: if the line has another form.
        """
        found = _ROW.fullmatch(text)
        if found is None:
            raise Problem(
                f"the row {text!r} of a layout cannot be read",
                expected="'in_proj_weight: (three h k) m -> three m (h k) [0]'",
            )
        pick, part = (None if found[name] is None else int(found[name]) for name in ("pick", "part"))
        return Row(found["stored"], found["left"], found["right"], pick, part)

    def __str__(self) -> str:
        part, pick = ("" if n is None else f" [{n}]" for n in (self.part, self.pick))
        return f"{self.stored}: {self.left}{part} -> {self.right}{pick}"

    @property
    def letters(self) -> frozenset[str]:
        """The letters that the stored parameter or the result has."""
        return frozenset(re.findall(r"[a-z]\w*", f"{self.left} {self.right}"))

    @property
    def groups(self) -> list[str]:
        """The axes of the stored parameter as they are written.

        Example:
            >>> Row.read("qkv: (g (r + 1 + 1) k) m [1] -> m (g r k)").groups
            ['(g (r + 1 + 1) k)', 'm']
        """
        return _GROUP.findall(self.left)

    @property
    def shards(self) -> int | None:
        """How many shards there are, in each of which some heads lie; None if all lie together.

        Example:
            >>> Row.read("w: (four three l k) m -> three m (four l k) [0]").shards
            4
        """
        before = re.search(r"(\w+) l\b", self.right)
        return COUNTS[before[1]] if before else None

    def axes(self, d: Dims) -> tuple[Axis, ...]:
        """The axes of the stored parameter."""
        return tuple(_axis(group, d) for group in self.groups)

    def opened(self, parameter: Expr, d: Dims) -> tuple[Expr, str]:
        """The block of the stored parameter in which the weight lies, and its axes as a pattern."""
        return _one_block(self, parameter, d) if self.part is not None else (parameter, self.left)

    def take(self, parameter: Expr, d: Dims) -> Expr:
        """The canonical weight, as an expression of the stored parameter."""
        value, left = self.opened(parameter, d)
        if not self.letters & GROUPS.keys():
            value = rearrange(value, f"{left} -> {self.right}") if left != self.right else value
            value = value if self.pick is None else Select(value, value.axes[0], self.pick)
            return value if self.shards is None else _shards_joined(value, d)
        right = re.findall(r"\w+", self.right)
        have = re.findall(r"\w+", left)
        value = rearrange(value, f"{left} -> {' '.join(name for name in right if name in have)}")
        copied = [_letter(name, d) for name in right if name not in have]
        if copied:
            value = repeat(value, f"{' '.join(a.name for a in value.axes)} -> {' '.join(right)}", copied)
        return _heads_joined(value, self.right, d)


def _heads_joined(value: Expr, right: str, d: Dims) -> Expr:
    """Axes g and r become h, in the order in which the right side has them."""
    order = [name for name in re.findall(r"\w+", right) if name in GROUPS]
    apart = " ".join(a.name for a in value.axes)
    if len(order) == 2:
        value = rearrange(value, f"{apart} -> {apart.replace(' '.join(order), '(' + ' '.join(order) + ')')}")
        value = Rename(value, find_axis(value, "(" + " ".join(order) + ")", "layout"), d.h)
    have = " ".join(a.name for a in value.axes)
    return rearrange(value, f"{have} -> {re.sub(r'(g r|r g)', 'h', right)}")


def _shards_joined(value: Expr, d: Dims) -> Expr:
    """The heads of all shards, one after the other, are the heads."""
    whole = next(one for one in value.axes if "l" in {factor.name for factor in one.factors})
    return Rename(value, whole, product(d.h, d.k))


# ---------------------------------------------------------------- unlike blocks


def _one_block(row: Row, value: Expr, d: Dims) -> tuple[Expr, str]:
    """The block that a row takes, and the axes that are left as a pattern."""
    left = []
    for group, whole in zip(row.groups, row.axes(d), strict=True):
        if "+" not in group:
            left.append(group)
            continue
        words = _summands(group)[row.part or 0].split()
        if not whole.blocks:
            value = Split(value, whole)
            whole = next(one for one in whole.factors if one.blocks)
            value, block = _named_block(value, whole, row.part or 0, words, d)
            left.append(re.sub(r"\([^()]*\)", block, group[1:-1]))
        else:
            value, block = _named_block(value, whole, row.part or 0, words, d)
            left.append(block)
    return value, " ".join(left)


def _named_block(value: Expr, whole: Axis, number: int, words: list[str], d: Dims) -> tuple[Expr, str]:
    """Block ``number`` with its axis under its own letters."""
    value = Block(value, whole, number)
    piece = whole.blocks[number]
    if words == ["1"]:
        return Select(value, piece, 0), ""
    if len(words) == 1:
        return Rename(value, piece, _letter(words[0], d)), words[0]
    return Rename(value, piece, product(*(_letter(word, d) for word in words))), "(" + " ".join(words) + ")"


def _summands(group: str) -> list[str]:
    """The blocks of a group: those of the sum inside it, or of the group itself."""
    inside = re.search(r"\(([^()]*\+[^()]*)\)", group)
    assert inside is not None  # the group has a plus
    return inside[1].split("+")


# ---------------------------------------------------------------- axes


def _axis(group: str, d: Dims) -> Axis:
    """A stored axis: ``m``, ``(three h k)``, ``(h k + g k + g v)`` or ``(g (r + 1 + 1) k)``."""
    if not group.startswith("("):
        return _letter(group, d)
    inside = group[1:-1]
    if "+" in re.sub(r"\([^()]*\)", "", inside):
        return _end_to_end(inside.split("+"), d)
    members = _GROUP.findall(inside)
    return product(*(_end_to_end(one[1:-1].split("+"), d) if "+" in one else _letter(one, d) for one in members))


def _end_to_end(parts: list[str], d: Dims) -> Axis:
    """Blocks of the sizes of their letters."""
    sizes = [sympy.Mul(*(_letter(word, d).size for word in part.split() if word != "1")) for part in parts]
    return blocks(*(axis(name, size) for name, size in zip(_BLOCKS, sizes, strict=True)))


def _letter(name: str, d: Dims) -> Axis:
    if name in COUNTS:
        return axis(name, COUNTS[name])
    named = {**INPUT_WIDTHS, **GROUPS, **SHARDS}
    if name in named:
        return axis(name, named[name])
    known = {one.name: one for one in (d.m, d.h, d.k, d.v)}
    if name not in known:
        raise Problem(f"no letter {name!r} in layouts", expected=", ".join([*known, *named, *COUNTS]))
    return known[name]
