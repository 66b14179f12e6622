"""What is said of a file that was converted: for people and for programs.

Defines `Converted` and `Proved`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from mha_sym.attention.rows import INPUT_WIDTHS
from mha_sym.attention.spelled import group_order
from mha_sym.checkpoint.plan import Planned, Wish
from mha_sym.proof.theorem import Report

#: the theorems of the library that say why: heads as blocks, and their order
_HEADS, _ORDER = "split_columns_inverse_join_columns", "head_permutation_leaves_layer_unchanged"


@dataclass(frozen=True)
class Proved:
    """The theorem about a conversion.

    Attributes:
        name: of the theorem.
        proved: whether it is; a conversion of which it is refuted is never done.
        claims: how many equalities it states.
        sizes: the sizes for all of which it holds.
        report: what the prover said, with the certificates.
    """

    name: str
    proved: bool
    claims: int
    sizes: tuple[str, ...]
    report: Report


@dataclass(frozen=True)
class Converted:
    """A file that was converted.

    Attributes:
        source: the file that was given.
        target: the file that was written.
        wish: what was asked for.
        plans: the layers and what was done with each.
        carried: the names of all other tensors, which are as they were.
        proofs: the theorems about the conversions.
        compared: how many weights and biases were compared, bit for bit, after the file was read back.
        nan: how many entries are no number, by tensor of the new file.
    """

    source: Path
    target: Path
    wish: Wish
    plans: tuple[Planned, ...]
    carried: tuple[str, ...]
    proofs: tuple[Proved, ...]
    compared: int
    nan: Mapping[str, int]

    @property
    def stored(self) -> int:
        """How many tensors were converted."""
        return sum(len(plan.given) for plan in self.plans)

    @property
    def beside(self) -> list[str]:
        """What lies behind the prefixes of layers and was carried over, without the prefix, each once."""
        prefixes = [plan.layer.prefix for plan in self.plans if plan.layer.prefix]
        return sorted({name.removeprefix(one) for one in prefixes for name in self.carried if name.startswith(one)})

    def notes(self) -> Iterator[str]:
        """What else a reader should know, one sentence each."""
        for name, count in self.nan.items():
            yield f"{name} holds {count:,} NaN, moved as stored"
        if any(plan.conversion.zeros for plan in self.plans):
            zeros = sorted({letter for plan in self.plans for letter in plan.conversion.zeros}, key="qkvo".index)
            yield f"biases {', '.join(zeros)} are new, and zero"
        copies = max(plan.copies for plan in self.plans)
        if copies > 1 and self.wish.source.grouped:
            yield f"every key and value head is stored {copies} times, once for each head that reads it"
        if copies > 1 and not self.wish.source.grouped:
            yield f"of {copies} key and value heads, which are alike bit for bit, one is stored"
        if self._other_order:
            yield "query heads changed their order with their rows of W_O; whatever else is kept by head must follow"
        if len({plan.conversion.biases for plan in self.plans}) > 1:
            yield "layers differ in their biases: is that meant, or are some missing from the file?"
        if self.wish.heads is not None and not self.wish.source.heads_are_an_axis():
            yield f"that there are {self.wish.heads} heads is as you said: nothing in the file tells it, so check it"
        if self.beside:
            more = f" and {len(self.beside) - 6} more" if len(self.beside) > 6 else ""
            yield f"carried over from beside the layers: {', '.join(self.beside[:6])}{more}"
        yield "scale, masks, positions and the order of features in a head stay: what loads it must have the same"

    @property
    def _other_order(self) -> bool:
        orders = group_order(self.wish.source), group_order(self.wish.target)
        return all(orders) and orders[0] != orders[1]

    @property
    def theorems(self) -> tuple[str, ...]:
        """The theorems of the library that say why this is the same layer."""
        return (_HEADS, _ORDER) if self._other_order else (_HEADS,)

    # ------------------------------------------------------------ for people

    def text(self) -> str:
        """For people, in plain text."""
        one, other = self.wish.source, self.wish.target
        rows = [("from", f"{one.name}: {one.words}"), ("to", f"{other.name}: {other.words}"), *self._layers()]
        rows += [("carried", f"{_count(len(self.carried), 'other tensor')}, unchanged"), ("compared", self._compared())]
        rows += [*self._proofs(), ("memory", f"at most {_amount(self._held())} of tensors at a time, to make one")]
        rows += [("note", note) for note in self.notes()]
        head = f"CONVERTED   {self.source} to {self.target}: {_count(len(self.plans), 'layer')}"
        return "\n".join([head, *(f"  {label:<9} {words}" for label, words in rows)])

    def _held(self) -> int:
        return max(plan.bytes for plan in self.plans)

    def _layers(self) -> Iterator[tuple[str, str]]:
        for words, plans in groupby(self.plans, _sizes):
            prefixes = [plan.layer.prefix for plan in plans]
            ends = f"{prefixes[0]} to {prefixes[-1]}" if len(prefixes) > 1 else prefixes[0]
            yield "layers" if len(prefixes) > 1 else "layer", f"{ends or 'without a prefix'}: {words}"

    def _compared(self) -> str:
        counts = [
            f"{_count(self.compared, 'weight or bias', 'weights and biases')} head by head",
            f"{_count(self.stored, 'tensor')} converted back", f"{len(self.carried):,} carried over",
        ]  # fmt: skip
        return f"read back, equal bit for bit: {', '.join(counts)}"

    def _proofs(self) -> Iterator[tuple[str, str]]:
        for one in self.proofs:
            claims = _count(one.claims, "equality", "equalities")
            if one.proved:
                words = "every head keeps its matrices, and back is the identity"
                yield "proved", f"for all {', '.join(one.sizes)}: {words} ({claims})"
            else:
                yield "undecided", f"{claims}: whether every head keeps its matrices at all sizes; here they do"
        yield "see", " and ".join(self.theorems)

    # ------------------------------------------------------------ for programs

    def json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "source": str(self.source), "target": str(self.target),
            "from": self.wish.source.name, "to": self.wish.target.name,
            "layers": [
                {
                    "prefix": plan.layer.prefix, "sizes": dict(_shown(plan)), "biases": plan.conversion.biases,
                    "from": {one.name: list(one.shape) for one in plan.given.values()},
                    "to": {one.name: list(one.shape) for one in plan.wanted.values()},
                }
                for plan in self.plans
            ],
            "converted": self.stored, "carried": list(self.carried), "compared": self.compared,
            "theorems": [
                {"name": one.name, "proved": one.proved, "claims": one.claims, "sizes": list(one.sizes)}
                for one in self.proofs
            ],
            "nan": dict(self.nan), "bytes_held": self._held(), "notes": list(self.notes()),
        }  # fmt: skip


def _shown(plan: Planned) -> Iterator[tuple[str, int]]:
    """The sizes that a reader asks for."""
    usual = {"G": plan.sizes["h"], **dict.fromkeys(INPUT_WIDTHS.values(), plan.sizes["d_model"])}
    for name in ("d_model", "h", "G", "d_k", "d_v", *INPUT_WIDTHS.values()):
        if plan.sizes[name] != usual.get(name):
            yield name, plan.sizes[name]


def _sizes(plan: Planned) -> str:
    biases = ", ".join(plan.conversion.biases)
    return ", ".join(f"{name}={n}" for name, n in _shown(plan)) + (f", biases {biases}" if biases else ", no biases")


def _amount(count: int) -> str:
    """Bytes in a unit that a reader can take in.

    Example:
        >>> _amount(9216), _amount(7 * 2**20)
        ('9.0 KiB', '7.0 MiB')
    """
    return f"{count / 2**20:,.1f} MiB" if count >= 1 << 20 else f"{count / 2**10:,.1f} KiB"


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"
