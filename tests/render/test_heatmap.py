"""Heat maps of weights: one a head, named axes, every number in its cell, and clear words for what is no weights."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mha_sym.attention.dims import combined_weights, cross_inputs, dims
from mha_sym.attention.forms import combined
from mha_sym.errors import DataProblem, Problem
from mha_sym.evaluate import evaluate
from mha_sym.expr import inputs
from mha_sym.render.pictures.heatmap import weights_figure

matplotlib = pytest.importorskip("matplotlib")

B, H, T, S = 2, 3, 4, 5


@pytest.fixture(autouse=True)
def agg() -> Iterator[None]:
    with matplotlib.rc_context():
        matplotlib.use("Agg")
        yield


def drawn() -> np.ndarray[Any, Any]:
    d = dims(B=B, T=T, S=S, d_model=7, h=H, d_k=2, d_v=6)
    weights = combined(d, cross_inputs(d), combined_weights(d)).weights
    rng = np.random.default_rng(1)
    return evaluate(weights, {one.name: rng.normal(size=[int(a.size) for a in one.axes]) for one in inputs(weights)})


def maps(figure: Any) -> list[Any]:
    return [place for place in figure.axes if place.images]


def test_each_head_is_shown_as_it_is() -> None:
    weights = drawn()
    figure = weights_figure(weights, sequence=1)
    assert len(maps(figure)) == H
    for r, place in enumerate(maps(figure)):
        (image,) = place.images
        for t in range(T):
            for s in range(S):
                assert image.get_array()[t, s] == weights[1, r, t, s]
        assert image.get_clim() == (0, 1)
        assert place.get_title() == f"head r = {r}"
        assert (place.get_xlabel(), place.get_ylabel()) == ("key position s", "query position t")
        assert len(place.texts) == T * S
        for text in place.texts:
            s, t = (int(n) for n in text.get_position())
            assert float("0" + text.get_text()) == pytest.approx(weights[1, r, t, s], abs=0.005)
    assert figure.axes[-1].get_ylabel() == "weight A[r, t, s]"


def test_tokens_name_the_positions() -> None:
    figure = weights_figure(drawn()[0], ["a", "$b", "c", "d"], ["v", "w", "x", "y", "z"])
    place = maps(figure)[0]
    assert [one.get_text() for one in place.get_yticklabels()] == ["a", r"\$b", "c", "d"]
    assert [one.get_text() for one in place.get_xticklabels()] == ["v", "w", "x", "y", "z"]
    square = weights_figure(np.full((2, 2), 0.5), ["one", "two"])
    assert [one.get_text() for one in maps(square)[0].get_xticklabels()] == ["one", "two"]


def test_a_figure_can_be_saved_and_opens_no_window() -> None:
    code = (
        "import numpy as np, sys; from mha_sym.render.pictures.heatmap import weights_figure; "
        "weights_figure(np.eye(3)).savefig(sys.stdout.buffer, format='png'); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert found.startswith(b"\x89PNG")


def test_a_mask_shows() -> None:
    (place,) = maps(weights_figure([[0.999, 0], [0.001, 0.999]]))
    texts = {text.get_position(): text.get_text() for text in place.texts}
    assert texts == {(0, 0): "1.00", (1, 0): "·", (0, 1): ".00", (1, 1): "1.00"}


def test_many_positions_and_heads() -> None:
    figure = weights_figure(np.full((5, 40, 60), 1 / 60), columns=4)
    figure.set_dpi(30)  # only where things stand is looked at
    assert not any(place.texts for place in maps(figure))
    assert len(maps(figure)[0].get_xticklabels()) <= 24
    assert len({place.get_position().y0 for place in maps(figure)}) == 2
    figure.savefig(io.BytesIO(), format="png", dpi=30)
    shown = weights_figure(np.full((1, 14, 12), 1 / 12), numbers=True)
    assert len(maps(shown)[0].texts) == 14 * 12


def test_many_long_maps_fit_on_a_screen() -> None:
    figure = weights_figure(np.full((12, 40, 40), 1 / 40))
    assert max(figure.get_size_inches()) < 20
    assert all(len(place.get_xticks()) <= 17 for place in maps(figure))


def test_torch_weights() -> None:
    torch = pytest.importorskip("torch")
    weights = torch.softmax(torch.zeros(2, 3, 4, requires_grad=True, dtype=torch.bfloat16), -1)
    assert maps(weights_figure(weights))[1].images[0].get_array()[2, 3] == 0.25


@pytest.mark.parametrize(
    ("weights", "given", "words"),
    [
        (np.zeros(3), {}, "this is no array of weights"),
        (np.zeros((2, 0, 3)), {}, "this is no array of weights"),
        (np.zeros((2, 3), complex), {}, "this is no array of weights"),
        ("weights", {}, "this is no array of weights"),
        (np.array([[0.5, -0.5]]), {}, r"at least 0\n.*\n *got: +-0.5 at \[r=0, t=0, s=1\]"),
        (np.array([[0.5], [np.nan]]), {}, r"at least 0\n.*\n *got: +nan at \[r=0, t=1, s=0\]"),
        (np.zeros((2, 1, 3, 3)), {}, "there are 2 sequences"),
        (np.zeros((2, 1, 3, 3)), {"sequence": 2}, "there is no sequence 2"),
        (np.zeros((3, 4)), {"tokens": ["a", "b"]}, "there are 3 positions and 2 tokens"),
        (np.zeros((3, 4)), {"keys": "abcd"}, "give keys as a list"),
        (np.zeros((3, 4)), {"columns": 0}, "there cannot be 0 columns"),
    ],
)
def test_what_is_no_weights(weights: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(DataProblem) as caught:
        weights_figure(weights, **given)
    assert re.search(words, str(caught.value))


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Problem) as caught:
        weights_figure(np.eye(2))
    assert caught.value.one_line() == (
        "heat maps need matplotlib, which is not installed; in: weights_figure; "
        "hint: install mha_sym with the extra 'plot'"
    )
