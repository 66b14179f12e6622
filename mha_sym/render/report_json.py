"""A theorem's report as plain data: what ``mha-sym prove --json`` prints, and what the table is made from.

Defines the shapes `TheoremResult`, `ControlResult` and `Witness`, and `theorem_result`, `scope` and `remarks`.  The
data holds only what JSON can say, so that it can cross from one process to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict

from mha_sym.axes import Axis
from mha_sym.expr import Concat, Contract, Expr, Reduce, Softmax, Stack, Total, walk
from mha_sym.plan import least_sizes
from mha_sym.proof.terms import Term
from mha_sym.proof.theorem import Claim, Counterexample, Outcome, Report, Verdict
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.notation import rank
from mha_sym.render.formulas.scripts import Unicode
from mha_sym.render.vocabulary import SIZES


class Witness(TypedDict):
    """A counterexample: sizes, where, both values there, and the inputs."""

    sizes: dict[str, int]
    index: dict[str, int]
    left: str
    right: str
    inputs: dict[str, Any]
    permutations: dict[str, list[int]]


class ControlResult(TypedDict):
    """What is known of one control."""

    name: str
    verdict: str
    counterexample: Witness | None


class TheoremResult(TypedDict):
    """What is known of one theorem.

    ``bound`` is at most the probability that a false claim would have agreed at the random points of finite fields.
    """

    name: str
    verdict: str
    scope: str
    seconds: float
    steps: int
    bound: float
    controls: list[ControlResult]


def theorem_result(report: Report) -> TheoremResult:
    """The report as plain data."""
    return {
        "name": report.theorem.name,
        "verdict": report.verdict.value,
        "scope": scope(report.theorem.claims),
        "seconds": round(report.seconds, 3),
        "steps": report.steps,
        "bound": max((one.bound for one in report.claims), default=1.0),
        "controls": [
            {"name": o.claim.name, "verdict": o.verdict.value, "counterexample": witness(o.counterexample)}
            for o in report.controls
        ],
    }


def witness(found: Counterexample | None) -> Witness | None:
    """A counterexample as plain data; numbers that are not integers become text."""
    if found is None:
        return None
    return {
        "sizes": {name: int(size) for name, size in found.sizes.items()},
        "index": {name: int(position) for name, position in found.index.items()},
        "left": str(found.left),
        "right": str(found.right),
        "inputs": {name: _plain(value) for name, value in found.inputs.items()},
        "permutations": {name: [int(i) for i in images] for name, images in found.permutations.items()},
    }


def _plain(value: Any) -> Any:
    """Nested rows as lists, integers as they are, every other number as text such as ``1/3``."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def scope(claims: Sequence[Claim]) -> str:
    """For which sizes the claims are stated: ``all sizes``, or the axes whose size is a fixed number.

    An axis of size 1 that is only ever read at its one position, as in a mask ``(1, 1, t, s)``, restricts nothing.
    Where a claim speaks of head 2, there are at least three.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> x, y = (Input("X", (axis("t", "T"), axis("h", size))) for size in ("h", 3))
        >>> any_heads, three = Claim("any_heads", x, x), Claim("three", y, y)
        >>> scope([any_heads]), scope([three]), scope([any_heads, three])
        ('all sizes', 'at h=3', 'at h=3 in three, otherwise all sizes')
        >>> _at({("k", 4), ("b", 2), ("k", 2)})
        'at B=2, d_k=2 or 4'
    """
    least = least_sizes(side for claim in claims for side in (claim.left, claim.right))
    large = " and ".join(f"{name} is at least {size}" for name, size in sorted(least.items()) if size > 1)
    fixed = [_fixed(claim) for claim in claims]
    limited = [claim.name for claim, sizes in zip(claims, fixed, strict=True) if sizes]
    if not limited:
        return f"where {large}" if large else "all sizes"
    sizes = _at(set().union(*fixed))
    found = sizes if len(limited) == len(claims) else f"{sizes} in {', '.join(limited)}, otherwise all sizes"
    return f"{found}, where {large}" if large else found


def _at(fixed: Iterable[tuple[str, int]]) -> str:
    """Fixed sizes of axes by the names that the field has for them, each with all its values."""
    found: dict[str, list[str]] = {}
    for axis, size in sorted(fixed):
        found.setdefault(SIZES.get(axis, axis), []).append(str(size))
    return "at " + ", ".join(f"{name}={' or '.join(found[name])}" for name in sorted(found, key=rank))


def _fixed(claim: Claim) -> set[tuple[str, int]]:
    """The axes of fixed size on which the truth of a claim may rest, with their sizes."""
    nodes = [node for side in (claim.left, claim.right) for node in walk(side)]
    larger = {one for node in nodes for whole in node.axes for one in whole.primitive() if one.size != 1}
    units = {one for whole in [*claim.left.axes, *_ranged(nodes)] for one in whole.primitive()}
    return {(one.name, int(one.size)) for one in larger | units if one.size.is_Integer}


def _ranged(nodes: Iterable[Expr]) -> Iterator[Axis]:
    """The axes that are summed, normalised over, or run through by the index of a family."""
    for node in nodes:
        match node:
            case Contract():
                yield from node.summed
            case Reduce(over=over) | Softmax(over=over):
                yield from over
            case Stack(index=index) | Concat(index=index) | Total(index=index):
                yield index.axis
            case _:
                pass


def remarks(report: Report) -> list[str]:
    """One line for every claim that is not proved, or not confirmed, and every control that is not refuted.

    A claim is proved by the checker; an engine that could not answer, where it was asked, is told with its reason.
    """
    lines = [_of_claim(o) for o in report.claims if o.verdict is not Verdict.PROVED or o.detail]
    lines += [
        f"control {o.claim.name} is {o.verdict.value}, not refuted{_why(o)}"
        for o in report.controls
        if o.verdict is not Verdict.REFUTED
    ]
    return lines if report.claims else ["it claims nothing, so nothing was checked"]


def _of_claim(outcome: Outcome) -> str:
    proved = outcome.verdict is Verdict.PROVED
    why = f", but {outcome.detail}" if proved else _why(outcome)
    return f"claim {outcome.claim.name} is {outcome.verdict.value}{why}"


def _why(outcome: Outcome) -> str:
    found = outcome.counterexample
    if found is None:
        return _undecided(outcome)
    sizes = ", ".join(f"{name}={size}" for name, size in found.sizes.items())
    index = ", ".join(f"{name}={position}" for name, position in found.index.items())
    given = "".join(f", {name} = {values}" for name, values in {**found.inputs, **found.permutations}.items())
    return f": {found.left} against {found.right} at [{index}] with {sizes}{given}"


def _undecided(outcome: Outcome) -> str:
    """What is known of a claim for which neither a proof nor a counterexample was found."""
    if outcome.normal_forms is None:
        return f": {outcome.detail}" if outcome.detail else ""
    left, right = came_down(outcome.normal_forms)
    return f": neither a proof nor a counterexample was found; the sides came down to {left} and {right}"


def came_down(sides: tuple[Term, Term]) -> tuple[str, str]:
    """What both sides of a claim came down to, shortened."""
    notation = Unicode()
    left, right = (_short(plain(notation.term(side))) for side in sides)
    return left, right


def _short(text: str, most: int = 120) -> str:
    return text if len(text) <= most else text[:most].rstrip() + " ..."
