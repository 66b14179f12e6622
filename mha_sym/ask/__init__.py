"""Seven questions to check yourself with, each answered by results that the library gives when it is asked.

Defines `questions` and `find_question`.  The answers are in the modules beside this one, what they consist of in
`mha_sym.render.questions.question`; how they look is decided by the renderers.
"""

from __future__ import annotations

from mha_sym.errors import Problem
from mha_sym.render.questions.question import Exercise, Question


def questions() -> tuple[Question, ...]:
    """All questions in order; a question is answered by its method `answer`, which computes its results then.

    Example:
        >>> [one.name for one in questions()][:3]
        ['one_row_of_weights', 'scores_shape', 'separate_to_combined']
    """
    from mha_sym.ask.ablation import ablation
    from mha_sym.ask.costs import parameters_question
    from mha_sym.ask.heads import labels, one_row
    from mha_sym.ask.shapes import divisible, matrices, scores

    return tuple(make() for make in (one_row, scores, matrices, divisible, parameters_question, ablation, labels))


def find_question(number: int) -> Question:
    """The question of that number.

    Raises:
        Problem: if there is none.
    """
    every = questions()
    if not 1 <= number <= len(every):
        raise Problem(f"there is no question {number}", expected=f"1 to {len(every)}")
    return every[number - 1]


def find_exercise(question: Question, number: int) -> Exercise:
    """The exercise of that number.

    Raises:
        Problem: if there is none.
    """
    count = len(question.exercises)
    if not 1 <= number <= count:
        raise Problem(
            f"question {question.number} has no exercise {number}",
            expected="exercise 1" if count == 1 else f"1 to {count}",
        )
    return question.exercises[number - 1]
