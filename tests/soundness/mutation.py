"""Mutation of the trusted files: every small change to their source that no test notices, for somebody to explain.

``python -m tests.soundness.mutation [terms|scope|rules|checker]...`` changes the source in one place at a time, runs
the tests of `FILES` on the changed kernel in a process of its own, and prints how many changes were noticed and each
that was not.  Tests without random draws come first; those with draws, few of them, see only what the first let pass.
A mutant that runs for longer than `SECONDS` counts as noticed, as a test run without end would be.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import inspect
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
TRUSTED = ("terms", "scope", "rules", "checker")
#: the tests that a mutant of each file has to pass, the nearest first
FILES = {
    "terms": ("test_terms", "test_rules", "test_scope", "test_checker"),
    "scope": ("test_scope", "test_rules", "test_checker"),
    "rules": ("test_rules", "test_checker"),
    "checker": ("test_checker", "test_rules"),
}
SECONDS, EXAMPLES = 120, 4
#: a test of the messages in the source, not of what the source does, and one that takes long and finds no more
LEFT_OUT = {"test_every_side_condition_is_run_into", "test_most_single_changes_of_steps_are_rejected"}

#: line, what stands there, what is put there, and what makes the changed source
Change = tuple[int, Any, Any, Callable[[], str]]
SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt), ast.GtE: (ast.Gt, ast.LtE), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.And: (ast.Or,), ast.Or: (ast.And,), ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,), ast.Mult: (ast.Add,), ast.FloorDiv: (ast.Mult,), ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,), ast.Div: (ast.Mult,),
}  # fmt: skip
CALLS = {"all": "any", "any": "all", "sorted": "list", "reversed": "list", "children": "fields", "set": "list"}


# ---------------------------------------------------------------- changes


def mutants(source: str, wanted: Container[int] | None = None) -> Iterator[tuple[int, str, str]]:
    """Line, what is changed, and the changed source, for every change; or for those of some numbers."""
    for number, (line, before, after, make) in enumerate(_every(ast.parse(source))):
        if wanted is None or number in wanted:
            text = make()
            yield line, f"{_shown(before, before)} -> {_shown(after, before)}", text


def changes(source: str) -> set[tuple[int, str]]:
    """Line and words of every change, as `mutants` names it."""
    every = _every(ast.parse(source))
    return {(line, f"{_shown(before, before)} -> {_shown(after, before)}") for line, before, after, _ in every}


def count(source: str) -> int:
    """How many changes there are."""
    return sum(1 for _ in _every(ast.parse(source)))


def _every(tree: ast.Module) -> Iterator[Change]:
    prose = {id(node.body[0]) for node in ast.walk(tree) if hasattr(node, "body") and _has_docstring(node)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        said = {id(inner) for node in ast.walk(function) for inner in _annotations(node)}
        for node in ast.walk(function):
            if node is not function and not isinstance(node, ast.FunctionDef) and id(node) not in said:
                yield from _changes(tree, node, prose)


def _annotations(node: ast.AST) -> Iterator[ast.AST]:
    """What decides nothing: types, sizes of caches, messages, and that lists zipped are equally long, as they are."""
    for one in getattr(node, "decorator_list", []):
        yield from ast.walk(one)
    if isinstance(node, ast.JoinedStr) and any(" " in getattr(one, "value", "") for one in _texts(node)):
        yield from ast.walk(node)
    for one in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        if isinstance(one, ast.AST):
            yield from ast.walk(one)
    if isinstance(node, ast.keyword) and node.arg == "strict":
        yield from ast.walk(node)


def _texts(node: ast.JoinedStr) -> list[ast.Constant]:
    return [one for one in node.values if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _has_docstring(node: Any) -> bool:
    body = node.body
    return isinstance(body, list) and bool(body) and isinstance(body[0], ast.Expr) and isinstance(
        body[0].value, ast.Constant
    )


def _changes(tree: ast.Module, node: ast.AST, prose: set[int]) -> Iterator[Change]:
    """The source with each child of a node exchanged for something near."""
    if id(node) in prose:
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "args", "type_comment") and not isinstance(node, ast.Call):
            continue
        items = value if isinstance(value, list) else [value]
        for number, item in enumerate(items):
            if id(item) in prose or (isinstance(node, ast.Call) and _is_words(node, item)):
                continue
            for new in _near(item):
                change = partial(_changed_text, tree, node, name, number, isinstance(value, list), new, item)
                yield getattr(item, "lineno", getattr(node, "lineno", 0)), item, new, change


def _changed_text(
    tree: ast.Module, node: ast.AST, name: str, number: int, many: bool, new: Any, item: Any
) -> str:
    """The source with one thing changed; the tree is as before."""
    _put(node, name, number, many, new)
    try:
        return ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree)))
    finally:
        _put(node, name, number, many, item)


def _is_words(call: ast.Call, item: Any) -> bool:
    """The words of a refusal decide nothing."""
    named = isinstance(call.func, ast.Name) and call.func.id in ("need", "TermError", "Rejected")
    return named and isinstance(item, (ast.Constant, ast.JoinedStr))


def _shown(node: Any, old: Any) -> str:
    """Something as it stands in the source, in short."""
    text = ast.unparse(node) if isinstance(node, ast.AST) and hasattr(old, "lineno") else str(node)
    return type(node).__name__ if text.startswith("<") else " ".join(text.split())[:70]


def _put(node: ast.AST, name: str, number: int, many: bool, new: Any) -> None:
    if many:
        getattr(node, name)[number] = new
    else:
        setattr(node, name, new)


def _near(node: Any) -> Iterator[Any]:
    """What may stand in the place of a node by mistake."""
    for other in SWAPS.get(type(node), ()):
        yield other()
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=str(value)) if value and " " not in value:  # words for people decide nothing
            yield ast.Constant(f"{value}x")
        case ast.UnaryOp(op=ast.Not(), operand=inner) | ast.UnaryOp(op=ast.USub(), operand=inner):
            yield inner
        case ast.BoolOp(values=values):
            yield from values
        case ast.IfExp(test, body, other):
            yield from (ast.IfExp(test, other, body), body, other)
        case ast.Call(func=ast.Name(id=name), args=args) if name in CALLS and len(args) == 1:
            yield ast.Call(ast.Name(CALLS[name]), args, node.keywords)
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()
        case ast.If(test, body, other):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, other)
            yield from [ast.If(ast.Constant(False), body, other)]
        case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.match_case(pattern, guard, body):
            if guard is not None:
                yield ast.match_case(pattern, None, body)
            yield ast.match_case(pattern, ast.Constant(False), body)
        case ast.comprehension(target, iterable, [_, *_] as conditions, is_async):
            yield ast.comprehension(target, iterable, conditions[1:], is_async)
        case ast.Slice(lower, upper, step):
            if lower or upper:
                yield ast.Slice(None, None, step)


# ---------------------------------------------------------------- running tests on a changed kernel


def changed(name: str, text: str) -> None:
    """Put the functions of a changed source in the place of the old ones, wherever they were imported."""
    old = sys.modules[f"mha_sym.proof.{name}"]
    new = ModuleType(old.__name__)
    sys.modules[new.__name__] = new  # where dataclasses look for it
    exec(compile(text, name, "exec"), new.__dict__)
    sys.modules[new.__name__] = old
    swap: dict[int, Any] = {}
    for called, value in list(vars(old).items()):
        made = new.__dict__.get(called)
        if isinstance(value, type):  # one class of each kind: others were made before
            new.__dict__[called] = value
        elif callable(value) and getattr(value, "__module__", "") == old.__name__:
            swap[id(value)] = made
    for called, value in list(vars(new).items()):
        if isinstance(value, dict) and called != "__builtins__":
            kept = {_same(old, key): _same(old, one) for key, one in value.items()}
            value.clear()
            value.update(kept)
        elif isinstance(value, tuple):
            new.__dict__[called] = tuple(_same(old, one) for one in value)
    for module in [m for n, m in sys.modules.items() if n.startswith(("mha_sym.proof.", "tests.proof."))]:
        for called, value in list(vars(module).items()):
            if id(value) in swap:
                setattr(module, called, swap[id(value)])
    if name == "rules":
        old.RULES.clear()
        old.RULES.update(new.RULES)
    for function in vars(old).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def _same(old: ModuleType, value: Any) -> Any:
    """A class of the old source for one of the same name; anything else is itself."""
    return getattr(old, value.__name__, value) if isinstance(value, type) else value


def cases(module: ModuleType, random: bool) -> Iterator[Callable[[], Any]]:
    """The tests of a module, one for each set of parameters; those with random draws or those without."""
    for name, test in list(vars(module).items()):
        if not name.startswith("test_") or name in LEFT_OUT or hasattr(test, "hypothesis") != random:
            continue
        rows: list[dict[str, Any]] = [{}]
        for mark in (m for m in getattr(test, "pytestmark", []) if m.name == "parametrize"):
            names = mark.args[0] if isinstance(mark.args[0], (tuple, list)) else [mark.args[0]]
            values = [v if len(names) > 1 else (v,) for v in mark.args[1]]
            rows = [{**row, **dict(zip(names, value, strict=True))} for row, value in itertools.product(rows, values)]
        wanted = set() if random else set(inspect.signature(test).parameters)
        for row in rows:
            if wanted <= set(row):
                yield lambda test=test, row=row: test(**row)


def survives(name: str, text: str, loaded: Sequence[ModuleType], random: bool) -> bool:
    """Whether all tests pass on a changed file; asked in a process that ends afterwards."""
    try:
        changed(name, text)
        for module in loaded:
            for case in cases(module, random):
                case()
    except BaseException:  # noqa: BLE001 - whatever it is, it was noticed
        return False
    return True


def ends(name: str, text: str, loaded: Sequence[ModuleType], random: bool) -> str:
    """How a mutant ends: ``noticed``, also where it does not end by itself, or ``survived``."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the process ends
        signal.alarm(SECONDS)
        os._exit(1 if survives(name, text, loaded, random) else 0)
    _, status = os.waitpid(child, 0)
    return "survived" if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1 else "noticed"


def run(name: str, every: int = 1, draws: bool = True) -> tuple[int, list[tuple[int, str]]]:
    """How many mutants of a file there are, and those that no test noticed: line and change."""
    source = (ROOT / "mha_sym" / "proof" / f"{name}.py").read_text(encoding="utf-8")
    loaded = [importlib.import_module(f"tests.proof.{one}") for one in FILES[name]]
    assert ends(name, source, loaded, False) == "survived", "the tests fail on what is not changed"
    found, count = [], 0
    for line, change, text in itertools.islice(mutants(source), 0, None, every):
        count += 1
        kinds = (False, True) if draws else (False,)
        if all(ends(name, text, loaded, random) == "survived" for random in kinds):
            found.append((line, change))
            print(f"  {name}.py:{line}: {change}", flush=True)
    return count, found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print survivors and the share of mutants that were noticed; 1 if it is below 90 %."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", choices=[*TRUSTED, []], default=list(TRUSTED))
    parser.add_argument("--every", type=int, default=1, help="Try every N-th mutant only.")
    parser.add_argument("--no-draws", action="store_true", help="Leave out the tests with random draws.")
    options = parser.parse_args(arguments)
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "few", max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    settings.load_profile("few")
    importlib.import_module("tests.proof.test_checker").proofs()  # found once, for all mutants

    total = left = 0
    for name in options.files:
        start = time.perf_counter()
        count, found = run(name, options.every, not options.no_draws)
        total, left = total + count, left + len(found)
        print(f"{name}: {count - len(found)} of {count} noticed, {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{total} small changes of the trusted files: {total - left} noticed, {(total - left) / max(total, 1):.1%}")
    return 0 if total - left >= 0.9 * total else 1


if __name__ == "__main__":
    raise SystemExit(main())
