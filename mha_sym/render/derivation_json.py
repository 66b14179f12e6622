"""A derivation as JSON: what the other forms say, as data, with the certificate beside it.

Defines `derivation_json`.  One object with these members::

    format       "mha_sym-derivation"
    version      1
    name, title, words, source, scope    texts
    verdict      "proved", "refuted" or "undecided"
    known        the same in a sentence
    assumptions  [{"words", "positive": FORMULA or null}], the second being positive
    notation     {"sizes": [{"name", "words"}], "positions": [{"letters", "size": FORMULA, "words"}],
                  "given": [{"entry": FORMULA, "shape": [FORMULA], "words", "values": numbers or null}],
                  "defined": [{"entry", "body": FORMULA, "words"}], "named": [{"entry": FORMULA, "shape": [FORMULA],
                  "words"}], which claims define, "permutations": [{"name", "size", "words"}]}
    claims       [{"number", "name", "words", "verdict", "variables": [text], "left", "right": FORMULA,
                   "defined": as above, "proofs": [[LINE]], "alike": number of goals not shown,
                   "axes": [{"words", "sizes": [FORMULA], "at": FORMULA}],
                   "used": [{"positive": FORMULA, "assumed": whether by an assumption}],
                   "detail": what is known if it is not proved, "counterexample": text or null,
                   "rechecked": [{size: number}], where both sides were written out with symbols,
                   "checked": {"lines", "matrices": how many lines of either height were computed, "sizes":
                   [{size: number}], where they were in fractions, "digits": to how many all agree with einops in
                   float64, or null, "wrong", "left_out": [text]}}]
    controls     [{"name", "words", "verdict", "left", "right": FORMULA, "variables": [text], "where": as "defined",
                   "alike": text, which tensors are made as those of the theorem, "witness": text,
                   "inputs": {name: numbers}}]
    laws         [{"rule", "reason", "latex"}], those used
    applications how many applications of rules the checker replayed
    checks       [text], what was checked and how
    certificate  the certificate, as `mha_sym.proof.schema` describes it, or null if the theorem is not proved

    FORMULA      {"unicode", "latex"}
    LINE         {"formula": FORMULA, "reason", "rule", "subject", "changed": [[child number, ...]]}

``mha-sym recheck`` takes such a file and checks the certificate in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from mha_sym.proof.cards import CARDS
from mha_sym.proof.terms import Index, Term
from mha_sym.render import sentences
from mha_sym.render.derivation import ClaimPart, ControlPart, Derivation, Step
from mha_sym.render.formulas.breaks import plain
from mha_sym.render.formulas.notation import Notation
from mha_sym.render.formulas.scripts import Latex, Unicode
from mha_sym.render.signs import likened, said
from mha_sym.render.vocabulary import DefinedRow

FORMAT, VERSION = "mha_sym-derivation", 1


def derivation_json(found: Derivation, certificate: str = "") -> str:
    """The text of the file; ``certificate`` is the text of a certificate file."""
    data = _Writer(found).data()
    data["certificate"] = json.loads(certificate) if certificate else None
    return json.dumps(data, ensure_ascii=False, indent=1)


class _Writer:
    """Writes one derivation."""

    def __init__(self, found: Derivation) -> None:
        self.found = found
        words = found.vocabulary
        self.scripts: dict[str, Notation] = {
            "unicode": Unicode(words.names, words.letters_for), "latex": Latex(words.names, words.letters_for),
        }  # fmt: skip

    def data(self) -> dict[str, Any]:
        """All of it but the certificate."""
        found = self.found
        return {
            "format": FORMAT, "version": VERSION, "name": found.name, "title": found.title, "words": found.words,
            "source": found.source,
            "verdict": found.verdict.value, "known": sentences.verdict(found), "scope": found.scope,
            "assumptions": [{"words": words, "positive": self._maybe(term)} for words, term in found.assumptions],
            "notation": self._notation(), "claims": list(map(self._claim, found.claims)),
            "controls": list(map(self._control, found.controls)),
            "laws": [{"rule": n, "reason": CARDS[n].reason, "latex": CARDS[n].law} for n in found.laws],
            "applications": found.applications, "checks": list(sentences.checks(found)),
        }  # fmt: skip

    def _notation(self) -> dict[str, Any]:
        words = self.found.vocabulary
        return {
            "sizes": [{"name": row.name, "words": row.words} for row in words.sizes],
            "positions": [
                {"letters": list(row.letters), "size": self._term(row.size), "words": row.words}
                for row in words.letters
            ],
            "given": [
                {"entry": self._term(row.entry), "shape": self._terms(row.shape), "words": row.words,
                 "values": None if row.values is None else np.asarray(row.values).tolist()}
                for row in words.given
            ],
            "defined": list(map(self._definition, words.defined)),
            "named": [
                {"entry": self._term(row.entry), "shape": self._terms(row.shape), "words": row.words}
                for row in words.named
            ],
            "permutations": [
                {"name": row.name, "size": self._term(row.size), "words": row.words} for row in words.bijections
            ],
        }  # fmt: skip

    def _definition(self, row: DefinedRow) -> dict[str, Any]:
        return {"entry": self._term(row.entry), "body": self._term(row.body), "words": row.words}

    def _claim(self, claim: ClaimPart) -> dict[str, Any]:
        wrong = claim.counterexample
        return {
            "number": claim.number, "name": claim.name, "words": claim.words, "verdict": claim.verdict.value,
            "variables": list(claim.variables), "left": self._term(claim.left), "right": self._term(claim.right),
            "defined": list(map(self._definition, (*claim.opened, *claim.defined))),
            "proofs": [list(map(self._line, proof.steps)) for proof in claim.proofs], "alike": claim.alike,
            "axes": [
                {"words": one.words, "sizes": self._terms(one.sizes), "at": self._at(one.at)} for one in claim.moves
            ],
            "used": [{"positive": self._term(one.term), "assumed": one.assumed} for one in claim.conditions],
            "detail": "" if claim.good else sentences.undecided(claim),
            "counterexample": None if wrong is None else sentences.counterexample(wrong),
            "rechecked": [dict(one) for one in claim.rechecked], "checked": asdict(claim.checked),
        }  # fmt: skip

    def _control(self, control: ControlPart) -> dict[str, Any]:
        says = control.says
        return {
            "name": control.name, "words": control.words, "verdict": control.verdict.value,
            "left": self._maybe(says.left if says else None), "right": self._maybe(says.right if says else None),
            "variables": list(says.variables) if says else [],
            "where": list(map(self._definition, says.where)) if says else [],
            "alike": said(likened(says, self.scripts["unicode"])) if says else "",
            "witness": sentences.witness(control),
            "inputs": {name: np.asarray(values).tolist() for name, values in control.inputs.items()},
        }  # fmt: skip

    def _line(self, step: Step) -> dict[str, Any]:
        return {
            "formula": self._term(step.term), "reason": sentences.because(step, self.found.claims), "rule": step.rule,
            "subject": step.subject, "changed": list(map(list, step.changed)),
        }  # fmt: skip

    # ------------------------------------------------------------ formulas

    def _both(self, write: Callable[[Notation], str]) -> dict[str, str]:
        return {name: plain(write(script)) for name, script in self.scripts.items()}

    def _term(self, term: Term) -> dict[str, str]:
        return self._both(lambda script: script.term(term))

    def _maybe(self, term: Term | None) -> dict[str, str] | None:
        return None if term is None else self._term(term)

    def _terms(self, terms: Iterable[Term]) -> list[dict[str, str]]:
        return list(map(self._term, terms))

    def _at(self, at: Iterable[Index]) -> dict[str, str]:
        return self._both(lambda script: script.at([script.index(one) for one in at]))
