"""Attention as JAX, Flax, Equinox and Keras ship it, and functions written with JAX: none of it is flagged."""

from __future__ import annotations

import os
from functools import cache

os.environ.setdefault("KERAS_BACKEND", "torch")  # before Keras is loaded

import equinox
import flax.linen
import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from flax import nnx

from mha_sym.audit import Implementation, check
from mha_sym.blame import missing_extra
from mha_sym.errors import TargetProblem

jax.config.update("jax_disable_most_optimizations", True)  # what is compiled here runs once
KEY = jax.random.key(0)


def split(a, heads):
    return jnp.reshape(a, (*a.shape[:2], heads, -1)).transpose(0, 2, 1, 3)


def with_jax(x, w_q, w_k, w_v, w_o, heads, keep=None):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.swapaxes(2, 3) / jnp.sqrt(q.shape[-1])
    a = jax.nn.softmax(scores if keep is None else jnp.where(keep, scores, -jnp.inf))
    return (a @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o


@jax.jit
def over_heads(x, w_q, w_k, w_v, w_o):
    """One head mapped over all of them, and the contributions added."""

    def one(q, k, v, o):
        return jax.nn.softmax(x @ q @ (x @ k).mT / q.shape[1] ** 0.5) @ (x @ v) @ o

    return jax.vmap(one)(w_q, w_k, w_v, w_o).sum(0)


def shipped_by_jax(x, w_q, w_k, w_v, w_o, heads):
    """JAX's own attention, whose softmax is in float32 whatever it is handed."""
    q, k, v = (jnp.reshape(x @ w, (*x.shape[:2], heads, -1)) for w in (w_q, w_k, w_v))
    return jax.nn.dot_product_attention(q, k, v).reshape(*x.shape[:2], -1) @ w_o


def unscaled(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return (jax.nn.softmax(q @ k.mT) @ v).transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1) @ w_o


def bound():
    module = flax.linen.MultiHeadDotProductAttention(3, qkv_features=12, out_features=7, dropout_rate=0.1)
    return module.bind(module.init(KEY, np.ones((2, 4, 7)), deterministic=True))


def built():
    layer = keras.layers.MultiHeadAttention(3, 4, dropout=0.1)
    layer.build((2, 5, 11), (2, 6, 11))
    return layer


RIGHT = {
    "a function with JAX": with_jax,
    "a jitted function, mapped over heads": Implementation(
        call=lambda x, w: over_heads(x, *(w[name] for name in ("w_q", "w_k", "w_v", "w_o"))),
        takes=("x", "weights"), layout="separate", name="over_heads",
    ),
    "the attention of JAX": Implementation(call=shipped_by_jax, dtype="float32"),
    "nnx": nnx.MultiHeadAttention(3, 21, decode=False, rngs=nnx.Rngs(0)),
    "nnx, fewer keys": nnx.MultiHeadAttention(
        6, 20, qkv_features=24, num_kv_heads=2, use_bias=False, decode=False, rngs=nnx.Rngs(0)
    ),
    "linen": flax.linen.MultiHeadDotProductAttention(4),
    "linen, bound to its weights": bound(),
    "equinox": equinox.nn.MultiheadAttention(
        3, 14, qk_size=5, vo_size=4, use_query_bias=True, use_value_bias=True, use_output_bias=True, key=KEY
    ),
    "keras": keras.layers.MultiHeadAttention(3, 4),
    "keras, values of another width": keras.layers.MultiHeadAttention(3, 4, value_dim=5, use_bias=False),
    "keras, fewer keys": keras.layers.GroupQueryAttention(4, 6, 2),
    "keras, built": built(),
}  # fmt: skip


@cache
def report_of(name):
    return check(RIGHT[name], draws=1)


@pytest.mark.parametrize("name", RIGHT)
def test_no_fault_is_reported_of_what_libraries_ship(name):
    report = report_of(name)
    assert report.ok and not report.faults, report.text()


def test_the_layer_that_was_handed_over_stays_as_it_was():
    layer = RIGHT["nnx"]
    before = np.asarray(layer.query.kernel.get_value()).copy()
    report_of("nnx")
    after = layer.query.kernel.get_value()
    assert after.dtype == jnp.float32 and np.array_equal(before, after) and layer.dtype is None


def test_every_way_of_calling_a_layer_is_tried():
    cases = {one.case for one in report_of("keras").compared}
    assert {"no mask", "causal (boolean)", "causal (flag)", "padding (boolean)", "no weights asked for"} <= cases


def test_what_is_wrong_in_jax_is_named():
    (found,) = check(unscaled, draws=1).faults
    assert found.name == "scale_missing"


def test_a_layer_whose_dropout_is_noted():
    assert "it has dropout 0.1; it was checked without" in report_of("keras, built").notes


@pytest.mark.parametrize("library", ["jax", "flax", "equinox", "keras"])
def test_a_library_that_is_not_there_is_named_with_its_extra(library):
    missing = ModuleNotFoundError(f"No module named '{library}'", name=f"{library}.layers")
    assert missing_extra(missing) == f"install mha_sym with the extra '{library}'"


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nnx.MultiHeadAttention(2, 8, normalize_qk=True, decode=False, rngs=nnx.Rngs(0)), "normalize_qk=True"),
        (flax.linen.MultiHeadDotProductAttention(2, decode=True), "decode=True"),
        (equinox.nn.MultiheadAttention(2, 8, key_size=6, key=KEY), "widths of their own"),
        (keras.layers.MultiHeadAttention(2, 4, sliding_window=3), "sliding_window=3"),
    ],
)  # fmt: skip
def test_options_that_make_another_function_are_refused(layer, message):
    with pytest.raises(TargetProblem, match=message):
        check(layer)
