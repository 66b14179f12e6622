"""Mutation of all of `mha_sym/proof/` that need not be trusted: small changes drawn from every file, tests run on each.

``python -m tests.soundness.sampled --most 400 [--files NAME]...`` draws as many changes from every file, writes each in
turn into a copy of the project, runs the tests of `TESTS` there, and prints how many were noticed, and which were not.
It fails below nine in ten, those in `EXPLAINED` aside.  The changes are those of `tests.soundness.mutation`, which
tries all of them on the trusted files.  A change under which the tests need four times the processor time, or that ends
the process, is noticed.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import importlib
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from tests.soundness.mutation import ROOT, TRUSTED, count, mutants

CLAIMS = "proof/test_controls.py::test_every_claim_is_proved_on_its_own"
SEARCH = ("proof/test_search.py", CLAIMS, "soundness/test_known.py", "proof/test_prover.py")
FIELD = ("proof/test_bounds.py", "proof/test_field.py", "proof/test_confront.py")
FILE = ("soundness/test_attacks.py", "proof/test_certificate_file.py")
#: the tests that a change of each file has to pass, the nearest first; the examples in it are tests, too
TESTS: dict[str, tuple[str, ...]] = {
    "balls": ("proof/test_refute.py",),
    "cancelling": SEARCH,
    "certificate_file": FILE,
    "collector": ("proof/test_refute.py",),
    "deferred": ("proof/test_deferred.py", "proof/test_witness.py"),
    "denominators": FIELD,
    "entry": ("proof/test_entry.py",),
    "exp_rational": ("proof/test_exp_rational.py", "proof/test_deferred.py"),
    "exponential_sums": FIELD,
    "field": FIELD,
    "field_facts": FIELD,
    "field_nodes": FIELD,
    "meaning": ("proof/test_meaning.py", CLAIMS, "proof/test_prover.py"),
    "monomial": SEARCH,
    "normal": SEARCH,
    "order": ("proof/test_order.py", *SEARCH),
    "prover": ("proof/test_confront.py", "soundness/test_confronted.py", *SEARCH),
    "reader": FILE,
    "recheck": FILE,
    "refute": ("proof/test_refute.py",), "smaller": ("proof/test_smaller.py", "proof/test_refute.py"),
    "rewrite": SEARCH,
    "schema": FILE,
    "theorem": ("proof/test_theorem.py", "proof/test_confront.py", "test_library.py"),
    "witness": ("proof/test_witness.py", "proof/test_confront.py"),
}
#: changes that no test can notice, and why, perhaps with the function; a test sees to it that there still are such
EXPLAINED: dict[str, dict[str, str]] = {
    "balls": dict.fromkeys(("128 -> 127", "128 -> 129"), "balls a bit narrower or wider"),
    "cancelling": {
        "if any((domain_key(a.domain) != domain_key(b.domain) for a, b in zip(o -> if False: continue":
            "saves work: keys of positions in other axes differ",
        "cancel_in_monomial: [(canonical_key(a, {}), free(a)) for a in atoms] if inverses else [] -> "
        "[(canonical_key(a, {}), free(a)) for a in atoms]": "saves work",
        "isinstance(a, Apply) and a.name == 'inv' -> isinstance(a, Apply)": "the law cancels nothing but inverses",
    },
    "deferred": {
        "one is node or one.number not in done -> one.number not in done": "a sum that has a value is that value",
        "0 -> -1": "counts work from another number, or takes the last of one argument for the first",
        "_roots: 2 -> 1": "where there are no roots any number will do",
    },
    "denominators": {"inverse: 0 -> -1": "a bound that is larger"},
    "entry": {
        "fold and isinstance(expr, Named) -> isinstance(expr, Named)": "what is not folded is opened later",
    },
    "exp_rational": {
        "0 -> -1": "counts work from another number",
        "Exponent(poly) if poly else self._nil -> Exponent(poly)": "saves an object",
        "__init__: 16 -> 15": "rings are a little smaller, and still large enough",
    },
    "exponential_sums": {
        "Gt -> GtE": "a limit of memory", "Mult -> Add": "a limit of memory", "1 -> 2": "other primes are drawn",
        "1 -> 0": "other primes are drawn", "0 -> 1": "a bound that is larger",
        "_keys: 31 -> 30": "mixes random numbers otherwise", "_keys: -1 -> 1": "the second axis is the last",
    },
    "field": {
        "_try: 8 -> 9": "one more draw where a number was zero by accident", "1 -> 2": "a bound that is larger",
        "__init__: self._groups |= dict.fromkeys((claim.name for claim in together), grou -> pass":
            "saves work: claims are compared one by one",
    },
    "field_facts": {
        "1 -> 0": "remembers the node for its number", "'node' -> 'nodex'": "marks what is remembered otherwise",
    },
    "field_nodes": {
        ":n + 1 -> :": "later axes are left out as later ones", "reversed(node.over) -> list(node.over)":
            "other random values stand for maxima",
    },
    "meaning": {
        "if letter and letter not in taken: return Var(letter, domain(axis)) -> "
        "if False: return Var(letter, domain(axis))": "letters for people",
        "_group: j: -> :": "axes of one position are left out before, so no rest is of one side alone",
    },
    "monomial": {
        "return rw.within(term, path, depth, 'guard', brackets=(first,), where= -> return None":
            "the next law guards a bracket by itself, too",
        "other != number and (not where) and (place != number) -> place != number": "what does not apply is not done",
    },
    "normal": {
        **dict.fromkeys(("_collect: 0 -> 1", "_collect: 0 -> -1"), "counts binders from another number"),
        "_mul: term if not isinstance(term, Bind | Add) else self.norm(term, path) -> self.norm(term, path)":
            "what is in normal form stays as it is",
    },
    "order": {
        **dict.fromkeys(
            ("'(' -> '(x'", "')' -> ')x'", "'#' -> '#x'", "_key: 'B' -> 'Bx'", "_colours: ':' -> ':x'",
             "_colours: '~' -> '~x'",
             "_key: '+' if isinstance(term, Add) else '*' -> '*' if isinstance(term, Add) else '+'"),
            "marks keys otherwise, and still apart",
        ),
        **dict.fromkeys(("canonical_key: 0 -> 1", "_key: 1 -> 2"), "counts binders from another number"),
        **dict.fromkeys(("nest_order: 1 -> 0", "nest_order: 2 -> 1"), "saves work: of one variable there is one order"),
        **dict.fromkeys(
            (f"_colours: flat_args(body) if isinstance(body, Mul) else (body,) -> {other}"
             for other in ("(body,)", "(body,) if isinstance(body, Mul) else flat_args(body)")),
            "colours as fine, of longer texts",
        ),
    },
    "prover": {"BitOr -> BitAnd": "asked only where both are alike"},
    "refute": {
        "refute: 4 -> 3": "tries less if nothing is said", "first_sizes: 40 -> 39": "there are more sizes than needed",
        "possible: 0 -> -1": "zero is itself, and so is any other number", "possible: 3 -> 2": "tries less",
        "possible: 0 -> 1": "tries other values", "possible: 1000 -> 1001": "tries more",
        "draw: 1 -> 2": "other masks are drawn",
    },
}  # fmt: skip
#: what takes long and finds no more
SLOW = "not fraction_of_finding and not every_kind_of_value and not explosion and not written_read_and_accepted"
#: loaded before a process is split off for each change; nothing of the project
LOADED = ("numpy", "sympy", "hypothesis", "pytest", "einops", "click", "flint")
LIMIT, MEMORY = 4, 4 << 30


def source_of(name: str) -> str:
    """The text of a file."""
    return (ROOT / "mha_sym" / "proof" / f"{name}.py").read_text(encoding="utf-8")


def functions(source: str) -> dict[int, str]:
    """The name of the innermost function around each line."""
    found: dict[int, str] = {}
    for node in ast.walk(ast.parse(source)):  # from the outside
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            found |= dict.fromkeys(range(node.lineno, node.end_lineno + 1), node.name)
    return found


def spoken(line: int, change: str, where: dict[int, str]) -> set[str]:
    """How a change may be called in `EXPLAINED`."""
    return {change, f"{where[line]}: {change}"}


def drawn(name: str, wanted: int) -> list[tuple[int, str, str]]:
    """Line, change and changed source of so many changes of a file, no two alike and none that is explained."""
    source, known = source_of(name), set(EXPLAINED.get(name, {}))
    where, order = functions(source), list(range(count(source)))
    Random(name).shuffle(order)
    found = {(line, change): text for line, change, text in mutants(source, set(order[: 2 * wanted]))}
    return [(*one, text) for one, text in found.items() if not known & spoken(*one, where)][:wanted]


class Copy:
    """A copy of the project, in which one file at a time is changed."""

    def __init__(self, place: str) -> None:
        self.root = Path(tempfile.mkdtemp(dir=place))
        for part in ("mha_sym", "tests", "proofs", "docs"):
            shutil.copytree(ROOT / part, self.root / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / file, self.root / file)
        compileall.compile_dir(self.root, quiet=2, workers=1)

    def survives(self, name: str, text: str, limit: float) -> tuple[bool, float]:
        """Whether all tests of a file pass on a changed text, and the seconds of the processor that took."""
        file = self.root / "mha_sym" / "proof" / f"{name}.py"
        before = file.read_text(encoding="utf-8")
        compiled = list((file.parent / "__pycache__").glob(f"{name}.*.pyc"))
        for one in compiled:
            one.unlink()
        file.write_text(text, encoding="utf-8")
        try:
            return self._passes(TESTS[name], f"mha_sym/proof/{name}.py", limit)
        finally:
            file.write_text(before, encoding="utf-8")

    def _passes(self, tests: tuple[str, ...], examples: str, limit: float) -> tuple[bool, float]:
        child = os.fork()
        if child == 0:
            os._exit(self._child([examples, *(f"tests/{one}" for one in tests)], limit))
        _, status, used = os.wait4(child, 0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it left behind
        return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, used.ru_utime + used.ru_stime

    def _child(self, files: list[str], limit: float) -> int:
        os.setsid()
        os.chdir(self.root)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        sys.path[0], sys.dont_write_bytecode = str(self.root), True
        for module in [one for one in sys.modules if one.split(".")[0] in ("tests", "mha_sym")]:
            del sys.modules[module]
        os.environ |= {"CI": "1", "PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        pytest = importlib.import_module("pytest")
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "slow or not slow", "-k", SLOW,
                   "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was loaded before  # fmt: skip
        try:
            return int(pytest.main([*options, *files]))
        except BaseException:  # noqa: BLE001 - whatever it is, it was noticed
            return 1


_copies: list[Copy] = []


def _start(place: str) -> None:
    for module in LOADED:
        importlib.import_module(module)
    _copies.append(Copy(place))


def tried(task: tuple[str, int]) -> tuple[str, int, int, float]:
    """How many changes of a file there were, how many no test noticed, which it tells, and the seconds of the tests."""
    name, wanted = task
    source = source_of(name)
    where = functions(source)
    passes, seconds = _copies[0].survives(name, source, 600)
    assert passes, f"the tests of {name} fail on what is not changed"
    left, some = 0, drawn(name, wanted)
    for line, change, text in some:
        if _copies[0].survives(name, text, LIMIT * seconds + 5)[0]:
            left += 1
            print(f"  not noticed: {name}.py:{line}, {where[line]}: {change}", flush=True)
    return name, len(some), left, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=400)
    parser.add_argument("--files", nargs="*", choices=list(TESTS), default=list(TESTS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    files = [name for name in given.files if count(source_of(name))][: given.most]  # tables have nothing to change
    tasks = [(name, -(-given.most // len(files))) for name in files]
    spawn = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as place, spawn.Pool(given.jobs, _start, (place,)) as pool,
        contextlib.suppress(KeyboardInterrupt),  # what was tried until Ctrl-C is told
    ):  # fmt: skip
        for name, number, left, seconds in pool.imap_unordered(tried, tasks, chunksize=1):
            print(f"  {name}: {number - left} of {number} noticed; its tests take {seconds:.1f} s", flush=True)
            found += Counter(tried=number, noticed=number - left)
    share = found["noticed"] / max(found["tried"], 1)
    print(f"{found['tried']} small changes of the rest of proof/: {found['noticed']} noticed, {share:.1%}")
    return int(share < 0.9)


def untested() -> set[str]:
    """Files of the package that no test is named for here, nor in `tests.soundness.mutation`."""
    files = {one.stem for one in (ROOT / "mha_sym" / "proof").glob("*.py")}
    return files - set(TESTS) - set(TRUSTED) - {"__init__"}


if __name__ == "__main__":
    sys.exit(main())
