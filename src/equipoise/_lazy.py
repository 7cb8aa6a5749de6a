"""Packages whose names load on first use, so that importing them imports nothing heavy."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load_on_first_use(
    package: str, public: Mapping[str, str | None], renamed: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and the `__dir__` of a package (PEP 562).

    `public` maps each public name to the module that defines it, or to None where the name is
    itself a module of the package. A name once loaded is kept in the package. `renamed` maps names
    that version 0.2 had to their present ones.

    >>> load, names = load_on_first_use("equipoise", {"games": None})
    >>> load("games").__name__, "games" in names()
    ('equipoise.games', True)
    """

    def load(name: str) -> Any:
        if name in (renamed or ()):
            raise AttributeError(f"{package}.{name} is now {(renamed or {})[name]}")
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = public[name]
        module = import_module(home or f"{package}.{name}")
        value = module if home is None else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        # `dir` lists only public names, not what the package imports for its own use.
        found = vars(sys.modules[package])
        special = {name for name in found if name.startswith("__")}
        return sorted({*special, *found.get("__all__", ()), *public})

    return load, names
