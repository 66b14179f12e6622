"""Keras' attention with JAX as its backend, proved; in a process of its own, as a process has one backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")  # Keras warns of a softmax over one key
import keras
from mha_sym.audit.proving.code import prove_code
from mha_sym.audit.target import as_implementation

layer = {
    "MultiHeadAttention": lambda: keras.layers.MultiHeadAttention(3, 4, dropout=0.1),
    "GroupQueryAttention": lambda: keras.layers.GroupQueryAttention(4, 6, 2),
}[sys.argv[1]]()
found = prove_code(as_implementation(layer), causal=True)
cases = {one.case: [one.verdict.value, list(one.open)] for one in found.cases}
json.dump({"cases": cases, "symbolic": found.symbolic, "problem": str(found.problem)}, sys.stdout)
"""


@pytest.mark.parametrize("layer", ["MultiHeadAttention", "GroupQueryAttention"])
def test_layer_is_proved_at_every_length_in_every_way_of_calling(layer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, layer], capture_output=True, text=True, check=True, timeout=600,
        env={**os.environ, "KERAS_BACKEND": "jax"},
    )  # fmt: skip
    found = json.loads(done.stdout)
    ways = ("causal (boolean)", "causal (flag)", "no weights asked for, causal")
    # sizes of 1, on which Keras decides, are proved apart, all of them at once among them
    assert found["cases"] == {way: ["proved", []] for way in ways}, found
    assert {"B", "T"} <= set(found["symbolic"])
