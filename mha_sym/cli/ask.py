"""``mha-sym ask``: seven questions, their answers computed when asked, and exercises that are checked.

The questions are in `mha_sym.ask`, the showing in `mha_sym.render.questions.text`.
"""

from __future__ import annotations

import click

from mha_sym.cli.common import Exit, complain, json_option, traceback_option, write, write_json


@click.command(short_help="Answer seven questions with live results; check yours.")
@click.argument("number", type=int, required=False, metavar="[N]")
@click.option("--answer", metavar="TEXT", help="Check this answer to an exercise of question N.")
@click.option("--exercise", type=int, metavar="K", help="Which exercise of question N; the first if omitted.")
@json_option
@traceback_option
def ask(number: int | None, answer: str | None, exercise: int | None, as_json: bool) -> int:
    """List the questions, or answer question N with results that are computed now.

    With --answer, shapes such as '(2,5,12)->(2,5,3,4)', brackets or not, or an einops pattern such as
    'b t (h k) -> b h t k' are checked, and you are told which axis went wrong.  Ends with 0 if the answer is right, 1
    if it is wrong, 2 if it cannot be read.
    """
    from mha_sym.ask import find_exercise, find_question, questions
    from mha_sym.render.questions import text as show

    if exercise is not None and answer is None:
        raise click.UsageError("--exercise says which exercise --answer is meant for: give --answer TEXT, too.")
    if number is None:
        if answer is not None:
            raise click.UsageError("--answer needs the number of a question: mha-sym ask N --answer TEXT.")
        every = questions()
        if as_json:
            write_json(show.list_json(every))
        else:
            write(show.list_text(every))
        return Exit.OK
    question = find_question(number)
    if answer is not None:
        task = find_exercise(question, 1 if exercise is None else exercise)
        marked = task.mark(answer)
        if as_json:
            write_json(show.marked_json(question, task, answer, marked))
        else:
            write(show.marked_text(task, answer, marked))
        return Exit.OK if marked.right else Exit.FAILED
    found = question.answer()
    if as_json:
        write_json(show.question_json(question, found))
    else:
        write(show.question_text(question, found))
    if not found.holds:
        complain(f"question {number}: {sum(not one.holds for one in found.findings)} findings do not hold")
    return Exit.OK if found.holds else Exit.FAILED
