"""What the functions compute that code takes entry by entry, in NumPy.

Defines `POINTWISE`, by the names that `mha_sym.audit.catalogue.pointwise` uses.  To the prover they are functions of
which nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from mha_sym.audit.precision import Array

_erf = np.vectorize(math.erf, otypes=[float])


def _sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


#: the function of an array, by name
POINTWISE: Mapping[str, Callable[..., Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: np.asarray(x / 2 * (1 + _erf(x / math.sqrt(2)))),
    "silu": lambda x: np.asarray(x * _sigmoid(x)),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
}
