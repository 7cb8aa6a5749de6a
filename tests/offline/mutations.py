"""Damaged logs: bytes of files, and tables, changed at random."""

from pathlib import Path

import numpy as np

import equipoise as eq

#: Values that a table should not hold, and some that it may.
STRANGE = (np.nan, np.inf, -np.inf, -1, 0, 1, 2, 3, 7, 0.5, 1e300, -1e300, 2**31, 2**62, 1e18)


def small_logs() -> list[eq.offline.Log]:
    """A contextual log and one of episodes."""
    families = eq.games.families
    contextual = families.polymatrix(agents=3, actions=3, contexts=2).sample(key=0)
    markov = families.polymatrix(agents=2, actions=2, states=2, horizon=3).sample(key=0)
    return [
        eq.offline.collect(contextual, samples=12, key=0),
        eq.offline.collect(markov, samples=4, key=0),
    ]


def bytes_of(log: eq.offline.Log, path: Path) -> bytes:
    log.write(path)
    return path.read_bytes()


def tables_of(log: eq.offline.Log) -> dict[str, np.ndarray]:
    """The tables of a log, and what it says beside them."""
    names = ("contexts", "actions", "rewards", "states", "next_states", "steps", "episodes")
    tables = {n: getattr(log, n) for n in names if getattr(log, n) is not None}
    said = ("actions_per_agent", "contexts_count", "states_count", "horizon", "behaviour")
    if log.states is None:
        said = ("actions_per_agent", "contexts_count", "behaviour")
    tables |= {n: np.asarray(getattr(log, n)) for n in said}
    return tables


def garble(rng: np.random.Generator, tables: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Change entries, types, shapes and names of the tables of a log."""
    tables = {name: table.copy() for name, table in tables.items()}
    for _ in range(rng.integers(1, 4)):
        name = str(rng.choice(sorted(tables)))
        table = tables[name]
        match rng.integers(9):
            case 0 | 1 | 2 if table.size:
                value = STRANGE[int(rng.integers(len(STRANGE)))]
                table = table.astype(rng.choice([np.float64, np.float32, np.int64, np.int8, bool]))
                with np.errstate(all="ignore"):
                    fitting = np.array([value]).astype(table.dtype)[0]
                table[tuple(int(rng.integers(n)) for n in table.shape)] = fitting
            case 3 if len(tables) > 1:
                del tables[name]
                continue
            case 4 if table.ndim:
                table = table[: int(rng.integers(len(table) + 1))]
            case 5 if table.ndim:
                table = np.concatenate([table, table[: int(rng.integers(1, 4))]])
            case 6:
                table = table.T if rng.random() < 0.5 else table[None]
            case 7:
                table = table.astype(rng.choice(["U3", "S2", "f2", "c16", "u8", "?", "M8[s]"]))
            case _ if table.ndim > 1:
                table = table[:, : int(rng.integers(table.shape[1] + 1))]
        tables[name] = table
    return tables
