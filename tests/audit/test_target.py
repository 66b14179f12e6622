"""Targets: files and modules, objects and factories, and what goes wrong with each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mha_sym.audit import Implementation, check_target
from mha_sym.audit.target import as_implementation, load, part_of
from mha_sym.errors import TargetProblem

GOOD = """
import numpy as np

def attention(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = ((x @ w).reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for w in (w_q, w_k, w_v))
    a = np.exp(q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1]))
    z = (a / a.sum(-1, keepdims=True)) @ v
    return z.swapaxes(1, 2).reshape(*x.shape[:2], -1) @ w_o

def headless(x, w_q, w_k, w_v, w_o):
    return attention(x, w_q, w_k, w_v, w_o, 3)

def no_scale(x, w_q, w_k, w_v, w_o, heads):
    return attention(x, w_q * np.sqrt(w_q.shape[1] // heads), w_k, w_v, w_o, heads)

def noisy(x, w_q, w_k, w_v, w_o, heads):
    print("working")
    return attention(x, w_q, w_k, w_v, w_o, heads)

def make():
    return attention

def makes_a_number():
    return 3

def breaks():
    raise RuntimeError("no weights file")

class Layer:
    def __init__(self, width):
        self.width = width

    @staticmethod
    def attention(x, w_q, w_k, w_v, w_o, heads):
        return attention(x, w_q, w_k, w_v, w_o, heads)

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


def test_exit_codes_of_files(file: Path) -> None:
    assert check_target(f"{file}:attention").exit_code == 0
    assert check_target(f"{file}:no_scale").exit_code == 1
    assert check_target(f"{file}:number").exit_code == 2


def test_functions_methods_and_factories(file: Path) -> None:
    assert check_target(f"{file}:make").ok
    assert check_target(f"{file}:Layer.attention").ok
    assert check_target(f"{file}:headless", heads=3, causal=None, batch_first=None, seed=4).ok


def test_options_that_are_not_given_are_none(file: Path) -> None:
    report = check_target(f"{file}:attention", heads=None, causal=None, batch_first=None, seed=None)
    assert report.ok and report.seed == 0


def test_a_flag_left_out_leaves_no_case_out() -> None:
    causal = {one.case for one in check_target("tests.audit.right:masked", causal=False).compared}
    assert causal == {
        "no mask", "causal (boolean)", "padding (boolean)", "causal and padding", "boolean mask, any keys",
    }  # fmt: skip
    assert len({one.case for one in check_target("tests.audit.right:masked", causal=True).compared}) == 2


def test_modules_by_name() -> None:
    assert check_target("tests.audit.right:with_einops").ok
    assert check_target("tests.audit.wrong:no_scale").exit_code == 1


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{file}", "names no object"),
        ("{file}:", "names no object"),
        ("{file}:nothing", "has no 'nothing'"),
        ("{file}:number", "is nothing that can be checked"),
        ("{file}:makes_a_number", "is nothing that can be checked"),
        ("{file}:breaks", "raised RuntimeError: no weights file"),
        ("{file}:Layer", "class Layer needs arguments to be made: width"),
        ("no/such/file.py:attention", "there is no file no/such/file.py"),
        ("no_such_module:attention", "cannot be imported: ModuleNotFoundError"),
        ("math:pi", "is nothing that can be checked"),
    ],
)
def test_targets_that_are_none(file: Path, target: str, message: str) -> None:
    report = check_target(target.format(file=file))
    assert report.exit_code == 2
    assert report.problem is not None and message in report.problem.one_line()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module_here", "ModuleNotFoundError"),
        ("def attention(x:\n    pass", "SyntaxError"),
        ("raise ValueError('too early')", "ValueError: too early"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_that_cannot_be_imported(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    report = check_target(f"{path}:attention")
    assert report.exit_code == 2 and report.problem is not None
    assert message in report.problem.what
    assert report.problem.where.startswith(str(path))


def test_a_file_may_import_its_neighbours_even_later(tmp_path: Path) -> None:
    (tmp_path / "beside_target.py").write_text(GOOD)
    path = tmp_path / "uses.py"
    path.write_text("def make():\n    from beside_target import attention\n    return attention\n")
    assert check_target(f"{path}:make").ok


def test_a_file_named_like_an_installed_module_does_not_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "json.py"
    path.write_text(GOOD)
    assert check_target(f"{path}:attention").ok
    assert sys.modules["json"].__file__ != str(path)


def test_what_the_target_prints_does_not_mix_with_the_output(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_target(f"{file}:noisy").ok
    captured = capsys.readouterr()
    assert captured.out == "" and "working" in captured.err


def test_load_gives_the_object(file: Path) -> None:
    assert load(f"{file}:number") == 3
    assert load("math:pi") == pytest.approx(3.14159, abs=1e-4)


def test_as_implementation_reads_names_of_parameters() -> None:
    def attention(query, key, value, WQ, WK, WV, WO, num_heads):
        return query

    assert as_implementation(attention).arguments == ("x_q", "x_k", "x_v", "w_q", "w_k", "w_v", "w_o", "heads")
    own = Implementation(call=attention)
    assert as_implementation(own) is own
    with pytest.raises(TargetProblem):
        as_implementation("attention")


def test_a_class_whose_arguments_all_have_defaults_is_made_whatever_they_are_called() -> None:
    class Made:
        def __init__(self, heads: int = 3, w_o: str = "") -> None:
            self.heads = heads

        def __call__(self, x, w_q, w_k, w_v, w_o):
            return x

    assert isinstance(as_implementation(Made).call, Made)

    class Needs(Made):
        def __init__(self, width: int, heads: int = 3) -> None:
            super().__init__(heads)

    with pytest.raises(TargetProblem, match=r"class .*Needs needs arguments to be made: width"):
        as_implementation(Needs)


def test_a_part_of_a_function_is_none(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("def attention(x, w_q, w_k, w_v, w_o, heads):\n    return x\n")
    with pytest.raises(TargetProblem, match="attention needs arguments to be made: x") as raised:
        load(part_of(f"{tmp_path}/code.py:attention", "a.b"))
    assert "--at" in raised.value.hint and "leave it out" in raised.value.hint


def test_a_part_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "import torch\n\n\nclass Block(torch.nn.Module):\n    def __init__(self, heads=4):\n"
        "        super().__init__()\n        self.attn = torch.nn.MultiheadAttention(24, heads, batch_first=True)\n\n\n"
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.h = torch.nn.ModuleList([Block(), Block(6)])\n\n\nnet = Net()\nparts = {'h': 1}\n"
    )
    place = f"{tmp_path / 'model.py'}"
    for one in ("net", "Net"):
        assert load(part_of(f"{place}:{one}", "h.1.attn")).num_heads == 6
    with pytest.raises(TargetProblem, match=r"has no part 'h\.1\.mlp'[^~]*in Block: attn"):
        load(f"{place}:net@h.1.mlp")
