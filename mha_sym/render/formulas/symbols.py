"""How tensors are called: their roots, labels and primes.

Defines `symbols_of` and `heads_of`; how a `Symbol` is written is decided in `mha_sym.render.formulas.notation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mha_sym.axes import Axis
from mha_sym.expr import Named
from mha_sym.proof.meaning import Meaning
from mha_sym.render.formulas.notation import Symbol
from mha_sym.render.formulas.occurring import names_of

#: from so many tensors of one name on they are told apart by numbers
NUMBERED = 4


def symbols_of(names: Sequence[str], meaning: Meaning) -> dict[str, Symbol]:
    """How tensors are called: of those with one name the first in order has no prime, the next one, and so on."""
    variants: dict[tuple[str, str], list[str]] = {}
    for name in names:
        root, _, block = name.rstrip("'").partition(".")
        variants.setdefault((root, block), []).append(name)
    symbols = {}
    for (root, block), found in variants.items():
        given = [n for n in found if n not in meaning.definitions]
        for number, name in enumerate(dict.fromkeys([*given, *_made_of_others_last(found, meaning)])):
            stem, _, label = root.partition("^")
            symbols[name] = Symbol(
                stem, block, number, len(found) > NUMBERED, label.strip("()"), heads_of(name, meaning), name in given
            )
    return symbols


def _made_of_others_last(names: Sequence[str], meaning: Meaning) -> Iterator[str]:
    """Names of one kind in their order, but each after those in its definition."""
    for name in names:
        made_of = names_of(meaning.definitions[name].body) if name in meaning.definitions else ()
        yield from (other for other in made_of if other in names)
        yield name


def heads_of(name: str, meaning: Meaning) -> int:
    """How many positions of a defined tensor are labels of a family: those that are not in its axes."""
    node = meaning.named.get(name)
    if not isinstance(node, Named) or name not in meaning.definitions:
        return 0
    return len(meaning.definitions[name].params) - sum(map(_count, node.axes))


def _count(axis: Axis) -> int:
    """How many positions an axis gives where concatenations are taken apart."""
    if axis.blocks:
        return _count(axis.blocks[0])
    opened = any(_is_opened(part) for part in axis.factors)
    return sum(map(_count, axis.factors)) if opened else 1


def _is_opened(axis: Axis) -> bool:
    return bool(axis.blocks) or any(map(_is_opened, axis.factors))
