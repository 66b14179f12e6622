"""The ledger of the kernel: for each rule the law behind it, how long that is, and the lemmas of Coq that prove it.

Defines `Row` and `ledger`, which reads all of it from the code, so that it cannot go stale.  Nothing is proved here.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from mha_sym.export.coq_rules import SCRIPTS
from mha_sym.library import proofs_directory
from mha_sym.proof.rules import RULES


@dataclass(frozen=True)
class Row:
    """A rule: the function that is the law, its lines of code, and the lemmas that its steps use in Coq.

    Several rules may be one law under names that say to a reader what it does; a rule without lemmas is computation.
    """

    rule: str
    law: str
    lines: int
    lemmas: tuple[str, ...]


def ledger() -> tuple[Row, ...]:
    """A row for each rule of the kernel, in its order.

    Example:
        >>> [(row.law, row.lemmas) for row in ledger() if row.rule == "exchange"]
        [('linear', ('exchange',))]
    """
    proved = (proofs_directory() / "coq" / "rules.v").read_text(encoding="utf-8")
    lemmas = dict.fromkeys(re.findall(r"^Lemma (\w+)", proved, re.MULTILINE))
    rows = []
    for rule, law in RULES.items():
        said = {word for text in _texts(SCRIPTS[rule], set()) for word in re.findall(r"\w+", text)}
        used = tuple(name for name in lemmas if name in said or name.startswith(f"{rule}_"))
        rows.append(Row(rule, law.__name__, _lines(law), used))
    return tuple(rows)


def _texts(function: Callable[..., Any], seen: set[str]) -> Iterator[str]:
    """The texts in a function and in those that it calls in the same file: what it may write for Coq."""
    tree = ast.parse(dedent(inspect.getsource(function)))
    prose = ast.get_docstring(tree.body[0], clean=False) if isinstance(tree.body[0], ast.FunctionDef) else None
    seen.add(function.__name__)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != prose:
            yield node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in seen:
            called = function.__globals__.get(node.func.id)
            if inspect.isfunction(called) and called.__module__ == function.__module__:
                yield from _texts(called, seen)


def _lines(function: Callable[..., Any]) -> int:
    """Lines of code, the docstring and comments left out."""
    source = dedent(inspect.getsource(function))
    prose = inspect.getdoc(function) or ""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in source.splitlines()) - len(
        prose.splitlines()
    )
