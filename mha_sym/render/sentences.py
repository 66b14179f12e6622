"""What every form of a derivation says in the same words: verdicts, sizes, counterexamples, what was checked.

Each function returns plain sentences, in which `mha_sym.render.prose` finds the formulas.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mha_sym.proof.terms import Apply, Cmp, Term, children
from mha_sym.proof.theorem import Counterexample, Verdict
from mha_sym.render.derivation import NUMBERS, ClaimPart, ControlPart, Derivation, Step
from mha_sym.render.false_equations import MARK
from mha_sym.render.formulas.notation import Notation, rank
from mha_sym.render.reading import Condition
from mha_sym.render.report_json import came_down

#: said of a claim in which axes are rearranged and nothing else happens
SAME_ENTRY = "Both sides are one and the same entry. The left side, from what is given to the result:"


#: said of another claim whose sides are written alike
SAME_FORMULA = "Both sides are this same formula once they are written out, so nothing is left to be shown."


def verdict(found: Derivation) -> str:
    """What is known of the theorem."""
    if found.verdict is not Verdict.PROVED:
        known = ", ".join(f"claim {one.number} ({one.name}) is {one.verdict.value}" for one in found.claims)
        return f"NOT PROVED: {known or 'it claims nothing'}."
    if not found.good:
        denied = ", ".join(f"claim {one.number} ({one.name})" for one in found.claims if not one.good)
        return f"NOT CONFIRMED: the checker accepts every step, but numbers deny lines of {denied}."
    where = "for all sizes" if found.scope == "all sizes" else found.scope
    count = len(found.controls)
    beside = f"{found.refuted} of {count} false statement{'s' * (count != 1)} beside it"
    refuted = f"; {beside} {'is' if found.refuted == 1 else 'are'} refuted" if count else ""
    return f"Proved {where}{refuted}."


def sizes(found: Derivation) -> str:
    """What is assumed of the sizes."""
    names = ", ".join(f"{one.name} ({one.words})" for one in found.vocabulary.sizes)
    return f"The sizes are positive integers: {names}." if names else "All sizes are numbers."


def because(step: Step, claims: Sequence[ClaimPart]) -> str:
    """Why a line equals the one before it; a claim that was used goes by its number."""
    if step.rule != "lemma":
        return step.reason
    return f"by claim {next(one.number for one in claims if one.name == step.subject)}"


#: so many reasons stand beside a claim in one line, and all laws; the other definitions are in its proof
REASONS = 4


def reasons(claim: ClaimPart, claims: Sequence[ClaimPart], same: bool = False) -> list[str]:
    """Why a claim holds, in one line: the reasons of its steps; none if its sides are the ``same`` formula.

    Laws and claims are shown always, of definitions those for which there is room.
    """
    if claim.moves or same:
        return ["axes rearranged, and nothing else"] if claim.moves else []
    steps = [step for proof in claim.proofs for step in proof.steps[1:]]
    found = list(dict.fromkeys(because(step, claims) for step in steps))
    laws = dict.fromkeys(because(step, claims) for step in steps if step.rule not in ("unfold", "table"))
    shown = [*laws, *(one for one in found if one not in laws)][: max(REASONS, len(laws))]
    more = len(found) - len(shown)
    if more <= 1:
        return found
    return [*(one for one in found if one in shown), f"and {more} definitions"]


def positive_because(condition: Condition) -> str:
    """Why a term is positive: of brackets one has to be 1."""
    kept = condition.assumed or _brackets(condition.term)
    return "exponentials are positive" + (" and a key is kept" if kept else "")


def _brackets(term: Term) -> bool:
    return isinstance(term, Cmp) or any(map(_brackets, children(term)))


#: said where definitions stand with the claims
DEFINED_BELOW = "What is not given is defined where it occurs first: in a line, as its reason says, or before them."


def positions(letters: Sequence[str], quote: str = "") -> str:
    """For which positions a statement is made.

    Example:
        >>> positions(["b", "t"], "$")
        'for all $b$, $t$'
    """
    return f"for all {', '.join(f'{quote}{letter}{quote}' for letter in letters)}" if letters else ""


def not_all(control: ControlPart, letters: Sequence[str], quote: str = "") -> str:
    """Said of a false statement, before or beside it; of one that is not refuted it is not said that it is false."""
    said = "Not" if control.verdict is Verdict.REFUTED else "Not refuted, although said not to hold"
    return f"{said} {positions(letters, quote) or 'so'}"


def not_good(found: Derivation) -> list[ClaimPart]:
    """The claims that are not proved, or of which a line is denied by numbers."""
    return [one for one in found.claims if not one.good]


def known(found: Derivation) -> Iterator[str]:
    """What is known of the claims of a theorem that is not proved, claim by claim."""
    yield from (f"Claim {one.number}: {undecided(one)}" for one in not_good(found))


def undecided(claim: ClaimPart) -> str:
    """What is known of a claim that is not proved, or of which a line is denied by numbers."""
    if claim.checked.wrong:
        return f"NOT CONFIRMED: {'; '.join(claim.checked.wrong)}."
    if claim.counterexample is not None:
        return f"REFUTED: it fails at {counterexample(claim.counterexample)}."
    return "UNDECIDED: neither a proof nor a counterexample was found."


def below(claim: ClaimPart) -> str:
    """The same where the claim itself stands; what refutes it is said at the top, and not twice."""
    return undecided(claim) if claim.counterexample is None else "REFUTED, by the numbers at the top."


def stuck(claim: ClaimPart) -> tuple[str, str] | None:
    """What the sides of an undecided claim came down to, in Unicode, shortened; None if that is not known."""
    if claim.stuck is None or claim.verdict is not Verdict.UNDECIDED:
        return None
    return came_down(claim.stuck)


#: formulas of more characters than this are not written out among words
LONG = 1000


def stuck_formulas(claim: ClaimPart, notation: Notation) -> tuple[str, str] | None:
    """The same as formulas of a notation, with marks where they may be broken; what is too long is left out."""
    if claim.stuck is None or claim.verdict is not Verdict.UNDECIDED:
        return None
    left, right = map(notation.term, claim.stuck)
    return (left, right) if max(len(left), len(right)) <= LONG else None


def alike(claim: ClaimPart) -> str:
    """How many entries of a claim are not shown."""
    return f"The other {claim.alike} entries go in the same way."


def controls(found: Derivation) -> str:
    """What the controls are."""
    count = len(found.controls)
    rounded = any("≈" in one.left + one.right for one in found.controls)
    if found.refuted < count:
        return (
            f"{count} statement{'s' * (count != 1)} close to the claims, said to be false. NOT REFUTED: "
            f"{', '.join(one.name for one in found.controls if one.verdict is not Verdict.REFUTED)}."
        )
    return (
        f"{count} statement{'s' * (count != 1)} close to the claims, and false: at these sizes and numbers their sides "
        f"differ.{' Values after ≈ are rounded; that they differ is certain.' * rounded}{_marked(found.controls)}"
    )


def _marked(controls: Sequence[ControlPart]) -> str:
    """What the mark on tensors means, if it occurs."""
    if not any(symbol.block.endswith(MARK) for one in controls if one.says for symbol in one.says.symbols.values()):
        return ""
    return f" Tensors marked ‘{MARK}’ belong to one such statement alone."


def witness(control: ControlPart) -> str:
    """Both values of a control where it fails, and with which inputs."""
    if control.verdict is not Verdict.REFUTED:
        return f"{control.verdict.value}, not refuted"
    where = numbers(in_order(control.sizes)) or "the given sizes"
    place = f", entry {numbers(control.place)}" if control.place else ""
    text = f"the left side is {control.left}, the right side {control.right} at {where}{place}"
    unshown = f"{control.unshown} more numbers, which the JSON form has" if control.unshown else ""
    return text + _with(control.given, control.permutations, control.zeros, unshown)


def _with(given: Mapping[str, Any], bijections: Mapping[str, Any], zeros: bool, unshown: str) -> str:
    """With which inputs two sides differ, as the end of a sentence."""
    told = [f"{name} = {nested(values)}" for name, values in {**given, **bijections}.items()]
    if zeros:
        told.append("every other input 0" if given else "every input 0")
    told += [unshown] if unshown else []
    return f", with {', '.join(told)}" if told else ""


def checks(found: Derivation, *, laws: bool = True) -> Iterator[str]:
    """What was checked, and how; the laws of the rules only if ``laws``."""
    proved = sum(one.verdict is Verdict.PROVED for one in found.claims)
    how = (
        ": every line is what the checker makes of the line before it, "
        f"in {found.applications} applications of rules"
    )
    yield f"{proved} of {len(found.claims)} claims proved{how if proved else ''}."
    if found.laws and laws:
        steps = [step for claim in found.claims for proof in claim.proofs for step in proof.steps]
        words = ", ".join(dict.fromkeys(step.reason for step in steps if step.rule in found.laws))
        yield f"Laws used, besides definitions and claims: {words}."
    again = list(_same_sizes(found.claims))
    if again:
        yield (
            "By other code, at small sizes, both sides were also written out with a symbol for every given number, and "
            f"are equal: {'; '.join(f'{claims} at {where}' for where, claims in again)}."
        )
    yield from _lines(found.claims)


def _lines(claims: Sequence[ClaimPart]) -> Iterator[str]:
    """What came out when the lines were computed."""
    done = [one.checked for one in claims if one.checked.lines]
    wrong = [f"claim {one.number} ({one.name}), {what}" for one in claims for what in one.checked.wrong]
    sizes = next((one.sizes for one in done if one.sizes), ())
    if wrong:
        yield f"DENIED by numbers: {'; '.join(wrong)}."
    elif sizes:
        count, matrices = (sum(getattr(one, what) for one in done if one.sizes) for what in ("lines", "matrices"))
        more = f", and the {matrices} written in matrices," if matrices else ""
        places = " and at ".join(numbers(in_order(one)) or "the given sizes" for one in sizes)
        yield (
            f"{count} lines{more} were computed in fractions at {places}, for an entry drawn at random: each equals "
            f"the line before it.{ROOTS * all(map(_even_root, sizes))}{POWERS * any(map(_has_exp, claims))}"
        )
    digits = [one.digits for one in done if one.digits is not None]
    if digits and not wrong:
        yield (
            f"In float64, on random numbers{' of the first of these sizes' * (len(sizes) > 1)}, every line written "
            "entry by entry agrees with what einops computes from both sides of its claim, to "
            f"{min(digits)} digits of the largest entry or more."
        )
    for reason in dict.fromkeys(reason for one in claims for reason in one.checked.left_out):
        names = ", ".join(str(one.number) for one in claims if reason in one.checked.left_out)
        yield f"Not computed in fractions: lines of claim {names} ({reason})."


#: said where a root of d_k may have been computed in fractions
ROOTS = " Sizes under a root were taken as square numbers, so that sqrt(d_k) is whole."

#: said where exponentials were computed in fractions
POWERS = (
    " An exponential is seldom a fraction: in its place a power of two was computed, the exponents all multiplied "
    "by one number that makes them whole. Nothing is lost by that, since the proof uses only that exp is positive and "
    "that exp(a + b) = exp(a) exp(b), and powers of two have both properties."
)


def _even_root(sizes: Mapping[str, int]) -> bool:
    return sizes.get("d_k", 0) > 1 and math.isqrt(sizes["d_k"]) ** 2 == sizes["d_k"]


def _has_exp(claim: ClaimPart) -> bool:
    return any(_exponential(step.term) for proof in claim.proofs for step in proof.steps)


def _exponential(term: Term) -> bool:
    return (isinstance(term, Apply) and term.name == "exp") or any(map(_exponential, children(term)))


def checked_in_all_ways(claim: ClaimPart) -> bool:
    """Whether every line of a claim was computed in all ways, so that nothing need be said of it where it stands."""
    found = claim.checked
    return claim.good and bool(found.sizes) and found.digits is not None and bool(claim.rechecked)


def checked(claim: ClaimPart) -> str:
    """How one claim was checked."""
    if claim.verdict is not Verdict.PROVED:
        return "Nothing was proved here."
    found, text = claim.checked, "Checked: every line follows from the one before by the checker"
    if found.wrong:
        return f"{text}, but numbers deny it."
    if found.sizes:
        text += f", equals it in fractions at {_times(len(found.sizes))} of sizes"
    if found.digits is not None:
        text += f", and agrees with einops to {found.digits} digits"
    if claim.rechecked:
        text += f"; with symbols for all given numbers both sides are equal at {_times(len(claim.rechecked))}"
    return f"{text}."


def _times(count: int) -> str:
    return "two choices" if count == 2 else "one choice"


def _same_sizes(claims: Sequence[ClaimPart]) -> Iterator[tuple[str, str]]:
    """The sizes at which claims were checked again, and which claims; each of them at those sizes that it has."""
    found: list[tuple[list[dict[str, int]], list[int]]] = []
    for claim in claims:
        if not claim.rechecked:
            continue
        fits = (one for one in found if _agree(one[0], claim.rechecked))
        group = next(fits, None)
        if group is None:
            group = [dict[str, int]() for _ in claim.rechecked], list[int]()
            found.append(group)
        sizes, those = group
        for known, more in zip(sizes, claim.rechecked, strict=True):
            known.update(more)
        those.append(claim.number)
    for sizes, those in found:
        text = " and at ".join(numbers(in_order(one)) or "the given sizes" for one in sizes)
        yield text, f"claim {those[0]}" if len(those) == 1 else f"claims {_ranges(those)}"


def _agree(known: Sequence[Mapping[str, int]], more: Sequence[Mapping[str, int]]) -> bool:
    """Whether no size is two numbers."""
    pairs = zip(known, more, strict=True) if len(known) == len(more) else ()
    return len(known) == len(more) and all(one.get(name, n) == n for one, other in pairs for name, n in other.items())


def _ranges(numbers_: Sequence[int]) -> str:
    """Numbers in order, runs of them by their ends.

    Example:
        >>> _ranges([1, 2, 3, 5, 7, 8])
        '1–3, 5, 7, 8'
    """
    runs: list[list[int]] = []
    for n in numbers_:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


# ---------------------------------------------------------------- numbers


def counterexample(found: Counterexample) -> str:
    """Where two sides differ, their values there, and with which inputs.

    Example:
        >>> counterexample(Counterexample({"T": 2}, {"t": 1}, "0", "1", {"x": [0, 3], "y": [0, 0]}))
        'T=2, entry t=1: left 0, right 1, with x = [0,3], every other input 0'
    """
    place = f", entry {numbers(found.index)}" if found.index else ""
    given = {name: values for name, values in found.inputs.items() if np.any(np.asarray(values))}
    many = sum(np.asarray(values).size for values in given.values())
    shown = {name: found.inputs[name] for name in given} if many <= NUMBERS else {}
    zeros = len(given) < len(found.inputs) and many <= NUMBERS
    unshown = f"{many} more numbers, which mha-sym prove prints" if many > NUMBERS else ""
    with_ = _with(shown, found.permutations, zeros, unshown)
    at = numbers(in_order(found.sizes)) or "the given sizes"
    return f"{at}{place}: left {found.left}, right {found.right}{with_}"


def ended(text: str) -> str:
    """The text with a full stop, if it has no end yet.

    Example:
        >>> ended("Vaswani et al. 2017"), ended("Really Better than One?")
        ('Vaswani et al. 2017.', 'Really Better than One?')
    """
    return text if text[-1:] in ".?!" else f"{text}."


def in_order(sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes in the order in which the field writes them."""
    return {name: sizes[name] for name in sorted(sizes, key=rank)}


def numbers(named: Mapping[str, int]) -> str:
    """Numbers with their names.

    Example:
        >>> numbers({"B": 2, "T": 3})
        'B=2, T=3'
    """
    return ", ".join(f"{name}={n}" for name, n in named.items())


def nested(values: Any) -> str:
    """Rows of numbers.

    Example:
        >>> nested(((1, 2), (3, 4)))
        '[[1,2],[3,4]]'
    """
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return f"[{','.join(map(nested, values))}]" if isinstance(values, list | tuple) else str(values)
