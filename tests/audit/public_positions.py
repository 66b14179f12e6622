"""Public reports of wrong rotary positions, each as a small input of our own, in NumPy or torch.

Defines `FAULTY` and `RIGHT`, by the numbers of the cases, as `tests.audit.public_cases` does for all others, and, by
words, `KINDS` (what else is done wrong with positions) and `SAME` (what is done otherwise, and is right).  All of it
takes tables of cosines and sines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from mha_sym.attention.rotary import Rotary
from mha_sym.audit import Implementation
from tests.audit.public_case import Public

Turn = Callable[[Any, Any, Any], Any]
PAIRS = {"halves": "interleaved", "interleaved": "halves"}


# ---------------------------------------------------------------- how it is turned, one pair after the other


def turned(x: Any, cos: Any, sin: Any, pairs: str, width: int = 0) -> Any:
    """Pairs of the first features turned one by one; a table has a number for each pair."""
    made = x.copy()
    width = width or x.shape[-1]
    for f in range(width // 2):
        i, j = (f, f + width // 2) if pairs == "halves" else (2 * f, 2 * f + 1)
        made[..., i] = x[..., i] * cos[:, f] - x[..., j] * sin[:, f]
        made[..., j] = x[..., j] * cos[:, f] + x[..., i] * sin[:, f]
    return made


def at_positions(cos: Any, sin: Any, positions: Any) -> tuple[Any, Any]:
    """Tables for other positions: the angles of row 1 are those of one step."""
    angles = np.asarray(positions)[:, None] * np.arctan2(sin[1], cos[1])
    return np.cos(angles), np.sin(angles)


def split(x: Any, w: Any, n: int) -> Any:
    return (x @ w).reshape(*x.shape[:2], n, -1).swapaxes(1, 2)


def attended(q: Any, k: Any, v: Any, w_o: Any) -> Any:
    k, v = (np.repeat(one, q.shape[1] // one.shape[1], axis=1) for one in (k, v))
    a = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
    z = a / a.sum(-1, keepdims=True) @ v
    return z.swapaxes(1, 2).reshape(z.shape[0], z.shape[2], -1) @ w_o


# ---------------------------------------------------------------- one function, of which one thing is wrong


def layer(
    pairs: str = "halves", names: str = "", *, stored: Callable[..., Any] | None = None,
    positions: Callable[..., Any] | None = None, sizes: dict[str, int] | None = None, grouped: bool = False,
    width: int | None = None, mix: Callable[..., Any] = attended,
) -> Public:  # fmt: skip
    """Attention with rotary positions.

    Args:
        pairs: which features are pairs as the weights are meant.
        names: the faults.
        stored: what is done to W_Q and W_K: ``(w_q, w_k, heads, kv_heads, d_model) -> (w_q, w_k)``.
        positions: what is done to queries and keys: ``(q, k, cos, sin) -> (q, k)``.
        sizes: sizes that are not drawn.
        grouped: whether there are fewer key and value heads.
        width: how many features are turned, if not all.
        mix: the rest.
    """
    turn = positions or (lambda q, k, cos, sin: tuple(turned(one, cos, sin, pairs, width or 0) for one in (q, k)))

    def attention(x, w_q, w_k, w_v, w_o, heads, kv_heads, cos, sin):
        if stored is not None:
            w_q, w_k = stored(w_q, w_k, heads, kv_heads, x.shape[-1])
        q, k, v = split(x, w_q, heads), split(x, w_k, kv_heads), split(x, w_v, kv_heads)
        return mix(*turn(q, k, cos, sin), v, w_o)

    def ungrouped(x, w_q, w_k, w_v, w_o, heads, cos, sin):
        return attention(x, w_q, w_k, w_v, w_o, heads, heads, cos, sin)

    takes = ("x", "w_q", "w_k", "w_v", "w_o", "heads", *(["kv_heads"] if grouped else []), "cos", "sin")
    impl = Implementation(
        call=attention if grouped else ungrouped, takes=takes, layout="grouped" if grouped else "combined",
        rotary=Rotary(pairs, width, tables="pair"),  # type: ignore[arg-type]  # one of the two words
        name=names or "rotary positions",
    )  # fmt: skip
    return Public(impl, tuple(names.split()), {"sizes": sizes} if sizes else {})


def in_pieces(w: Any, pieces: int, pairs: str) -> Any:
    """The columns of each piece: pairs that are neighbours laid as halves, or the other way round."""
    order = (pieces, 2, -1) if pairs == "halves" else (pieces, -1, 2)
    return w.reshape(w.shape[0], *order).swapaxes(2, 3).reshape(w.shape)


def as_others(pairs: str, q_pieces: Callable[..., int], k_pieces: Callable[..., int], width: int = 0) -> dict[str, Any]:
    """Weights converted for code that turns the other pairs, in so many pieces, and that code."""

    def stored(w_q, w_k, heads, kv_heads, d_model):
        count = {"h": heads, "g": kv_heads, "m": d_model, "q": w_q.shape[1], "k": w_k.shape[1]}
        return in_pieces(w_q, q_pieces(count), pairs), in_pieces(w_k, k_pieces(count), pairs)

    def positions(q, k, cos, sin):
        return tuple(turned(one, cos, sin, PAIRS[pairs], width) for one in (q, k))

    return {"stored": stored, "positions": positions}


def only(turn: Callable[..., Any], which: str, pairs: str = "halves") -> Callable[..., Any]:
    """Queries or keys turned in a way of their own, the others as they should be."""

    def positions(q, k, cos, sin):
        made = {"q": turned(q, cos, sin, pairs), "k": turned(k, cos, sin, pairs)}
        for letter in which:
            made[letter] = turn({"q": q, "k": k}[letter], cos, sin)
        return made["q"], made["k"]

    return positions


def counted(count: Callable[[int], Any], pairs: str = "halves") -> Turn:
    """Turned at other positions, which follow from the number of tokens."""
    return lambda x, cos, sin: turned(x, *at_positions(cos, sin, count(len(cos))), pairs)


def first_then_second(x: Any, cos: Any, sin: Any) -> Any:
    """Neighbours are turned, and the first ones of all pairs are put before the second ones."""
    made = turned(x, cos, sin, "interleaved")
    return np.concatenate([made[..., ::2], made[..., 1::2]], -1)


def crossed(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """A kernel takes the first half of both from the queries, and the second half of both from the keys."""
    one, other = (turned(x, cos, sin, "halves") for x in (q, k))
    half = q.shape[-1] // 2
    mixed = np.concatenate([one[..., :half], other[..., half:]], -1)
    return mixed, mixed


def step_by_step(positions: Callable[[int], Any], pairs: str = "interleaved") -> Callable[..., Any]:
    """One token after the other, keys kept in a cache: a counter says at which position each of them stands."""

    def turn(q, k, cos, sin):
        made_q, cache = [], []
        for t in range(len(cos)):
            here = at_positions(cos, sin, [positions(t)])
            made_q.append(turned(q[:, :, t : t + 1], *here, pairs))
            cache.append(turned(k[:, :, t : t + 1], *here, pairs))
        return np.concatenate(made_q, 2), np.concatenate(cache, 2)

    return turn


def torch_halves(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    one, other = x.chunk(2, -1)
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1)


def rows_left_in_the_order_of_halves(x: torch.Tensor, w_q, w_k, w_v, w_o, heads, cos, sin):
    """The engine turns neighbours; an export left the rows of queries and keys as halves want them."""
    q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (w_q, w_k, w_v))
    turn = []
    for one in (q, k):
        pairs = torch.view_as_complex(one.unflatten(-1, (-1, 2)).contiguous())
        turn.append(torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2))
    z = torch.nn.functional.scaled_dot_product_attention(*turn, v)
    return z.transpose(1, 2).flatten(2) @ w_o


_TAKES = ("x", "w_q", "w_k", "w_v", "w_o", "heads", "cos", "sin")


def seen_by_halves(call: Any, names: str) -> Public:
    impl = Implementation(call=call, takes=_TAKES, rotary=Rotary("halves", tables="pair"), framework="torch")
    return Public(impl, tuple(names.split()))


FAULTY: dict[int, Public] = {
    109: layer("halves", "keys_converted_for_as_many_heads_as_queries", grouped=True,
               sizes={"G": 2, "R": 3, "d_k": 12}, **as_others("halves", lambda n: n["h"], lambda n: n["h"])),
    110: layer("interleaved", "keys_converted_for_as_many_heads_as_queries", grouped=True,
               sizes={"G": 1, "R": 4, "d_k": 8}, **as_others("interleaved", lambda n: n["h"], lambda n: n["h"])),
    112: layer("interleaved", "positions_leave_queries_in_another_order",
               positions=only(first_then_second, "q", "interleaved")),
    113: layer("halves", "positions_of_queries_and_keys_crossed", positions=crossed),
    115: layer("interleaved", "stored_rows_converted_by_d_model_over_h",
               sizes={"h": 3, "d_k": 8, "d_model": 12},
               **as_others("interleaved", lambda n: n["q"] * n["h"] // n["m"], lambda n: n["k"] * n["h"] // n["m"])),
    116: seen_by_halves(rows_left_in_the_order_of_halves, "positions_in_other_pairs"),
    193: layer("interleaved", "positions_one_later_after_the_first", positions=step_by_step(lambda t: t + (t > 0))),
    194: layer("halves", "positions_all_ahead_in_queries",
               positions=only(counted(lambda n: np.arange(n) + n), "q")),
}  # fmt: skip

RIGHT: dict[int, Any] = {
    209: layer("interleaved", **as_others("interleaved", lambda n: n["h"], lambda n: n["h"])).code,
}


# ---------------------------------------------------------------- kinds of which no case has the number


def tables_laid_for_neighbours(x: Any, cos: Any, sin: Any) -> Any:
    """The tables are made with the number of each pair twice in a row, for features that are halves."""
    cos, sin = (np.repeat(table, 2, axis=-1) for table in (cos, sin))
    one, other = np.split(x, 2, -1)
    return x * cos + np.concatenate([-other, one], -1) * sin


def tables_laid_for_halves(x: Any, cos: Any, sin: Any) -> Any:
    """The tables are laid end to end for features of which neighbours are pairs."""
    cos, sin = (np.concatenate([table, table], axis=-1) for table in (cos, sin))
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return x * cos + np.stack([-pairs[..., 1], pairs[..., 0]], -1).reshape(x.shape) * sin


def last_four(x: Any, cos: Any, sin: Any) -> Any:
    return np.concatenate([x[..., :-4], turned(x[..., -4:], cos, sin, "halves")], -1)


def half_as_many(pairs: str) -> Turn:
    return lambda x, cos, sin: turned(x, cos, sin, pairs, cos.shape[-1])


def in_turn(q: Any, k: Any, v: Any, w_o: Any) -> Any:
    """Groups are shared after the positions are turned in, and in a wrong order."""
    k, v = (np.concatenate([one] * (q.shape[1] // one.shape[1]), axis=1) for one in (k, v))
    return attended(q, k, v, w_o)


def both(turn: Turn) -> Callable[..., Any]:
    return lambda q, k, cos, sin: (turn(q, cos, sin), turn(k, cos, sin))


KINDS: dict[str, Public] = {
    "queries one ahead": layer("halves", "positions_one_ahead_in_queries",
                               positions=only(counted(lambda n: np.arange(1, n + 1)), "q")),
    "keys one behind": layer("interleaved", "positions_one_ahead_in_queries",
                             positions=only(counted(lambda n: np.arange(n) - 1, "interleaved"), "k", "interleaved")),
    "keys one ahead": layer("halves", "positions_one_ahead_in_keys",
                            positions=only(counted(lambda n: np.arange(1, n + 1)), "k")),
    "keys behind a cache": layer("halves", "positions_all_ahead_in_keys",
                                 positions=only(counted(lambda n: np.arange(n) + n), "k")),
    "offset forgotten": layer("halves", "positions_left_out", positions=step_by_step(lambda t: 0, "halves")),
    "tables for neighbours": layer("halves", "positions_tables_of_other_pairs",
                                   positions=both(tables_laid_for_neighbours)),
    "tables for halves": layer("interleaved", "positions_tables_of_other_pairs",
                               positions=both(tables_laid_for_halves)),
    "neighbours turned by tables for halves": layer("halves", "positions_in_other_pairs_than_their_tables",
                                                    positions=both(tables_laid_for_halves)),
    "halves turned by tables for neighbours": layer("interleaved", "positions_in_other_pairs_than_their_tables",
                                                    positions=both(tables_laid_for_neighbours)),
    "keys left apart": layer("interleaved", "positions_leave_keys_in_another_order",
                             positions=only(first_then_second, "k", "interleaved")),
    "the last features": layer("halves", "positions_on_the_last_features", width=4, positions=both(last_four)),
    "half as many, halves": layer("halves", "positions_on_half_of_the_features", sizes={"d_k": 8},
                                  positions=both(half_as_many("halves"))),
    "half as many, neighbours": layer("interleaved", "positions_on_half_of_the_features", sizes={"d_k": 12},
                                      positions=both(half_as_many("interleaved"))),
    "half as many of some": layer("interleaved", "positions_on_half_of_the_features", width=4,
                                  positions=both(lambda x, cos, sin: turned(x, cos, sin, "interleaved", 2))),
    "whole heads converted": layer("halves", "stored_rows_converted_over_the_whole_head", width=4, sizes={"d_k": 6},
                                   **as_others("halves", lambda n: n["h"], lambda n: n["h"], 4)),
    "groups in turn": layer("halves", "groups_tiled", grouped=True, mix=in_turn),
}  # fmt: skip

#: what is done in another way, and is right
SAME: dict[str, Any] = {
    "both one later": layer("halves", positions=both(counted(lambda n: np.arange(1, n + 1)))).code,
    "both left apart": layer("interleaved", positions=both(first_then_second)).code,
    "one after the other": layer("interleaved", positions=step_by_step(lambda t: t)).code,
    "from far": layer("halves", positions=both(counted(lambda n: np.arange(n) + 100))).code,
}  # fmt: skip
