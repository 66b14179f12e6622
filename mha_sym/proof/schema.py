"""The schema of certificate files, version 1: what may stand where, and how large it may be.

Defines the rows that reading and writing share, what a file holds once it is read (`Statement`, `Document`), and
`Unreadable`.  Reading is in `mha_sym.proof.reader`, writing in `mha_sym.proof.certificate_file`.

A certificate file is one JSON object with exactly these members::

    format   "mha_sym-certificate"
    version  1
    sha256   the SHA-256, in hexadecimal, of the other members as JSON with sorted keys, no blanks and ASCII only
    theorem  {"name", "title", "words": texts, "assumptions": [{"words": text, "positive": [ASSUMED]}]}
    nodes    [NODE], each distinct node of all terms once, children before parents, each used somewhere
    context  {"definitions": {name: {"params": [var], "body": term}}, "booleans": [name],
              "tables": {name: [[[place], rational]]}, "bijections": {name: domain}}
    goals    [{"name", "variables": [var], "left": term, "right": term,
               "left_steps": [STEP], "right_steps": [STEP]}]

    ASSUMED  {"variables": [var], "term": term}: the term is positive for all values of the variables
    NODE     [kind, field, ...] as in `NODES`; a field that is a node is the number of an earlier row
    STEP     [rule, [child number, ...], {argument: value}] with the arguments of `ARGUMENTS`

where var, term, domain and index stand for the number of a row of that sort and rational for a text such as "-1/2".
The steps of each side turn it into one common term.  A goal may be used as a lemma by those after it.
The digest tells a damaged file; it is no protection against a forged one.  That is what checking the steps is for.
"""

from __future__ import annotations

from dataclasses import dataclass

from mha_sym.proof.checker import Certificate, Goal
from mha_sym.proof.rules import Context
from mha_sym.proof.terms import (
    Add,
    Apply,
    At,
    Bind,
    Cmp,
    Domain,
    Entry,
    Index,
    Inj,
    Join,
    Mul,
    Num,
    Part,
    Perm,
    Size,
    Term,
    Var,
)

FORMAT, VERSION = "mha_sym-certificate", 1

#: bounds, far above what theorems need, so that no file can make reading slow or large
MAX_BYTES = 2 << 20
MAX_ITEMS = 50_000  # of one list
MAX_TREE = 50_000  # nodes of one term, shared ones counted as often as they occur
MAX_DOMAIN = 200  # nodes of one domain, counted in the same way
MAX_PRODUCTS = 64  # of a size that is multiplied out
MAX_DEPTH = 120  # of one term, in nodes
MAX_PATH = 200  # child numbers of one path, variables of one goal, positions of one entry
MAX_ARGS = 1000  # of one sum or product
MAX_WHOLE = 10**9
MAX_DIGITS = 60  # of a numerator or denominator
MAX_POWER = 64  # of a size
MAX_AXIS = 4096  # positions of a domain of fixed size
MAX_NAME, MAX_TEXT = 100, 10_000

#: a kind of node: its class, and its fields in order with what each holds
NODES: dict[str, tuple[type, dict[str, str]]] = {
    "domain": (Domain, {"name": "name", "size": "term", "factors": "domains", "blocks": "domains"}),
    "var": (Var, {"name": "name", "domain": "domain"}),
    "at": (At, {"number": "number"}),
    "join": (Join, {"domain": "domain", "parts": "indices"}),
    "part": (Part, {"index": "index", "domain": "domain", "number": "number"}),
    "inj": (Inj, {"index": "index", "domain": "domain", "number": "number"}),
    "perm": (Perm, {"name": "name", "inverse": "flag", "index": "index"}),
    "num": (Num, {"value": "rational"}),
    "size": (Size, {"name": "size", "power": "power"}),
    "entry": (Entry, {"name": "name", "at": "indices"}),
    "cmp": (Cmp, {"op": "order", "left": "index", "right": "index", "offset": "whole"}),
    "add": (Add, {"args": "terms"}),
    "mul": (Mul, {"args": "terms"}),
    "bind": (Bind, {"op": "binder", "var": "var", "body": "term"}),
    "apply": (Apply, {"name": "name", "arg": "term"}),
}

#: what a reference may point to
SORTS: dict[str, tuple[type, ...]] = {
    "domain": (Domain,), "var": (Var,), "index": (Var, At, Join, Part, Inj, Perm),
    "term": (Num, Size, Entry, Cmp, Add, Mul, Bind, Apply),
}  # fmt: skip
PLURALS = {"domains": "domain", "indices": "index", "terms": "term"}

#: fields that hold one of a few words
WORDS = {"order": ("le", "eq"), "binder": ("sum", "max")}

#: the arguments of each rule, and what each holds
ARGUMENTS: dict[str, dict[str, str]] = {
    "unfold": {},
    "table": {},
    "lemma": {"name": "name", "at": "indices", "back": "flag"},
    "arithmetic": {},
    "distribute": {"position": "number"},
    "take_out": {"positions": "choices"},
    "collect": {"first": "number", "second": "number"},
    "pull": {"position": "number"},
    "factor": {"positions": "numbers"},
    "exchange": {},
    "sum_of_sum": {},
    "constant_sum": {},
    "split_sum": {},
    "enumerate_sum": {},
    "delta": {"position": "number"},
    "reindex": {"name": "name", "inverse": "flag"},
    "exp_of_sum": {},
    "exp_product": {"first": "number", "second": "number"},
    "inverse_of_exp": {},
    "inverse_of_product": {},
    "cancel": {"value": "number", "inverse": "number", "given": "instances"},
    "guard": {"brackets": "numbers", "where": "numbers"},
    "spread": {"brackets": "numbers", "where": "numbers"},
    "compare": {},
}


class Unreadable(Exception):
    """A text that is no certificate: where in it (``$.goals[2].left``), and what is wrong there.

    Example:
        >>> print(Unreadable("$.version", "expected 1, got 2"))
        $.version: expected 1, got 2
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where, self.what = where, what


@dataclass(frozen=True)
class Assumed:
    """An assumption in words, and the terms that it says are positive."""

    words: str
    positive: tuple[tuple[tuple[Var, ...], Term], ...] = ()


@dataclass(frozen=True)
class Statement:
    """What a certificate says: a theorem in words, what it takes for granted, and its goals in order."""

    name: str
    title: str
    words: str
    assumptions: tuple[Assumed, ...]
    context: Context
    goals: tuple[Goal, ...]


@dataclass(frozen=True)
class Document:
    """A certificate file that was read: a statement, and one certificate a goal."""

    statement: Statement
    certificates: tuple[Certificate, ...]


Node = Domain | Index | Term
