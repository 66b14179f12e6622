"""The trust table in the README says what the code and the library say now."""

from __future__ import annotations

from mha_sym.proof.theorem import Verdict
from tests.soundness.trust import evidence, section, shown


def test_trust_table_is_up_to_date() -> None:
    found = evidence()
    assert all(one.verdict is Verdict.PROVED for one in found.claims)
    assert shown() == section(found), "python -m tests.soundness.trust writes it anew"
