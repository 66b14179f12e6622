"""The table and the JSON of a trace, word for word."""

from __future__ import annotations

import json

import pytest
import sympy

from mha_sym.attention.dims import combined_weights, dims, head_weights, self_inputs
from mha_sym.attention.forms import Options, combined, separate
from mha_sym.axes import Axis, Index, Permutation, axis, blocks, product
from mha_sym.errors import DataProblem
from mha_sym.expr import (
    NODES,
    Block,
    Blocks,
    Compare,
    Concat,
    Contract,
    Expr,
    Input,
    Join,
    Map,
    Named,
    Permute,
    Reduce,
    Rename,
    Repeat,
    Reshape,
    Scalar,
    Select,
    Softmax,
    Split,
    Stack,
    Table,
    Total,
    Transpose,
)
from mha_sym.render.trace_text import WORDS, trace_json, trace_table, words
from mha_sym.trace import Change, Step, trace, trace_stages

SIZES = {"B": 2, "T": 5, "d_model": 11, "h": 3, "d_k": 4, "d_v": 6}
A, B, C = axis("a", 2), axis("b", 3), axis("c", 5)
AB = product(A, B)
X, KEEP = Input("X", (A, B, C)), Input("M", (C,), "mask", boolean=True)
R = Index("r", A)
P = Permutation("pi", B)
PARTS = (axis("p", 2), axis("q", 3))
WHOLE = blocks(*PARTS)


def test_combined_form() -> None:
    d = dims()
    y = combined(d, self_inputs(d), combined_weights(d), Options(keep=Compare("le", d.s, d.t))).y
    assert trace_table(trace(y), SIZES) == """\
step  value   operation  axes                      what happened
────  ──────  ─────────  ────────────────────────  ─────────────────────────────────────────────────────────────────────────────
   1  X       input      (b: 2, t: 5, m: 11)       given
   2  W_Q     input      (m: 11, (h k): 12)        weight
   3  Q_flat  contract   (b: 2, t: 5, (h k): 12)   X times W_Q, summed over m
   4          split      (b: 2, t: 5, h: 3, k: 4)  (h k) of Q_flat becomes h, k
   5  Q       transpose  (b: 2, h: 3, t: 5, k: 4)  t and h of step 4 change places
   6          rename     (b: 2, s: 5, m: 11)       axis t of X is read as axis s
   7  W_K     input      (m: 11, (h k): 12)        weight
   8  K_flat  contract   (b: 2, s: 5, (h k): 12)   step 6 times W_K, summed over m
   9          split      (b: 2, s: 5, h: 3, k: 4)  (h k) of K_flat becomes h, k
  10  K       transpose  (b: 2, h: 3, s: 5, k: 4)  s and h of step 9 change places
  11          contract   (b: 2, h: 3, t: 5, s: 5)  Q times K, summed over k
  12  S       multiply   (b: 2, h: 3, t: 5, s: 5)  step 11 times 1/2
  13          compare    (s: 5, t: 5)              1 where s ≤ t, else 0
  14  A       softmax    (b: 2, h: 3, t: 5, s: 5)  every row of S along s becomes weights that add up to 1, 0 where step 13 is 0
  15  W_V     input      (m: 11, (h v): 18)        weight
  16  V_flat  contract   (b: 2, s: 5, (h v): 18)   step 6 times W_V, summed over m
  17          split      (b: 2, s: 5, h: 3, v: 6)  (h v) of V_flat becomes h, v
  18  V       transpose  (b: 2, h: 3, s: 5, v: 6)  s and h of step 17 change places
  19  Z       contract   (b: 2, h: 3, t: 5, v: 6)  A times V, summed over s
  20          transpose  (b: 2, t: 5, h: 3, v: 6)  h and t of Z change places
  21  C       join       (b: 2, t: 5, (h v): 18)   h, v of step 20 become (h v)
  22  W_O     input      ((h v): 18, m: 11)        weight
  23  Y       contract   (b: 2, t: 5, m: 11)       C times W_O, summed over (h v)
"""[:-1]  # noqa: E501


def test_heads_apart_stand_below_their_index() -> None:
    d = dims()
    lines = trace_table(trace(separate(d, self_inputs(d), head_weights(d)).y), {"h": 3}).split("\n")
    place = lines.index("for each r in h (3 times):")
    assert lines[place + 1].split() == ["6", "select", "(m:", "d_model,", "k:", "d_k)", "W_Q", "at", "h", "=", "r"]
    assert lines[place + 2].startswith("   7    Q^(r)")
    assert any(line.endswith("Z^(r) for all r side by side: v becomes (h v)") for line in lines)
    symbolic = trace_table(trace(separate(d, self_inputs(d), head_weights(d)).y))
    assert "\nfor each r in h:\n" in symbolic
    assert "(b: B, t: T, (h v): h·d_v)" in symbolic


def test_stages_name_steps_that_have_no_name() -> None:
    d = dims()
    table = trace_table(trace_stages(separate(d, self_inputs(d), head_weights(d))), SIZES)
    assert "  scores   transpose  (b: 2, h: 3, t: 5, s: 5)  h and b of step" in table


def said(expr: Expr) -> str:
    steps = trace(expr)
    return words(steps[-1], steps)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (X, "given"),
        (Input("W", (A,), "weight"), "weight"),
        (KEEP, "mask, every entry 0 or 1"),
        (Scalar(1 / sympy.sqrt(dims().k.size)), "1/√d_k"),
        (Table("I", (A,), (0, 1)), "constants"),
        (Compare("lt", A, B, offset=-2), "1 where a < b - 2, else 0"),
        (Compare("ne", A, B, offset=1), "1 where a ≠ b + 1, else 0"),
        (X + Input("y", (B,)), "X + y; y is the same along a, c"),
        (X * Input("y", (B, C)), "X times y; y is the same along a"),
        (Map("mul", (Scalar(sympy.Integer(2)), X)), "2 times X"),
        (-X, "minus X"),
        (Map("exp", (X,)), "exp of X"),
        (Map("inv", (X,)), "1 over X"),
        (Map("fn:gelu", (X,)), "gelu of X, a function known only by name"),
        (Contract((X, Input("W", (C, B))), (A,)), "X times W, summed over b, c"),
        (Contract((X, Input("W", (C,))), (A, B, C)), "X times W"),
        (Contract((X,), (A,)), "X summed over b, c"),
        (Contract((X,), (C, A, B)), "X with its axes in another order"),
        (Reduce("sum", X, (A,)), "X summed over a"),
        (Reduce("max", X, (A, C)), "X reduced to the largest entry over a, c"),
        (Softmax(X, (B, C)), "every row of X along b, c becomes weights that add up to 1"),
        (Softmax(X, (C,), KEEP), "every row of X along c becomes weights that add up to 1, 0 where M is 0"),
        (Split(Input("Y", (C, AB)), AB), "(a b) of Y becomes a, b"),
        (Join(X, (B, C)), "b, c of X become (b c)"),
        (Transpose(X, (C, B, A)), "a and c of X change places"),
        (Transpose(X, (C, A, B)), "X with its axes in another order"),
        (Transpose(X, (A, B, C)), "X as it is"),
        (Repeat(Input("y", (B,)), (A, B, C)), "y copied along a, c"),
        (Repeat(X, (B, A, C)), "a and b of X change places"),
        (Rename(X, A, axis("z", 2)), "axis a of X is read as axis z"),
        (
            Reshape(X, (axis("u", 10), axis("v", 3))),
            "raw reshape: the entries of X in row-major order, whatever the axes meant",
        ),
        (Permute(X, P), "position i of b is position pi(i) of X"),
        (Permute(X, P.inverse()), "position i of b is position pi⁻¹(i) of X"),
        (Select(X, B, 2), "X at b = 2"),
        (Select(X, A, R), "X at a = r"),
        (Stack(Select(X, A, R), R), "step 2 for all r, along the new axis a"),
        (Concat(Select(X, A, R), R, B), "step 2 for all r side by side: b becomes (a b)"),
        (Total(Select(X, A, R), R), "step 2 added up over all r"),
        (Blocks((Input("l", (PARTS[0],)), Input("m", (PARTS[1],))), PARTS), "l, m end to end along (p + q)"),
        (Block(Input("w", (C, WHOLE)), WHOLE, 1), "block q of axis (p + q) of w"),
        (Named(X, "Q"), "X under another name"),
    ],
)
def test_words(expr: Expr, text: str) -> None:
    assert said(expr) == text


def test_every_node_has_words() -> None:
    assert set(WORDS) == set(NODES)


def test_an_unknown_node_is_an_error() -> None:
    class Other(Expr):
        def _axes(self) -> tuple[Axis, ...]:
            return ()

    step = Step(number=1, operation="other", node=Other(), reads=(), inputs=(), axes=(), change=Change())
    with pytest.raises(NotImplementedError, match="Other has no row in mha_sym"):
        words(step, (step,))


def test_json_is_plain_data() -> None:
    d = dims()
    steps = trace(separate(d, self_inputs(d), head_weights(d)).y)
    found = json.loads(json.dumps(trace_json(steps, SIZES)))
    assert found["sizes"] == SIZES
    by_name = {step["name"]: step for step in found["steps"] if step["name"]}
    assert by_name["A^(r)"] == {
        "step": by_name["A^(r)"]["step"],
        "name": "A^(r)",
        "operation": "softmax",
        "reads": [by_name["S^(r)"]["step"]],
        "inputs": [[{"name": "b", "size": 2}, {"name": "t", "size": 5}, {"name": "s", "size": 5}]],
        "axes": [{"name": "b", "size": 2}, {"name": "t", "size": 5}, {"name": "s", "size": 5}],
        "changes": {"normalised": ["s"]},
        "for_each": [{"index": "r", "axis": "h", "size": 3}],
        "stages": [],
        "reason": "softmax over the keys",
        "what": "every row of S^(r) along s becomes weights that add up to 1",
    }
    rename = next(step for step in found["steps"] if step["operation"] == "rename")
    assert rename["changes"] == {"renamed": [{"old": "t", "new": "s"}]}


def test_json_keeps_symbolic_sizes_as_text() -> None:
    d = dims(h=3)
    first = trace_json(trace(Input("Y", (d.b, d.hk))))["steps"][0]
    assert first["axes"] == [{"name": "b", "size": "B"}, {"name": "(h k)", "size": "3·d_k"}]
    reshaped = trace_json(trace(Reshape(X, (axis("u", 10), axis("v", 3)))))["steps"][1]
    assert reshaped["changes"] == {"reread": True}


def test_a_size_of_zero_is_refused() -> None:
    d = dims()
    with pytest.raises(DataProblem, match="T = 0 is not a size"):
        trace_table(trace(Input("X", (d.b, d.t))), {"T": 0})
