"""What a public case is: code to be checked, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Public:
    """A public case: what is run, which faults are to be named, and how it is checked."""

    code: Any
    names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
