"""Sizes as text: what is read, and that a text from outside makes no large number and takes no time."""

from __future__ import annotations

import time

import pytest

from mha_sym.axes import size_symbol
from mha_sym.errors import Problem
from mha_sym.importers.size_text import read_size

B, T, D = map(size_symbol, ("B", "T", "D"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("7", 7), ("T", T), (" 4*B + 1 ", 4 * B + 1), ("B*T - 2*(T - 1)", B * T - 2 * T + 2), ("-T + 3", 3 - T),
        ("T^2", T**2), ("T**2*B", T**2 * B), ("floordiv(6*D, 2)", 3 * D), ("6*D//D", 6), ("B*D/D", B),
        ("2*T - T", T), ("batch_size", size_symbol("batch_size")),
    ],
)  # fmt: skip
def test_a_size_is_read(text: str, size: object) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "4 *", "T T", "(T", "T)", "1.5", "T/2", "T//3", "mod(T, 2)", "max(T, 1)", "a.b", "f(T)", "T^-1", "T^9", "T^B",
     "__import__('os')", "lambda: 0", "T;B", "9" * 30, "2^8^8", "((2^8)^8)^8", "(" * 30 + "T" + ")" * 30, "T" * 500],
)  # fmt: skip
def test_what_is_no_size_is_one_problem(text: str) -> None:
    with pytest.raises(Problem, match="is not read as a size") as caught:
        read_size(text)
    assert len(caught.value.one_line()) < 700


def test_a_product_of_many_sums_takes_no_time() -> None:
    text = "*".join(f"({a}+{b})" for a, b in zip("abcdefghijklm", "nopqrstuvwxyz", strict=True))
    started = time.process_time()
    with pytest.raises(Problem):
        read_size(text)
    assert time.process_time() - started < 1.0
