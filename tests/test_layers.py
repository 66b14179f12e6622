"""The structure of the package: imports point downward, the trusted files stand alone and stay small."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mha_sym"

#: from the ground up; a module may import from its own layer and from those below it
LAYERS: dict[str, tuple[str, ...]] = {
    "errors": ("errors", "blame", "files", "shown"),
    "axes": ("axes",),
    "expr": ("expr",),
    "pattern": ("graph", "pattern"),
    "readings": (
        "backends", "exact", "contraction", "arrays", "plan", "compute", "evaluate", "trace", "costs", "count",
    ),
    "proof": ("proof",),
    "attention": ("attention",),
    "checkpoint": ("checkpoint",),
    "render": ("render",),
    "importers": ("importers",),
    "audit": ("audit",),
    "library": ("library",),
    "ask": ("ask",),
    "export": ("export",),
    "cli": ("cli", "assertions", "pytest_plugin", "__main__"),
}  # fmt: skip
ORDER = list(LAYERS)

#: what the order alone would allow, and why it is not
FORBIDDEN = {
    ("attention.dims", "readings"): "a form computes nothing",
    ("attention.forms", "readings"): "a form computes nothing",
    ("attention.variants", "readings"): "a form computes nothing",
    ("render", "attention"): "what is shown may be any expression",
}

TRUSTED = ("proof.terms", "proof.scope", "proof.rules", "proof.checker")


def path_of(module: str) -> Path:
    """The file of a module, such as ``proof.terms``."""
    base = PACKAGE.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def modules() -> list[str]:
    """All modules of the package but its own ``__init__``, by their names inside it."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if "_proofs" not in parts and parts != ("__init__",):
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(node: ast.AST) -> Iterator[str]:
    """The modules that an import statement loads, as full names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are written in full"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}".removeprefix("mha_sym.")
            is_module = str(node.module).startswith("mha_sym") and path_of(inner).exists()
            yield f"mha_sym.{inner}" if is_module else str(node.module)


def imports(module: str, lazy: bool = True) -> set[str]:
    """Modules of this package that a module imports, also inside functions if ``lazy``."""
    tree = tree_of(path_of(module))
    nodes = ast.walk(tree) if lazy else iter(tree.body)
    names = {name for node in nodes for name in imported(node)}
    return {name.removeprefix("mha_sym.") for name in names if name.startswith("mha_sym.")}


def layer(module: str) -> str:
    top = module.split(".")[0]
    return next(name for name, members in LAYERS.items() if top in members)


def test_every_module_has_a_layer() -> None:
    known = {member for members in LAYERS.values() for member in members}
    unknown = [module for module in modules() if module.split(".")[0] not in known]
    assert not unknown, f"say in LAYERS where these belong: {unknown}"


def test_every_layer_has_its_modules() -> None:
    assert {member for members in LAYERS.values() for member in members} <= {m.split(".")[0] for m in modules()}


@pytest.mark.parametrize("module", modules())
def test_imports_point_downward(module: str) -> None:
    for other in imports(module):
        here, there = layer(module), layer(other)
        assert ORDER.index(there) <= ORDER.index(here), f"{module} imports {other}"
        for one in (here, module):
            assert (one, there) not in FORBIDDEN, f"{module} imports {other}, but {FORBIDDEN[one, there]}"


def test_no_import_cycle() -> None:
    graph = {module: imports(module, lazy=False) - {module} for module in modules()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which shows the cycle


def test_package_itself_imports_nothing_of_its_own() -> None:
    top = [node for node in tree_of(PACKAGE / "__init__.py").body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {name.split(".")[0] for node in top for name in imported(node)} <= sys.stdlib_module_names


@pytest.mark.parametrize("module", TRUSTED)
def test_trusted_files_import_only_each_other(module: str) -> None:
    names = {name for node in ast.walk(tree_of(path_of(module))) for name in imported(node)}
    foreign = {
        name
        for name in names
        if name.removeprefix("mha_sym.") not in TRUSTED and name.split(".")[0] not in sys.stdlib_module_names
    }
    assert not foreign


#: tokens that are no code
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(path: Path) -> int:
    """Lines with code on them: not blank, no mere comment, not in a docstring."""
    prose: set[int] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            prose.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in SILENT]
    lines = {line for token in tokens[1:] for line in range(token.start[0], token.end[0] + 1)}  # the first: encoding
    return len(lines - prose)


def test_trusted_files_are_small() -> None:
    sizes = {module: code_lines(path_of(module)) for module in TRUSTED}
    assert sum(sizes.values()) <= 600, sizes


def body_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its docstring, which may be as long as its formula needs."""
    first = node.body[0]
    doc = first if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None
    skipped = 0 if doc is None else (doc.end_lineno or 0) - doc.lineno + 1
    return (node.end_lineno or 0) - node.lineno + 1 - skipped


def test_functions_are_short() -> None:
    long = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name} has {body_lines(node)} lines"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(node) > 50
    ]
    assert not long, "\n".join(long)
