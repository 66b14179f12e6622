"""The ledger names every rule, and lemmas that Coq has."""

from __future__ import annotations

from mha_sym.export.ledger import ledger
from mha_sym.library import proofs_directory
from mha_sym.proof.rules import RULES

#: rules that Coq checks by computation, or by a definition or an equation of the theorem itself
WITHOUT_LEMMA = {"unfold", "table", "lemma"}


def test_every_rule_has_its_row_and_its_lemmas() -> None:
    rows = ledger()
    assert [row.rule for row in rows] == list(RULES)
    assert {row.rule for row in rows if not row.lemmas} == WITHOUT_LEMMA
    proved = (proofs_directory() / "coq" / "rules.v").read_text(encoding="utf-8")
    assert all(f"Lemma {name} " in proved for row in rows for name in row.lemmas)
    assert all(2 <= row.lines <= 25 for row in rows)


def test_rows_name_what_is_used() -> None:
    rows = {row.rule: row for row in ledger()}
    assert rows["guard"].lemmas == ("guard", "guarded", "guard_by_two", "ordered")
    assert rows["cancel"].lemmas[0] == "cancel"
    assert (rows["pull"].law, rows["distribute"].law, rows["exp_of_sum"].law) == ("linear", "linear", "apart")
