"""What all tests share: one thread for linear algebra, no deadline for properties, and the command in a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: tests run beside one another

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what is in the background so; the commands under test would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "mha_sym",
    deadline=None,  # a first call imports and caches; time is not what is tested
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],  # for the same reason
    derandomize="CI" in os.environ,  # what is accepted must not depend on luck; people's runs look further
)
settings.load_profile("mha_sym")

ROOT = Path(__file__).parent.parent

#: files whose tests take minutes together; `pytest -m "slow or not slow"` runs them too, as `.ci/run` does
SLOW = (
    "export/test_coq.py", "controls/test_mutants.py", "proof/test_prover.py", "proof/test_certificate_file.py",
    "render/test_derivation.py", "render/test_html.py", "render/test_svg_browser.py", "audit/test_critique.py",
    "audit/test_diagnose.py", "audit/test_identify.py", "audit/test_dump.py", "audit/test_plugin.py",
    "audit/test_faults.py", "audit/test_corpus.py", "audit/test_corpus_libraries.py", "audit/test_public_cases.py",
    "audit/test_several.py", "importers/test_prove_mistakes.py",
    "test_readme.py", "test_packaging.py",
    "importers/test_rotary.py", "importers/test_own_tables.py", "importers/test_rotary_transformers.py",
    "importers/test_import_soundness.py", "audit/test_rotary_faults.py",
    "importers/test_torch_proved.py", "importers/test_torch_transformers.py", "importers/test_torch_export.py",
    "test_interrupts.py", "fuzz/test_fuzz.py", "soundness/test_completeness.py", "soundness/test_trust.py",
    "soundness/test_forged.py",
    "importers/test_without_projection.py",
    "importers/test_torch.py", "importers/test_torch_ops.py", "importers/test_jax.py", "importers/test_jax_modules.py",
    "importers/test_jax_proofs.py", "importers/test_keras_proofs.py", "importers/test_onnx_proofs.py",
    "importers/test_prove_numpy.py", "importers/test_prove_cli.py", "audit/test_check_torch.py",
    "audit/test_undeclared.py", "audit/test_dropout.py", "audit/test_report.py",
    "audit/test_torch_widths.py", "audit/test_taken_for_granted.py", "audit/test_steps.py",
    "audit/test_precision.py", "audit/test_own_angles.py", "audit/test_complex_turning.py",
    "audit/test_probe_of_positions.py", "audit/test_found_layouts.py",
    "ask/test_questions.py", "render/test_book.py", "render/test_typst.py",
    "render/test_comparison.py", "render/test_ways.py", "render/test_forms.py", "proof/test_field.py",
    "proof/test_witness.py", "proof/test_broken_rules.py", "export/test_metamath.py",
    "checkpoint/test_interrupted.py", "checkpoint/test_convert_modules.py", "checkpoint/test_conversion_theorems.py",
)  # fmt: skip
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow by its file."""
    for item in items:
        if item.path.as_posix().endswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def command() -> Command:
    """Run ``python -m mha_sym`` with these arguments in a process of its own, in a directory ``cwd``."""

    def run(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
        line = [sys.executable, "-m", "mha_sym", *args]
        return subprocess.run(
            line, capture_output=True, text=True, encoding="utf-8", cwd=cwd, env=environment, timeout=120, check=False
        )

    return run
