"""LaTeX made into a PDF with the TeX engine of the machine, if there is one.

Defines `engine`, which looks for one, and `pdf`, which runs it.  A document can run no commands and read no files of
others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from mha_sym.errors import Problem

#: what the documents of this package need
INSTALL = (
    "install TeX: on Debian and Ubuntu apt-get install --no-install-recommends texlive-latex-base "
    "texlive-latex-recommended lmodern; elsewhere TeX Live, MacTeX or MiKTeX"
)

#: a document that takes longer has gone wrong
SECONDS = 300


def engine() -> str | None:
    """The path of ``pdflatex``, or None."""
    return shutil.which("pdflatex")


def pdf(latex: str) -> bytes:
    """The document as PDF; the same bytes for the same text.

    Raises:
        Problem: if there is no TeX engine, or it does not accept the document.
    """
    command = engine()
    if command is None:
        raise Problem("there is no pdflatex on this machine", hint=INSTALL)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        (place / "text.tex").write_text(latex, encoding="utf-8")
        for _ in range(2):  # references are known the second time
            _run(command, place)
        return (place / "text.pdf").read_bytes()


def _run(command: str, place: Path) -> None:
    fixed = {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "openin_any": "p", "openout_any": "p"}
    options = ("-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "text.tex")
    try:
        ended = subprocess.run(
            [command, *options], cwd=place, env=os.environ | fixed, capture_output=True, text=True, errors="replace",
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem(f"pdflatex did not end: {error}", hint=INSTALL) from error
    if ended.returncode:
        lines = [line for line in ended.stdout.splitlines() if line.startswith("!")]
        raise Problem("pdflatex does not accept the document", got=lines[0] if lines else f"code {ended.returncode}")
