"""Learn near-equilibria from logs of what many agents did and earned (low interaction rank).

All names are imported on first use.
"""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.offline import adapters as adapters
    from equipoise.offline import decomposition as decomposition
    from equipoise.offline import deep as deep
    from equipoise.offline import parameters as parameters
    from equipoise.offline import theory as theory
    from equipoise.offline import transitions as transitions
    from equipoise.offline._collect import Simulator as Simulator
    from equipoise.offline._collect import collect as collect
    from equipoise.offline._coverage import Coverage as Coverage
    from equipoise.offline._coverage import coverage as coverage
    from equipoise.offline._coverage import estimate_behaviour as estimate_behaviour
    from equipoise.offline._coverage import state_concentrability as state_concentrability
    from equipoise.offline._discover import Structure as Structure
    from equipoise.offline._discover import discover as discover
    from equipoise.offline._dr_ac import dr_ac as dr_ac
    from equipoise.offline._fit import fit as fit
    from equipoise.offline._gap import GapEstimate as GapEstimate
    from equipoise.offline._gap import estimate_gap as estimate_gap
    from equipoise.offline._learn import Advice as Advice
    from equipoise.offline._learn import advise as advise
    from equipoise.offline._log import Log as Log
    from equipoise.offline._model import InteractionMap as InteractionMap
    from equipoise.offline._model import Model as Model
    from equipoise.offline._number_model import NumericModel as NumericModel
    from equipoise.offline._number_policy import NumericPolicy as NumericPolicy
    from equipoise.offline._pieces import LogFiles as LogFiles
    from equipoise.offline._select import RankSelection as RankSelection
    from equipoise.offline._select import select_rank as select_rank
    from equipoise.offline._solve import solve as solve

_SUBMODULES = ("adapters", "decomposition", "deep", "parameters", "theory", "transitions")
#: Maps each module to its public names.
_NAMES = {
    # logs
    "_log": ("Log",),
    "_pieces": ("LogFiles",),
    "_collect": ("collect", "Simulator"),
    "_coverage": ("coverage", "Coverage", "estimate_behaviour", "state_concentrability"),
    # from a log to a model
    "_discover": ("discover", "Structure"),
    "_select": ("select_rank", "RankSelection"),
    "_fit": ("fit",),
    "_model": ("Model", "InteractionMap"),
    "_number_model": ("NumericModel",),
    "_number_policy": ("NumericPolicy",),
    # from a log, or a model, to a policy
    "_learn": ("advise", "Advice"),
    "_solve": ("solve",),
    "_dr_ac": ("dr_ac",),
    "_gap": ("estimate_gap", "GapEstimate"),
}
#: Maps each public name to the module that defines it; None for a submodule of this package.
_PUBLIC: dict[str, str | None] = {
    **dict.fromkeys(_SUBMODULES),
    **{name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names},
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC, {"learn": "equipoise.advise"})
