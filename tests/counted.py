"""Layers at pairwise distinct sizes for the tests of counting: three forms, with and without biases."""

from __future__ import annotations

import pytest

from mha_sym.attention.dims import Dims, combined_weights, cross_inputs, dims, head_weights
from mha_sym.attention.forms import Options, Stages, combined, head_sum, separate
from mha_sym.axes import size_symbol

SIZES = {"B": 2, "T": 3, "S": 5, "d_model": 7, "h": 4, "d_k": 6, "d_v": 8}
B, T, S, d_model, h, d_k, d_v = (size_symbol(name) for name in SIZES)
D = dims(S="S")
FORMS = {
    "combined": (combined, combined_weights),
    "separate": (separate, head_weights),
    "head_sum": (head_sum, head_weights),
}
each_form = pytest.mark.parametrize("form", FORMS)
each_bias = pytest.mark.parametrize("bias", [False, True])


def layer(form: str, bias: bool, d: Dims = D, options: Options = Options()) -> Stages:  # noqa: B008
    """One of the forms."""
    make, weights = FORMS[form]
    return make(d, cross_inputs(d), weights(d, bias), options)
