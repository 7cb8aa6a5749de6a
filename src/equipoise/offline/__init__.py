"""From a log of what many agents did and earned to a near-equilibrium, by low interaction rank.

Everything here loads on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.offline._collect import collect as collect
    from equipoise.offline._log import Log as Log

#: Public name -> the module it is defined in; None for a module of this package.
_PUBLIC: dict[str, str | None] = {
    # logs
    "Log": "equipoise.offline._log",
    "collect": "equipoise.offline._collect",
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'equipoise.offline' has no attribute {name!r}")
    home = _PUBLIC[name]
    module = import_module(home or f"equipoise.offline.{name}")
    value = module if home is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
