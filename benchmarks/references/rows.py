"""The rows that `--write` draws, with NumPy alone and fixed seeds."""

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """A call of `api.CALLS`: arrays and options that go in."""

    group: str
    name: str
    call: str
    inputs: dict[str, np.ndarray]
    options: dict[str, Any]


def _rng(*words: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def _simplex(rng: np.random.Generator, *shape: int) -> np.ndarray:
    weights = rng.exponential(size=shape)
    return weights / weights.sum(-1, keepdims=True)


def _payoffs(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    match kind:
        case "whole numbers":
            return rng.integers(0, 6, shape).astype(float)
        case "ties":
            return rng.integers(0, 2, shape).astype(float)
        case "large":
            return 1e150 * rng.normal(size=shape)
        case "small":
            return 1e-150 * rng.normal(size=shape)
        case "far from zero":
            return 1e6 + rng.normal(size=shape)
        case _:
            return rng.normal(size=shape)


KINDS = ("normal", "whole numbers", "ties", "large", "small", "far from zero")


def matrices() -> Iterator[Row]:
    """Zero-sum games of all sizes and units, batches, and names."""
    shapes = [(1, 1), (1, 4), (2, 2), (3, 3), (4, 7), (10, 10), (25, 12), (16, 3, 3), (2, 3, 5, 4)]
    for kind in KINDS:
        for shape in shapes:
            payoff = _payoffs(_rng("matrix", kind, shape), kind, shape)
            name = f"matrix {'x'.join(map(str, shape))}, {kind}"
            yield Row("tables", name, "solve", {"payoff": payoff}, {"game": "matrix"})
    payoff = _payoffs(_rng("names"), "whole numbers", (2, 2))
    names = {"players": ["Ann", "Bob"], "actions": [["stay", "leave"], ["left", "right"]]}
    yield Row("tables", "names", "solve", {"payoff": payoff}, {"game": "matrix", "labels": names})


def tables() -> Iterator[Row]:
    """General-sum games of two to five players, every concept and objective."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("nash", {}),
        ("ce", {"concept": "ce"}),
        ("cce", {"concept": "cce"}),
        ("ce, welfare", {"concept": "ce", "objective": "welfare"}),
        ("cce, egalitarian", {"concept": "cce", "objective": "egalitarian"}),
    ]
    for shape in ((2, 2), (3, 3), (2, 5), (8, 8)):
        for kind in KINDS[:5]:
            payoffs = _payoffs(_rng("bimatrix", kind, shape), kind, (2, *shape))
            for words, options in asked[: 5 if shape[0] < 8 else 3]:
                yield Row(
                    "tables",
                    f"bimatrix {shape[0]}x{shape[1]}, {kind}, {words}",
                    "solve",
                    {"payoffs": payoffs},
                    {"game": "normal", "solve": options},
                )
    for shape in ((2, 2, 2), (3, 2, 2), (2, 2, 2, 2), (2, 2, 2, 2, 2)):
        for kind in KINDS[:3]:
            payoffs = _payoffs(_rng("players", kind, shape), kind, (len(shape), *shape))
            for words, options in asked[:4]:
                yield Row(
                    "tables",
                    f"{len(shape)} players {'x'.join(map(str, shape))}, {kind}, {words}",
                    "solve",
                    {"payoffs": payoffs},
                    {"game": "normal", "solve": options},
                )
    for k in range(8):
        payoffs = _payoffs(_rng("logit", k), "normal", (2, 3, 3))
        asked_logit = {"concept": "logit", "rationality": 2.0}
        row = {"game": "normal", "solve": asked_logit}
        yield Row("tables", f"logit {k}", "solve", {"payoffs": payoffs}, row)
    for k in range(12):
        kind, size = KINDS[k % 3], 2 + k % 4
        payoffs = _payoffs(_rng("list", k), kind, (2, size, size))
        row = {"game": "normal"}
        yield Row("tables", f"all equilibria {k}", "equilibria", {"payoffs": payoffs}, row)


def certificates() -> Iterator[Row]:
    """Policies of no solver."""
    for k in range(12):
        rng, kind = _rng("certify", k), KINDS[k % 6]
        shape = (3, 4) if k % 2 else (6, 2)
        parts = {f"policy {p}": _simplex(rng, size) for p, size in enumerate(shape)}
        payoff = _payoffs(rng, kind, shape)
        yield Row(
            "tables",
            f"certify matrix {k}",
            "certify",
            {"payoff": payoff} | parts,
            {"game": "matrix"},
        )
        payoffs = _payoffs(rng, kind, (3, 2, 3, 2))
        parts = {f"policy {p}": _simplex(rng, size) for p, size in enumerate((2, 3, 2))}
        yield Row(
            "tables",
            f"certify three players {k}",
            "certify",
            {"payoffs": payoffs} | parts,
            {"game": "normal"},
        )


def markov() -> Iterator[Row]:
    """Markov games: zero-sum to a discount of .999, horizons, and general sums."""
    for discount in (0.0, 0.5, 0.9, 0.99, 0.999):
        for states, actions in ((1, 2), (3, 2), (5, 3), (12, 2)):
            rng = _rng("markov", discount, states)
            inputs = {
                "reward": rng.random((states, actions, actions)),
                "transition": _simplex(rng, states, actions, actions, states),
            }
            name = f"Markov, {states} states, discount {discount}"
            yield Row("Markov", name, "solve", inputs, {"game": "markov", "discount": discount})
    for horizon in (1, 5, 40):
        for states in (2, 4):
            rng = _rng("horizon", horizon, states)
            inputs = {
                "reward": rng.random((states, 2, 3)),
                "transition": _simplex(rng, states, 2, 3, states),
            }
            name = f"Markov, {states} states, horizon {horizon}"
            yield Row("Markov", name, "solve", inputs, {"game": "markov", "horizon": horizon})
    for concept in ("nash", "ce", "cce"):
        for discount in (0.3, 0.6):
            rng = _rng("general", concept, discount)
            inputs = {
                "reward": rng.random((2, 2, 2, 2)),
                "transition": _simplex(rng, 2, 2, 2, 2),
            }
            options = {"game": "markov", "discount": discount, "solve": {"concept": concept}}
            name = f"general-sum Markov, {concept}, discount {discount}"
            yield Row("Markov", name, "solve", inputs, options)


def _terms(rng: np.random.Generator, agents: int, moves: int, situations: int) -> dict[str, Any]:
    ring = np.array([(i, (i + step) % agents) for i in range(agents) for step in (1, agents - 1)])
    own = np.arange(agents)[:, None]
    return {
        "agents": np.array(agents),
        "scopes 1": own,
        "tables 1": 0.3 * rng.normal(size=(situations, len(own), moves)),
        "scopes 2": ring,
        "tables 2": rng.normal(size=(situations, len(ring), moves, moves)),
    }


def interactions() -> Iterator[Row]:
    """Games of pairs of agents, with contexts and with local states."""
    for agents in (3, 4, 6, 10):
        for moves, contexts in ((2, 1), (3, 1), (2, 3)):
            rng = _rng("interactions", agents, moves, contexts)
            inputs = _terms(rng, agents, moves, contexts)
            name = f"interactions, {agents} agents, {moves} actions, {contexts} contexts"
            yield Row("interactions", name, "solve", inputs, {"game": "contextual"})
    for agents in (3, 4):
        for horizon in (2, 4):
            rng = _rng("decoupled", agents, horizon)
            inputs = _terms(rng, agents, 4, horizon)  # two states and two actions
            inputs["transitions"] = _simplex(rng, horizon, agents, 2, 2, 2)
            inputs["initial"] = _simplex(rng, agents, 2)
            name = f"local states, {agents} agents, {horizon} steps"
            yield Row("interactions", name, "solve", inputs, {"game": "decoupled"})


def continuous() -> Iterator[Row]:
    """Concave quadratic rewards of two to six agents."""
    for agents in (2, 3, 4, 6):
        for k in range(4):
            rng = _rng("continuous", agents, k)
            pairs = 0.3 * rng.normal(size=(agents, agents))
            np.fill_diagonal(pairs, 0.0)
            inputs = {
                "slope": rng.normal(size=agents),
                "curve": -rng.uniform(1.0, 2.0, agents),
                "pairs": pairs,
            }
            name = f"quadratic, {agents} agents, {k}"
            yield Row("continuous", name, "solve", inputs, {"game": "polynomial"})


OBJECTIVES: tuple[dict[str, Any], ...] = (
    {},
    {"objective": "welfare"},
    {"objective": "egalitarian"},
    {"concept": "optimum"},
)


def _crowd(rng: np.random.Generator, types: int, actions: int, d: int) -> dict[str, np.ndarray]:
    return {
        "influence": np.round(rng.random((types, actions, d)), 3),
        "base": np.round(rng.uniform(-0.3, 0.3, (types, actions)), 3),
        "slope": np.round(rng.uniform(-0.5, 0.2, (types, actions, d)), 3) / d,
        "counts": rng.integers(2, 400, types),
    }


def _crowd_over_steps(
    rng: np.random.Generator, states: int, agents: tuple[int, int]
) -> dict[str, np.ndarray]:
    return {
        "influence": np.array([[[1.0], [0.0]]]),
        "base": rng.uniform(-0.3, 0.3, (states, 1, 2)),
        "slope": rng.uniform(-0.5, 0.0, (states, 1, 2)),
        "calm": _simplex(rng, states, states),
        "busy": _simplex(rng, states, states),
        "counts": np.array([int(rng.integers(*agents))]),
    }


def crowds() -> Iterator[Row]:
    """Crowds of one to three coordinates, all objectives, and over several steps."""
    for d in (1, 2, 3):
        for k in range(4 if d == 1 else 4 if d == 2 else 3):
            inputs = _crowd(_rng("crowd", d, k), 1 + k % 3, 2 + k % 2, d)
            options = {"game": "crowd", "lipschitz": 0.5, "bounds": [-1.0, 1.0]}
            for j, asked in enumerate(OBJECTIVES if d < 3 else OBJECTIVES[:2]):
                row = options | {"solve": asked}
                yield Row("crowds", f"crowd, d = {d}, {k}, objective {j}", "solve", inputs, row)
    for k in range(6):
        inputs = _crowd(_rng("million", k), 2, 3, 1) | {"counts": np.array([700_000, 300_000])}
        options = {"game": "crowd", "lipschitz": 0.5, "bounds": [-1.0, 1.0]}
        row = options | {"solve": OBJECTIVES[k % 3]}
        yield Row("crowds", f"a million agents, {k}", "solve", inputs, row)
    for k in range(16):
        rng = _rng("steps", k)
        states = 2 + k % 2
        inputs = _crowd_over_steps(rng, states, (5, 200))
        options = {"game": "markov crowd", "lipschitz": 0.5, "bounds": [-1.0, 1.0]}
        row = options | {"horizon": 2 + k % 4, "solve": OBJECTIVES[k % 2]}
        yield Row("crowds", f"crowd over steps, {k}", "solve", inputs, row)


def _city(rng: np.random.Generator, side: int, trips: int) -> dict[str, np.ndarray]:
    at = np.arange(side * side).reshape(side, side)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    tails = np.concatenate([np.concatenate([a.ravel(), b.ravel()]) for a, b in ends])
    heads = np.concatenate([np.concatenate([b.ravel(), a.ravel()]) for a, b in ends])
    drawn = [rng.choice(side * side, 2, replace=False) for _ in range(trips)]
    pairs = np.unique(np.array(drawn), axis=0)
    return {
        "tails": tails,
        "heads": heads,
        "origins": pairs[:, 0],
        "destinations": pairs[:, 1],
        "demand": np.round(rng.uniform(5.0, 20.0, len(pairs)), 2),
        "free_flow": np.round(rng.uniform(1.0, 3.0, len(tails)), 2),
        "capacity": np.round(rng.uniform(5.0, 15.0, len(tails)), 2),
        "power": np.full(len(tails), 4.0),
    }


def networks() -> Iterator[Row]:
    """Grids with trips: equilibria, optima, whole drivers, prices and tolls."""
    for k in range(8):
        city = _city(_rng("city", k), 3 + k % 3, 4 + 2 * k)
        yield Row("networks", f"city {k}", "solve", city, {"game": "network"})
        if k < 6:
            optimum = {"game": "network", "solve": {"concept": "optimum"}}
            yield Row("networks", f"optimum {k}", "solve", city, optimum)
        if k < 4:
            yield Row("networks", f"prices {k}", "prices", city, {})
    for k in range(4):
        city = _city(_rng("drivers", k), 3, 4)
        city["demand"] = np.ceil(city["demand"])
        options = {"game": "network", "atomic": True}
        yield Row("networks", f"whole drivers {k}", "solve", city, options)


def samples() -> Iterator[Row]:
    """Crowds learnt from samples of a simulator."""
    for k in range(20):
        rng = _rng("samples", k)
        states, steps = 1 + k % 2, 1 + k % 3
        inputs = _crowd_over_steps(rng, states, (50, 500))
        options = {"game": "markov crowd", "lipschitz": 0.5, "bounds": [-1.0, 1.0]}
        asked = {"episodes": 20, "rewards": ("known", "unknown")[k % 4 == 3]}
        row = options | {"horizon": steps, "key": k, "learn": asked}
        yield Row("crowds learnt", f"learnt {k}", "learn", inputs, row)


LEARNERS = (
    ("omd", "omd"),
    ("omd", "exp3-ix"),
    ("entropic", "log-barrier"),
    ("optimistic", "regret-matching"),
    ("omd-vanishing", "uniform"),
    ("cai-euclidean", "best-responder"),
    ("omd-plain", "omd-printed-signs"),
)


def matches() -> Iterator[Row]:
    """Matches of learners."""
    for k, seats in enumerate(LEARNERS):
        for size in (2, 4):
            payoff = _rng("match", k, size).random((8, size, size))
            row = {"game": "matrix", "seats": seats, "rounds": 200, "key": k}
            yield Row("matches", f"{seats[0]}, {seats[1]}, {size}", "play", {"payoff": payoff}, row)
    for k, seats in enumerate((("omd", "omd"), ("entropic", "omd"), ("v-learning", "uniform"))):
        for states in (2, 3):
            rng = _rng("Markov match", k, states)
            inputs = {
                "reward": rng.random((4, states, 2, 2)),
                "transition": _simplex(rng, 4, states, 2, 2, states),
            }
            row = {"game": "markov", "discount": 0.8, "seats": seats, "rounds": 200, "key": k}
            yield Row("matches", f"Markov, {seats[0]}, {states} states", "play", inputs, row)


def cards() -> Iterator[Row]:
    """Three rows of each shipped player's card: 256 games, 256 rounds."""
    sizes = {"any": (3, 5), "iid3": (3,), "iid5": (5,)}
    for player, counts in sizes.items():
        for size in counts:
            noises = ("", "Bernoulli", "Gaussian") if player != "any" or size == 3 else ("",)
            payoff = np.round(_rng("card", size).random((256, size, size)), 4)
            for noise in noises:
                row = {"game": "matrix", "player": player, "rounds": 256, "key": 0}
                more = {"noise": noise} if noise else {}
                name = f"{player}, {size} actions {noise}".strip()
                yield Row("cards", name, "card", {"payoff": payoff}, row | more)
    for player in ("markov", "markov3"):
        rng = _rng("Markov card")
        inputs = {
            "reward": np.round(rng.random((256, 3, 3, 3)), 3),
            "transition": _simplex(rng, 256, 3, 3, 3, 3).astype(np.float32).astype(float),
        }
        inputs["transition"] /= inputs["transition"].sum(-1, keepdims=True)
        for noise in ("", "Bernoulli", "Gaussian"):
            row = {"game": "markov", "discount": 0.8, "player": player, "rounds": 256, "key": 0}
            more = {"noise": noise} if noise else {}
            yield Row("cards", f"{player} {noise}".strip(), "card", inputs, row | more)


def figures() -> Iterator[Row]:
    """Records of the papers' figures that take less than two minutes at the quick scale."""
    for paper, figure in (
        ("in-context", "construction"),
        ("interaction-rank", "1"),
        ("interaction-rank", "discrete"),
        ("aggregative", "planning"),
        ("aggregative", "learning"),
    ):
        row = {"paper": paper, "figure": figure}
        yield Row("figures", f"{paper} {figure}", "figure", {}, row)


LONG = {"agent": "shop", "time": "week", "action": "price", "reward": "profit"}
HEAD = "week,shop,price,profit"
#: What a file is about, and its lines.
FILES = {
    "a blank reward": (HEAD, "1,Ada,low,2", "1,Bo,high,", "2,Ada,high,1", "2,Bo,high,3"),
    "an absence": (HEAD, "1,Ada,low,2", "1,Bo,high,1", "2,Ada,,", "2,Bo,high,3"),
    "two spellings": (HEAD, "1,Ada,LOW,2", "1,Bo,high,1", "2,Ada,low,1", "2,Bo,High,3"),
    "decimal commas": (
        HEAD.replace(",", ";"),
        *("1;Ada;low;1.234", "1;Bo;high;1,5", "2;Ada;low;1", "2;Bo;low;3"),
    ),
    "losses in brackets": (HEAD, "1,Ada,low,(0.12)", "1,Bo,high,1", "2,Ada,low,1", "2,Bo,low,3"),
    "an agent called NA": (HEAD, "1,NA,low,2", "1,Bo,high,1", "2,NA,low,1", "2,Bo,low,3"),
    "dates": (
        HEAD,
        *("2023-01-05,Ada,low,2", "2023-01-05,Bo,high,1"),
        *("2022-12-29,Ada,low,1", "2022-12-29,Bo,low,3"),
    ),
}


def logs() -> Iterator[Row]:
    """Logs that are read, fitted and solved."""
    for name, lines in FILES.items():
        text = "\n".join(lines) + "\n"
        yield Row("logs", f"read: {name}", "read log", {}, {"text": text, "read": LONG})
    for k in range(8):
        rng = _rng("log", k)
        agents, actions, rows, contexts = 3 + k % 3, 2 + k % 2, 400, 1 + k % 2
        at = rng.integers(0, contexts, rows)
        played = rng.integers(0, actions, (rows, agents))
        pairs = rng.normal(size=(agents, agents, actions, actions))
        paid = np.stack(
            [
                sum(pairs[i, j, played[:, i], played[:, j]] for j in range(agents) if j != i)
                for i in range(agents)
            ],
            -1,
        )
        rewards = np.round(paid + 0.1 * rng.normal(size=paid.shape), 3)
        inputs = {"contexts": at, "actions": played, "rewards": rewards}
        yield Row("logs", f"fit and solve {k}", "from log", inputs, {"rank": 1 + k % 3})


def theory() -> Iterator[Row]:
    """Formulas of the papers."""
    step = {"lipschitz": 0.5, "spacing": 0.1, "delta": 1e-3, "dimensions": 2}
    markov_step = step | {"transition_lipschitz": 1.0, "horizon": 5}
    bound = {"rounds": 100, "actions": 3, "distance": 1.0, "realisability": 1e-4}
    asked: dict[str, dict[str, Any]] = {
        "aggregative.normal_form_gap": step,
        "aggregative.selection_gap": step | {"epsilon": 0.01},
        "aggregative.markov_gap": markov_step,
        "offline.shift_factor": {"others": 7, "rank": 3, "ratio": 4.0},
        "offline.printed_shift_factor": {"others": 7, "rank": 3, "ratio": 4.0},
        "offline.sub_function_error": {"order": 3, "error": 0.01},
        "offline.chi_squared_bound": {"strength": 0.5},
        "offline.printed_gap": {"agents": 20, "rank": 2, "error": 0.01},
        "offline.printed_markov_gap": {"agents": 20, "rank": 2, "error": 1e-3, "horizon": 5},
        "incontext.matrix_bound": bound | {"log_cover": 50.0, "samples": 1e6},
    }
    for name, arguments in asked.items():
        row = {"function": name, "arguments": arguments}
        yield Row("theory", name, "theory", {}, row)


GROUPS = (
    matrices,
    tables,
    certificates,
    markov,
    interactions,
    continuous,
    crowds,
    networks,
    samples,
    matches,
    cards,
    figures,
    logs,
    theory,
)


def drawn() -> Iterator[Row]:
    """All rows, with names that occur once."""
    names: set[tuple[str, str]] = set()
    for group in GROUPS:
        for row in group():
            if (row.group, row.name) in names:
                raise ValueError(f"two rows are called {row.name!r} in {row.group!r}")
            names.add((row.group, row.name))
            yield row
