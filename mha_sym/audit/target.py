"""From a TARGET on the command line, or an object, to an `Implementation`.

Defines `load` (``file.py:object`` or ``module:object``), `part_of` and `as_implementation`.  Loading a target imports
it, and checking runs it: it is the user's code, and it is run as such.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from mha_sym.attention.layouts import find_layout
from mha_sym.audit.frameworks.cross_modules import from_cross_module, second_input
from mha_sym.audit.frameworks.jax_found import from_jax_module
from mha_sym.audit.frameworks.jax_layers import from_jax
from mha_sym.audit.frameworks.keras_layers import from_keras
from mha_sym.audit.frameworks.onnx_files import from_onnx, is_onnx
from mha_sym.audit.frameworks.torch_found import Said, from_module
from mha_sym.audit.frameworks.torch_modules import prepared
from mha_sym.audit.functions import from_function
from mha_sym.audit.implementation import TAKES, Implementation
from mha_sym.blame import guarded
from mha_sym.errors import Problem, TargetProblem

_FORM = "file.py:object or module:object"


def load(target: str) -> Any:
    """The object that a TARGET names.  This imports the file or module, that is, it runs it.

    Args:
        target: ``path/to/file.py:object`` or ``package.module:object``; the object may be dotted, ``Class.method``.
            ``object@transformer.h.0.attn`` is that part of what the object is or makes.  An ONNX file,
            ``path/to/file.onnx`` or ``path/to/file.onnx:scope``, is read and not run.

    Raises:
        TargetProblem: if it has another form, is not there, raises while it is imported, or has no such object.

    Example:
        >>> load("math:sqrt")(4)
        2.0
    """
    if is_onnx(target):
        return from_onnx(target)
    whole, _, inside = target.partition("@")
    place, colon, name = whole.rpartition(":")
    if not colon or not place or not name:
        raise TargetProblem(f"target {target!r} names no object", expected=_FORM, hint=_suggestion(target))
    module = _from_file(Path(place)) if place.endswith(".py") else _from_name(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = ", ".join(one for one in vars(module) if not one.startswith("_"))
            raise TargetProblem(f"{place} has no {name!r}", expected=_FORM, got=public or "no public names")
        found = getattr(found, part)
    return _inside(found, inside, whole) if inside else found


def part_of(target: str, inside: str) -> str:
    """The TARGET that is a part of another one, by the dotted path of a module inside it.

    Example:
        >>> part_of("model.py:net", "h.0.attn"), part_of("model.onnx", "h.0.attn")
        ('model.py:net@h.0.attn', 'model.onnx:h.0.attn')
    """
    return f"{target}:{inside}" if is_onnx(target) else f"{target}@{inside}"


def _inside(found: Any, path: str, target: str) -> Any:
    """A part of an object, or of what it makes, by a dotted path; a number picks from a list of modules."""
    if inspect.isclass(found) or inspect.isfunction(found):
        if _required(found):
            raise TargetProblem(
                f"{target} needs arguments to be made: {', '.join(_required(found))}",
                hint="--at says which part of a module is meant; leave it out for a function that is attention itself",
            )
        found = guarded(found, f"{target} raised")
    for part in path.split("."):
        inner = found[int(part)] if part.isdigit() and isinstance(found, list | tuple) else getattr(found, part, None)
        if inner is None:
            raise TargetProblem(
                f"{target} has no part {path!r}", where=part, got=f"in {type(found).__name__}: {_parts(found)}"
            )
        found = inner
    return found


def _parts(found: Any) -> str:
    """The names of an object's modules, or else of its attributes."""
    modules = getattr(found, "named_children", None)
    names = [name for name, _ in modules()] if modules is not None else [n for n in vars(found) if n[:1] != "_"]
    return ", ".join(names[:12]) or "nothing"


def _suggestion(target: str) -> str:
    return f"say which object of {target}, as in {target}:attention" if target.endswith(".py") else ""


def _from_file(path: Path) -> ModuleType:
    """The module in a file; files beside it can be imported by it, as with a script."""
    if not path.is_file():
        raise TargetProblem(f"there is no file {path}", expected=_FORM)
    name = f"target_{path.stem}"  # not the stem itself, which may be the name of an installed module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    _put_on_path(path.resolve().parent)
    sys.modules[name] = module  # dataclasses and pickle look modules up by name
    guarded(lambda: loader.exec_module(module), f"{path} cannot be imported:")
    return module


def _from_name(name: str) -> ModuleType:
    _put_on_path(Path.cwd())
    return guarded(lambda: importlib.import_module(name), f"module {name} cannot be imported:")


def _put_on_path(directory: Path) -> None:
    """Python does this for a script; imports inside the user's functions need it later, too."""
    if str(directory) not in sys.path:
        sys.path.append(str(directory))


def as_implementation(found: Any, name: str = "", **described: Any) -> Implementation:
    """An object as an implementation.

    Args:
        found: an `Implementation`, a torch ``nn.MultiheadAttention``, an attention layer of Flax, Equinox or Keras, a
            function, or a function or class without arguments that makes one of these.
        name: what reports call it.
        described: what is known of a plain function, as for `Implementation`; of a torch module that is to be found
            out about, ``layout``, ``heads`` and ``kv_heads``.

    Raises:
        TargetProblem: for anything else.
    """
    layer = _layer(found, name)
    if layer is not None:
        return layer
    made, title = found, name
    if _is_factory(found):
        title = name or getattr(found, "__qualname__", "")
        made = guarded(found, f"{title or 'the factory'} raised")
    known = _layer(made, title) or _known(made, title, described)
    if known is None:
        kind = f"it made a value of type {type(made).__name__}" if made is not found else f"type {type(found).__name__}"
        raise TargetProblem(
            f"{title or repr(found)} is nothing that can be checked", got=kind,
            expected="an Implementation, an attention layer of a library, a function, or a factory of one of these",
        )  # fmt: skip
    return known


def _layer(made: Any, name: str) -> Implementation | None:
    """An attention layer that a library other than torch ships."""
    return from_jax(made, name) or from_keras(made, name) or from_jax_module(made, name)


def _known(made: Any, name: str, described: dict[str, Any]) -> Implementation | None:
    if isinstance(made, Implementation):
        return prepared(made) if _is_module(made.call) else made
    if _is_module(made):
        layout = described.get("layout")
        known = None if layout is None else find_layout(layout)
        return _module(made, name, Said(known, described.get("heads"), described.get("kv_heads")))
    if inspect.isclass(made):
        needed = ", ".join(_required(made))
        raise TargetProblem(
            f"class {made.__qualname__} needs arguments to be made: {needed}",
            hint=f"give an instance, or a function without arguments that makes one: lambda: {made.__name__}(...)",
        )
    return from_function(made, name=name, **described) if callable(made) else None


def _module(module: Any, name: str, said: Said) -> Implementation:
    """A torch module as an implementation: of cross-attention where it has an input for keys and values."""
    other = None if said.layout is not None else second_input(module)
    handed = other is not None and (other[1] or other[0] in _CROSS)
    made = from_cross_module(module, name, said.heads) if handed else None
    if made is not None:
        return made
    try:
        return from_module(module, name, said)
    except Problem:  # it may need its second input, by its widths
        if other is None or handed:
            raise
        with contextlib.suppress(Problem):
            made = from_cross_module(module, name, said.heads)
        if made is None:
            raise
        return made


#: names of a second input that may be left out under which it is handed over all the same
_CROSS = ("context",)


def _is_module(found: Any) -> bool:
    torch = sys.modules.get("torch")  # an object of torch cannot be there unless torch is
    return torch is not None and isinstance(found, torch.nn.Module)


def _is_factory(found: Any) -> bool:
    """Whether it can be called without arguments, and is not attention with defaults for all of them."""
    if isinstance(found, Implementation) or not callable(found) or _is_module(found):
        return False
    return not _required(found) and (inspect.isclass(found) or not set(_parameters(found)) & set(TAKES))


def _required(found: Callable[..., Any]) -> list[str]:
    return [
        name for name, parameter in _parameters(found).items()
        if parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD,
        )
    ]  # fmt: skip


def _parameters(found: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(found).parameters)
    except (TypeError, ValueError):  # some builtins have no signature; they cannot be filled by name either
        return {"?": inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)}
