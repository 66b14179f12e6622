"""Packed weights that lie shard by shard, as tensor parallel code stores them, put together as layouts have them.

Defines `Shards` and `shards_of`.  In each shard lie the queries, keys and values of some of the heads; in the layouts
of the table they lie one behind the other for all heads.  How many shards there are cannot be told from shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from mha_sym.attention.layouts import LAYOUTS, Layout
from mha_sym.audit.precision import Array
from mha_sym.errors import DataProblem

#: the layouts with queries, keys and values one behind the other, and the axis along which they lie
_BLOCKS = {"packed_linear": 0, "packed": 1, "grouped_packed_linear": 0, "grouped_packed": 1}


@dataclass(frozen=True)
class Shards:
    """One way in which packed weights lie shard by shard.

    Attributes:
        base: the layout as which they are read once they are put together.
        count: how many shards there are.
        order: what lies first in every shard: ``qkv``, ``qvk``, ...
        known: the numbers of heads.
        even: whether queries, keys and values are as wide as one another.
    """

    base: Layout
    count: int
    order: str
    known: Mapping[str, int]
    even: bool = True

    @property
    def name(self) -> str:
        """What it is called.

        Example:
            >>> Shards(LAYOUTS["packed_linear"], 4, "qvk", {"h": 8}).name
            'packed_linear, 4 shards of [Q; V; K]'
        """
        return f"{self.base.name}, {self.count} shards of [{'; '.join(self.order.upper())}]"

    @property
    def along(self) -> int:
        """The axis along which queries, keys and values lie behind one another."""
        return _BLOCKS[self.base.name]

    @property
    def mend(self) -> str:
        """How the weights are put together, and what their layout is then.

        Example:
            >>> Shards(LAYOUTS["packed_linear"], 4, "qvk", {"h": 8}).mend
            "w_q, w_v, w_k = rearrange(w_qkv, '(p three k) m -> three (p k) m', p=4, three=3), which is layout linear"
        """
        names = ", ".join(f"w_{letter}" for letter in self.order)
        if not self.even:
            inside = ", then ".join(f"its part of w_{letter}" for letter in self.order)
            return f"each of {self.count} parts of w_qkv holds {inside}; put in order they are layout {self.base.name}"
        pattern = "m (p three k) -> three m (p k)" if self.along else "(p three k) m -> three (p k) m"
        plain = "combined" if self.along else "linear"
        return f"{names} = rearrange(w_qkv, '{pattern}', p={self.count}, three=3), which is layout {plain}"

    def together(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays, of which ``w_qkv`` and ``b_qkv`` are put together as the layout has them.

        Raises:
            DataProblem: if their shapes are not those of the layout.
        """
        widths = _widths(self.base, arrays, self.known)
        along = {"w_qkv": self.along, "b_qkv": 0}
        found = dict(arrays)
        for name in along.keys() & arrays.keys():
            cuts = np.cumsum([widths[letter] // self.count for letter in self.order])[:-1]
            shards = np.split(arrays[name], self.count, along[name])
            parts: dict[str, list[Array]] = {letter: [] for letter in self.order}
            for shard in shards:
                for letter, part in zip(self.order, np.split(shard, cuts, along[name]), strict=True):
                    parts[letter].append(part)
            found[name] = np.concatenate([part for letter in "qkv" for part in parts[letter]], along[name])
        return found


def shards_of(arrays: Mapping[str, Array], heads: int, kv_heads: int | None = None) -> Iterator[Shards]:
    """All ways in which packed weights may lie in two shards or more, the usual order first.

    Args:
        arrays: ``w_qkv``, ``w_o`` and their biases, if there are any.
        heads: the number of heads.
        kv_heads: the number of key and value heads, if they are fewer and known.
    """
    for name in _BLOCKS:
        base = LAYOUTS[name]
        known = {"h": heads, **({"G": kv_heads} if kv_heads and base.grouped else {})}
        try:
            widths = _widths(base, arrays, known)
        except DataProblem:  # the shapes are not those of this layout
            continue
        shared = heads * widths["k"] // widths["q"]
        counts = [count for count in range(2, shared + 1) if shared % count == 0]
        even = len(set(widths.values())) == 1
        yield from (Shards(base, count, order, known, even) for count in counts for order in _ORDERS)


def _widths(base: Layout, arrays: Mapping[str, Array], known: Mapping[str, int]) -> dict[str, int]:
    """How wide queries, keys and values of all heads are."""
    stored = base.stored("qkvo")
    sizes = base.sizes({name: value for name, value in arrays.items() if name in stored}, known)
    shared = sizes.get("G", sizes["h"])
    return {"q": sizes["h"] * sizes["d_k"], "k": shared * sizes["d_k"], "v": shared * sizes["d_v"]}


_ORDERS: Sequence[str] = ["".join(order) for order in permutations("qkv")]
