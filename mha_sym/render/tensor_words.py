"""What tensors are called in words, by the names that they have in the field: ``W_Q`` holds weights of the queries.

Defines `given_words` and `defined_words`.  Names that nobody knows are told by their role, or by how they are made.
"""

from __future__ import annotations

from collections.abc import Sequence

from mha_sym.expr import Input

#: of what a tensor whose name ends so belongs to
_OF = {"Q": "the queries", "K": "the keys", "V": "the values", "O": "the output"}
_LAST_AXES = {"q": "queries", "k": "keys", "v": "values"}
_ROLES = {"data": "any numbers", "gate": "gate: a factor for each head", "weight": "weights", "bias": "bias"}
#: what a mask of truth values is, and one of numbers
KEPT, ADDED = "mask: 1 where a query may see a key, else 0", "mask, added to the scores"

_SIDE_BY_SIDE = "of all heads, side by side"
#: tensors of a whole layer
_LAYER = {
    "Q": "queries, head by head", "K": "keys, head by head", "V": "values, head by head",
    "Q_flat": f"queries {_SIDE_BY_SIDE}", "K_flat": f"keys {_SIDE_BY_SIDE}", "V_flat": f"values {_SIDE_BY_SIDE}",
    "S": "scores, head by head", "A": "attention weights, head by head", "Z": "outputs of the heads",
    "A_wide": "attention weights of one wide head",
    "C": f"outputs {_SIDE_BY_SIDE}", "Concat": "the outputs of separate heads, side by side",
    "Y": "output of the layer", "Y_sep": "output of the layer that runs each head on its own and concatenates",
    "Y_sum": "output of the layer that adds up what its heads give",
}  # fmt: skip
#: tensors of one head
_HEAD = {
    "Q": "queries of head", "K": "keys of head", "V": "values of head", "S": "scores of head",
    "A": "attention weights of head", "Z": "output of head", "H": "what is given to the output by head",
}  # fmt: skip
#: what is cut out of matrices and biases, by the reason for it
_CUT = {"column blocks": "columns", "row blocks": "rows", "blocks of the bias": "part"}


def given_words(name: str, node: Input) -> str:
    """What an input is.

    Example:
        >>> from mha_sym.axes import axis
        >>> axes = (axis("t", "T"), axis("m", "d_model"))
        >>> given_words("X_q", Input("X_q", axes)), given_words("W_Q", Input("W_Q", axes, role="weight"))
        ('input that the queries are made of', 'weights of the queries')
    """
    root, _, last = name.rstrip("'").partition("_")
    if node.role == "mask":
        return KEPT if node.boolean else ADDED
    if node.role in ("weight", "bias") and last in _OF:
        return f"{_ROLES[node.role]} of {_OF[last]}"
    if node.role == "data" and root == "X":
        return f"input that the {_LAST_AXES[last]} are made of" if last in _LAST_AXES else "input of the layer"
    if node.role != "data":
        return _ROLES[node.role]
    return f"any {_LAYER[name]}" if name in _LAYER else _data_words([one.name for one in node.over])


def _data_words(axes: Sequence[str]) -> str:
    """What an input whose name says nothing is, by the names of its axes."""
    if axes[-2:] == ["t", "s"]:
        return "any scores"
    return f"{_ROLES['data']}, one for each feature of a token" if axes[-1:] == ["m"] else _ROLES["data"]


def defined_words(root: str, label: str, made: str) -> str:
    """What a defined tensor is, ``made`` being how; ``label`` is the letter of a head, if it is of one head.

    Example:
        >>> defined_words("Q", "r", "definition of the product"), defined_words("W_Q", "r", "column blocks")
        ('queries of head r', 'columns of W_Q for head r')
    """
    if label and made in _CUT:
        return f"{_CUT[made]} of {root} for head {label}"
    if label:
        return f"{_HEAD[root]} {label}" if root in _HEAD else made
    return _LAYER.get(root, made)
