"""Probes that need no oracle: what an implementation does to designed input names a cause by itself.

Defines `Probe` and `run_probes`, and one function a probe.  Each shows its figure.  A probe that cannot be made, for
want of a stage or of weights that can be changed, is left out by its function and not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mha_sym.audit.call import run
from mha_sym.audit.catalogue.scale_at_sizes import constant_scale
from mha_sym.audit.diagnosis.fit import fit
from mha_sym.audit.diagnosis.heads import HeadCheck, Stored
from mha_sym.audit.diagnosis.scales import fitted_scale
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import INPUTS, Implementation
from mha_sym.audit.precision import Array, rounded
from mha_sym.errors import Problem

#: weights below this are those of hidden keys, and differences of weights below it are rounding in single precision
_SMALL = 1e-5
#: constant ratios of scores that tell a slip, by what they are
_RATIOS: dict[str, Callable[[Mapping[str, int]], float]] = {
    "sqrt(d_k): not scaled": lambda n: n["d_k"] ** 0.5,
    "1/sqrt(d_k): scaled twice, or by d_k": lambda n: n["d_k"] ** -0.5,
    "d_k: multiplied instead of divided by sqrt(d_k)": lambda n: float(n["d_k"]),
    "sqrt(d_k/d_model): divided by sqrt(d_model)": lambda n: (n["d_k"] / n["d_model"]) ** 0.5,
    "1/sqrt(h): divided by sqrt(h d_k)": lambda n: n["h"] ** -0.5,
    "d_k^(1/4): the fourth root on one of q and k only": lambda n: n["d_k"] ** 0.25,
    "sqrt(d_k/d_v): divided by sqrt(d_v)": lambda n: (n["d_k"] / n["d_v"]) ** 0.5,
}


@dataclass(frozen=True)
class Probe:
    """What one probe showed.

    Attributes:
        name: what was looked at.
        ok: whether it is as it must be.
        cause: what that says.
        figure: the figure, lines of text.
        key: what its rows, columns and signs mean.
    """

    name: str
    ok: bool
    cause: str
    figure: tuple[str, ...]
    key: str = ""


def run_probes(impl: Implementation | None, on: Evidence, heads: tuple[HeadCheck, ...] = ()) -> tuple[Probe, ...]:
    """All probes that can be made with an implementation.

    Args:
        impl: the implementation; it is run on changed input and weights.  Without it only what it showed is read.
        on: a run of it.
        heads: what was found of single heads (`mha_sym.audit.diagnosis.heads.check_heads`).
    """
    reading = (rows_that_agree, input_added, sums_of_weights, ratio_of_scores, another_scale, same_everywhere)
    running = (influence, batch_mates, without_influence, heads_in_features, weights_without_scores)
    makers: list[Callable[[], Probe | None]] = [partial(one, on) for one in reading]
    if impl is not None:
        makers = [*(partial(one, impl, on) for one in running), *makers]
    found = []
    for make in makers:
        try:
            probe = make()
        except Problem:  # it does not run on this input: nothing is learned
            continue
        if probe is not None:
            found.append(probe)
    return (*found, *(_of_heads(one) for one in heads))


def _of_heads(check: HeadCheck) -> Probe:
    cause = "" if check.ok else "heads are not what the weights say, or are not added up before anything else happens"
    return Probe(check.name, check.ok, cause, (f"largest difference {check.figure:.2g}, bound {check.bound:.2g}",))


# ---------------------------------------------------------------- inputs that are changed


def influence(impl: Implementation, on: Evidence) -> Probe:
    """Which output positions of sample 0 change when an input token of sample 0 does."""
    words = [word for word in impl.arguments if word in (INPUTS[2:] if impl.is_cross else ("x",))]
    count = on.setting.sizes["S"]
    columns = [_changed(impl, on, words, 0, token)[0] for token in range(count)]
    seen = np.stack(columns, axis=1)  # (t, s)
    figure = tuple("".join("#" if one else "." for one in row) for row in seen)
    cause = _cause_of_influence(on, seen)
    key = "a row is a position t of the output, a column a token s of the input: # it changes with it, . it does not"
    return Probe("influence of tokens on positions", not cause, cause, figure, key)


def _cause_of_influence(on: Evidence, seen: Array) -> str:
    T, S = seen.shape
    h = on.setting.sizes["h"]
    allowed = np.ones((T, S), bool)
    if on.setting.keep is not None:
        allowed = np.broadcast_to(on.setting.keep, (on.setting.sizes["B"], h, T, S))[0].any(axis=0)
    if T == S and np.array_equal(seen, np.eye(T, dtype=bool)) and not np.array_equal(allowed, seen):
        return "no token sees another one: attention runs over the heads, or over the batch"
    own = np.eye(T, S, dtype=bool) if on.same else np.zeros((T, S), bool)  # a token always acts through its query
    leaks = seen & ~allowed & ~own
    if leaks.any():
        causal = on.forms.at.causal is not None and not np.tril(leaks).any()
        return "later tokens act: the causal mask fails" if causal else "hidden tokens act: the mask fails"
    if window := _window(seen, allowed):
        return window
    if T == S and h < T and not seen[0, -1] and not seen[-1, 0] and not (allowed & ~seen)[0, 0]:
        return f"tokens see only their neighbours, in {h} blocks of about {T}/{h}: viewed in and viewed out"
    if (allowed & ~seen).any():
        if T == S and np.array_equal(seen, allowed & np.tril(np.ones((T, S), bool))):
            return "later tokens have no influence: it is causal by itself, which nobody said"
        return "some tokens that may be seen have no influence"
    return ""


def _window(seen: Array, allowed: Array) -> str:
    """Which keys around its own position each query sees, if that is so everywhere and says more than the mask."""
    T, S = seen.shape
    distance = np.arange(S) - np.arange(T)[:, None]
    near = distance[seen]
    if T != S or not near.size or np.array_equal(seen, allowed):
        return ""
    first, last = int(near.min()), int(near.max())
    inside = (first <= distance) & (distance <= last)
    if not np.array_equal(seen, inside & allowed) or max(-first, last) in (0, T - 1):
        return ""
    at = ["t" if n == 0 else f"t {'-' if n < 0 else '+'} {abs(n)}" for n in (first, last)]
    return f"a position t sees the keys from {at[0]} to {at[1]} only: a sliding window, which nobody said"


def batch_mates(impl: Implementation, on: Evidence) -> Probe | None:
    """Whether a sample changes when another one does."""
    B = on.setting.sizes["B"]
    if B == 1:
        return None
    words = [word for word in impl.arguments if word in INPUTS]
    rows = [[bool(one.any()) for one in _changed(impl, on, words, sample, None)] for sample in range(B)]
    seen = np.array(rows).T
    figure = tuple("".join("#" if one else "." for one in row) for row in seen)
    ok = bool(np.array_equal(seen, np.eye(B, dtype=bool)))
    cause = "" if ok else "a sample changes with its batch mates: batch and tokens, or batch and heads, are mixed"
    key = "a row is a sample of the output, a column one of the input: # it changes with it, . it does not"
    return Probe("influence of samples on samples", ok, cause, figure, key)


def _changed(impl: Implementation, on: Evidence, words: list[str], sample: int, token: int | None) -> Array:
    """``(b, t)``: which outputs change when a token of a sample does, or the whole sample."""
    arguments = dict(on.setting.arguments)
    for word in words:
        order = impl.order(word).split()
        value = arguments[word].copy()
        place: list[Any] = [slice(None)] * value.ndim
        place[order.index("b")] = sample
        if token is not None:
            place[order.index("s" if "s" in order else "t")] = token
        value[tuple(place)] = rounded(-value[tuple(place)] - 0.5, impl.dtype)
        arguments[word] = value
    y = run(impl, arguments, on.setting.sizes)["y"]
    moved: Array = np.abs(y - on.shown["y"]).max(axis=-1) > on.noise
    return moved


# ---------------------------------------------------------------- what is shown


def rows_that_agree(on: Evidence) -> Probe | None:
    """Which output positions are right."""
    if "y" not in on.wrong:
        return None
    right = np.abs(on.shown["y"] - on.found["y"]).max(axis=(0, 2)) <= on.noise
    figure = ("".join("#" if one else "." for one in right),)
    cause = ""
    hidden = on.setting.keep is not None
    if right.any() and not right.all():
        last, first = np.flatnonzero(right).tolist() == [len(right) - 1], np.flatnonzero(right).tolist() == [0]
        cause = "only the first position is right" if first else "some positions are right: positions are mixed"
        if last:
            cause = "only the last position is right" + (": the causal mask is missing" if hidden else "")
    key = "one sign a position t, over all samples: # the output is right there, . it is wrong"
    return Probe("positions that agree", bool(right.all()), cause, figure, key)


def input_added(on: Evidence) -> Probe | None:
    """Whether the output is the right one with the input of the queries added."""
    if "y" not in on.wrong or on.setting.arrays["X_q"].shape != on.shown["y"].shape:
        return None
    left = float(np.abs(on.shown["y"] - on.found["y"] - on.setting.arrays["X_q"]).max())
    if left > on.bounds["y"].value + on.noise:
        return None
    cause = "the input is added to the output: a residual connection, which is no part of attention"
    return Probe("what is left of the output without the input", False, cause, (f"{left:.2g} from the right one",))


def sums_of_weights(on: Evidence) -> Probe | None:
    """Sums of the weights along rows, columns and heads."""
    if "weights" not in on.shown:
        return None
    a, n = on.shown["weights"], on.setting.sizes
    rows, columns, heads = a.sum(-1), a.sum(-2), a.sum(1)
    spans = {"rows": rows, "columns": columns, "over heads": heads}
    figure = tuple(f"{name}: {value.min():.4g} to {value.max():.4g}" for name, value in spans.items())
    slack = 4 * on.bounds["weights"].value + 1e-12
    if np.abs(rows - 1).max() <= slack:
        return Probe("sums of the weights", True, "", figure)
    cause = "rows do not sum to one"
    if _exchanged(a, on):
        cause = "the right ones with s and t exchanged: say axes = {weights = 'b h s t'} if they are stored so"
    elif np.abs(columns - 1).max() <= slack:
        cause = "columns sum to one: the softmax runs over the queries"
    elif np.abs(heads - 1).max() <= slack:
        cause = "sums over the heads are one: the softmax runs over the heads"
    elif np.abs(rows - n["d_k"] ** -0.5).max() <= slack:
        cause = "rows sum to 1/sqrt(d_k): the scale is applied after the softmax"
    elif (rows < 1 + slack).all():
        cause = "rows sum to less than one: masked, or shared with something, after the softmax"
    return Probe("sums of the weights", False, cause, figure)


def _exchanged(weights: Array, on: Evidence) -> bool:
    """Whether weights are the right ones, queries and keys exchanged."""
    turned = weights.swapaxes(-1, -2)
    return turned.shape == weights.shape and bool(np.abs(turned - on.found["weights"]).max() <= _SMALL)


def ratio_of_scores(on: Evidence) -> Probe | None:
    """Whether the scores are the right ones times a constant."""
    if "scores" not in on.shown or on.setting.mask is not None:
        return None
    clear = np.isfinite(on.shown["scores"]) & (np.abs(on.found["scores"]) > 1e-3)
    if on.setting.keep is not None:
        clear &= np.broadcast_to(on.setting.keep, clear.shape)
    if not clear.any():
        return None
    ratio = on.shown["scores"][clear] / on.found["scores"][clear]
    middle, spread = float(np.median(ratio)), float(ratio.max() - ratio.min())
    figure = (f"score / right score: {ratio.min():.6g} to {ratio.max():.6g}",)
    slack = 1e3 * on.bounds["scores"].value / 1e-3
    if spread > slack * max(1.0, abs(middle)):
        return Probe("ratio of the scores", False, "it is not constant: not a matter of scale", figure)
    if abs(middle - 1) <= slack:
        return Probe("ratio of the scores", True, "", figure)
    known = [name for name, value in _RATIOS.items() if abs(value(on.setting.sizes) - middle) <= slack * (1 + middle)]
    cause = f"a constant, {' or '.join(known)}" if known else f"a constant, {middle:.6g}"
    return Probe("ratio of the scores", False, cause, figure)


def another_scale(on: Evidence) -> Probe | None:
    """The number by which the scores would have to be multiplied for the output to come out, if there is one."""
    found = fitted_scale(on)
    if found is None or fit(on, (constant_scale(found[0], ()),)) is None:
        return None
    n = on.setting.sizes
    cause = f"only the scale is another one: {found[0]:.6g} where {on.spec.scale(n):.6g} is declared"
    figure = (", ".join(f"{name}={n[name]}" for name in ("h", "d_k", "d_v", "d_model", "S") if name in n),)
    return Probe("scale that reproduces the output", False, f"{cause}, at {figure[0]}", figure)


def same_everywhere(on: Evidence) -> Probe | None:
    """Whether the output is the same at every position."""
    if "y" not in on.shown or on.setting.keep is not None or on.shown["y"].shape[1] == 1:
        return None
    y = on.shown["y"]
    spread = float(np.abs(y - y[:, :1]).max())
    if spread > on.setting.sizes["S"] * on.noise:  # each position sums other roundings of S weights
        return None
    return Probe(
        "spread of the output over positions", False,
        "the output is the same at every position: the weights are not used (a mislabelled einsum?)",
        (f"{spread:.2g}",),
    )  # fmt: skip


# ---------------------------------------------------------------- weights that are changed


def without_influence(impl: Implementation, on: Evidence) -> Probe | None:
    """Which parameters have no effect on the output; a key bias has one only where positions are turned into keys."""
    if not Stored.possible(impl):
        return None
    weights, figure, idle = Stored(impl, on), [], []
    for name in on.spec.weights.items():
        moved = weights.output(impl, on, {name: rounded(-on.found[name] - 0.25, impl.dtype)})
        change = float(np.abs(moved - on.shown["y"]).max())
        figure.append(f"{name}: {change:.2g}")
        if change <= on.noise and (name != "b_k" or on.spec.options.angles is not None):
            idle.append(name)
    cause = f"{', '.join(idle)} without influence: dead code, or another operand in its place" if idle else ""
    return Probe("change of the output when a parameter is changed", not idle, cause, tuple(figure))


def heads_in_features(impl: Implementation, on: Evidence) -> Probe | None:
    """One-hot weights: from which head each joined feature of each position comes.

    Queries and keys are zero, every value of head r is ``2^r``, and W_O shows the joined features one by one.
    """
    n = on.setting.sizes
    wide = n["h"] * n["d_v"]
    if not Stored.possible(impl) or not Stored(impl, on).distinct:
        return None
    weights = Stored(impl, on)
    zero = {name: np.zeros_like(on.found[name]) for name in on.spec.weights.items()}
    values = np.zeros_like(on.found["w_v"])
    values[0] = np.repeat(2.0 ** np.arange(n["h"]), n["d_v"])
    ones = _with_first_feature(impl, on, np.ones((1, 1)))
    seen = np.zeros((n["T"], wide))
    for start in range(0, wide, n["d_model"]):
        w_o = np.zeros_like(on.found["w_o"])
        width = min(n["d_model"], wide - start)
        w_o[start : start + width, :width] = np.eye(width)
        seen[:, start : start + width] = weights.output(impl, ones, {**zero, "w_v": values, "w_o": w_o})[0, :, :width]
    return _origins(seen, n)


def weights_without_scores(impl: Implementation, on: Evidence) -> Probe | None:
    """The weights of head 0 with queries and keys of zero: equal over the keys that are seen, or a bias by position.

    Token s alone has a value, of 1 and then of 2, and W_O shows one feature of the head.  A mask that is added, or a
    format with few digits, would look the same, and nothing is said of them.
    """
    declared = on.setting.mask is not None or impl.dtype not in ("float64", "float32")
    if declared or not Stored.possible(impl) or not Stored(impl, on).distinct or "x" not in impl.arguments:
        return None
    weights, count = Stored(impl, on), on.setting.sizes["S"]
    changed = {name: np.zeros_like(on.found[name]) for name in on.spec.weights.items()}
    changed["w_v"][0] = 1.0
    changed["w_o"][0, 0] = 1.0

    def column(token: int, value: float) -> Array:
        values = np.zeros((count, 1))
        values[token] = value
        made: Array = weights.output(impl, _with_first_feature(impl, on, values), changed)[0, :, 0]
        return made

    once, twice = (np.stack([column(s, value) for s in range(count)], axis=1) for value in (1.0, 2.0))
    slack = _SMALL * (1 + count)
    if np.abs(twice - 2 * once).max() > slack or np.abs(once.sum(1) - 1).max() > slack or once.min() < -slack:
        return None  # it says nothing of weights
    level = [row[row > _SMALL] for row in once]
    if all(np.ptp(row) <= slack for row in level):
        return None
    figure = tuple(" ".join(f"{one:.2f}" for one in row) for row in once[:6])
    cause = "scores have a part that does not depend on the input: a bias by position (ALiBi, T5) that nobody declared"
    key = "a row is a position t, a column a token s: the weight in head 0 with queries and keys of zero"
    return Probe("weights without queries and keys", False, cause, figure, key)


def _origins(seen: Array, n: Mapping[str, int]) -> Probe:
    name = "heads in the joined features"
    key = "a row is a position t, a column a joined feature (h v): the number of the head that it comes from"
    heads = np.rint(np.log2(np.maximum(seen, 0.25))).astype(int)
    whole = bool(np.abs(seen - 2.0**heads).max() < 1e-6) and bool(((heads >= 0) & (heads < n["h"])).all())
    if not whole:
        figure = tuple(" ".join(f"{one:.2g}" for one in row) for row in seen[:6])
        key = "a row is a position t, a column a joined feature (h v); a feature of head r alone would be 2^r"
        cause = "features are no values of single heads: heads are mixed, or weights do not sum to one"
        return Probe(name, False, cause, figure, key)
    figure = tuple("".join(_digit(one) for one in row) for row in heads)
    blocks = np.repeat(np.arange(n["h"]), n["d_v"])
    if (heads == blocks).all():
        return Probe(name, True, "", figure, key)
    cause = "heads are in another order"
    if (heads != heads[0]).any():
        cause = "features of a head depend on the position: the inverse transpose is missing"
    elif (heads[0] == np.tile(np.arange(n["h"]), n["d_v"])).all():
        cause = "features of the heads alternate: (d_v, h) where (h, d_v) is meant"
    elif (np.ptp(heads[0].reshape(n["h"], n["d_v"]), axis=1) > 0).any():
        cause = "blocks hold features of several heads: features are split or joined in another order"
    return Probe(name, False, cause, figure, key)


def _digit(n: int) -> str:
    return "0123456789abcdefghijklmnopqrstuvwxyz"[n] if n < 36 else "?"


def _with_first_feature(impl: Implementation, on: Evidence, values: Array) -> Evidence:
    """The run with the first feature of every input token set: to one number, or to one for each token ``(s, 1)``."""
    arguments = dict(on.setting.arguments)
    for word in INPUTS:
        if word in arguments:
            value, order = arguments[word].copy(), impl.order(word).split()
            place: list[Any] = [slice(None)] * value.ndim
            place[order.index("m")] = 0
            value[tuple(place)] = values.T if order[0] == "b" else values
            arguments[word] = value
    return replace(on, setting=replace(on.setting, arguments=arguments))
