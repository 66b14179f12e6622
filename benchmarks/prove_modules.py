"""How long does it take to prove the attention that people use?  Import and proof apart, in seconds of the processor.

Prints for each module: finding what its weights mean, tracing and importing it in all ways of calling, proving it, and
the verdict.  A proof is to take less than 5 seconds; what is slower, or not proved, is marked.

Run as ``python -m benchmarks.prove_modules [part of a name ...]``; it takes some minutes.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from mha_sym.audit.frameworks.onnx_files import from_onnx
from mha_sym.audit.functions import from_function
from mha_sym.audit.implementation import Implementation
from mha_sym.audit.proving import code as proving
from mha_sym.audit.proving import widths as prove_widths
from mha_sym.audit.target import as_implementation
from mha_sym.errors import Problem

#: so long may a proof take
BOUND = 5.0
Rows = Iterator[tuple[str, Callable[[], Implementation]]]


def rows() -> Rows:
    """Every module, by name."""
    yield from _torch()
    yield from _transformers()
    yield from _jax()
    yield from _onnx()


def _torch() -> Rows:
    from tests.importers import rotary_modules as rotary
    from tests.importers.test_torch_proved import PROVED
    from tests.importers.torch_modules import RIGHT

    for words, options in {"packed": {}, "kdim, vdim": {"kdim": 10, "vdim": 14}, "no bias": {"bias": False}}.items():
        layer = torch.nn.MultiheadAttention(24, 4, batch_first=True, **options).eval()
        yield f"nn.MultiheadAttention, {words}", lambda layer=layer: as_implementation(layer)
    for name in PROVED:
        yield f"by hand: {name}", lambda name=name: as_implementation(RIGHT[name][0])
    own = {"halves": rotary.InHalves, "kept": rotary.Kept, "neighbours": rotary.Neighbours}
    for name, make in own.items():
        yield f"own rotary tables: {name}", lambda make=make: as_implementation(make())


def _transformers() -> Rows:
    from tests.importers.test_torch_transformers import MODULES

    for name, make in MODULES.items():
        for way in ("eager", "sdpa"):
            yield f"transformers {name}, {way}", lambda make=make, way=way: as_implementation(make(way).eval())


def _jax() -> Rows:
    from tests.importers import test_jax_proofs as jax

    for code in (jax.right, jax.with_einsum, jax.masked, jax.by_jax):
        causal = code in (jax.masked, jax.by_jax)
        yield f"jax {code.__name__}", lambda code=code, causal=causal: from_function(code, causal=causal)
    for make in (jax.linen_layer, jax.nnx_layer, jax.equinox_layer):
        yield f"jax {make.__name__}", lambda make=make: as_implementation(make())


def _onnx() -> Rows:
    from tests.importers import test_onnx_proofs as onnx

    for name, text in {"open": onnx.LAYER, "operator Attention": onnx.OPERATOR}.items():
        folder = Path(tempfile.mkdtemp())
        yield f"onnx, {name}", lambda text=text, folder=folder: from_onnx(onnx.saved(folder, text))


def main(wanted: list[str]) -> int:
    """Print the table; 1 if anything is slower than it may be, or is not proved."""
    clock: Any = SimpleNamespace(perf_counter=time.process_time)  # other programs do not count
    proving.time = prove_widths.time = clock  # type: ignore[misc]
    print(f"{'module':<44} {'find':>6} {'import':>7} {'proof':>6}")
    late = 0
    for name, make in rows():
        if wanted and not any(one in name for one in wanted):
            continue
        started = time.process_time()
        try:
            impl = make()
        except Problem as problem:
            print(f"{name:<44} ! not read: {problem.what}", flush=True)
            late += 1
            continue
        found_in = time.process_time() - started
        proof = proving.prove_code(impl)
        spent, verdict = proof.seconds, proof.verdict.value
        bad = verdict != "proved" or spent["prove"] >= BOUND
        late += bad
        said = "" if proof.target == impl.title else f" ({proof.target})"
        print(f"{name:<44} {found_in:6.2f} {spent['import']:7.2f} {spent['prove']:6.2f} {'!' * bad} {verdict}{said}",
              flush=True)  # fmt: skip
    return int(bool(late))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
