"""The one frame in which every complaint to a user is put: what failed, where, expected, got, axes, hint.

Defines `Problem` and its kinds.  Nothing here prints; the command line decides how a problem is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


class Problem(Exception):
    """A user's mistake, or a limit of the tool, told in full and without a traceback.

    Args:
        what: the claim that failed, one sentence.
        where: the operation, file or theorem in which it failed.
        expected: what would have been accepted.
        got: what was found instead.
        axes: the axes in force, one text per operand (see `show_axes`).
        hint: one thing to do about it.

    Example:
        >>> print(Problem("axis 'q' is not there", where="transpose", got="(b, t)", hint="rename it first"))
        axis 'q' is not there
          in:       transpose
          got:      (b, t)
          hint:     rename it first
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        expected: str = "",
        got: str = "",
        axes: Sequence[str] = (),
        hint: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.expected = expected
        self.got = got
        self.axes = tuple(axes)
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.what]
        rows = [("in", self.where), ("expected", self.expected), ("got", self.got)]
        rows += [("axes", text) for text in self.axes]
        rows += [("hint", self.hint)]
        lines += [f"  {label + ':':<9} {text}" for label, text in rows if text]
        return "\n".join(lines)

    def one_line(self) -> str:
        """The same complaint on one line, for commands.

        Example:
            >>> Problem("no theorem 'softmx'", hint="did you mean softmax_rows_sum_to_one?").one_line()
            "no theorem 'softmx'; hint: did you mean softmax_rows_sum_to_one?"
        """
        rows = (" ".join(row.split()) for row in str(self).split("\n"))  # what is quoted may have ends of lines, too
        return "; ".join(row for row in rows if row)


class AxisProblem(Problem):
    """An expression whose axes do not fit together; raised when the expression is built."""


class DataProblem(Problem):
    """Arrays that do not fit an expression: a missing or wrong axis, a size, a dtype, NaN."""


class NoValue(DataProblem):
    """Arrays on which the expression has no value: a row that keeps no key, the inverse of zero."""


class NotExact(DataProblem):
    """A value that the exact elements at hand cannot hold, such as an exponential among fractions."""


class TargetProblem(Problem):
    """An implementation that cannot be imported, called, or understood."""


class TheoremProblem(Problem):
    """A theorem that is not known, or a proof file that does not load."""


def show_axes(axes: Iterable[Any]) -> str:
    """Axes with their sizes as they are printed in messages: ``(b: B, t: T, (h k): d_k*h)``."""
    return "(" + ", ".join(f"{axis.name}: {axis.size}" for axis in axes) + ")"
