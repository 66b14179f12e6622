"""The numbers of the public cases: which are inputs, which are tested in another way, which are no inputs, and why.

Defines `NUMBERS` (all cases that are told), `COUNTED` (what is said of numbers of parameters), `ELSEWHERE` (the test
that has it) and `NO_INPUTS` (the reason).
"""

from __future__ import annotations

from tests.audit import public_cases, public_limits

#: the numbers of all cases that are told
_RANGES = (
    "1-2 4-5 7-8 10-11 13-14 16-17 19-20 22-23 25-26 28-29 31-32 34-35 37-38 40-41 43-44 46-47 49-50 52-53 55-56 58-59 "
    "61-62 64-65 67-68 70-71 73-74 76-77 79-80 82-83 85-86 88-89 91-92 94-95 97-98 100-101 103-104 106-107 109-110 "
    "112-113 115-116 118-119 121-122 124-125 127-128 130-131 133-134 136-137 139-140 142-143 145-146 148-149 151-152 "
    "154-155 157-158 160-161 163-164 166-167 169-170 172-173 175-176 178-179 181-182 184-185 187-188 190-191 193-194 "
    "196-197 199-200 202-203 205-206 208-209 211-212 214-215 217-218 220-221"
)
NUMBERS: frozenset[int] = frozenset(
    number for pair in _RANGES.split() for number in map(int, pair.split("-"))
)

#: the inputs, with what is to be said of each
INPUTS: dict[str, frozenset[int]] = {
    "named": frozenset(public_cases.FAULTY), "right under another layout": frozenset(public_cases.RELAID),
    "right": frozenset(public_cases.RIGHT), "at some sizes": frozenset(public_limits.LIMITED),
    "refused": frozenset(public_limits.REFUSED),
}  # fmt: skip

#: sizes, the biases, and how many parameters a layer has
COUNTED: dict[int, tuple[dict[str, int], bool, int]] = {
    167: ({"d_model": 768, "h": 12, "d_k": 64, "d_v": 64}, True, 4 * 768**2 + 4 * 768),
    169: ({"d_model": 8, "h": 2, "d_k": 4, "d_v": 4}, False, 192 + 64),
    170: ({"d_model": 8, "h": 4, "d_k": 2, "d_v": 2}, False, 192 + 64),  # the number of heads does not multiply it
    175: ({"d_model": 300, "h": 6, "d_k": 50, "d_v": 50}, False, 4 * 300**2),
}

#: what is tested in another way, and where
ELSEWHERE: dict[int, str] = {
    157: "tests/audit/test_probes.py::test_a_head_mask_behind_w_o_is_told_from_one_before_it",
    158: "tests/audit/test_probes.py::test_a_head_mask_behind_w_o_is_told_from_one_before_it",
    161: "tests/audit/test_probes.py::test_the_location_of_a_head_mask_is_found",
    164: "tests/audit/test_probes.py::test_heads_pruned_in_the_rows_of_a_stored_w_o_are_found_behind_it",
}

_GRADIENTS, _UPDATE = "gradients are not compared", "an update of the weights is no input of the layer"

#: what no input can say, and why
NO_INPUTS: dict[int, str] = {
    64: "inputs with a fourth axis: a layer has three",
    79: _GRADIENTS,
    89: _UPDATE,
    91: _UPDATE,
    98: "a look at the first stored rows, no code: rows of the first head are alike in both orders",
    119: "a bias that is there though the settings say no: the layer computes what its weights say",
    155: "how many heads each device has, with the same result on all of them together",
    172: "two meanings of one word in an estimate; no code computes attention with it",
    173: "a number of parameters of a whole block, with other layers in it",
    176: "bytes of a cache of several layers",
    184: _GRADIENTS,
    221: "what a description says of a shape; the computation is right",
}
