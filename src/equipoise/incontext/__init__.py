"""Players that learn an unseen game in context: pre-trained and hand-built transformers."""

from typing import TYPE_CHECKING

from equipoise._lazy import load_on_first_use

if TYPE_CHECKING:
    from equipoise.incontext import construct as construct
    from equipoise.incontext import theory as theory
    from equipoise.incontext._config import BEST as BEST
    from equipoise.incontext._config import Config as Config
    from equipoise.incontext._config import shipped as shipped
    from equipoise.incontext._files import description as description
    from equipoise.incontext._files import family_of as family_of
    from equipoise.incontext._files import load as load
    from equipoise.incontext._files import save as save
    from equipoise.incontext._guarded import Guarded as Guarded
    from equipoise.incontext._guarded import GuardedPlayer as GuardedPlayer
    from equipoise.incontext._named import make_players as make_players
    from equipoise.incontext._named import play as play
    from equipoise.incontext._players import Player as Player
    from equipoise.incontext._players import Players as Players
    from equipoise.incontext._players import initial_players as initial_players
    from equipoise.incontext._static import static_policies as static_policies
    from equipoise.incontext._sweep import sweep as sweep
    from equipoise.incontext._train import pretrain as pretrain
    from equipoise.incontext._trajectories import Trajectories as Trajectories
    from equipoise.incontext.data import Batch as Batch
    from equipoise.incontext.data import Dataset as Dataset
    from equipoise.incontext.data import dataset as dataset
    from equipoise.incontext.duel import Duel as Duel
    from equipoise.incontext.duel import Turn as Turn
    from equipoise.incontext.evaluation import evaluate as evaluate
    from equipoise.incontext.evaluation import evaluate_saved as evaluate_saved
    from equipoise.incontext.theory import distance as distance

_HOMES = {
    "_config": "BEST Config shipped",
    "_files": "description family_of load save",
    "_guarded": "Guarded GuardedPlayer",
    "_named": "make_players play",
    "_players": "Player Players initial_players",
    "_static": "static_policies",
    "_sweep": "sweep",
    "_train": "pretrain",
    "_trajectories": "Trajectories",
    "data": "Batch Dataset dataset",
    "duel": "Duel Turn",
    "evaluation": "evaluate evaluate_saved",
    "theory": "distance",
}
_PUBLIC: dict[str, str | None] = dict.fromkeys(("construct", "theory")) | {
    name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names.split()
}

__all__ = sorted(_PUBLIC)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = load_on_first_use(__name__, _PUBLIC)
