"""Learn from logs of continuous actions with networks: critics of low interaction rank, and actors.

All names are imported on first use.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.offline.deep._actors import Actors as Actors
    from equipoise.offline.deep._critics import Critics as Critics
    from equipoise.offline.deep._fit import fit as fit
    from equipoise.offline.deep._improve import improve as improve
    from equipoise.offline.deep._spec import ARCHITECTURES as ARCHITECTURES
    from equipoise.offline.deep._spec import TD3BC as TD3BC
    from equipoise.offline.deep._spec import Critic as Critic
    from equipoise.offline.deep._spec import KernelCritic as KernelCritic
    from equipoise.offline.deep._spec import LinearCritic as LinearCritic
    from equipoise.offline.deep._spec import PolicyGradient as PolicyGradient

#: Maps each public name to the module that defines it.
_PUBLIC: dict[str, str | None] = {
    "ARCHITECTURES": "equipoise.offline.deep._spec",
    "Critic": "equipoise.offline.deep._spec",
    "KernelCritic": "equipoise.offline.deep._spec",
    "LinearCritic": "equipoise.offline.deep._spec",
    "fit": "equipoise.offline.deep._fit",
    "Critics": "equipoise.offline.deep._critics",
    "TD3BC": "equipoise.offline.deep._spec",
    "PolicyGradient": "equipoise.offline.deep._spec",
    "improve": "equipoise.offline.deep._improve",
    "Actors": "equipoise.offline.deep._actors",
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
