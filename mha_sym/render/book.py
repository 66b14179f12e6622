r"""All theorems as one book: an index, a page or a chapter each, and questions with exercises as the last chapter.

Defines `related`, which finds theorems that belong together, `PARTS`, the order in which they are read, `html_book`, a
set of pages, and `latex_book`, one document and one file a theorem.  Writing the files is left to others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from mha_sym.expr import Expr, Named, walk
from mha_sym.proof.theorem import Report, Theorem
from mha_sym.render import sentences
from mha_sym.render.derivation import Derivation
from mha_sym.render.latex.article import latex_body, latex_frame
from mha_sym.render.pictures.parts import escaped
from mha_sym.render.prose import latex_prose, latex_words
from mha_sym.render.questions.book import TITLE as QUESTIONS
from mha_sym.render.questions.book import Answered, html_questions, latex_questions
from mha_sym.render.vocabulary import Vocabulary
from mha_sym.render.web.math import Writer
from mha_sym.render.web.page import Surroundings, html_page, page

TITLE = "Multi-head attention, theorem by theorem"
WORDS = (
    "Every equality below is proved for all sizes, if no others are named, from a certificate that a small checker "
    "replays; every false neighbour is refuted by a counterexample. Each theorem begins with its stages, one line each."
)

#: the parts of the book, and the theorems in each in the order in which they are read
PARTS = {
    "One projection and many heads": (
        "combined_projection_eq_separate_heads", "split_columns_inverse_join_columns",
        "split_transpose_join_is_identity", "concat_output_eq_sum_over_heads", "combined_layer_eq_separate_layer",
    ),
    "What changes nothing": (
        "head_permutation_leaves_layer_unchanged", "feature_order_inside_heads_is_free",
        "scale_moves_between_queries_and_keys", "head_circuits_determine_layer", "key_bias_cancels_value_bias_folds",
        "token_permutation_equivariance",
    ),
    "Weights and masks": (
        "softmax_rows_sum_to_one", "softmax_add_row_constant", "one_weight_per_key_for_every_value_coordinate",
        "mask_broadcast_and_causality",
    ),
    "Taking heads away": (
        "head_ablation_locations", "zeroed_scores_leave_the_average", "head_pruning_is_a_smaller_layer",
    ),
    "In numbers": ("parameter_count", "score_entries_and_costs", "numerical_axis_trace"),
}  # fmt: skip
#: where theorems stand that no part has
OTHERS = "Others"

#: theorems that define so many tensors alike are about the same thing
ALIKE = 7
#: of which so many are named
TOLD = 3


@dataclass(frozen=True)
class Chapter:
    """A theorem in a book: its derivation, and the theorems that belong to it with the reasons."""

    found: Derivation
    related: tuple[tuple[str, str], ...] = ()


def in_parts(chapters: Sequence[Chapter]) -> dict[str, list[tuple[int, Chapter]]]:
    """The chapters as they are read, part by part, with their numbers.

    Example:
        >>> in_parts([])
        {}
    """
    left = {one.found.name: one for one in chapters}
    parts = {part: [left.pop(name) for name in names if name in left] for part, names in PARTS.items()}
    parts[OTHERS] = [left[name] for name in sorted(left)]
    numbers = count(1)
    return {part: [(next(numbers), one) for one in members] for part, members in parts.items() if members}


def _read(chapters: Sequence[Chapter]) -> list[Chapter]:
    return [one for part in in_parts(chapters).values() for _, one in part]


def related(reports: Sequence[Report]) -> dict[str, tuple[tuple[str, str], ...]]:
    """For each theorem the others that state something of it again, or are about the same tensors, and which.

    Example:
        >>> from mha_sym.axes import axis
        >>> from mha_sym.expr import Input
        >>> from mha_sym.proof.theorem import Claim
        >>> x = Input("x", (axis("t"),))
        >>> one, two = (Theorem(name, "", "", (Claim("twice", x + x, x * 2),)) for name in ("one", "two"))
        >>> related([Report(one, (), (), 0.0), Report(two, (), (), 0.0)])["one"]
        (('two', 'states twice too'),)
    """
    theorems = {one.theorem.name: one.theorem for one in reports}
    alike: dict[object, int] = {}
    claims = {name: _numbered(_claims(one), alike) for name, one in theorems.items()}
    tensors = {name: _numbered(_tensors(one), alike) for name, one in theorems.items()}
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for name in theorems:
        rows = []
        for other in theorems:
            if other != name:
                why = _why(claims[name], claims[other], tensors[name], tensors[other])
                rows += [(other, why)] if why else []
        found[name] = tuple(rows)
    return found


_Names = Mapping[int, str]


def _numbered(named: Mapping[Any, str], alike: dict[object, int]) -> dict[int, str]:
    """The names under numbers, one for all that is written alike: large expressions are looked through only once."""
    return {alike.setdefault(one, len(alike)): name for one, name in named.items()}


def _claims(theorem: Theorem) -> dict[tuple[Expr, Expr], str]:
    return {(claim.left, claim.right): claim.name for claim in theorem.claims}


def _tensors(theorem: Theorem) -> dict[Expr, str]:
    """The tensors that a theorem defines, in the order in which they occur."""
    sides = [side for claim in theorem.claims for side in (claim.left, claim.right)]
    return {node: node.name for side in sides for node in walk(side) if isinstance(node, Named)}


def _why(own: _Names, other: _Names, tensors: _Names, others: _Names) -> str:
    """Why two theorems belong together, or nothing."""
    same = [name for claim, name in own.items() if claim in other]
    if same:
        return f"states {', '.join(same)} too"
    alike = dict.fromkeys(name for node, name in tensors.items() if node in others)
    *shown, last = [*alike][:TOLD] or [""]
    return f"also about {', '.join(shown)} and {last}" if len(alike) >= ALIKE else ""


# ---------------------------------------------------------------- pages


def html_book(chapters: Sequence[Chapter], questions: Sequence[Answered] = ()) -> dict[str, str]:
    """The pages of a book by the names of their files, ``index.html`` first."""
    chapters = _read(chapters)
    links = {one.found.name: f"{one.found.name}.html" for one in chapters}
    files = {"index.html": page(TITLE, f"<main>\n{_html_index(chapters, links, bool(questions))}\n</main>\n")}
    order = [(links[one.found.name], one.found.title) for one in chapters]
    order += [("questions.html", QUESTIONS)] if questions else []
    titles = {one.found.name: one.found.title for one in chapters}
    for one, before, after in zip(chapters, [None, *order], [*order[1:], None], strict=False):
        around = Surroundings("index.html", links, titles, one.related, before, after)
        files[links[one.found.name]] = html_page(one.found, around)
    if questions:
        files["questions.html"] = html_questions(questions, links)
    return files


def _html_index(chapters: Sequence[Chapter], links: Mapping[str, str], questions: bool) -> str:
    return "\n".join(_index_lines(chapters, Writer(Vocabulary(), links), questions))


def _index_lines(chapters: Sequence[Chapter], writer: Writer, questions: bool) -> Iterator[str]:
    yield f"<h1>{TITLE}</h1>"
    yield f"<p>{WORDS}</p>"
    for part, members in in_parts(chapters).items():
        yield f'<h2>{part}</h2>\n<ol class="controls" start="{members[0][0]}">'
        for number, one in members:
            found = one.found
            good = "good" if found.good else "alarm"
            title = f'<a href="{escaped(writer.links[found.name])}">{writer.prose(found.title)}</a>'
            yield f"<li><p>{number}. {title}</p><p>{writer.prose(found.words)}</p>"
            yield f'<p class="{good}">{writer.prose(sentences.verdict(found))}</p></li>'
        yield "</ol>"
    if questions:
        yield f'<h2>{QUESTIONS}</h2>\n<p><a href="questions.html">Questions with exercises</a></p>'


# ---------------------------------------------------------------- one document


def latex_book(chapters: Sequence[Chapter], questions: Sequence[Answered] = ()) -> dict[str, str]:
    """``book.tex``, and a document of its own for each theorem."""
    chapters = _read(chapters)
    bodies = {one.found.name: list(latex_body(one.found)) for one in chapters}
    files = {"book.tex": latex_frame(TITLE, _book_lines(chapters, bodies, questions), outline=True)}
    return files | {f"{one.found.name}.tex": latex_frame(one.found.title, bodies[one.found.name]) for one in chapters}


def _book_lines(
    chapters: Sequence[Chapter], bodies: Mapping[str, Sequence[str]], questions: Sequence[Answered]
) -> Iterator[str]:
    yield rf"\running{{{TITLE}}}{{\LARGE\bfseries {TITLE}\par}}"
    yield rf"\bigskip {WORDS}\par\bigskip"
    titles = {one.found.name: one.found.title for one in chapters}
    for part, members in in_parts(chapters).items():
        yield rf"\medskip\noindent\textbf{{{part}}}\par"
        for number, one in members:
            yield _entry(f"theorem.{one.found.name}", rf"{number}.\enspace {latex_prose(one.found.title)}")
    yield from [_entry("questions", QUESTIONS)] if questions else []
    for one in chapters:
        name = one.found.name
        yield rf"\clearpage\hypertarget{{theorem.{name}}}{{}}\label{{theorem.{name}}}"
        yield rf"\outline{{{latex_words(one.found.title)}}}{{{name}}}"
        yield from bodies[name]
        if one.related:
            rows = (rf"\item {_reference(other, titles[other])}: {latex_prose(why)}." for other, why in one.related)
            yield from (r"\subsection*{See also}", r"\begin{itemize}", *rows, r"\end{itemize}")
    if questions:
        yield r"\clearpage\hypertarget{questions}{}\label{questions}"
        yield rf"\outline{{{QUESTIONS}}}{{questions}}\running{{{QUESTIONS}}}"
        yield from latex_questions(questions, {one.found.name for one in chapters})


def _entry(label: str, title: str) -> str:
    """A line of the table of contents."""
    return rf"\noindent\hyperlink{{{label}}}{{{title}}}\dotfill\pageref{{{label}}}\par"


def _reference(name: str, title: str) -> str:
    """The title of a theorem, which leads to it."""
    return rf"\hyperlink{{theorem.{name}}}{{{latex_prose(title)}}} (page~\pageref{{theorem.{name}}})"
