"""One run of an implementation beside the specification, stage by stage.

Defines `witness` (run and compare), `compare` and `compare_shown`, which give only the comparisons, and `evidence_of`.
Differences are judged by a bound that follows from the format and the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mha_sym.audit.bounds import stage_bounds
from mha_sym.audit.call import NotFinite, at, run
from mha_sym.audit.compared import Compared
from mha_sym.audit.evidence import Evidence
from mha_sym.audit.implementation import STAGES, Implementation
from mha_sym.audit.precision import Array
from mha_sym.audit.setting import Setting
from mha_sym.audit.specification import Specification
from mha_sym.errors import DataProblem


def compare(
    impl: Implementation, spec: Specification, setting: Setting, case: str = "", draw: int = 0
) -> list[Compared]:
    """The stages that an implementation shows beside those of the specification, on one setting.

    Raises:
        Problem: if the implementation or the specification has no value there.
    """
    return list(witness(impl, spec, setting, case, draw).compared)


def witness(
    impl: Implementation, spec: Specification, setting: Setting, case: str = "", draw: int = 0, finite: bool = True
) -> Evidence:
    """One run of an implementation, compared; what `compare` gives, and all that it was made of.

    Unless ``finite``, rows of the output that are NaN are let pass, and count as wrong; other NaN is refused.
    """
    found = spec.values(setting.arrays, setting.sizes)  # first: where it has no value there is nothing to compare with
    shown = _rows_or_numbers(impl, setting) if not finite else run(impl, setting.arguments, setting.sizes)
    return evidence_of(impl, spec, setting, found, shown, case, draw)


def _rows_or_numbers(impl: Implementation, setting: Setting) -> dict[str, Array]:
    """What is shown, the output alone where some of its rows are NaN."""
    try:
        return run(impl, setting.arguments, setting.sizes)
    except NotFinite:
        y = run(impl, setting.arguments, setting.sizes, finite=False)["y"]
        rows = np.isnan(y).all(axis=-1)
        if not 0 < rows.sum() < rows.size or not np.isfinite(y[~rows]).all():
            raise
        return {"y": y}


def compare_shown(
    impl: Implementation, spec: Specification, setting: Setting, found: Mapping[str, Array],
    shown: Mapping[str, Array], case: str = "", draw: int = 0,
) -> list[Compared]:  # fmt: skip
    """Stages that were obtained somehow, in the order of axes of `STAGES`, beside those of the specification."""
    return list(evidence_of(impl, spec, setting, found, shown, case, draw).compared)


def evidence_of(
    impl: Implementation, spec: Specification, setting: Setting, found: Mapping[str, Array],
    shown: Mapping[str, Array], case: str = "", draw: int = 0,
) -> Evidence:  # fmt: skip
    """The same, with all that it was made of."""
    inputs = (setting.arrays["X_q"], setting.arrays["X_k"], setting.arrays["X_v"])
    bounds = stage_bounds(
        found, inputs, setting.sizes, spec.scale(setting.sizes), setting.mask, impl.dtype,
        turned="cos" in setting.arrays,
    )  # fmt: skip
    results = []
    for word in STAGES:
        if word in shown:
            expected, got = _visible(word, found[word], shown[word], setting)
            entries = bounds[word].entries
            _worth_comparing(entries, expected, word, impl)
            with np.errstate(invalid="ignore", over="ignore"):
                difference = np.abs(got - expected)
                excess = np.where(difference > 0, difference / np.maximum(entries, np.finfo(float).tiny), 0.0)
            excess = np.where(np.isnan(excess), 0.0, excess)  # infinity beside infinity: nothing is known there
            missing = np.isnan(got) & np.isfinite(expected)
            difference, excess = (np.where(missing, np.inf, one) for one in (difference, excess))
            place = np.unravel_index(int(np.argmax(excess)), difference.shape)
            results.append(
                Compared(
                    case, word, draw, float(difference[place]), bounds[word].at(place), at(word, place),
                    float(expected[place]), float(got[place]), setting.sizes, setting.weights,
                )
            )  # fmt: skip
    return Evidence(case, draw, spec, setting, found, shown, bounds, tuple(results), impl.dtype)


def _visible(word: str, expected: Array, got: Array, setting: Setting) -> tuple[Array, Array]:
    """Both sides, scores of hidden keys left out: code fills them as it likes before its softmax."""
    if word != "scores" or setting.keep is None:
        return expected, got
    keep = np.broadcast_to(setting.keep, expected.shape)
    return np.where(keep, expected, 0.0), np.where(keep, got, 0.0)


def _worth_comparing(bounds: Array, expected: Array, word: str, impl: Implementation) -> None:
    """Refuse to say anything where no entry of a stage could be told from zero."""
    if not (bounds < np.abs(expected)).any():
        least, largest = float(bounds.min()), float(np.abs(expected).max())
        raise DataProblem(
            f"nothing can be seen of {word} at {impl.dtype}: the bound {least:.2g} is as large as the values",
            expected=f"a bound well below {largest:.2g}", hint="check in float64, or at smaller sizes",
        )  # fmt: skip
