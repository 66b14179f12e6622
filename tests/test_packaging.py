"""What is installed: the wheel carries the package, its types and the theorem files, and finds them there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import mha_sym
from mha_sym.library import theorem_names

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built here by the backend that pyproject.toml names; nothing is downloaded."""
    target = tmp_path_factory.mktemp("wheel")
    code = "import sys, hatchling.build as backend; print(backend.build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(target)], cwd=ROOT, check=True, capture_output=True, text=True)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_wheel_is_for_every_platform(wheel: Path) -> None:
    assert wheel.name == f"mha_sym-{mha_sym.__version__}-py3-none-any.whl"


def test_wheel_carries_every_module_and_the_types(names: set[str]) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "mha_sym").rglob("*.py")}
    assert {*modules, "mha_sym/py.typed"} <= names


def test_wheel_carries_the_theorems(names: set[str]) -> None:
    files = {Path(name).stem for name in names if name.startswith("mha_sym/_proofs/") and name.endswith(".py")}
    assert files == {path.stem for path in (ROOT / "proofs").glob("*.py")}


def test_wheel_carries_nothing_else(names: set[str]) -> None:
    assert {name.split("/")[0] for name in names} == {"mha_sym", f"mha_sym-{mha_sym.__version__}.dist-info"}
    assert not [name for name in names if "__pycache__" in name]


def test_installed_package_finds_its_theorems(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from mha_sym.library import proofs_directory, theorem_names; print(proofs_directory(), *theorem_names())"
    found = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=True, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    assert found == [str(tmp_path / "mha_sym" / "_proofs"), *theorem_names()]


def test_metadata(wheel: Path) -> None:
    name = f"mha_sym-{mha_sym.__version__}.dist-info"
    archive = zipfile.ZipFile(wheel)
    metadata = archive.read(f"{name}/METADATA").decode().splitlines()
    assert "Requires-Python: >=3.11" in metadata
    assert "License-Expression: MIT" in metadata
    assert "Requires-Dist: torch==2.13.0; extra == 'torch'" in metadata
    assert "mha-sym = mha_sym.__main__:main" in archive.read(f"{name}/entry_points.txt").decode()
    assert f"{name}/licenses/LICENSE" in archive.namelist()


def test_tests_have_what_users_of_the_extras_get() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {one for name in extras.keys() - {"test"} for one in extras[name]} <= set(extras["test"])


def test_extras_named_in_messages_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "mha_sym").rglob("*.py")]
    assert {name for text in sources for name in re.findall(r"the extra '(\w+)'", text)} <= set(extras)


def test_version_is_in_the_changelog() -> None:
    assert f"## {mha_sym.__version__}" in (ROOT / "CHANGELOG.md").read_text()
