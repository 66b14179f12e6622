"""Sizes written as text, as frameworks print them: ``4*B``, ``T^2 + 1``, ``floordiv(D, 2)``.

Defines `read_size`.  Only sums, differences, products, powers and exact quotients are read; nothing is evaluated.
"""

from __future__ import annotations

import functools
import re
from typing import NoReturn

import sympy

from mha_sym.axes import size_symbol
from mha_sym.errors import Problem
from mha_sym.importers.sizes import quotient

_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d]\w*)|(\*\*|//|[-+*/^(),]))")
_LONGEST = 400
_DEEPEST = 20
_TERMS = 64
_LARGEST = 1 << 62


@functools.lru_cache(maxsize=4096)
def read_size(text: str) -> sympy.Expr:
    """The size that a text says; a word is a symbol.

    Raises:
        Problem: for a text that is no size, or a quotient that is not one for all sizes.

    Example:
        >>> read_size("4*B + T^2 - 1"), read_size("floordiv(6*d, 2)")
        (4*B + T**2 - 1, 3*d)
    """
    reader = _Reader(text)
    value = reader.sum()
    if reader.tokens:
        reader.refuse()
    return sympy.expand(value)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None or len(text) > _LONGEST:
                self.refuse()
            self.tokens.append(found.group().strip())
            at = found.end()

    def refuse(self) -> NoReturn:
        raise Problem(
            f"{self.text[:_LONGEST]!r} is not read as a size",
            expected="sums and products of whole numbers and names, and quotients that divide for all sizes",
        )

    def taken(self, *wanted: str) -> str:
        """The next token if it is one of these."""
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else ""

    def sum(self) -> sympy.Expr:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.refuse()
        value = -self.product() if self.taken("-") else self.product()
        while sign := self.taken("+", "-"):
            value = value + self.product() if sign == "+" else value - self.product()
        self.depth -= 1
        return value

    def product(self) -> sympy.Expr:
        value = self.power()
        while sign := self.taken("*", "//", "/"):
            other = self.power()
            value = self.times(value, other) if sign == "*" else self.divided(value, other)
        return value

    def times(self, one: sympy.Expr, other: sympy.Expr) -> sympy.Expr:
        if len(sympy.Add.make_args(one)) * len(sympy.Add.make_args(other)) > _TERMS:
            self.refuse()
        return self.bounded(sympy.expand(one * other))

    def bounded(self, value: sympy.Expr) -> sympy.Expr:
        """The same; a text from outside is not to make numbers of any length."""
        if value.is_Integer and abs(value) > _LARGEST:
            self.refuse()
        return value

    def power(self) -> sympy.Expr:
        value = self.atom()
        if self.taken("^", "**"):
            exponent = self.atom()
            if not (value.is_Atom and exponent.is_Integer and 0 <= exponent <= 8):
                self.refuse()
            value = self.bounded(value**exponent)
        return value

    def atom(self) -> sympy.Expr:
        token = self.tokens.pop(0) if self.tokens else ""
        if token.isdigit():
            return self.bounded(sympy.Integer(token))
        if token == "(":
            value = self.sum()
            self.closed()
            return value
        if not token.isidentifier():
            self.refuse()
        if not self.taken("("):
            return size_symbol(token)
        arguments = [self.sum()]
        while self.taken(","):
            arguments.append(self.sum())
        self.closed()
        if token != "floordiv" or len(arguments) != 2:
            self.refuse()
        return self.divided(*arguments)

    def closed(self) -> None:
        if not self.taken(")"):
            self.refuse()

    def divided(self, value: sympy.Expr, by: sympy.Expr) -> sympy.Expr:
        found = quotient(value, by)
        if found is None:
            self.refuse()
        return found
