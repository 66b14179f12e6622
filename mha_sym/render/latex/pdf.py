"""LaTeX made into a PDF with what the machine has: a TeX engine, or Typst.

Defines `engine`, which looks for one, and `pdf`, which runs it.  A document can run no commands and read no files of
others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mha_sym.errors import Problem
from mha_sym.render.latex.typst import typst_text

#: what makes a PDF of the documents of this package
INSTALL = (
    "pip install typst (the extra 'pdf'), which needs no TeX; or install TeX: on Debian and Ubuntu apt-get "
    "install --no-install-recommends texlive-latex-base texlive-latex-recommended lmodern, elsewhere TeX Live, MacTeX "
    "or MiKTeX"
)

#: a document that takes longer has gone wrong
SECONDS = 300

Engine = Literal["pdflatex", "typst"]

_TEX = ("-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "text.tex")
_FIXED = {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1", "openin_any": "p", "openout_any": "p"}


def engine() -> Engine | None:
    """What this machine has: ``pdflatex`` before ``typst``, which is a command or a Python package."""
    if shutil.which("pdflatex"):
        return "pdflatex"
    return "typst" if find_spec("typst") or shutil.which("typst") else None


def pdf(latex: str) -> bytes:
    """The document as PDF; the same bytes for the same text.

    Raises:
        Problem: if there is neither TeX nor Typst, or it does not accept the document.
    """
    with tempfile.TemporaryDirectory() as directory:
        match engine():
            case "pdflatex":
                return _tex(latex, Path(directory))
            case "typst":
                return _typst(typst_text(latex), Path(directory))
    raise Problem("there is neither pdflatex nor Typst on this machine", hint=INSTALL)


def _tex(latex: str, place: Path) -> bytes:
    (place / "text.tex").write_text(latex, encoding="utf-8")
    for _ in range(2):  # references are known the second time
        ended = _run("pdflatex", _TEX, place)
        if ended.returncode:
            lines = [line for line in ended.stdout.splitlines() if line.startswith("!")]
            found = lines[0] if lines else f"code {ended.returncode}"
            raise Problem("pdflatex does not accept the document", got=found)
    return (place / "text.pdf").read_bytes()


def _typst(text: str, place: Path) -> bytes:
    (place / "text.typ").write_text(text, encoding="utf-8")
    if find_spec("typst"):
        import typst

        try:
            return bytes(typst.compile(str(place / "text.typ"), root=str(place)))
        except typst.TypstError as error:
            raise Problem("Typst does not accept the document", got=str(error)) from error
    ended = _run("typst", ("compile", "--root", ".", "text.typ", "text.pdf"), place)
    if ended.returncode:
        raise Problem("Typst does not accept the document", got=ended.stderr.strip() or f"code {ended.returncode}")
    return (place / "text.pdf").read_bytes()


def _run(command: str, options: Sequence[str], place: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [shutil.which(command) or command, *options], cwd=place, env=os.environ | _FIXED, capture_output=True,
            text=True, errors="replace", timeout=SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Problem(f"{command} did not end: {error}", hint=INSTALL) from error
