"""Proving many theorems in several processes, each told by name and answered in plain data.

Defines `Task`, `Proved`, `Failed` and `attempt_all`.  A theorem that cannot be loaded or tried never keeps the others
from being tried.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sys
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


@dataclass(frozen=True)
class Proved:
    """A theorem that was tried: the result, whether it holds with its controls, and what does not, in lines.

    ``certificate`` and ``coq`` are the texts of its files, if they were asked for and it was proved.
    """

    task: Task
    result: TheoremResult
    holds: bool
    failures: tuple[str, ...]
    certificate: str = ""
    coq: str = ""


@dataclass(frozen=True)
class Failed:
    """A theorem that could not be tried, with the reason; ``fault`` if the reason is a fault of mha_sym."""

    task: Task
    message: str
    trace: str = ""
    fault: bool = False


Answer = Proved | Failed


def attempt(task: Task) -> Answer:
    """Load one theorem and try to prove it."""
    from mha_sym.library import load
    from mha_sym.proof import certificate_file, prover
    from mha_sym.render.report_json import failures, theorem_result

    try:
        with contextlib.redirect_stdout(sys.stderr):  # what a theorem file prints is not the result
            report = prover.prove(load(task.name), recheck=task.recheck)
        proved = report.verdict == "proved"
        text = certificate_file.write(report) if task.certificate and proved else ""
        coq = _coq_file(report) if task.coq and proved else ""
        return Proved(task, theorem_result(report), report.holds, tuple(failures(report)), text, coq)
    except Problem as problem:
        return Failed(task, problem.one_line(), traceback.format_exc())
    except Exception as error:  # noqa: BLE001 - one theorem's crash is reported as such, and the others still run
        return Failed(task, f"{type(error).__name__}: {error}", traceback.format_exc(), fault=True)


def _coq_file(report: Report) -> str:
    from mha_sym.export.coq import coq_file  # only when it is asked for

    return coq_file(report)


def attempt_all(tasks: Sequence[Task], jobs: int, done: Callable[[Task], None]) -> list[Answer]:
    """Try every theorem, up to ``jobs`` at a time; ``done`` is told of each as it ends.  Answers are in order."""
    if min(jobs, len(tasks)) <= 1:
        return [_told(attempt(task), done) for task in tasks]
    with _pool(min(jobs, len(tasks))) as pool:
        futures = {pool.submit(attempt, task): task for task in tasks}
        try:
            answers = {futures[one]: _told(_answer(one, futures[one]), done) for one in as_completed(futures)}
        except BaseException:
            _stop(pool)
            raise
    return [answers[task] for task in tasks]


def _told(answer: Answer, done: Callable[[Task], None]) -> Answer:
    done(answer.task)
    return answer


def _answer(future: Future[Answer], task: Task) -> Answer:
    try:
        return future.result()
    except BrokenProcessPool:
        return Failed(task, "the process that worked on it, or on another one beside it, ended without an answer")


def _pool(jobs: int) -> ProcessPoolExecutor:
    # "spawn": a fresh interpreter for each worker, which neither copies threads nor depends on the platform.
    return ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _quiet_on_interrupt)


def _quiet_on_interrupt() -> None:
    """A worker dies of Ctrl-C without a traceback; the main process says the one line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stop(pool: ProcessPoolExecutor) -> None:
    """End the workers now, whatever they are doing."""
    pool.shutdown(wait=False, cancel_futures=True)
    for child in multiprocessing.active_children():
        child.terminate()
