"""Players that learn an unseen game in context: pre-trained and hand-built transformers."""

from equipoise.core.values import register_all
from equipoise.incontext import construct, theory
from equipoise.incontext._config import Config
from equipoise.incontext._files import description, family_of, load, save, shipped
from equipoise.incontext._guarded import Guarded, GuardedPlayer
from equipoise.incontext._named import make_players, play
from equipoise.incontext._players import Player, Players, initial_players
from equipoise.incontext._static import static_policies
from equipoise.incontext._sweep import sweep
from equipoise.incontext._train import BEST, pretrain
from equipoise.incontext._trajectories import Trajectories
from equipoise.incontext.data import Batch, Dataset, dataset
from equipoise.incontext.duel import Duel, Turn
from equipoise.incontext.evaluation import evaluate, evaluate_saved
from equipoise.incontext.theory import distance

register_all()  # games that are older than JAX

__all__ = [
    "BEST",
    "Batch",
    "Config",
    "Dataset",
    "Duel",
    "Guarded",
    "GuardedPlayer",
    "Player",
    "Players",
    "Trajectories",
    "Turn",
    "construct",
    "dataset",
    "description",
    "distance",
    "evaluate",
    "evaluate_saved",
    "family_of",
    "initial_players",
    "load",
    "make_players",
    "play",
    "pretrain",
    "save",
    "shipped",
    "static_policies",
    "sweep",
    "theory",
]
