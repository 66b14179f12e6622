"""Critique: tests that people write, each with a weakness of its own, and sizes alone."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import numpy as np
import pytest

from mha_sym.audit.critique import critique, critique_sizes
from mha_sym.audit.effect import Surroundings, effect, hidden
from mha_sym.audit.faults import find_fault
from mha_sym.audit.hiding import Sizes
from mha_sym.errors import DataProblem, TargetProblem
from tests.audit import right


def drawn(seed: int = 0, B: int = 2, T: int = 5, h: int = 3, k: int = 4, v: int = 7, m: int = 11) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    shapes = [(B, T, m), (m, h * k), (m, h * k), (m, h * v), (h * v, m)]
    return tuple(rng.normal(size=shape) / (np.sqrt(shape[0]) if n else 1) for n, shape in enumerate(shapes))


def at_sizes(rtol: float = 1e-9, **sizes: int) -> Any:
    """A test that compares with an independent implementation, at some sizes."""

    def test(attention: Any) -> None:
        arrays, heads = drawn(**sizes), sizes.get("h", 3)
        np.testing.assert_allclose(attention(*arrays, heads), right.matmul_and_transpose(*arrays, heads), rtol, rtol)

    return test


def reasons(found: Any) -> dict[str, str]:
    return {one.fault: one.reason for one in found.passed}


UNMASKED = ["split_by_view", "split_features_first", "scale_missing", "scale_by_joined_width", "softmax_over_queries",
            "join_without_transpose", "join_features_first", "viewed_in_and_out", "scale_by_d_v"]  # fmt: skip


def test_a_good_test_lets_only_pass_what_it_never_hands_over() -> None:
    found = critique(at_sizes())
    assert found.judged > 100 and found.raised > 10
    assert not set(reasons(found)) & set(UNMASKED)
    told = ("the calls: the test hands over no", "S = T", "the scale")
    assert all(reason.startswith(told) for reason in reasons(found).values()), reasons(found)


@pytest.mark.parametrize(
    ("sizes", "fault", "reason", "change"),
    [
        ({"h": 1, "k": 12, "v": 21}, "scale_by_joined_width", "h = 1", {"h": 2}),
        ({"h": 1, "k": 12, "v": 21}, "join_without_transpose", "h = 1", {"h": 2}),
        ({"B": 1}, "join_tokens_first", "B = 1", {"B": 2}),
        ({"k": 6, "v": 6}, "scale_by_d_v", "d_k = d_v", {"d_v": 7}),
        ({"T": 1}, "join_without_transpose", "T = 1", {"T": 2}),
        ({"h": 4, "k": 4, "v": 7}, "scale_by_heads", "h = d_k", {"h": 5}),
    ],
)
def test_sizes_that_hide_a_fault_are_named(sizes: dict[str, int], fault: str, reason: str, change: Any) -> None:
    (one,) = critique(at_sizes(**sizes), only=[fault]).passed
    assert (one.reason, dict(one.change)) == (reason, change) and one.sure
    # the change that is advised is tried by an independent test
    letters = {"d_v": "v", "d_k": "k"}
    better = {**sizes, **{letters.get(name, name): n for name, n in change.items()}}
    assert critique(at_sizes(**better), only=[fault]).ok


def test_a_tolerance_that_is_too_wide() -> None:
    (one,) = critique(at_sizes(rtol=0.5), only=["scale_by_d_v"]).passed
    assert one.reason.startswith(("a tolerance that is too wide", "what it looks at"))
    assert critique(at_sizes(rtol=1e-6), only=["scale_by_d_v"]).ok


def test_only_shapes_are_looked_at() -> None:
    def test(attention: Any) -> None:
        assert attention(*drawn(), 3).shape == (2, 5, 11)

    found = critique(test, only=UNMASKED)
    assert len(found.passed) == len(UNMASKED) and not found.ok and found.exit_code == 1
    assert reasons(found)["split_by_view"].startswith("what it looks at")


def test_constant_values() -> None:
    def test(attention: Any) -> None:
        arrays = [np.ones_like(one) for one in drawn()]
        np.testing.assert_allclose(attention(*arrays, 3), right.matmul_and_transpose(*arrays, 3))

    found = critique(test, only=["softmax_over_queries", "split_features_first", "scale_missing"])
    assert set(reasons(found).values()) == {"the values of the test, which are such that it makes no difference"}


def test_a_seed_that_decides() -> None:
    state = {"runs": 0}

    def test(attention: Any) -> None:
        state["runs"] += 1
        arrays = drawn(B=1 if state["runs"] % 2 == 0 else 2)
        np.testing.assert_allclose(attention(*arrays, 3), right.matmul_and_transpose(*arrays, 3), 1e-9)

    (one,) = critique(test, only=["join_tokens_first"]).passed
    assert one.reason.startswith("the seed")


def test_masks_by_keyword_are_understood() -> None:
    keep = np.tri(5) > 0

    def test(attention: Any) -> None:
        arrays = drawn()
        expected = right_masked(*arrays, 3, keep)
        np.testing.assert_allclose(attention(*arrays, heads=3, keep=keep), expected, 1e-9)

    only = ["causal_mask_transposed", "mask_inverted"]
    from mha_sym.audit.faults import faults

    only = [one.name for one in faults() if "causal" in one.needs and len(one.needs) == 1][:4]
    assert len(only) == 4
    found = critique(test, only=only)
    assert set(reasons(found).values()) <= {"S = T"}
    missing = critique(at_sizes(), only=only)
    assert set(reasons(missing).values()) == {"the calls: the test hands over no causal mask"}


def right_masked(x, w_q, w_k, w_v, w_o, heads, keep):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    s = np.where(keep, q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]), -np.inf)
    return (right.softmax(s) @ v).swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def test_an_implementation_that_the_test_finds_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("layers_under_test")
    module.attention = right.matmul_and_transpose
    monkeypatch.setitem(sys.modules, "layers_under_test", module)

    def test() -> None:
        arrays = drawn(h=1)
        np.testing.assert_allclose(module.attention(*arrays, 1), right.matmul_and_transpose(*arrays, 1), 1e-9)

    found = critique(test, target="layers_under_test:attention", only=["scale_by_joined_width", "scale_missing"])
    assert [one.fault for one in found.passed] == ["scale_by_joined_width"]
    assert module.attention is right.matmul_and_transpose


def test_torch_tensors_come_back_as_torch_tensors() -> None:
    torch = pytest.importorskip("torch")

    def test(attention: Any) -> None:
        arrays = [torch.from_numpy(one).float() for one in drawn()]
        y = attention(*arrays, 3)
        assert y.dtype == torch.float32
        expected = right.matmul_and_transpose(*(one.numpy().astype(float) for one in arrays), 3)
        torch.testing.assert_close(y.double(), torch.from_numpy(expected), rtol=1e-4, atol=1e-4)

    assert critique(test, only=UNMASKED).ok


def test_tests_that_cannot_be_judged() -> None:
    def fails(attention: Any) -> None:
        raise AssertionError("never right")

    with pytest.raises(TargetProblem, match="the test fails for the correct form"):
        critique(fails)
    with pytest.raises(TargetProblem, match="never calls the implementation"):
        critique(lambda attention: None)


# ---------------------------------------------------------------- sizes alone


def test_the_sizes_of_the_issue() -> None:
    found = critique_sizes({"B": 1, "T": 8, "h": 8, "d_k": 8})
    told = {one.fault: one for one in found.passed}
    assert told["join_tokens_first"].reason == "B = 1" and dict(told["join_tokens_first"].change) == {"B": 2}
    assert told["scale_by_d_v"].sure == "proved"
    assert "let pass, because of B = 1:" in found.text()
    assert json.loads(json.dumps(found.json()))["judged"] == found.judged


def test_sizes_that_are_apart_hide_nothing_that_sizes_could_show() -> None:
    found = critique_sizes({"B": 2, "T": 5, "h": 6, "G": 2, "d_k": 4, "d_v": 9, "d_model": 13})
    assert {one.reason for one in found.passed} <= {"S = T", "the scale, which is 1/sqrt(d_k)"}, found.text()
    one_head = critique_sizes({"B": 2, "T": 5, "h": 1, "d_k": 4}, UNMASKED)
    assert {one.fault for one in one_head.passed} == {*UNMASKED} - {"scale_missing", "softmax_over_queries"}
    assert all(dict(one.change) == {"h": 2} for one in one_head.passed if one.reason == "h = 1")


def test_what_is_hidden_is_equal_and_what_is_not_is_different() -> None:
    """Against plain NumPy: a straight reshape is right at h = 1 and T = 1 only."""
    fault, around = find_fault("split_by_view"), Surroundings()
    for h, T in ((1, 5), (3, 1), (3, 5), (5, 5)):
        x = drawn(T=T, h=h)[0] @ drawn(T=T, h=h)[1]
        same = np.array_equal(x.reshape(2, h, T, 4), x.reshape(2, T, h, 4).swapaxes(1, 2))
        sizes = Sizes.read({"B": 2, "T": T, "h": h, "d_k": 4, "d_v": 7, "d_model": 11}).all
        assert (effect(fault, sizes, around) == 0) == same == (hidden(fault, sizes, around) is not None)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"T": 5, "h": 3}, "size d_k is missing"), ({"T": 0, "h": 3, "d_k": 2}, "size T cannot be 0"),
        ({"T": 5, "h": 3, "k": 2}, "no size is called k"), ({"T": 5, "h": 3, "d_k": 2, "G": 2}, "do not divide"),
    ],
)  # fmt: skip
def test_sizes_that_cannot_be(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(DataProblem, match=message):
        critique_sizes(sizes)


def test_the_command_judges_sizes_and_tests(tmp_path: Any, command: Any) -> None:
    done = command("critique", "--sizes", "B=1,T=8,h=8,d_k=8", cwd=tmp_path)
    assert done.returncode == 1 and "let pass, because of B = 1" in done.stdout
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def only_shapes(attention):\n"
        "    x, w = np.ones((2, 5, 12)), np.ones((12, 12))\n"
        "    assert attention(x, w, w, w, w, 3).shape == x.shape\n"
    )
    args = ("mine.py:only_shapes", "--only", "scale_missing", "--json", "--timeout", "60")
    done = command("critique", *args, cwd=tmp_path)
    found = json.loads(done.stdout)
    assert done.returncode == 1 and "scale_missing" in {one["fault"] for one in found["passed"]}
    for args in ((), ("--sizes", "B=1;T=8"), ("--sizes", "T=8"), ("mine.py:absent",)):
        done = command("critique", *args, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == ""
