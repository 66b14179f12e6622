"""Dumps of attention written out by hand in loops, in several formats and layouts; and dumps that are no good."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mha_sym.audit.diagnosis.steps import _in_digits
from mha_sym.audit.dumps import file as dump_file
from mha_sym.audit.dumps.dump import check_dump, is_dump
from mha_sym.audit.dumps.settings import DumpSettings
from mha_sym.audit.reports.report import CheckReport
from mha_sym.errors import DataProblem, Problem

#: no two sizes alike, nor products: h = 6 query heads share 2 key and value heads
N = {"B": 2, "T": 5, "S": 7, "m": 11, "h": 6, "g": 2, "k": 4, "v": 9}


def layer(seed: int = 0, cross: bool = False, groups: int = 6, biases: str = "") -> dict[str, np.ndarray]:
    """Random inputs and weights, (in, out), the columns of a head together."""
    rng, n = np.random.default_rng(seed), N
    shapes: dict[str, tuple[int, ...]] = {
        "w_q": (n["m"], n["h"] * n["k"]), "w_k": (n["m"], groups * n["k"]), "w_v": (n["m"], groups * n["v"]),
        "w_o": (n["h"] * n["v"], n["m"]),
    }  # fmt: skip
    shapes |= {f"b_{x}": (shapes[f"w_{x}"][1],) for x in biases}
    tokens = {"x_q": n["T"], "x_k": n["S"], "x_v": n["S"]} if cross else {"x": n["T"]}
    found = {name: rng.normal(size=shape) / np.sqrt(shape[0]) for name, shape in shapes.items()}
    return {**found, **{name: rng.normal(size=(n["B"], count, n["m"])) for name, count in tokens.items()}}


def run(a: Mapping[str, np.ndarray], keep: Any = None, mask: Any = None, stride: bool = False) -> dict[str, np.ndarray]:
    """Attention head by head, in float64; every stage, keys and values for the query heads that read them."""
    h, k, v = N["h"], N["k"], N["v"]
    groups = a["w_k"].shape[1] // k
    x = [a.get(f"x_{one}", a.get("x")) for one in "qkv"]
    flat = [x[i] @ a[f"w_{one}"] + a.get(f"b_{one}", 0) for i, one in enumerate("qkv")]
    stages: dict[str, list[np.ndarray]] = {name: [] for name in ("q", "k", "v", "scores", "weights", "z")}
    y = np.zeros((*x[0].shape[:2], a["w_o"].shape[1])) + a.get("b_o", 0)
    for i in range(h):
        j = i % groups if stride else i // (h // groups)
        q_i, k_i = flat[0][..., i * k : (i + 1) * k], flat[1][..., j * k : (j + 1) * k]
        v_i = flat[2][..., j * v : (j + 1) * v]
        s = q_i @ k_i.swapaxes(1, 2) / np.sqrt(k) + (0 if mask is None else mask)
        s = s if keep is None else np.where(keep, s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        w = e / e.sum(-1, keepdims=True)
        for name, value in (("q", q_i), ("k", k_i), ("v", v_i), ("scores", s), ("weights", w), ("z", w @ v_i)):
            stages[name].append(value)
        y += w @ v_i @ a["w_o"][i * v : (i + 1) * v]
    return {**{name: np.stack(parts, 1) for name, parts in stages.items()}, "y": y}


def saved(path: Path, arrays: Mapping[str, np.ndarray], name: str = "dump.npz") -> Path:
    np.savez(path / name, **arrays)
    return path / name


def verdict(path: Path, config: Path | None = None, **given: Any) -> CheckReport:
    """The comparison alone; what is wrong by name is tested at the end."""
    return check_dump(path, config, explain=False, **given)


def refused(path: Path, arrays: Mapping[str, np.ndarray], **given: Any) -> Problem:
    with pytest.raises(Problem) as raised:
        verdict(saved(path, arrays), **{"heads": 6, **given})
    assert len(raised.value.one_line().split("\n")) == 1
    return raised.value


# ---------------------------------------------------------------- dumps that agree, and those that do not


@pytest.mark.parametrize("biases", ["", "qkvo", "qo"])
@pytest.mark.parametrize("cross", [False, True])
def test_every_stage_of_a_correct_dump_agrees(tmp_path: Path, biases: str, cross: bool) -> None:
    a = layer(1, cross, biases=biases)
    report = verdict(saved(tmp_path, {**a, **run(a)}), heads=6)
    assert report.ok and [one.stage for one in report.compared] == ["q", "k", "v", "scores", "weights", "z", "y"]
    assert report.backing.verdict == "proved"


@pytest.mark.parametrize("stage", ["q", "k", "v", "scores", "weights", "z", "y"])
def test_the_first_stage_that_deviates_is_named(tmp_path: Path, stage: str) -> None:
    a = layer(2)
    shown = run(a)
    place = (1, 2, 3, 1) if shown[stage].ndim == 4 else (1, 3, 7)
    shown[stage] = shown[stage].copy()
    shown[stage][place] *= 1 + 1e-6
    report = verdict(saved(tmp_path, {**a, **shown}), heads=6)
    wrong = report.first_wrong
    assert wrong is not None and wrong.stage == stage
    assert [int(one.split("=")[1]) for one in wrong.place.split(", ")] == list(place)


@pytest.mark.parametrize("given", [{"causal": True}, {}])
def test_causal_by_flag_by_keep_and_by_mask(tmp_path: Path, given: dict[str, Any]) -> None:
    a, keep = layer(3), np.tri(N["T"]) > 0
    shown = run(a, keep)
    forms = [{}] if given else [{"keep": keep}, {"mask": np.where(keep, 0, -np.inf)}, {"mask": np.where(keep, 0, -1e9)}]
    for form in forms:
        report = verdict(saved(tmp_path, {**a, **shown, **form}), heads=6, **given)
        assert report.ok, report.text()
        assert next(one for one in report.conventions if one.name == "mask").value == "causal"
    assert verdict(saved(tmp_path, {**a, **shown}), heads=6).exit_code == 1


@pytest.mark.parametrize("causal", ["top-left", "bottom-right"])
def test_how_the_diagonal_lies_must_be_said(tmp_path: Path, causal: str) -> None:
    a = layer(4, cross=True)
    shown = run(a, np.tri(N["T"], N["S"], N["S"] - N["T"] if causal == "bottom-right" else 0) > 0)
    other = {"top-left": "bottom-right", "bottom-right": "top-left"}[causal]
    path = saved(tmp_path, {**a, **shown})
    assert verdict(path, heads=6, causal=causal).ok
    assert verdict(path, heads=6, causal=other).exit_code == 1
    assert "which keys are later, with 5 queries and 7 keys" in refused(tmp_path, {**a, **shown}, causal=True).what


def test_masks_of_every_rank_and_both_kinds_together(tmp_path: Path) -> None:
    rng, a = np.random.default_rng(5), layer(5, cross=True)
    b, h, t, s = (N[one] for one in ("B", "h", "T", "S"))
    for shape in ((t, s), (b, t, s), (b, 1, t, s), (1, h, t, s), (b, 1, 1, s), (b, h, t, s)):
        keep, mask = rng.random(shape) < 0.6, rng.normal(size=shape)
        keep[..., 0] = True
        four = shape if len(shape) == 4 else (1, 1, *shape) if len(shape) == 2 else (b, 1, t, s)
        wide = [np.broadcast_to(one.reshape(four), (b, h, t, s)) for one in (keep, mask)]
        heads = [run_one_head(a, i, wide[0][:, i], wide[1][:, i]) for i in range(h)]
        y = sum(heads)
        assert verdict(saved(tmp_path, {**a, "keep": keep, "mask": mask, "y": y}), heads=6).ok
        if not keep.all():
            assert verdict(saved(tmp_path, {**a, "mask": mask, "y": y}), heads=6).exit_code == 1


def run_one_head(a: Mapping[str, np.ndarray], i: int, keep: np.ndarray, mask: np.ndarray) -> np.ndarray:
    k, v = N["k"], N["v"]
    q_i, k_i = (a[f"x_{x}"] @ a[f"w_{x}"][:, i * k : (i + 1) * k] for x in "qk")
    s = np.where(keep, q_i @ k_i.swapaxes(1, 2) / np.sqrt(k) + mask, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    values = a["x_v"] @ a["w_v"][:, i * v : (i + 1) * v]
    return e / e.sum(-1, keepdims=True) @ values @ a["w_o"][i * v : (i + 1) * v]


def test_grouped_heads(tmp_path: Path) -> None:
    a = layer(6, groups=2, biases="kv")
    shown = run(a)
    few = {name: shown[name][:, ::3] for name in ("k", "v")}  # as they are stored, one for three query heads
    for stages in (shown, {**shown, **few}):
        assert verdict(saved(tmp_path, {**a, **stages}), heads=6, kv_heads=2).ok
    strided = {**a, "y": run(a, stride=True)["y"]}
    assert verdict(saved(tmp_path, strided), heads=6, kv_heads=2).exit_code == 1
    assert verdict(saved(tmp_path, strided), heads=6, kv_heads=2, layout="grouped_strided").ok
    assert "--kv-heads" in refused(tmp_path, {**a, **shown}).hint
    assert "6 heads do not divide into 4" in refused(tmp_path, {**a, **shown}, kv_heads=4).what


def test_layouts_by_name_and_by_the_names_of_the_weights(tmp_path: Path) -> None:
    a = layer(7, biases="qkvo")
    out = {"y": run(a)["y"], "x": a["x"]}
    linear = {f"w_{x}": a[f"w_{x}"].T for x in "qkvo"} | {f"b_{x}": a[f"b_{x}"] for x in "qkvo"}
    assert verdict(saved(tmp_path, {**out, **linear}), heads=6, layout="linear").ok
    packed = {
        "w_qkv": np.concatenate([a[f"w_{x}"] for x in "qkv"], 1), "b_qkv": np.concatenate([a[f"b_{x}"] for x in "qkv"]),
        "w_o": a["w_o"], "b_o": a["b_o"],
    }  # fmt: skip
    assert verdict(saved(tmp_path, {**out, **packed}), heads=6, layout="packed").ok
    named = {"q": "query_proj", "k": "key_proj", "v": "value_proj", "o": "output_proj"}
    equinox = {f"{name}.{kind}": linear[f"{short}_{x}"] for x, name in named.items()
               for kind, short in (("weight", "w"), ("bias", "b"))}  # fmt: skip
    report = verdict(saved(tmp_path, {**out, **equinox}), heads=6)
    assert report.ok and report.conventions[0].value.startswith("equinox")
    assert "several layouts" in refused(tmp_path, {**out, "c_attn.weight": a["w_q"], "c_proj.weight": a["w_o"]}).what


def test_weights_the_other_way_round_are_told_of_identify(tmp_path: Path) -> None:
    shapes = {**dict.fromkeys(("w_q", "w_k", "w_v"), (24, 20)), "w_o": (20, 24), "x": (2, 7, 20), "y": (2, 7, 20)}
    problem = refused(tmp_path, {name: np.ones(shape) for name, shape in shapes.items()}, heads=4)
    assert "has the wrong axes" in problem.what
    assert "mha-sym identify dump.npz" in problem.hint and "--layout NAME" in problem.hint


def test_names_axes_and_scale_from_a_file(tmp_path: Path) -> None:
    a = layer(8)
    shown = run({**a, "w_q": a["w_q"] * 2.0})
    settings = tmp_path / "layer.toml"
    settings.write_text(
        "heads = 6\nscale = 1.0\nignore = ['step']\n[names]\nx = 'X'\ny = 'attn out'\n[axes]\nq = 'b t h k'\n"
    )
    arrays = {"X": a["x"], **{name: a[name] for name in ("w_q", "w_k", "w_v", "w_o")}, "attn out": shown["y"],
              "step": np.array(3), "q": shown["q"].swapaxes(1, 2) / 2}  # fmt: skip
    assert verdict(saved(tmp_path, arrays), settings).ok  # 2 / sqrt(4) = 1
    settings.write_text(settings.read_text().replace("scale = 1.0", "scale = 0.5"))
    assert verdict(saved(tmp_path, arrays), settings).exit_code == 1


def test_sequence_first(tmp_path: Path) -> None:
    a = layer(9)
    arrays = {**a, "x": a["x"].swapaxes(0, 1), "y": run(a)["y"].swapaxes(0, 1)}
    assert verdict(saved(tmp_path, arrays), heads=6, batch_first=False).ok
    assert verdict(saved(tmp_path, arrays), heads=6).exit_code == 1


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_format_of_the_output_judges(tmp_path: Path, dtype: str) -> None:
    a = {name: value.astype("float16").astype(dtype) for name, value in layer(10).items()}
    y = run({name: value.astype("float64") for name, value in a.items()})["y"]
    report = verdict(saved(tmp_path, {**a, "y": y.astype(dtype)}), heads=6)
    assert report.ok and report.dtype == dtype and 0 < report.compared[0].difference < report.compared[0].bound.value


def test_an_output_that_was_rounded_is_told_with_digits_that_tell(tmp_path: Path) -> None:
    a = layer()
    y = run(a)["y"].astype(np.float32).astype(np.float64)
    report = verdict(saved(tmp_path, {**a, "y": y}), heads=6)
    assert report.verdict == "disagree" and any('dtype = "float32"' in one for one in report.notes)


@pytest.mark.parametrize(("off", "digits"), [(0.25, 6), (3e-8, 9), (3e-11, 12)])
def test_two_numbers_are_told_with_digits_that_tell_them_apart(off: float, digits: int) -> None:
    one, other = _in_digits(2.07285, 2.07285 + off)
    assert one != other and other == f"{2.07285 + off:.{digits}g}"


def test_packed_weights_are_not_told_as_missing_ones(tmp_path: Path) -> None:
    a = layer()
    packed = {"x": a["x"], "w_qkv": np.concatenate([a["w_q"], a["w_k"], a["w_v"]], 1), "w_o": a["w_o"]}
    problem = refused(tmp_path, {**packed, "y": run(a)["y"]})
    assert "fit several layouts" in problem.what and "mha-sym identify dump.npz" in problem.hint


def test_safetensors_and_bfloat16(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    save = pytest.importorskip("safetensors.torch").save_file
    a = layer(11)
    low = {name: torch.from_numpy(value).bfloat16() for name, value in a.items()}
    exact = run({name: value.double().numpy() for name, value in low.items()})
    y = torch.from_numpy(exact["y"]).bfloat16()
    save({**low, "y": y}, tmp_path / "dump.safetensors")
    report = verdict(tmp_path / "dump.safetensors", heads=6)
    assert report.ok and report.dtype == "bfloat16"
    save({**low, "y": (y * 2).contiguous()}, tmp_path / "dump.safetensors")
    assert verdict(tmp_path / "dump.safetensors", heads=6).exit_code == 1
    save({name: torch.from_numpy(value) for name, value in {**a, "y": run(a)["y"]}.items()}, tmp_path / "d.safetensors")
    assert verdict(tmp_path / "d.safetensors", heads=6).compared[0].bound.value < 1e-9


def test_without_safetensors_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "d.safetensors").write_bytes(b"")
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(DataProblem) as raised:
        verdict(tmp_path / "d.safetensors", heads=6)
    assert raised.value.hint == "install mha_sym with the extra 'safetensors'"


# ---------------------------------------------------------------- dumps that are no good


def without(arrays: Mapping[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    return {name: value for name, value in arrays.items() if name not in names}


def spoilt(array: np.ndarray, value: float, place: tuple[int, ...]) -> np.ndarray:
    copy = array.copy()
    copy[place] = value
    return copy


def test_bad_dumps_are_told_in_one_line(tmp_path: Path) -> None:
    a = layer(12)
    good = {**a, **run(a)}
    cases: list[tuple[dict[str, np.ndarray], str, dict[str, Any]]] = [
        (without(good, "y"), "holds no output 'y'", {}),
        (without(good, "x"), "holds no input", {}),
        (without(good, "w_v"), "weight 'w_v' is missing", {}),
        ({**good, "extra": a["w_q"]}, "weight 'extra' has no place in this layout", {}),
        ({**good, "x_q": a["x"]}, "does not hold one set of inputs", {}),
        (good, "how many heads", {"heads": None}),
        (good, "positions, which no size d_k makes", {"heads": 5}),
        ({**good, "x": a["x"][..., :9]}, "x has the wrong axes", {}),
        ({**good, "x": a["x"][0]}, "x has the wrong axes", {}),
        ({**good, "scores": good["scores"].swapaxes(1, 2)}, "scores has the wrong axes", {}),
        ({**good, "weights": good["weights"].mean(1)}, "weights has the wrong axes", {}),
        ({**good, "y": spoilt(good["y"], np.nan, (1, 2, 3))}, "y holds nan", {}),
        ({**good, "w_k": spoilt(a["w_k"], np.inf, (4, 20))}, "w_k holds inf", {}),
        ({**good, "x": spoilt(a["x"], -np.inf, (0, 1, 2))}, "x holds -inf", {}),
        ({**good, "w_q": a["w_q"].astype("float32")}, "mix formats: y holds float64, w_q holds float32", {}),
        ({**good, "w_q": a["w_q"].astype(int)}, "w_q holds int64", {}),
        ({**good, "y": good["y"] + 1j}, "y holds complex128", {}),
        ({**good, "keep": np.ones((5, 5))}, "keep holds float64", {}),
        ({**good, "keep": np.zeros((5, 5), bool)}, "a query may attend to no key", {}),
        ({**good, "keep": np.ones((5, 7), bool)}, "keep has the wrong axes", {}),
        ({**good, "mask": np.ones((5, 5), bool)}, "mask holds bool", {}),
        ({**good, "mask": spoilt(np.zeros((5, 5)), np.nan, (2, 1))}, "mask holds nan", {}),
        (good, "causal cannot be 'diagonal'", {"causal": "diagonal"}),
        (good, "no layout 'linea'", {"layout": "linea"}),
        (good, "no format 'float8'", {"dtype": "float8"}),
        ({"y": good["y"], "x": a["x"]}, "holds no weights", {}),
        ({"y": good["y"], "x": a["x"], "kernel": a["w_q"]}, "fit no known layout", {}),
    ]  # fmt: skip
    for arrays, message, given in cases:
        found = refused(tmp_path, arrays, **given)
        assert message in found.what, (message, str(found))
    assert refused(tmp_path, cases[11][0]).where == "dump.npz, y[b=1, t=2, m=3], the first of 1"
    assert refused(tmp_path, cases[12][0]).where == "dump.npz, w_k[m=4, (h k)=20], the first of 1"
    assert "averaged over the heads" in refused(tmp_path, cases[10][0]).hint
    assert "another order" in refused(tmp_path, cases[9][0]).hint


def test_files_that_are_no_dumps(tmp_path: Path) -> None:
    a = layer(13)
    (tmp_path / "text.npz").write_text("not a zip file")
    np.save(tmp_path / "one.npy", a["x"])
    saved(tmp_path, {"objects": np.array([{}], dtype=object)}, "objects.npz")
    (tmp_path / "text.safetensors").write_text("not a header")
    for name, message in (
        ("text.npz", "cannot be read as .npz"), ("one.npy", "is no dump"), ("absent.npz", "there is no file"),
        ("objects.npz", "Python objects"), ("text.safetensors", "cannot be read as .safetensors"),
    ):  # fmt: skip
        with pytest.raises(DataProblem, match=message):
            verdict(tmp_path / name, heads=6)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path(tmp_path / "sprung").touch, ())

    saved(tmp_path, {"x": np.array([Trap()], dtype=object)})
    with pytest.raises(DataProblem, match="Python objects"):
        verdict(tmp_path / "dump.npz", heads=6)
    assert not (tmp_path / "sprung").exists()


def test_a_zip_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**25,)})
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(2**28))
    assert path.stat().st_size < 2**20
    with pytest.raises(DataProblem, match="would take 268,435,584 bytes"):
        dump_file.read_arrays(path, limit=2**27)
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(300):
            archive.writestr(f"x{number}.npy", b"")
    with pytest.raises(DataProblem, match="has 300 arrays"):
        dump_file.read_arrays(path)


def test_a_header_that_promises_more_than_there_is(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(tmp_path / "dump.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + bytes(64))
    with pytest.raises(DataProblem, match="header of an array does not agree with its size"):
        dump_file.read_arrays(tmp_path / "dump.npz")


def test_arrays_are_read_as_numpy_reads_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "plain": rng.normal(size=(2, 3, 4)), "fortran": np.asfortranarray(rng.normal(size=(3, 5))),
        "swapped": rng.normal(size=(4,)).astype(">f4"), "scalar": np.array(2.5), "flags": rng.random((3, 2)) < 0.5,
        "half": rng.normal(size=(7,)).astype("float16"),
    }  # fmt: skip
    found = dump_file.read_arrays(saved(tmp_path, arrays))
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].values, array)
    np.savez_compressed(tmp_path / "small.npz", **arrays)
    np.testing.assert_array_equal(dump_file.read_arrays(tmp_path / "small.npz")["fortran"].values, arrays["fortran"])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"head": 4}, "no setting 'head'"), ({"heads": "four"}, "heads cannot be 'four'"),
        ({"heads": True}, "heads cannot be True"), ({"names": []}, r"names cannot be \[\]"),
    ],
)  # fmt: skip
def test_settings_that_are_not_understood(config: dict[str, Any], message: str) -> None:
    with pytest.raises(DataProblem, match=message):
        DumpSettings.read(config)


def test_a_settings_file_that_is_no_toml(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("heads = = 3")
    for name in ("bad.toml", "absent.toml"):
        with pytest.raises(DataProblem, match="cannot be read"):
            verdict(saved(tmp_path, layer(0)), tmp_path / name)


# ---------------------------------------------------------------- the command


def test_the_command_reads_dumps(tmp_path: Path, command: Any) -> None:
    a = layer(14, groups=2)
    keep = np.tri(N["T"]) > 0
    saved(tmp_path, {**a, "y": run(a, keep)["y"]})
    line = ("check", "dump.npz", "--heads", "6", "--kv-heads", "2")
    done = command(*line, "--causal", "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)["verdict"] == "agree"
    assert command(*line, "--no-causal", cwd=tmp_path).returncode == 1
    done = command("check", "dump.npz", cwd=tmp_path)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert is_dump("dump.npz") and is_dump("a.SAFETENSORS") and not is_dump("a.py:f")


# ---------------------------------------------------------------- what is wrong, by name


def test_a_fault_is_named_from_a_dump_alone(tmp_path: Path) -> None:
    a = layer(15)
    y = run({**a, "w_q": a["w_q"] * np.sqrt(N["k"])})["y"]  # the scale is missing
    report = check_dump(saved(tmp_path, {**a, "y": y}), heads=6)
    assert report.exit_code == 1 and "scale_missing" in report.text()
    q, k, v = (a["x"] @ a[f"w_{x}"] for x in "qkv")
    q, k, v = (one.reshape(N["B"], N["h"], N["T"], -1) for one in (q, k, v))  # viewed straight
    s = q @ k.swapaxes(2, 3) / 2
    e = np.exp(s - s.max(-1, keepdims=True))
    z = e / e.sum(-1, keepdims=True) @ v
    y = z.swapaxes(1, 2).reshape(N["B"], N["T"], -1) @ a["w_o"]
    report = check_dump(saved(tmp_path, {**a, "y": y, "q": q}), heads=6)
    assert report.first_wrong is not None and report.first_wrong.stage == "q" and "split_by_view" in report.text()
    assert [one["status"] for one in report.json()["steps"]].count("wrong") >= 1


def test_copies_in_turn_are_named_from_a_dump_alone(tmp_path: Path) -> None:
    a = layer(16, groups=2)
    report = check_dump(saved(tmp_path, {**a, "y": run(a, stride=True)["y"]}), heads=6, kv_heads=2)
    assert report.exit_code == 1 and "groups_tiled" in report.text()
