"""The ways in which an implementation is called: without a mask, causal, with padding, with an additive mask.

Defines `Case`, `cases_of` (those that an implementation's arguments allow), `with_any_keys` and the arrays of each
mask.  What the specification does with a mask is in `mha_sym.audit.specification`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mha_sym.audit.implementation import Implementation
from mha_sym.audit.precision import Array

#: how the words for masks are called in names of cases
_SPELLED = {
    "mask": "additive", "keep": "boolean", "drop": "boolean", "key_keep": "boolean", "key_drop": "boolean",
    "causal": "flag", "itself": "built in",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One way of calling.

    Attributes:
        name: what reports call it.
        causal: the argument that hides later keys, ``itself`` if the code does it unasked, nothing if none does.
        padding: the argument that hides padding.
        additive: whether a finite additive mask is handed over as well.
        same: whether queries, keys and values come from one array.
        need_weights: whether attention weights are asked for.
        aligned: where a causal mask starts if there are more or fewer keys than queries: ``top-left``,
            ``bottom-right``, or nothing if that is not said.
        drawn: whether ``causal`` hides keys that are drawn instead of the later ones.
    """

    name: str
    causal: str = ""
    padding: str = ""
    additive: bool = False
    same: bool = False
    need_weights: bool = True
    aligned: str = ""
    drawn: bool = False

    @property
    def as_many_keys(self) -> bool:
        """Whether there must be as many keys as queries: "later" means nothing otherwise unless something says so."""
        return self.same or (self.causal in ("itself", "causal") and not self.aligned)


def cases_of(impl: Implementation, causal: bool | None = None) -> tuple[Case, ...]:
    """Every way of calling that the arguments of an implementation allow.

    Args:
        impl: the implementation.
        causal: True for the cases with a causal mask only, False for those without, None for both.

    Example:
        >>> def attention(x, w_q, w_k, w_v, w_o, heads, keep):
        ...     return x
        >>> [case.name for case in cases_of(Implementation(call=attention))]
        ['no mask', 'causal (boolean)']
    """
    takes = impl.arguments
    masks = _of(("keep", "drop", "mask"), takes)
    paddings = _of(("key_keep", "key_drop"), takes)
    paddings = paddings or [word for word in masks if "b" in impl.order(word).split()]
    later = ["itself"] if impl.causal else [*masks, *(["causal"] if "causal" in takes else [])]
    found = [*_masked(impl, masks, paddings, later), *_without_weights(impl, paddings, later)]
    chosen = (case for case in found if causal is None or bool(case.causal) == causal)
    return tuple(replace(case, aligned=impl.aligned) if case.causal else case for case in chosen)


def with_any_keys(impl: Implementation, causal: bool | None = None) -> tuple[Case, ...]:
    """The way of calling with a boolean mask that hides keys that are drawn, if there is one.

    It is for code that is right in all other ways: faults of masks show more plainly in a causal mask.

    Args:
        impl: the implementation.
        causal: as for `cases_of`; this mask is neither causal nor absent.

    Example:
        >>> [case.name for case in with_any_keys(Implementation(call=lambda x, w_q, w_k, w_v, w_o, heads, drop: x))]
        ['boolean mask, any keys']
    """
    word = next(iter(_of(("keep", "drop"), impl.arguments)), "")
    if not word or impl.causal or causal is not None or "b" in impl.order(word).split():
        return ()
    return (Case("boolean mask, any keys", word, same=not impl.is_cross, drawn=True),)


def any_keep(rng: np.random.Generator, queries: int, keys: int) -> Array:
    """``(t, s)``, drawn, so that every query keeps a key.

    Example:
        >>> bool(any_keep(np.random.default_rng(0), 3, 5).any(axis=1).all())
        True
    """
    keep = rng.random((queries, keys)) < 0.6
    keep[np.arange(queries), rng.integers(0, keys, queries)] = True
    return keep


def _of(words: tuple[str, ...], takes: tuple[str, ...]) -> list[str]:
    return [word for word in words if word in takes]


def _masked(impl: Implementation, masks: list[str], paddings: list[str], later: list[str]) -> list[Case]:
    same = not impl.is_cross
    unasked = "itself" if impl.causal else ""
    found = [Case("causal (built in)", "itself", same=same) if impl.causal else Case("no mask", same=same)]
    found += [Case(f"causal ({_SPELLED[word]})", word, same=same) for word in later if word != "itself"]
    found += [Case(f"padding ({_SPELLED[word]})", unasked, word, same=same) for word in paddings]
    if later and paddings and not impl.causal:
        found.append(Case("causal and padding", later[0], paddings[0], same=same))
    if "mask" in masks:
        found.append(Case("additive mask, finite", unasked, additive=True, same=same))
    return found


def _without_weights(impl: Implementation, paddings: list[str], later: list[str]) -> list[Case]:
    """Libraries take another path through their code when no weights are asked for, and when all inputs are one."""
    if "need_weights" not in impl.arguments:
        return []
    unasked = "itself" if impl.causal else ""
    same = not impl.how_stored.input_widths()  # inputs of different widths cannot be one array
    found = [Case("no weights asked for", unasked, same=same, need_weights=False)]
    if later and not impl.causal:
        found.append(Case("no weights asked for, causal", later[0], same=same, need_weights=False))
    if paddings:
        found.append(Case("no weights asked for, padding", unasked, paddings[0], same=same, need_weights=False))
    return found


def causal_keep(queries: int, keys: int, aligned: str = "") -> Array:
    """``(t, s)``, True where ``s <= t``, or, aligned ``bottom-right``, where ``s <= t + S - T``.

    Example:
        >>> causal_keep(2, 3).astype(int).tolist()
        [[1, 0, 0], [1, 1, 0]]
        >>> causal_keep(2, 3, "bottom-right").astype(int).tolist()
        [[1, 1, 0], [1, 1, 1]]
    """
    offset = keys - queries if aligned == "bottom-right" else 0
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + offset


def padding_keep(lengths: tuple[int, ...], keys: int) -> Array:
    """``(b, s)``, True for the first ``lengths[b]`` keys.

    Example:
        >>> padding_keep((1, 3), 3).astype(int).tolist()
        [[1, 0, 0], [1, 1, 1]]
    """
    return np.arange(keys)[None, :] < np.asarray(lengths)[:, None]


def mask_argument(word: str, parts: dict[str, Array], order: str, sizes: dict[str, int]) -> Array:
    """Kept keys as the argument ``word`` wants them.

    Args:
        word: a mask of `mha_sym.audit.implementation.TAKES`.
        parts: boolean arrays by their axes, ``"t s"`` and ``"b s"``; a key is kept if all keep it.
        order: the axes of the argument, such as ``t s``, ``b s`` or ``b 1 t s``.
        sizes: the size of every letter.

    Example:
        >>> mask_argument("drop", {"t s": causal_keep(2, 2)}, "1 t s", {"t": 2, "s": 2}).astype(int).tolist()
        [[[0, 1], [0, 0]]]
    """
    letters = order.split()
    keep = np.ones([1 if name == "1" else sizes[name] for name in letters], dtype=bool)
    for axes, part in parts.items():
        ordered = part.transpose([axes.split().index(name) for name in letters if name in axes.split()])
        keep &= ordered[tuple(slice(None) if name in axes.split() else None for name in letters)]
    if word in ("drop", "key_drop"):
        return ~keep
    return np.where(keep, 0.0, -np.inf) if word == "mask" else keep
