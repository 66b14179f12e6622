"""Faults as data: what people get wrong in attention, each as an edit of the correct form.

Defines `Fault`, and the catalogue `faults`, `symmetries` and `find_fault`; the entries themselves are in
`mha_sym.audit.catalogue`, one file a family.  A fault is an expression like any other: it is evaluated, written and
refuted by the same code as the correct form.  Whether an implementation has one is decided in
`mha_sym.audit.diagnosis.diagnose`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import chain

import sympy

from mha_sym.attention.dims import Dims, Weights
from mha_sym.attention.forms import Options, Stages
from mha_sym.audit.recipe import SLOTS, Edits, Site, build, site
from mha_sym.axes import axis
from mha_sym.errors import Problem
from mha_sym.expr import Expr

#: the families, in the order of the computation; each is a module of `mha_sym.audit.catalogue`
FAMILIES: tuple[str, ...] = (
    "heads", "inputs", "weights", "biases", "split", "kv_heads", "scale", "causal", "mask", "softmax", "values", "join",
    "pointwise",
)  # fmt: skip

#: the family of faults of rotary positions, which are looked for where there are some
POSITIONS = "rotary"

#: coinciding sizes: which size equals which other, or which product of two
Ties = Mapping[str, str | tuple[str, str]]

#: the coincidences that faults need, in the order in which they are put into axes
TIES: tuple[tuple[str, str | tuple[str, str]], ...] = (
    ("B", "h"), ("T", "h"), ("S", "T"), ("d_v", "d_k"), ("d_model", ("h", "d_k")), ("d_model", ("h", "d_v")),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Fault:
    """One thing that is done wrong, or differently with the same result.

    Attributes:
        name: snake_case; says what is done.
        words: what is done, in one sentence.
        symptom: what people see.
        mend: what should stand there: an einops pattern, or one line of a formula.
        step: the step of the audit that it belongs to, 1 to 9.
        stage: the first stage that comes out different.
        edits: what stands in which slot of the recipe instead (`mha_sym.audit.recipe.SLOTS`).
        needs: what must be there for it to be possible: ``causal``, ``padding``, ``additive``, ``keep`` (any mask of
            kept keys), ``masked`` (any mask), ``b_q``..., ``self``, ``cross``, ``groups``; or must not: ``unmasked``,
            ``unpadded``, ``uncausal``, ``ungrouped``, ``unturned`` (no ``rotary`` positions); ``from_the_end``: the
            causal mask counts from the last key.
        ties: sizes that must coincide for the code to run at all, such as ``{"d_model": ("h", "d_k")}``.
        theorem: for what is the same function, the theorem that says so; empty for a fault.
        family: which part of the catalogue it is in.
        random: whether it makes the output random, so that no output can be reproduced.
        at_sizes: whether it is built at sizes that are numbers only, those of a run.
        alone: whether it is looked for by itself only, not together with others: a variant that is rare.
        meant: what it is in a few words, where it is no fault if it is meant.

    Example:
        >>> find_fault("scale_missing").mend
        'scores = q @ k.swapaxes(-1, -2) / d_k**0.5'
    """

    name: str
    words: str
    symptom: str
    mend: str
    step: int
    stage: str
    edits: Edits = field(repr=False)
    needs: tuple[str, ...] = ()
    ties: Ties = field(default_factory=dict)
    theorem: str = ""
    family: str = ""
    random: bool = False
    at_sizes: bool = False
    alone: bool = False
    meant: str = ""

    def __post_init__(self) -> None:
        unknown = set(self.edits) - set(SLOTS)
        if unknown or self.family not in (*FAMILIES, POSITIONS) or not 1 <= self.step <= 9:
            raise Problem(f"fault {self.name!r} is malformed", got=", ".join(unknown) or f"{self.family}, {self.step}")

    @property
    def where(self) -> str:
        """The step of the audit and the stage, in words."""
        return f"step {self.step}, stage {self.stage}"

    @property
    def is_symmetry(self) -> bool:
        """Whether it is the same function as the correct form."""
        return bool(self.theorem)

    def form(self, d: Dims, x: tuple[Expr, Expr, Expr], w: Weights, o: Options = Options()) -> Stages:  # noqa: B008
        """The stages of the faulty form, on axes whose sizes are tied as the fault needs it (`tied`).

        Raises:
            AxisProblem: if it is not possible on these axes.
        """
        return build(site(d, x, w, o), self.edits)

    def possible(self, at: Site) -> bool:
        """Whether what it needs is there."""
        unpadded = at.padding is None and at.kept is None and at.mask is None
        have = {
            "causal": at.causal is not None, "padding": at.padding is not None, "additive": at.mask is not None,
            "keep": at.keep is not None, "masked": at.keep is not None or at.mask is not None,
            "unpadded": unpadded, "unmasked": unpadded and at.causal is None,
            "uncausal": at.causal is None and at.kept is None, "ungrouped": at.kv is None,
            "from_the_end": at.causal is not None,
            "self": at.same, "cross": not at.same, "groups": at.kv is not None,
            "rotary": at.angles is not None, "unturned": at.angles is None,
            **{name: getattr(at.w, name) is not None for name in ("b_q", "b_k", "b_v", "b_o")},
        }  # fmt: skip
        return all(have[need] for need in self.needs)


def tied(ties: Ties, **given: str | int | sympy.Expr) -> Dims:
    """Axes of which some sizes coincide.

    Example:
        >>> tied({"d_model": ("h", "d_k")}).m
        m: d_k*h
    """
    names = {"B": "b", "T": "t", "S": "s", "d_model": "m", "h": "h", "d_k": "k", "d_v": "v"}
    sizes = {name: axis(letter, given.get(name, name)).size for name, letter in names.items()}
    for name in ("B", "T", "S", "d_v", "d_model"):
        if name in ties:
            other = ties[name]
            sizes[name] = sizes[other] if isinstance(other, str) else sizes[other[0]] * sizes[other[1]]
    return Dims(**{letter: axis(letter, sizes[name]) for name, letter in names.items()})


def holds(ties: Ties, sizes: Mapping[str, int]) -> bool:
    """Whether sizes coincide as they must.

    Example:
        >>> holds({"d_model": ("h", "d_k")}, {"d_model": 12, "h": 3, "d_k": 4})
        True
    """

    def value(of: str | tuple[str, str]) -> int:
        return sizes[of] if isinstance(of, str) else sizes[of[0]] * sizes[of[1]]

    return all(sizes[name] == value(other) for name, other in ties.items())


def coinciding(sizes: Mapping[str, int]) -> dict[str, str | tuple[str, str]]:
    """The ties that hold at some sizes.

    Example:
        >>> coinciding({"B": 2, "T": 5, "S": 5, "d_model": 7, "h": 3, "d_k": 2, "d_v": 4})
        {'S': 'T'}
    """
    found: dict[str, str | tuple[str, str]] = {}
    for name, other in TIES:
        if name not in found and holds({name: other}, sizes):
            found[name] = other
    return found


@cache
def _catalogue() -> tuple[Fault, ...]:
    modules = (import_module(f"mha_sym.audit.catalogue.{family}") for family in FAMILIES)
    found = tuple(chain.from_iterable(module.FAULTS for module in modules))
    names = [fault.name for fault in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise Problem(f"two faults have the same name: {', '.join(sorted(twice))}")
    return found


def faults() -> tuple[Fault, ...]:
    """All faults that are known, in the order of the computation."""
    return tuple(one for one in _catalogue() if not one.is_symmetry)


@cache
def faults_of_positions() -> tuple[Fault, ...]:
    """The faults of rotary positions."""
    found: tuple[Fault, ...] = import_module(f"mha_sym.audit.catalogue.{POSITIONS}").FAULTS
    return found


def symmetries() -> tuple[Fault, ...]:
    """What is done differently and gives the same function."""
    return tuple(one for one in _catalogue() if one.is_symmetry)


def name_of(which: Iterable[Fault]) -> str:
    """The names of several faults, joined by a plus sign."""
    return " + ".join(one.name for one in which)


def find_fault(name: str) -> Fault:
    """A fault or symmetry by its name.

    Raises:
        Problem: for a name that is not known, with the closest ones.
    """
    for one in chain(_catalogue(), faults_of_positions()):
        if one.name == name:
            return one
    close = get_close_matches(name, [one.name for one in _catalogue()], 3)
    raise Problem(f"no fault {name!r}", hint=f"did you mean {' or '.join(close)}?" if close else "")
