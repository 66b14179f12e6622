"""Inputs as an attacker would send them: valid ones changed in a few places, and what readers are known to trip over.

Defines strategies: `texts`, `json_values`, `changed_json` and `changed_bytes`.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

#: numbers at the edge of every format
NUMBERS = (
    0, 1, -1, 2, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**12,
    10**13, 10**400, 0.5, -0.0, 1e308, 1e-320, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
#: texts that mean something somewhere
TEXTS = (
    "", " ", "\n", "\x00", "\x1b[2J", "\u202e", "\ud800", "\U0001f600", "__import__('os').system('id')",
    "../../etc/passwd", "/etc/passwd", "file:///etc/passwd", "%s%n", "{0.__class__}", "{{}}", "$(id)", "`id`",
    "\\input{x}", "<script>", "a" * 300, "(" * 200, "b t (h k) -> b h t k", "(h (k", "->", "b b", "1", "-1", "1e9",
    "0x10", "inf", "nan", "None", "true", "__class__", "exp", "sum", "h", "h*d_k", "9" * 5000,
)  # fmt: skip

#: what readers of text are known to trip over: long numbers, deep nesting, numbers that are none
FRAGMENTS = (b"9" * 5000, b"[" * 20_000, b'{"a":' * 5000, b"NaN", b"-Infinity", b"1e400", b"\xff", b"\\ud800", b"\0")

texts = st.one_of(st.sampled_from(TEXTS), st.text(max_size=20))
numbers = st.one_of(st.sampled_from(NUMBERS), st.integers(-5, 20), st.integers())
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
json_values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=6,
)


@st.composite
def deep(draw: st.DrawFn) -> Any:
    """A value nested more deeply than recursion goes, or not quite."""
    value, lists = draw(leaves), draw(st.booleans())
    for _ in range(draw(st.sampled_from([3, 60, 130, 400]))):
        value = [value] if lists else {"a": value}
    return value


@st.composite
def changed_json(draw: st.DrawFn, valid: Any) -> Any:
    """A valid document with one to three things put in, taken out, doubled or exchanged somewhere."""
    found = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        found = _changed(draw, found, draw(st.integers(0, 12)))
    return found


def _changed(draw: st.DrawFn, value: Any, depth: int) -> Any:
    if depth and isinstance(value, dict) and value:
        name = draw(st.sampled_from(list(value)))
        return {**value, name: _changed(draw, value[name], depth - 1)}
    if depth and isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _changed(draw, value[at], depth - 1), *value[at + 1 :]]
    match draw(st.sampled_from(["other", "other", "without", "twice", "turned", "deep"])):
        case "without" if isinstance(value, dict | list) and value:
            return _without(draw, value)
        case "twice" if isinstance(value, list):
            return value + value
        case "turned" if isinstance(value, list):
            return value[::-1]
        case "deep":
            return draw(deep())
    return draw(_near(value))


def _without(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, list):
        at = draw(st.integers(0, len(value) - 1))
        return value[:at] + value[at + 1 :]
    gone = draw(st.sampled_from(list(value)))
    return {name: one for name, one in value.items() if name != gone}


def _near(value: Any) -> st.SearchStrategy[Any]:
    """Values that may pass for a value."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return json_values
    if isinstance(value, int):
        return st.one_of(numbers, st.integers(value - 3, value + 3), json_values)
    return st.one_of(texts, st.just(value + "x"), st.just(value[1:]), st.just(value.upper()), json_values)


@st.composite
def changed_bytes(draw: st.DrawFn, valid: bytes) -> bytes:
    """Bytes cut off, doubled, inserted, or exchanged at a few places."""
    found = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(found)))
        match draw(st.sampled_from(["flip", "flip", "cut", "insert", "remove", "repeat", "fragment"])):
            case "flip" if at < len(found):
                found[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del found[at:]
            case "insert":
                found[at:at] = draw(st.binary(max_size=9))
            case "fragment":
                found[at:at] = draw(st.sampled_from(FRAGMENTS))
            case "remove":
                del found[at : at + draw(st.integers(1, 40))]
            case "repeat":
                found[at:at] = found[at : at + draw(st.integers(1, 400))]
    return bytes(found)
