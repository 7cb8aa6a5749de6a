"""The record of an evaluation: its arrays, tables and main numbers."""

from typing import Any

import numpy as np

from equipoise.dynamics import Mean
from equipoise.runs import Record, Table

#: Name of the players' row in tables.
PLAYERS = "in-context players"


def record_of(
    config: Any,
    rounds: np.ndarray,
    curves: dict[str, np.ndarray],
    statics: dict[str, np.ndarray],
    needed: dict[str, tuple[int | None, np.ndarray]],
    apart: dict[str, np.ndarray],
    met: dict[tuple[str, str], Any],
) -> Record:
    """Put the results of `evaluate` into a record.

    By name, `curves` are (seeds, records, games), `statics` (games,), `needed` the rounds to the
    players' gap with the (looks, 2) of rounds and mean gap, and `apart` (games, rounds). By
    opponent and seat, `met` is (games, rounds) of the reward, and of its excess over the value.
    """
    means = {name: Mean.of(curve, seeds=True) for name, curve in curves.items()}
    own, flat = means[PLAYERS], {name: Mean.of(gaps) for name, gaps in statics.items()}

    def gaps(part: str) -> Table:
        whole = {name: getattr(mean, part) for name, mean in (means | flat).items()}
        rows = [(name, *np.broadcast_to(v, len(rounds)).tolist()) for name, v in whole.items()]
        return Table(("who", *map(str, rounds)), rows)

    arrays = {"rounds": rounds, "gap/players": curves[PLAYERS]}
    arrays |= {f"gap/{name}": curve[0] for name, curve in curves.items() if name != PLAYERS}
    arrays |= {f"static/{name}": each for name, each in statics.items()}
    searched, meetings, distances = [], [], []
    for name, (count, looks) in needed.items():
        arrays[f"search/{name}"] = looks
        text = f"more than {config['search']:,}" if count is None else f"{count:,}"
        searched.append((name, float(own.value[-1]), text, float(looks[-1, 1])))
    for name, far in apart.items():
        mean = Mean.of(far.T)
        arrays |= {f"distance/{name}": mean.value, f"distance/{name}/error": mean.error}
        distances.append((name, *mean.value[rounds - 1].tolist()))
    for (name, seat), (earned, beyond) in met.items():
        mean, where = Mean.of(beyond.T), f"opponents/{name}/{seat}"
        arrays |= {f"{where}/reward": earned.mean(0)}
        arrays |= {f"{where}/beyond": mean.value, f"{where}/error": mean.error}
        # Means per round, over all rounds and over the last quarter of them.
        late = beyond[:, -max(1, beyond.shape[1] // 4) :]
        whole, end = Mean.of(beyond.mean(1)), Mean.of(late.mean(1))
        numbers = (earned.mean(), whole.value, whole.error, end.value, end.error)
        meetings.append((name, seat, *map(float, numbers)))
    others = {name: mean.value for name, mean in (means | flat).items() if name != PLAYERS}
    scalars = {
        **{"gap": float(own.value[-1]), "error": float(own.error[-1])},
        "seed_error": float(own.seed_error[-1]),
        "rounds_to_gap": {name: count for name, (count, _) in needed.items()},
        "search": config["search"],
        "beaten_at_every_round": [n for n, gap in others.items() if np.all(gap > own.value)],
    }
    heads = ("reward", "beyond value", "±", "late", "± late")
    needs = ("learner", "NashConv to reach", "rounds needed", "its NashConv then")
    tables = {
        "gap": gaps("value"),
        "gap_error": gaps("error"),
        "rounds_to_gap": Table(needs, searched),
        "opponents": Table(("opponent", "seat", *heads), meetings),
        "distance": Table(("learner", *map(str, rounds)), distances),
    }
    return Record("evaluate", config, scalars, arrays, tables)
