"""What is to be proved of a conversion: it keeps every weight of every head, and the way back gives what was stored.

Defines `theorem`.  Proving it is the work of `mha_sym.proof`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mha_sym.attention.conversion import Conversion
from mha_sym.expr import Block, Expr, Input, Select, Split
from mha_sym.proof.theorem import Claim, Theorem


def theorem(made: Conversion) -> Theorem:
    """The statement about a conversion, for all sizes.

    Read by the target's layout, what was made holds the weights W_Q, W_K, W_V, W_O and biases that the source's layout
    reads in what was given; and converting back gives each stored parameter again.

    Example:
        >>> from mha_sym.attention.conversion import conversion
        >>> from mha_sym.attention.layouts import LAYOUTS
        >>> from mha_sym.proof.prover import prove
        >>> stated = theorem(conversion(LAYOUTS["gpt_neox"], LAYOUTS["opt"], "qkvo"))
        >>> len(stated.claims), prove(stated).verdict.value
        (12, 'proved')
    """
    names = f"{made.source.name} to {made.target.name}"
    return Theorem(
        name=f"{made.source.name}_to_{made.target.name}",
        title=f"Converting {names} keeps every weight, and back is the identity",
        words=f"From {names}: every head keeps its matrices, and what was stored can be made again from what is made.",
        claims=(*_kept(made), *_returned(made)),
    )


def _kept(made: Conversion) -> Iterator[Claim]:
    """Each canonical weight is that of the source."""
    biases = made.biases + made.zeros
    found = made.target.taken(made.made, made.d, biases).items()
    for name, value in made.weights(made.given).items():
        words = f"{_symbol(name)} of every head, read from what was made, is that of what was given."
        yield Claim(f"kept_{_symbol(name)}", found[name], value, words)


def _returned(made: Conversion) -> Iterator[Claim]:
    """Each stored parameter comes back, one claim for each block where a block is one entry wide."""
    back = made.back(made.made)
    for name, value in made.given.items():
        words = f"{name}, made again from what was made of it, is as it was."
        label = "back_" + name.replace(".", "_").replace("/", "_")
        pairs = list(zip(_pieces(back[name], value), _pieces(value, value), strict=True))
        for number, (left, right) in enumerate(pairs):
            yield Claim(label if len(pairs) == 1 else f"{label}_{number}", left, right, words)


def _pieces(value: Expr, stored: Input) -> Iterator[Expr]:
    """A stored parameter, or its parts: where three lie side by side, position by position."""
    for whole in stored.axes:
        for one in whole.factors:
            if one.blocks and all(block.size == 1 for block in one.blocks):
                opened = Split(value, whole)
                yield from (Select(Block(opened, one, n), block, 0) for n, block in enumerate(one.blocks))
                return
    yield value


def _symbol(name: str) -> str:
    return f"{name[0].upper() if name[0] == 'w' else name[0]}_{name[-1].upper()}"
