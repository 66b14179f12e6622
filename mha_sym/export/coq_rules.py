"""One proof script for each rule of the kernel: the law from ``proofs/coq/rules.v`` at the place of a step.

Defines `script`, which proves that a term equals what a step makes of it, and `SCRIPTS`, the rules it knows.
Nothing here decides whether a step is right: Coq does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mha_sym.export import coq_brackets, coq_sums
from mha_sym.export.coq_place import Place, descent
from mha_sym.export.coq_shapes import Writer, tactic
from mha_sym.export.coq_terms import NotExported
from mha_sym.proof.checker import Step
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import Term, at_path

#: the script of each rule, by the rule's name
SCRIPTS: dict[str, Callable[[Place], str]] = {
    law.__name__: law
    for law in (
        coq_sums.unfold, coq_sums.table, coq_sums.lemma, coq_sums.arithmetic, coq_sums.distribute, coq_sums.take_out,
        coq_sums.collect, coq_sums.pull, coq_sums.factor, coq_sums.exchange, coq_sums.sum_of_sum,
        coq_sums.constant_sum, coq_sums.split_sum, coq_sums.enumerate_sum, coq_sums.delta, coq_sums.reindex,
        coq_brackets.exp_of_sum, coq_brackets.exp_product, coq_brackets.inverse_of_exp,
        coq_brackets.inverse_of_product, coq_brackets.cancel, coq_brackets.guard, coq_brackets.spread,
        coq_brackets.compare,
    )
}  # fmt: skip


def script(writer: Writer, context: Context, variables: Iterable[str], whole: Term, after: Term, step: Step) -> str:
    """A script for ``whole = after``, for all values of some variables: down the path, then the law of the rule."""
    old, new = at_path(whole, step.path), at_path(after, step.path)
    if step.rule not in SCRIPTS:
        raise NotExported(f"the rule {step.rule!r} is not exported", where="export to Coq")
    with writer.printer.entered(*variables):
        down = descent(writer, whole, step.path)
        return tactic(down, SCRIPTS[step.rule](Place(writer, context, old, new, step.args)))
