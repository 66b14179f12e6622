"""What each rule means to a reader: the law as LaTeX, and the reason that stands beside a line.

One card a rule; a test asserts that none is missing.  Cards decide nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

_SUM = r"\textstyle\sum"


@dataclass(frozen=True)
class Card:
    """The law of a rule and the reason in words; ``silent`` rules are no step to a reader.

    Example:
        >>> CARDS["distribute"].reason
        'distributive law'
    """

    law: str
    reason: str
    silent: bool = False


CARDS: dict[str, Card] = {
    "unfold": Card(r"x_i := \text{its definition}", "definition"),
    "table": Card(r"c_{3} = \text{its value}", "value of the constant"),
    "lemma": Card(r"a_i = b_i \text{ proved before}", "shown above"),
    "arithmetic": Card(r"(ab)c = abc,\ 2\cdot 3 = 6,\ 0\,a = 0", "arithmetic", silent=True),
    "distribute": Card(r"a(b + c) = ab + ac", "distributive law"),
    "take_out": Card(r"ab + ac = a(b + c)", "common factor"),
    "collect": Card(r"2a + 3a = 5a", "like terms"),
    "pull": Card(rf"a {_SUM}_i b_i = {_SUM}_i a b_i", "factor moved into the sum", silent=True),
    "factor": Card(rf"{_SUM}_i a b_i = a {_SUM}_i b_i", "factor in front of the sum"),
    "exchange": Card(rf"{_SUM}_i {_SUM}_j = {_SUM}_j {_SUM}_i", "order of summation", silent=True),
    "sum_of_sum": Card(rf"{_SUM}_i (a_i + b_i) = {_SUM}_i a_i + {_SUM}_i b_i", "sum taken term by term"),
    "constant_sum": Card(rf"{_SUM}_{{i<n}} a = n a", "sum of equal terms"),
    "split_sum": Card(rf"{_SUM}_{{c}} f(c) = {_SUM}_r {_SUM}_j f(r d + j)", "double sum over the joined index"),
    "enumerate_sum": Card(rf"{_SUM}_{{i<2}} a_i = a_0 + a_1", "sum written out"),
    "delta": Card(rf"{_SUM}_i [i = e]\, f(i) = f(e)", "only one term is not zero"),
    "reindex": Card(rf"{_SUM}_i f(i) = {_SUM}_i f(\pi(i))", "renumbering by the permutation"),
    "exp_of_sum": Card(r"e^{a + b} = e^a e^b", "exponential of a sum"),
    "exp_product": Card(r"e^a e^b = e^{a + b}", "exponential of a sum"),
    "inverse_of_exp": Card(r"1/e^a = e^{-a}", "inverse of an exponential"),
    "inverse_of_product": Card(r"1/(ab) = (1/a)(1/b)", "inverse of a product"),
    "cancel": Card(r"a \cdot 1/a = 1 \text{ for } a > 0", "a positive factor cancels"),
    "guard": Card(r"[P]\, f([P]) = [P]\, f(1)", "the bracket in front is 0, or both are 1"),
    "spread": Card(r"[P]\, f(a) = [P]\, f([P]\, a)", "the bracket in front is 0, or both are 1", silent=True),
    "compare": Card(r"[i \le i] = 1,\ [0 = 1] = 0", "value of the bracket"),
}
