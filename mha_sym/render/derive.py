"""Writing a derivation: the list of the forms in which that can be done.

Defines `derive`, which writes what was found of a theorem in one of `FORMATS`.  What each form looks like is decided in
the module that has its name.
"""

from __future__ import annotations

from collections.abc import Callable

from mha_sym.errors import Problem
from mha_sym.proof import certificate_file
from mha_sym.proof.theorem import Report, Verdict
from mha_sym.render.derivation import Derivation, derivation
from mha_sym.render.derivation_json import derivation_json
from mha_sym.render.latex.article import latex_document
from mha_sym.render.latex.fragment import latex_fragment
from mha_sym.render.markdown import markdown_text
from mha_sym.render.unicode import unicode_text
from mha_sym.render.web.page import html_page


def _stages(found: Derivation) -> str:
    return unicode_text(found, detail=False)


#: ``stages`` is Unicode without the steps of the claims
FORMATS: dict[str, Callable[[Derivation], str]] = {
    "unicode": unicode_text, "stages": _stages, "latex": latex_document, "latex-fragment": latex_fragment,
    "markdown": markdown_text, "html": html_page, "json": derivation_json,
}  # fmt: skip


def derive(report: Report, format: str = "unicode", rewrite: Callable[[Derivation], Derivation] | None = None) -> str:
    """The derivation as text; as JSON with the certificate, if the theorem is proved.

    Args:
        report: from `mha_sym.proof.prover.prove`.
        format: one of `FORMATS`.
        rewrite: what to make of it before it is written, such as another convention of notation.

    Raises:
        Problem: for an unknown format.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.proof.prover import prove
        >>> from mha_sym.proof.theorem import Claim, Theorem
        >>> x = Input("x", (axis("t", "T"),))
        >>> report = prove(Theorem("twice", "Twice", "x + x is 2 x.", (Claim("twice", x + x, x * 2),)), recheck=False)
        >>> derive(report, "latex-fragment").splitlines()[0]
        '% twice; needs amsmath and amsthm.'
    """
    if format not in FORMATS:
        raise Problem(f"there is no format {format!r}", where="derive", expected=", ".join(FORMATS))
    found = derivation(report) if rewrite is None else rewrite(derivation(report))
    if format == "json" and report.verdict is Verdict.PROVED:
        return derivation_json(found, certificate_file.write(report))
    return FORMATS[format](found)
