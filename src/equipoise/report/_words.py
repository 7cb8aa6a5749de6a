"""Words for people, in place of the names that programs keep numbers and settings under."""

#: Names in records and configs -> words; names that are not here are shown as they are.
WORDS = {
    # Numbers of records.
    "stats.bound": "largest gain, at most",
    "stats.cells": "cells of the grid of aggregates",
    "stats.classes": "classes of agents who play alike",
    "stats.delta": "most that one agent moves the aggregate",
    "stats.feasible": "cells that can hold an equilibrium",
    "stats.lipschitz": "Lipschitz constant of rewards",
    "stats.lipschitz_estimated": "whether it was estimated",
    "stats.pivots": "pivots",
    "stats.plan_seconds": "seconds of planning",
    "stats.planning_bound": "largest gain promised by planning",
    "stats.plans": "times planned",
    "stats.programs": "linear programs solved",
    "stats.relaxed": "factor that the tolerance had to grow by",
    "stats.sample_bytes": "bytes of samples",
    "stats.seconds": "seconds of solving",
    "stats.spacing": "side of the cells",
    "stats.steps.hoffman_karp": "Hoffman-Karp steps",
    "stats.steps.newton": "Newton steps",
    "stats.sweeps": "sweeps over the states",
    "stats.tolerance": "tolerance of best replies",
    "stats.types": "types of agents",
    "stats.visited_cells": "cells visited",
    "stats.welfare": "welfare",
    # Curves.
    "average_gap": "gap of the average policies",
    "row_regret": "regret of row",
    "column_regret": "regret of column",
    # Settings.
    "env.game fingerprint": "simulator: fingerprint of the game",
    "env.key": "simulator: key",
    "env.noise": "simulator: noise of rewards",
    "env.start": "simulator: probabilities of starting states",
    "game.lipschitz": "game: Lipschitz constant of rewards",
    "game.transition_lipschitz": "game: Lipschitz constant of transitions",
    "game_sha256": "SHA-256 of the game's file",
    "log_sha256": "SHA-256 of the log",
}
#: What names mean in records of ours; in those of others, they may mean anything.
RECORDS = {
    "self-play": {"uniform": "gap of uniform play"},
    "aggregative-learning": {
        "width": "upper minus lower value",
        "bound": "largest gain, at most",
        "confidence": "with probability",
        "regret": "largest gain of an episode's policy, at most",
    },
    "solution": {"bound": "largest gain promised", "value": "value, or mean reward"},
}
#: Beginnings of names that end as they like.
_BEGINNINGS = {
    "stats.stages.": "games solved by ",
    "env.": "simulator: ",
    "game.": "game: ",
}


def in_words(name: str, record: str = "") -> str:
    """What a number, curve or setting is called on a page; `record` is the name of the record.

    >>> in_words("stats.relaxed"), in_words("game.horizon"), in_words("model.layers")
    ('factor that the tolerance had to grow by', 'game: horizon', 'model.layers')
    >>> in_words("width"), in_words("width", "aggregative-learning")
    ('width', 'upper minus lower value')
    """
    known = WORDS | RECORDS.get(record, {})
    if name in known:
        return known[name]
    for beginning, words in _BEGINNINGS.items():
        if name.startswith(beginning):
            return words + name.removeprefix(beginning)
    return name
