"""The report: short by default, with everything on demand, and figures that say what they show."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import check
from mha_sym.audit.diagnosis.steps import STEP_NAMES
from tests.audit.right import RIGHT
from tests.audit.wrong import WRONG, merge, softmax, split


def unknown(x, w_q, w_k, w_v, w_o, heads):
    """Every query sees itself and every other key from there, both ways: no fault of the catalogue."""
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    even = np.subtract.outer(np.arange(x.shape[1]), np.arange(x.shape[1])) % 2 == 0
    return merge(softmax(np.where(even, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)) @ v) @ w_o


@pytest.mark.parametrize(
    "code", [RIGHT["all biases"], WRONG["joined without transpose"], WRONG["reshaped without transpose"]]
)
def test_the_text_is_short_unless_more_is_asked_for(code):
    report = check(code)
    short, long = report.text(), report.text(detail=True)
    assert len(short.splitlines()) <= 32 < len(long.splitlines())
    assert all(len(line) <= 120 for line in short.splitlines()[1:])
    for part in ("specification:", "layout  ", "difference  bound"):
        assert part not in short and part in long, part
    assert "axes, as they should be" not in short
    steps = [line for line in short.splitlines() if line[:6].strip().isdigit()]
    assert [int(line[:6]) for line in steps] == list(STEP_NAMES)
    assert short.splitlines()[0] == long.splitlines()[0] and "  bound  " in short and "--detail" in short


def test_what_limits_the_answer_is_in_the_short_text():
    report = check(RIGHT["all biases"], sizes={"T": 4, "h": 4})
    assert "  coincide     T = S = h" in report.text()


def test_probes_say_their_causes_in_short_and_show_figures_with_a_key_in_detail():
    report = check(unknown)
    assert not report.faults and [one for one in report.probes if one.cause]
    short, long = report.text(), report.text(detail=True)
    shown = next(one for one in report.probes if one.cause and len(one.figure) > 1)
    assert f"PROBE  {shown.name}: " in " ".join(short.split()) or shown.name in short
    assert shown.figure[0] not in short.splitlines() and f"    {shown.figure[0]}" in long.splitlines()


@pytest.mark.parametrize("code", [unknown, WRONG["joined without transpose"]])
def test_every_figure_of_signs_has_a_key(code):
    probes = check(code).probes
    pictures = [one for one in probes if one.figure and set("".join(one.figure)) <= set("#.0123456789")]
    assert len(pictures) >= 3
    for one in pictures:
        assert "position" in one.key or "sample" in one.key, one
        assert {"#", "."} & set("".join(one.figure)) <= set(one.key) | {"."}


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("joined without transpose", ("T = 1", "h = 1")), ("scale of the model", ("T = 1", "h = 1")),
        ("no scale", ("T = 1", "d_k = 1")),
    ],
)  # fmt: skip
def test_a_fault_says_at_which_sizes_a_test_does_not_see_it(name, hidden):
    report = check(WRONG[name])
    (found,) = report.faults
    assert found.hidden_at == hidden and f"hidden at  {', '.join(hidden)}: a test there" in report.text()
    for text in hidden:  # and at such sizes this check does not see it either
        size = text.split(" = ")[0]
        assert check(WRONG[name], sizes={size: 1} | ({"S": 1} if size == "T" else {})).ok
