"""Pictures of axes: what is in them, that it can be read without colour and without sight, and where numbers land."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mha_sym.attention.dims import combined_weights, dims, head_weights, self_inputs
from mha_sym.attention.forms import combined, head_sum
from mha_sym.attention.head_paths import WRONG_PATHS, right_path, wrong_path
from mha_sym.axes import axis, blocks, product
from mha_sym.cli import main
from mha_sym.errors import AxisProblem, DataProblem
from mha_sym.expr import Expr, Input, Reshape
from mha_sym.library import load
from mha_sym.pattern import rearrange
from mha_sym.render.pictures import cells as svg_cells
from mha_sym.render.pictures.cells import cells_svg
from mha_sym.render.pictures.parts import AXES, DARK, HEADS, LIGHT, folded, label
from mha_sym.render.pictures.svg import trace_svg
from mha_sym.trace import trace, trace_pattern, trace_stages

SVG = "{http://www.w3.org/2000/svg}"
STEPS = trace_pattern((2, 5, 12), "b t (h k) -> b t h k", "b t h k -> b h t k", sizes={"h": 3})
B, T, H, K = 2, 4, 3, 5
T_, H_, K_ = axis("t", T), axis("h", H), axis("k", K)
X = Input("x", (axis("b", B), T_, product(H_, K_)))


def read(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def drawn(root: ElementTree.Element, tag: str, css: str = "") -> list[ElementTree.Element]:
    """The elements of that kind whose class has that word."""
    return [one for one in root.iter(SVG + tag) if not css or css in (one.get("class") or "").split()]


def texts(picture: str) -> list[str]:
    return [one.text or "" for one in read(picture).iter(f"{SVG}text")]


def way(title: str, expr: Expr) -> svg_cells.Path:
    return svg_cells.Path(title, expr, "")


# ---------------------------------------------------------------- for those who do not see it


@pytest.mark.parametrize(
    "picture", [trace_svg(STEPS), cells_svg([way("", rearrange(X, "b t (h k) -> b h t k"))])], ids=["trace", "cells"]
)
def test_a_picture_is_an_image_with_title_and_description(picture: str) -> None:
    root = read(picture)
    assert root.get("role") == "img"
    named = {one.get("id"): one.text for one in root if one.get("id")}
    title, desc = (root.get("aria-labelledby") or "").split()
    assert named[title]
    assert "axes b: 2" in str(named[desc])
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))


def test_a_picture_needs_nothing_from_outside_and_runs_nothing() -> None:
    picture = trace_svg(STEPS)
    assert not re.search(r"<script|<image|href|@import|onload", picture)
    assert re.findall(r"https?://[^\"]*", picture) == ["http://www.w3.org/2000/svg"]
    assert set(re.findall(r"url\((#[^)]*)\)", picture)) <= {f"#{one.get('id')}" for one in read(picture).iter()}


def test_pictures_in_one_page_do_not_share_names_or_styles() -> None:
    one, two = trace_svg(STEPS), trace_svg(STEPS, key="again")
    names = [{e.get("id") for e in read(p).iter() if e.get("id")} for p in (one, two)]
    assert not names[0] & names[1]
    rules = re.findall(r"(?m)^(?!@media|\})(.*?)\{", read(one).find(f"{SVG}style").text or "")  # type: ignore[union-attr]
    assert rules
    assert all(part.startswith("#mha-") for rule in rules for part in rule.split(","))


def test_names_from_outside_are_text() -> None:
    x = Input('<script>"&\x00', (axis("t", 3), axis("u", 2)))
    picture = trace_svg(trace(rearrange(x, "t u -> u t")), title="a < b & c")
    root = read(picture)
    assert root.find(f"{SVG}title").text == "a < b & c"  # type: ignore[union-attr]
    assert not list(root.iter(f"{SVG}script"))
    assert '1. <script>"&\N{REPLACEMENT CHARACTER}' in texts(picture)


# ---------------------------------------------------------------- for those who do not see its colours


def luminance(colour: str) -> float:
    def linear(part: str) -> float:
        value = int(part, 16) / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(colour[n : n + 2]) for n in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_from_every_ground() -> None:
    looks = [*AXES.values(), *HEADS]
    for ink, grounds in (
        (LIGHT["ink"], [LIGHT["ground"], *(one.light for one in looks)]),
        (DARK["ink"], [DARK["ground"], *(one.dark for one in looks)]),
        (LIGHT["wrong"], [LIGHT["ground"]]),
        (DARK["wrong"], [DARK["ground"]]),
    ):
        for ground in grounds:
            assert contrast(ink, ground) >= 4.5, (ink, ground)


def test_axes_and_heads_differ_without_colour() -> None:
    """The letters of the language by pattern and by dashes, heads by pattern."""
    assert len({one.pattern for one in AXES.values()}) == len({one.dashes for one in AXES.values()}) == len(AXES)
    assert len({one.pattern for one in HEADS}) == len(HEADS)


def test_an_axis_keeps_its_look_through_split_and_transpose() -> None:
    root = read(trace_svg(STEPS))
    fills = [one.get("class") for one in drawn(root, "rect", "fill")]
    names = [one.text for one in drawn(root, "text", "bold") if one.get("text-anchor")]
    assert names == [*"bthk", *"bthk", *"bhtk"]
    assert len({*zip(names, fills, strict=True)}) == 4
    threads = drawn(root, "path", "thread")
    assert [one.get("stroke-dasharray") for one in threads] == [AXES[n].dashes for n in [*"bthk", *"bhtk"]]


def test_a_thread_begins_and_ends_at_its_axis() -> None:
    """After the transpose, h and t cross: the thread of t ends where t stands in the last row."""
    root = read(trace_svg(STEPS))
    letters = {(one.text, float(one.get("x") or 0), float(one.get("y") or 0)) for one in drawn(root, "text", "bold")}
    for one in drawn(root, "path", "thread"):
        x0, y0, *_, x1, y1 = (float(n) for n in re.findall(r"[\d.]+", one.get("d") or ""))
        look = next(name for name, look in AXES.items() if look.dashes == one.get("stroke-dasharray"))
        assert any(name == look and abs(x - x0) < 0.1 and y == y0 - 38 + 13 for name, x, y in letters)
        assert any(name == look and abs(x - x1) < 0.1 and y == y1 + 13 for name, x, y in letters)


def test_a_raw_reshape_mixes_what_it_reads_anew() -> None:
    """Each of the new axes h and t gets a thread from each of the old t and h; b and k stay what they are."""
    b, t, h, k = axis("b", "B"), axis("t", "T"), axis("h"), axis("k", "d_k")
    picture = trace_svg(trace(Reshape(Input("x", (b, t, product(h, k))), (b, h, t, k))))
    looks = [one.get("stroke-dasharray") for one in drawn(read(picture), "path", "thread")]
    assert sorted(map(str, looks)) == sorted(AXES[name].dashes for name in "ttbhhk")
    assert any(one.startswith("lines that fan out") for one in texts(picture))
    assert not any(one.startswith("lines that fan out") for one in texts(trace_svg(STEPS)))


def test_small_numbers_and_signs_are_explained() -> None:
    d = dims()
    shown = texts(trace_svg(trace(combined(d, self_inputs(d), combined_weights(d)).y)))
    assert "a small number above an axis: the step farther up from" in " ".join(shown)
    assert "Σ: the axis is summed" in shown


# ---------------------------------------------------------------- whole layers


def test_families_blocks_and_sums_are_drawn() -> None:
    d = dims()
    steps = trace_stages(head_sum(d, self_inputs(d), head_weights(d)))
    shown = texts(trace_svg(steps, {"B": 2, "T": 5}))
    assert sum(one.startswith("for each r in h") for one in shown) >= 3
    assert "Σ" in shown
    assert "d_model" in shown
    joined = Input("past_and_new", (blocks(axis("past", "P"), axis("new", "N")),))
    assert "+" in texts(trace_svg(trace(joined)))
    assert "a number" in texts(trace_svg(trace(Input("one", ()))))


def test_every_step_of_every_theorem_can_be_drawn() -> None:
    for claim in load("head_ablation_locations").claims[:6]:
        read(trace_svg(trace(claim.right)))


def test_lines_fit() -> None:
    assert folded("(B, T, h·d_k) split", 90, 12) == ["(B,\N{NO-BREAK SPACE}T,\N{NO-BREAK SPACE}h·d_k)", "split"]
    assert "textLength" in label("d_model" * 4, 0, 0, 12, 50)
    assert "textLength" not in label("h", 0, 0, 12, 50)


def test_nothing_to_draw() -> None:
    with pytest.raises(DataProblem, match="a trace without steps cannot be drawn"):
        trace_svg(())
    with pytest.raises(DataProblem, match="there is no path to draw"):
        cells_svg([])


# ---------------------------------------------------------------- which number lands in which cell


def is_number(one: ElementTree.Element) -> bool:
    """Whether it is a number in a cell, and not a size."""
    return one.tag == f"{SVG}text" and (one.text or "").isdigit() and one.get("font-size") in ("11", "9.5")


def grids(picture: str) -> list[list[int]]:
    """The numbers of each grid, row by row: a frame ends a grid."""
    found: list[list[int]] = [[]]
    for one in read(picture):
        if is_number(one):
            found[-1].append(int(one.text or 0))
        elif one.tag == f"{SVG}rect" and one.get("class") == "frame" and found[-1]:
            found.append([])
    return [grid for grid in found if grid]


def test_numbers_against_loops() -> None:
    straight = Reshape(X, (X.axes[0], H_, T_, K_))
    picture = cells_svg([way("right", rearrange(X, "b t (h k) -> b h t k")), way("wrong", straight)])
    right, wrong, crosses = [], [], 0
    for b, h in itertools.product(range(B), range(H)):
        right.append([b * T * H * K + t * H * K + h * K + k for t in range(T) for k in range(K)])
        wrong.append([b * T * H * K + h * T * K + t * K + k for t in range(T) for k in range(K)])
        crosses += sum(x != y for x, y in zip(right[-1], wrong[-1], strict=True))
    shown = grids(picture)
    assert shown[-2 * B * H : -B * H] == right
    assert shown[-B * H :] == wrong
    assert picture.count('class="mark"') == crosses + 1  # and one in the legend
    assert f"{crosses} of {B * T * H * K} numbers in a wrong cell" in picture
    assert "every number in its cell" in picture


def test_a_number_keeps_the_look_of_its_head() -> None:
    picture = cells_svg([way("right", rearrange(X, "b t (h k) -> b h t k"))])
    looks: dict[int, set[str]] = {}
    last = ""
    for one in read(picture):
        if one.tag == f"{SVG}rect" and "fill look" in (one.get("class") or ""):
            last = str(one.get("class"))
        elif is_number(one):
            looks.setdefault(int(one.text or 0), set()).add(last)
    every = {n: css for n, css in looks.items() if len(css) == 1}
    assert len(every) == B * T * H * K
    head_of = {n: n // K % H for n in range(B * T * H * K)}
    assert len({(head_of[n], *css) for n, css in every.items()}) == H


@pytest.mark.parametrize("name", WRONG_PATHS)
def test_wrong_paths_are_wrong_and_a_theorem_says_so(name: str) -> None:
    wrong = WRONG_PATHS[name]
    d = dims(**wrong.sizes)
    paths = [right_path(d, wrong.back), wrong_path(name, d)]
    picture = cells_svg([way(one.title, one.expr) for one in paths])
    assert picture.count('class="mark"') > 1
    assert name in {control.name for control in load(wrong.theorem).controls}


def test_a_shorter_path_stands_beside_what_it_shares() -> None:
    """There and back, and back by a reshape: what is alike stands side by side, and so do the ends."""
    there = rearrange(X, "b t (h k) -> b h t k")
    paths = [way("right", rearrange(there, "b h t k -> b t (h k)")), way("wrong", Reshape(there, X.axes))]
    heights: dict[str, list[float]] = {}
    for one in read(cells_svg(paths)).iter(f"{SVG}text"):
        if re.match(r"\d\. ", one.text or ""):
            heights.setdefault((one.text or "")[:2], []).append(float(one.get("y", "0")))
    assert [len(set(heights[number])) for number in ("1.", "2.", "3.")] == [1, 1, 1]
    assert heights["5."] == [max(heights["4."])], "the ends"


def test_where_a_transpose_cannot_be_left_out() -> None:
    with pytest.raises(DataProblem, match="only where there are as many tokens as heads"):
        wrong_path("transpose_left_out", dims(T=4, h=3))


def test_paths_that_cannot_be_compared() -> None:
    right = way("right", rearrange(X, "b t (h k) -> b h t k"))
    with pytest.raises(AxisProblem, match="the paths end in different axes"):
        cells_svg([right, way("flat", X)])
    with pytest.raises(AxisProblem, match="all paths start from one and the same input"):
        cells_svg([right, way("other", Input("y", right.expr.axes))])
    with pytest.raises(AxisProblem, match="the right path never has an axis 'n'"):
        cells_svg([right], heads="n")
    with pytest.raises(DataProblem, match="241 numbers are too many"):
        cells_svg([way("long", Input("x", (axis("h", 241),)))])


def test_symbolic_sizes_are_given() -> None:
    d = dims()
    picture = cells_svg([way("right", right_path(d).expr)], {"B": 2, "T": 3, "h": 2, "d_k": 5})
    want = np.arange(60).reshape(2, 3, 2, 5).transpose(0, 2, 1, 3).reshape(4, 15)
    assert grids(picture)[-4:] == want.tolist()
    with pytest.raises(DataProblem, match="d_k"):
        cells_svg([way("right", right_path(d).expr)], {"B": 2, "T": 3, "h": 2})


# ---------------------------------------------------------------- the command


def test_command_writes_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "q.svg"
    args = ["trace", "--format", "svg", "--stage", "q", "--heads", "3", "-o", str(file)]
    assert main(args) == 0
    assert read(file.read_text(encoding="utf-8")).tag == f"{SVG}svg"
    before = file.read_bytes()
    assert main(args) == 2
    assert capsys.readouterr().err == f"mha-sym: {file} exists; hint: give --force to replace it\n"
    assert main(["trace", "--format", "svg", "--wrong", "raw_reshape", "-o", str(file), "--force"]) == 0
    assert file.read_bytes() != before
    assert [one.name for one in tmp_path.iterdir()] == ["q.svg"]


def test_command_refuses_what_does_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--wrong", "raw_reshape"]) == 2
    assert "--wrong draws a picture: give --format svg." in capsys.readouterr().err
    assert main(["trace", "--json", "--format", "svg"]) == 2
    assert main(["trace", "--format", "svg", "--wrong", "raw_reshape", "--length", "90"]) == 2
    assert "540 numbers are too many to draw one by one" in capsys.readouterr().err


def test_json_is_one_of_the_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--json"]) == main(["trace", "--format", "json"]) == 0
    one, two = re.split(r"(?m)(?<=^\})\n(?=\{)", capsys.readouterr().out)
    assert one.strip() == two.strip()


def test_command_knows_every_wrong_path() -> None:
    from mha_sym.cli.trace import WRONG

    assert tuple(WRONG_PATHS) == WRONG
