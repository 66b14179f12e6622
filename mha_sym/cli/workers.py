"""Proving many theorems in several processes, each told by name and answered in plain data.

Defines `Task`, `Proved`, `Failed` and `attempt_all`.  A theorem that cannot be loaded or tried never keeps the others
from being tried.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mha_sym.errors import Problem

if TYPE_CHECKING:
    from mha_sym.proof.theorem import Report
    from mha_sym.render.report_json import TheoremResult


@dataclass(frozen=True)
class Task:
    """A theorem to prove, by name or path; whether to recheck it at small sizes, and what to write of its proof."""

    name: str
    recheck: bool = True
    certificate: bool = False
    coq: bool = False
    metamath: bool = False


@dataclass(frozen=True)
class Proved:
    """A theorem that was tried: the result, whether it holds with its controls, and what to say besides, in lines.

    ``certificate``, ``coq`` and ``metamath`` are the texts of its files, if they were asked for and it was proved.
    """

    task: Task
    result: TheoremResult
    holds: bool
    remarks: tuple[str, ...]
    certificate: str = ""
    coq: str = ""
    metamath: str = ""


@dataclass(frozen=True)
class Failed:
    """A theorem that could not be tried, with the reason; ``fault`` if the reason is a fault of mha_sym."""

    task: Task
    message: str
    trace: str = ""
    fault: bool = False


Answer = Proved | Failed

DIED = "the process that worked on it ended without an answer"


def attempt(task: Task) -> Answer:
    """Load one theorem and try to prove it."""
    from mha_sym.library import load
    from mha_sym.proof import certificate_file, prover
    from mha_sym.render.report_json import remarks, theorem_result

    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a theorem file prints is not the result
            report = prover.prove(load(task.name), recheck=task.recheck)
        proved = report.verdict == "proved"
        text = certificate_file.write(report) if task.certificate and proved else ""
        coq = _coq_file(report) if task.coq and proved else ""
        metamath = _metamath_file(report) if task.metamath and proved else ""
        return Proved(task, theorem_result(report), report.holds, tuple(remarks(report)), text, coq, metamath)
    except Problem as problem:
        return Failed(task, problem.one_line(), traceback.format_exc())
    except Exception as error:  # noqa: BLE001 - one theorem's crash is reported as such, and the others still run
        return Failed(task, f"{type(error).__name__}: {error}", traceback.format_exc(), fault=True)


def _coq_file(report: Report) -> str:
    from mha_sym.export.coq import coq_file  # only when it is asked for

    return coq_file(report)


def _metamath_file(report: Report) -> str:
    from mha_sym.export.metamath import metamath_file  # only when it is asked for

    return metamath_file(report)


def attempt_all(tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> list[Answer]:
    """Try every theorem, up to ``jobs`` at a time; ``done`` is told of each as it ends.  Answers are in order.

    Where a process dies, all that were at work with it are lost; each of these is tried once more, in a process of its
    own, so that only the theorem that ends its process is not tried.
    """
    if min(jobs, len(tasks)) <= 1:
        return [_told(attempt(task), done) for task in tasks]
    answers = _together(tasks, jobs, done)
    for task in tasks:
        if task not in answers:
            answers |= _together([task], 1, done) or {task: _told(Failed(task, DIED), done)}
    return [answers[task] for task in tasks]


def _together(tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> dict[Task, Answer]:
    """The answers of those theorems whose processes lived."""
    answers: dict[Task, Answer] = {}
    with _pool(min(jobs, len(tasks))) as pool:
        futures: dict[Future[Answer], Task] = {}
        try:
            with contextlib.suppress(BrokenProcessPool):
                futures.update((pool.submit(attempt, task), task) for task in tasks)
            for one in as_completed(futures):
                with contextlib.suppress(BrokenProcessPool):
                    answers[futures[one]] = _told(one.result(), done)
        except BaseException:
            _stop(pool)
            raise
    return answers


def _told(answer: Answer, done: Callable[[Task], None]) -> Answer:
    done(answer.task)
    return answer


def _pool(jobs: int) -> ProcessPoolExecutor:
    # "spawn": a fresh interpreter for each worker, which neither copies threads nor depends on the platform.
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start)


def _start() -> None:
    """A worker dies of Ctrl-C without a traceback, since the main process says the one line; and with that process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # it would look through everything after each theorem; a worker ends before that fills memory
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers now, whatever they are doing."""
    pool.shutdown(wait=False, cancel_futures=True)
    for child in multiprocessing.active_children():
        child.terminate()
