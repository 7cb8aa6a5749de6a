"""Everything that was measured of players, as scalars, arrays and tables of a record."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.incontext._curves import Mean
from equipoise.runs import Record, Table

#: The row of the players in tables.
PLAYERS = "in-context players"


@dataclass(frozen=True)
class Measured:
    """What `evaluate` found out."""

    #: (records,)
    rounds: np.ndarray
    #: Name -> (seeds, records, games); learners have one seed.
    curves: dict[str, np.ndarray]
    #: Name -> (games,)
    statics: dict[str, np.ndarray]
    #: Name -> rounds until the players' gap, or None, and (looks, 2) of rounds and mean gap.
    needed: dict[str, tuple[int | None, np.ndarray]]
    #: How many rounds were tried.
    search: int
    #: Name -> (games, rounds)
    distances: dict[str, np.ndarray]
    #: (opponent, seat) -> (games, rounds) of what the player earned, and that beyond the value.
    opponents: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]]

    def record(self, config: Any) -> Record:
        """All of it."""
        arrays = self._arrays()
        tables = {
            "gap": self._gaps(lambda mean: mean.value),
            "gap_error": self._gaps(lambda mean: mean.error),
            "rounds_to_gap": self._rounds_to_gap(),
            "opponents": self._opponents(),
            "distance": self._distance(),
        }
        own = self._mean(PLAYERS)
        scalars = {
            "gap": float(own.value[-1]),
            "error": float(own.error[-1]),
            "seed_error": float(own.seed_error[-1]),
            "rounds_to_gap": {name: count for name, (count, _) in self.needed.items()},
            "search": self.search,
            "beaten_at_every_round": self._beaten(),
        }
        return Record("evaluate", config, scalars, arrays, tables)

    def _mean(self, name: str) -> Mean:
        return Mean.of(self.curves[name], seeds=True)

    def _beaten(self) -> list[str]:
        """Whose mean gap is above the players' at every recorded round."""
        own = self._mean(PLAYERS).value
        others = {name: self._mean(name).value for name in self.curves if name != PLAYERS}
        others |= {name: np.full(len(own), gaps.mean()) for name, gaps in self.statics.items()}
        return [name for name, curve in others.items() if (curve > own).all()]

    def _arrays(self) -> dict[str, np.ndarray]:
        arrays = {"rounds": self.rounds, "gap/players": self.curves[PLAYERS]}
        arrays |= {f"gap/{n}": curve[0] for n, curve in self.curves.items() if n != PLAYERS}
        arrays |= {f"static/{name}": gaps for name, gaps in self.statics.items()}
        arrays |= {f"search/{name}": looks for name, (_, looks) in self.needed.items()}
        for name, apart in self.distances.items():
            mean = Mean.of(apart.T)
            arrays |= {f"distance/{name}": mean.value, f"distance/{name}/error": mean.error}
        for (name, seat), (earned, beyond) in self.opponents.items():
            mean = Mean.of(beyond.T)
            arrays[f"opponents/{name}/{seat}/reward"] = earned.mean(0)
            arrays[f"opponents/{name}/{seat}/beyond"] = mean.value
            arrays[f"opponents/{name}/{seat}/error"] = mean.error
        return arrays

    def _gaps(self, part: Any) -> Table:
        rows = [(name, *map(float, part(self._mean(name)))) for name in self.curves]
        for name, gaps in self.statics.items():
            number = float(part(Mean.of(gaps)))
            rows.append((name, *(number for _ in self.rounds)))
        return Table(("who", *(str(r) for r in self.rounds)), rows)

    def _rounds_to_gap(self) -> Table:
        target = float(self._mean(PLAYERS).value[-1])
        rows = []
        for name, (count, looks) in self.needed.items():
            text = f"more than {self.search:,}" if count is None else f"{count:,}"
            rows.append((name, target, text, float(looks[-1, 1])))
        return Table(("learner", "gap to reach", "rounds needed", "its gap then"), rows)

    def _opponents(self) -> Table:
        """Per round: all rounds, and the last quarter of them."""
        rows = []
        for (name, seat), (earned, beyond) in self.opponents.items():
            late = max(1, beyond.shape[1] // 4)
            whole, end = Mean.of(beyond.mean(1)), Mean.of(beyond[:, -late:].mean(1))
            means = (earned.mean(), whole.value, whole.error, end.value, end.error)
            rows.append((name, seat, *map(float, means)))
        heads = ("reward", "beyond value", "±", "late", "± late")
        return Table(("opponent", "seat", *heads), rows)

    def _distance(self) -> Table:
        stops = [r for r in self.rounds if r <= next(iter(self.distances.values())).shape[1]]
        rows = [
            (name, *(float(apart[:, stop - 1].mean()) for stop in stops))
            for name, apart in self.distances.items()
        ]
        return Table(("learner", *(str(r) for r in stops)), rows)
