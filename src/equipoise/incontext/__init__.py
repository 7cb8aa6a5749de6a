"""Players that learn an unseen game in context: pre-trained transformers, and hand-built ones."""

from equipoise.incontext._config import Config
from equipoise.incontext._files import description, load, save, shipped
from equipoise.incontext._players import Players, initial_players
from equipoise.incontext._train import pretrain

__all__ = [
    "Config",
    "Players",
    "description",
    "initial_players",
    "load",
    "pretrain",
    "save",
    "shipped",
]
