"""What the parameters of a plain function stand for by their names, inputs of cross-attention among them."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym import Implementation
from mha_sym.audit import check, from_function
from mha_sym.audit.cases import cases_of
from mha_sym.audit.critique import critique
from mha_sym.audit.parameters import words_of
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.runs import seen_of
from mha_sym.audit.settle import Wishes
from mha_sym.proof.theorem import Verdict
from tests.audit.wrong import merge, softmax, split


def layer(x, keys, values, w_q, w_k, w_v, w_o, heads):
    q, k, v = split(x @ w_q, heads), split(keys @ w_k, heads), split(values @ w_v, heads)
    return merge(softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v) @ w_o


def to_context(x, context, w_q, w_k, w_v, w_o, heads):
    return layer(x, context, context, w_q, w_k, w_v, w_o, heads)


def values_of_queries(hidden_states, encoder_hidden_states, w_q, w_k, w_v, w_o, heads):
    """Values are made of the queries' input, of which as many tokens are taken, over and over, as there are keys."""
    s = encoder_hidden_states.shape[1]
    values = np.concatenate([hidden_states] * s, axis=1)[:, :s]
    return layer(hidden_states, encoder_hidden_states, values, w_q, w_k, w_v, w_o, heads)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (lambda x, context: 0, ("x_q", "x_kv")), (lambda query, kv: 0, ("x_q", "x_kv")),
        (lambda hidden_states, encoder_hidden_states=None: 0, ("x_q", "x_kv")),
        (lambda hidden_states, key_value_states=None: 0, ("x_q", "x_kv")),
        (lambda x, memory: 0, ("x_q", "x_kv")), (lambda queries, keys, values: 0, ("x_q", "x_k", "x_v")),
        (lambda query, key, value: 0, ("x_q", "x_k", "x_v")), (lambda hidden_states: 0, ("x",)),
        (lambda x, memory=None: 0, ("x",)), (lambda x, kv=None: 0, ("x",)),  # these may be kept from before
    ],
)  # fmt: skip
def test_names_of_inputs(code, words):
    assert tuple(words_of(code, ()).values()) == words


def test_a_context_is_as_long_as_it_likes_and_keys_and_values_are_made_of_it():
    impl = from_function(to_context)
    seen = seen_of(impl, cases_of(impl), Wishes(draws=2))
    assert seen.right and impl.is_cross
    for one in seen.evidence:
        assert one.setting.sizes["T"] != one.setting.sizes["S"]
        assert one.setting.arrays["X_k"] is one.setting.arrays["X_v"]
        assert one.setting.arguments["x_kv"].shape[1] == one.setting.sizes["S"]


def test_wrong_code_with_a_context_is_wrong():
    impl = from_function(values_of_queries)
    seen = seen_of(impl, cases_of(impl), Wishes(draws=1))
    assert [one.wrong for one in seen.evidence] == [("y",)]


def test_an_input_of_keys_that_may_be_left_out_is_handed_over_and_it_is_said():
    def attention(x, w_q, w_k, w_v, w_o, heads, context=None):
        return to_context(x, x if context is None else context, w_q, w_k, w_v, w_o, heads)

    report = check(attention, draws=1)
    assert report.ok and "context was handed over in every call: nothing is said of self-attention, without it" in (
        report.notes
    )


def test_a_context_comes_sequence_first_where_all_is():
    def attention(x, memory, w_q, w_k, w_v, w_o, heads):
        y = to_context(x.swapaxes(0, 1), memory.swapaxes(0, 1), w_q, w_k, w_v, w_o, heads)
        return y.swapaxes(0, 1)

    impl = Implementation(call=attention, batch_first=False, tied=())
    assert impl.order("x_kv") == "s b m" and seen_of(impl, cases_of(impl), Wishes(draws=1)).right


def test_code_with_a_context_is_proved_for_all_sizes():
    assert prove_code(from_function(to_context)).verdict is Verdict.PROVED


def test_a_test_of_code_with_a_context_is_judged():
    def test(attention):
        rng = np.random.default_rng(0)
        x, context = rng.standard_normal((2, 5, 11)), rng.standard_normal((2, 7, 11))
        weights = [rng.standard_normal((11, 12)) / 3 for _ in range(2)] + [rng.standard_normal((11, 8)) / 3]
        weights.append(rng.standard_normal((8, 11)))
        np.testing.assert_allclose(attention(x, context, *weights, 4), to_context(x, context, *weights, 4))

    assert critique(test, like=from_function(to_context), only=["scale_missing", "join_without_transpose"]).ok
