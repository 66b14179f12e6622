"""The theorems that come with the package, and anyone's own: finding and loading ``proofs/NAME.py``.

Defines `proofs_directory`, `theorem_names`, `spread`, `find`, `load`, and `run`, with which a theorem file runs alone.
A theorem file is a Python file with ``THEOREM`` (a `Theorem`) or ``theorem()`` (a function that makes one); loading it
runs it.  Nothing here proves anything or decides how a problem is shown.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from mha_sym.errors import Problem, TheoremProblem

if TYPE_CHECKING:
    from mha_sym.proof.theorem import Theorem


def proofs_directory() -> Path:
    """Where the theorem files are: inside an installed package, or beside the package in a clone.

    Raises:
        TheoremProblem: if they are in neither place.

    Example:
        >>> proofs_directory().is_dir()
        True
    """
    package = Path(__file__).parent
    for place in (package / "_proofs", package.parent / "proofs"):
        if place.is_dir():
            return place
    raise TheoremProblem(
        "the theorem files are missing",
        expected=f"a directory {package / '_proofs'} or {package.parent / 'proofs'}",
        hint="install the package again",
    )


def theorem_names() -> tuple[str, ...]:
    """The names of the theorems that come with the package, sorted."""
    return tuple(sorted(path.stem for path in proofs_directory().glob("*.py") if not path.stem.startswith("_")))


def spread(name_or_path: str) -> tuple[str, ...]:
    """The theorem files of a directory, sorted, if that is what the path is; else what was given.

    Names that begin with an underscore are helpers of theorem files, as in Python.

    Raises:
        TheoremProblem: for a directory without theorem files.

    Example:
        >>> spread("parameter_count")
        ('parameter_count',)
    """
    path = Path(name_or_path)
    if not path.is_dir() or name_or_path in theorem_names():
        return (name_or_path,)
    found = tuple(sorted(str(one) for one in path.glob("*.py") if not one.name.startswith("_")))
    if not found:
        raise TheoremProblem(f"{name_or_path} holds no theorem file", expected="files such as my_theorem.py")
    return found


def find(name_or_path: str) -> Path:
    """The file of a theorem, by its name or by its path.

    Raises:
        TheoremProblem: for a name that is not known (the closest names are the hint), or a path to no file.
    """
    path = Path(name_or_path)
    if path.suffix != ".py" and path.name == name_or_path:
        return _by_name(name_or_path)
    if path.is_dir():
        raise TheoremProblem(f"{name_or_path} is a directory", expected="one theorem file, such as my_theorem.py")
    if not path.is_file():
        raise TheoremProblem(f"there is no file {name_or_path}", expected="a theorem's name, or a path to a file")
    return path


def _by_name(name: str) -> Path:
    names = theorem_names()
    if name in names:
        return proofs_directory() / f"{name}.py"
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or [n for n in names if name in n][:3]
    hint = f"did you mean {', '.join(close)}?" if close else f"mha-sym derive without a name lists all {len(names)}"
    raise TheoremProblem(f"there is no theorem {name!r}", hint=hint if names else "")


def load(name_or_path: str | Path) -> Theorem:
    """The theorem of that name, or in that file.  Loading runs the file.

    Raises:
        TheoremProblem: for an unknown name or file, and for a file that raises or holds no theorem.
    """
    from mha_sym.proof.theorem import Theorem

    path = find(str(name_or_path))
    module = _execute(path)
    found = getattr(module, "THEOREM", None)
    make = getattr(module, "theorem", None)
    if found is None and callable(make):
        with _Blame(path):
            found = make()
    if not isinstance(found, Theorem):
        raise TheoremProblem(
            f"{path.name} holds no theorem",
            where=str(path),
            expected="THEOREM = Theorem(...), or a function theorem() that returns one",
            got="neither" if found is None else type(found).__name__,
        )
    return found


def _execute(path: Path) -> ModuleType:
    """The module in the file, run under a name of its own."""
    spec = importlib.util.spec_from_file_location(f"mha_sym_theorem_{path.stem}", path)
    if not isinstance(spec, ModuleSpec) or spec.loader is None:
        raise TheoremProblem(f"{path} cannot be read as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up while it runs
    with _Blame(path):
        spec.loader.exec_module(module)
    return module


class _Blame:
    """A context in which whatever the theorem file raises becomes a `TheoremProblem` that names file and line."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception | SystemExit):
            raise _blame(self.path, error) from error


def _blame(path: Path, error: BaseException) -> TheoremProblem:
    """What a file raised, as a complaint about the file."""
    where = f"{path}, line {_line(path, error)}"
    what = f"{path.name} does not load"
    if isinstance(error, Problem):
        return TheoremProblem(what, where=where, got=f"{type(error).__name__}: {error.one_line()}")
    return TheoremProblem(what, where=where, got=traceback.format_exception_only(error)[-1].strip())


def _line(path: Path, error: BaseException) -> int:
    """The last line of the file itself that the error passed through."""
    own = path.resolve()  # frames name the file by its whole path, whatever was typed
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).resolve() == own:
        return error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 1 for f in reversed(frames) if Path(f.filename).resolve() == own), 1)


def run(theorem: Theorem) -> int:
    """Prove one theorem, write its derivation to standard output, and say whether it holds: the exit code.

    A theorem file ends with ``if __name__ == "__main__": raise SystemExit(run(THEOREM))``.
    """
    from mha_sym.proof.prover import prove
    from mha_sym.render.derive import derive

    try:
        report = prove(theorem, recheck=True)
        text = derive(report, "unicode")
    except Problem as problem:
        sys.stderr.write(f"{theorem.name}: {problem.one_line()}\n")
        return 2
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0 if report.holds else 1
