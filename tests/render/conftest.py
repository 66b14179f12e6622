"""What tests of derivations share: the theorems with what was proved of them, and plain loops that evaluate terms."""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from mha_sym.library import load, theorem_names
from mha_sym.proof.prover import prove
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    Var,
)
from mha_sym.proof.theorem import Report
from mha_sym.render.computed.line_check import check_lines
from mha_sym.render.derivation import Derivation, derivation

#: far apart, and none of them 1
SIZES = {"B": 8, "T": 4, "S": 5, "d_model": 2, "h": 3, "d_k": 6, "d_v": 7, "n": 3, "p": 2, "q": 3, "e": 5, "d": 10}


@dataclass
class Values:
    """Evaluates terms by loops: entries of given tensors are random, drawn once for each place."""

    context: Context = field(default_factory=Context)
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    seed: int = 0
    exact: bool = False

    def __post_init__(self) -> None:
        self.known: dict[tuple[str, tuple[int, ...]], Any] = {}
        self.orders: dict[str, list[int]] = {}

    def size(self, domain: Domain) -> int:
        return int(self.term(domain.size, {}))

    def number(self, index: Index, at: Mapping[str, int]) -> int:
        match index:
            case Var(name, _):
                return at[name]
            case At(number):
                return number
            case Join(domain, parts):
                return self.flat([self.number(p, at) for p in parts], domain.factors)
            case Part(inner, domain, number):
                return self.split(self.number(inner, at), domain.factors)[number]
            case Inj(inner, domain, number):
                return sum(map(self.size, domain.blocks[:number])) + self.number(inner, at)
            case Perm(name, inverse, inner):
                order = self.order(name, self.context.bijections[name])
                place = self.number(inner, at)
                return order.index(place) if inverse else order[place]

    def flat(self, places: list[int], shape: tuple[Domain, ...]) -> int:
        number = 0
        for place, domain in zip(places, shape, strict=True):
            number = number * self.size(domain) + place
        return number

    def split(self, number: int, shape: tuple[Domain, ...]) -> list[int]:
        found = []
        for domain in reversed(shape):
            number, digit = divmod(number, self.size(domain))
            found.append(digit)
        return found[::-1]

    def order(self, name: str, domain: Domain) -> list[int]:
        if name not in self.orders:
            self.orders[name] = random.Random(f"{self.seed}{name}").sample(range(self.size(domain)), self.size(domain))
        return self.orders[name]

    def entry(self, name: str, place: tuple[int, ...]) -> Any:
        if (name, place) not in self.known:
            self.known[name, place] = self._entry(name, place)
        return self.known[name, place]

    def _entry(self, name: str, place: tuple[int, ...]) -> Any:
        definition = self.context.definitions.get(name)
        if definition is not None:
            return self.term(definition.body, {v.name: n for v, n in zip(definition.params, place, strict=True)})
        if name in self.context.tables:
            return self.context.tables[name][place]
        drawn = random.Random(f"{self.seed}{name}{place}")
        if name in self.context.booleans:
            return 1 if place[-1] == 0 else drawn.randint(0, 1)  # every row keeps a key
        return Fraction(drawn.randint(-9, 9), 7) if self.exact else drawn.uniform(-1, 1)

    def term(self, term: Term, at: Mapping[str, int]) -> Any:
        match term:
            case Num(value):
                return value if self.exact else float(value)
            case Size(name, power):
                base = int(name) if name.isdigit() else self.sizes[name]
                if not self.exact:
                    return base ** float(power)
                if power.denominator == 1:
                    return Fraction(base) ** int(power)
                root = math.isqrt(base)
                assert root * root == base
                return Fraction(root) ** int(2 * power)
            case Entry(name, places):
                return self.entry(name, tuple(self.number(p, at) for p in places))
            case Cmp(op, left, right, offset):
                here, there = self.number(left, at), self.number(right, at) + offset
                return int(here <= there if op == "le" else here == there)
            case Add(args):
                return sum((self.term(a, at) for a in args), Fraction(0) if self.exact else 0.0)
            case Mul(args):
                return math.prod((self.term(a, at) for a in args), start=Fraction(1) if self.exact else 1.0)
            case Bind(op, var, body):
                every = [self.term(body, {**at, var.name: n}) for n in range(self.size(var.domain))]
                return sum(every) if op == "sum" else max(every)
            case Apply("inv", arg):
                value = self.term(arg, at)
                return 1 / value if value else value
            case Apply(name, arg):
                return self.function(name, self.term(arg, at))

    def function(self, name: str, value: Any) -> Any:
        if not self.exact:
            return math.exp(value)
        return Fraction(random.Random(f"{self.seed}{name}{value}").randint(1, 10**6), 997)

    def places(self, variables: tuple[Var, ...]) -> list[dict[str, int]]:
        """A few tuples of positions of some variables."""
        ranges = [range(self.size(v.domain)) for v in variables]
        drawn = random.Random(self.seed)
        every = [tuple(drawn.choice(r) for r in ranges) for _ in range(3)]
        return [{v.name: n for v, n in zip(variables, place, strict=True)} for place in itertools.islice(every, 3)]


@pytest.fixture
def values() -> type[Values]:
    """The class that evaluates terms."""
    return Values


@pytest.fixture(scope="session")
def proved() -> Callable[[str], Report]:
    """What is known of a theorem, found out once."""
    known: dict[str, Report] = {}

    def find(name: str) -> Report:
        if name not in known:
            known[name] = prove(load(name), recheck=False)
        return known[name]

    return find


@pytest.fixture(scope="session", params=theorem_names())
def report(request: pytest.FixtureRequest, proved: Callable[[str], Report]) -> Report:
    """Every theorem in turn."""
    return proved(request.param)


@pytest.fixture(scope="session")
def shown(report: Report) -> Derivation:
    """The derivation of every theorem in turn."""
    return derivation(report)


@pytest.fixture
def checking(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of the processor that go into computing lines, which is checking as proving is."""
    spent = [0.0]

    def timed(*given: Any) -> Any:
        start = time.process_time()
        found = check_lines(*given)
        spent[0] += time.process_time() - start
        return found

    monkeypatch.setattr("mha_sym.render.derivation.check_lines", timed)
    return spent


@pytest.fixture(scope="session")
def browser() -> Any:
    """The module that runs a browser; tests are no package, so it is loaded from its file."""
    spec = importlib.util.spec_from_file_location("browser", Path(__file__).parent / "browser.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.CHROMIUM is None:
        pytest.skip("no Chromium")
    return module
