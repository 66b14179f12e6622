"""check on code whose query heads share keys and values: right and wrong copies, sizes that are found out, stages."""

from __future__ import annotations

import numpy as np
import pytest

from mha_sym.audit import Implementation, check
from mha_sym.audit.cases import Case, cases_of
from mha_sym.audit.diagnosis.diagnose import diagnose
from mha_sym.audit.draw import coincidences
from mha_sym.audit.functions import from_function
from mha_sym.audit.runs import seen_of
from mha_sym.audit.setting import draw_setting
from mha_sym.audit.settle import Wishes
from mha_sym.errors import Problem, TargetProblem
from tests.audit.right import softmax


def grouped(x, w_q, w_k, w_v, w_o, heads, num_kv_heads):
    return attention(x, w_q, w_k, w_v, w_o, heads, num_kv_heads, np.repeat)["y"]


def copied_in_turn(x, w_q, w_k, w_v, w_o, heads, num_kv_heads):
    return attention(x, w_q, w_k, w_v, w_o, heads, num_kv_heads, lambda a, n, axis: np.tile(a, (1, n, 1, 1)))["y"]


def with_stages(x, w_q, w_k, w_v, w_o, heads, num_kv_heads):
    return attention(x, w_q, w_k, w_v, w_o, heads, num_kv_heads, np.repeat)


def attention(x, w_q, w_k, w_v, w_o, heads, groups, copy):
    q = (x @ w_q).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)
    k, v = ((x @ w).reshape(*x.shape[:2], groups, -1).swapaxes(1, 2) for w in (w_k, w_v))
    few = {"k": k, "v": v}
    k, v = (copy(one, heads // groups, axis=1) for one in (k, v))
    z = softmax(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ v
    return {"q": q, **few, "z": z, "y": z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o}


def test_right_and_wrong_copies() -> None:
    assert check(grouped).ok and check(with_stages).ok
    report = check(copied_in_turn)
    assert report.exit_code == 1 and report.conventions[0].value.startswith("grouped")
    assert check(copied_in_turn, layout="grouped_strided").ok
    assert check(grouped, layout="grouped_strided").exit_code == 1


def values_copied_in_turn(x, w_q, w_k, w_v, w_o):
    """Keys are repeated and values are tiled, 4 heads in 2 groups: the order 0, 2, 1, 3 of heads gives the same."""
    q = (x @ w_q).reshape(*x.shape[:2], 4, -1).swapaxes(1, 2)
    k, v = ((x @ w).reshape(*x.shape[:2], 2, -1).swapaxes(1, 2) for w in (w_k, w_v))
    z = softmax(q @ np.repeat(k, 2, axis=1).swapaxes(2, 3) / np.sqrt(q.shape[-1])) @ np.tile(v, (1, 2, 1, 1))
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o


def test_values_that_are_tiled_are_named_before_an_order_of_heads_that_fits() -> None:
    impl = Implementation(call=values_copied_in_turn, heads=4, kv_heads=2, layout="grouped", tied=())
    (found,) = diagnose(seen_of(impl, cases_of(impl), Wishes(draws=2)).evidence, pairs=False).found
    assert found.name == "groups_tiled_in_values"
    assert found.mend == "repeat(v, 'b g s v -> b (g n) s v', n=h // g)"
    (twin,) = found.twins
    assert twin.names == ("heads_permuted_in_values",) and "in the order 0, 2, 1, 3" in twin.words


def test_sizes_are_apart_and_groups_are_neither_one_nor_all() -> None:
    impl = from_function(grouped)
    for draw in range(5):
        sizes = draw_setting(impl, Case("no mask", same=True), 0, draw).sizes
        assert sizes["h"] == sizes["G"] * sizes["R"] and 1 < sizes["G"] < sizes["h"] and sizes["G"] != sizes["R"]
        assert set(coincidences(sizes)) == {"T = S", "h*T = h*S", "B*T = B*S"}


def test_heads_that_are_given() -> None:
    def six(x, w_q, w_k, w_v, w_o):
        return grouped(x, w_q, w_k, w_v, w_o, 6, 2)

    assert check(six, heads=6, kv_heads=2).ok
    with pytest.raises(Problem, match="how many kv_heads") as raised:
        check(Implementation(call=six, heads=6, layout="grouped"))
    assert raised.value.hint.endswith("--kv-heads N")
    with pytest.raises(Problem, match="6 heads do not divide into 4"):
        check(six, heads=6, kv_heads=4)
    with pytest.raises(TargetProblem, match="as many key and value heads as query heads"):
        Implementation(call=six, heads=6, kv_heads=2, layout="combined")


def test_key_heads_as_many_as_query_heads_and_only_one() -> None:
    for groups in (1, 6):
        impl = Implementation(
            call=grouped, heads=6, kv_heads=groups, layout="grouped",
            takes=("x", "w_q", "w_k", "w_v", "w_o", "heads", "kv_heads"),
        )  # fmt: skip
        assert check(impl).ok
