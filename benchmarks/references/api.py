"""The calls of all rows: plain arrays in, plain arrays out. Nothing else here knows the library.

Each function takes the arrays of a row and its options. Outputs named `upper` are proven bounds
(less is better), `status` is a word, and `policy*` may be another policy if the bounds hold.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq

Arrays = Mapping[str, np.ndarray]
Outputs = dict[str, Any]


def _certificate(certificate: Any) -> Outputs:
    return {"gains": np.asarray(certificate.gains), "upper": np.asarray(certificate.upper)}


def _policy(policy: Any) -> Outputs:
    """The arrays of a policy of any kind."""
    kinds = (
        ("joint", eq.JointPolicy),
        ("weights", eq.Mixture),
        ("flows", eq.FlowPolicy),
        ("counts", eq.AggregativePolicy),
    )
    for name, kind in kinds:
        if isinstance(policy, kind):
            arrays: Outputs = {"policy": np.asarray(getattr(policy, name))}
            if isinstance(policy, eq.Mixture):
                arrays["policy of all"] = np.asarray(policy.policies)
            if isinstance(policy, eq.AggregativePolicy):
                arrays["policy of all"] = np.asarray(policy.actions)
            return arrays
    if isinstance(policy, eq.ContinuousPolicy):
        weights = {} if policy.weights is None else {"policy weights": np.asarray(policy.weights)}
        return {"policy": np.asarray(policy.points)} | weights
    return {f"policy {k}": np.asarray(part) for k, part in enumerate(policy)}


def _solution(solution: Any) -> Outputs:
    outputs: Outputs = {"status": str(solution.status.name), "value": np.asarray(solution.value)}
    return outputs | _policy(solution.policy) | _certificate(solution.certificate)


def _matrix(x: Arrays, options: Mapping[str, Any]) -> Any:
    return eq.MatrixGame(x["payoff"], labels=options.get("labels"))


def _normal(x: Arrays, options: Mapping[str, Any]) -> Any:
    return eq.NormalFormGame(x["payoffs"], players=len(x["payoffs"].shape) - 1)


def _markov(x: Arrays, options: Mapping[str, Any]) -> Any:
    discount = options.get("discount")
    return eq.MarkovGame(x["reward"], x["transition"], discount, horizon=options.get("horizon"))


def _interactions(x: Arrays) -> Any:
    orders = [k for k in (1, 2, 3) if f"scopes {k}" in x]
    scopes = {k: x[f"scopes {k}"] for k in orders}
    tables = {k: x[f"tables {k}"] for k in orders}
    return eq.games.Interactions(scopes, tables, int(x["agents"]))


def _contextual(x: Arrays, options: Mapping[str, Any]) -> Any:
    return eq.ContextualGame(_interactions(x), x.get("contexts"))


def _decoupled(x: Arrays, options: Mapping[str, Any]) -> Any:
    return eq.DecoupledMarkovGame(_interactions(x), x["transitions"], x["initial"])


def _polynomial(x: Arrays, options: Mapping[str, Any]) -> Any:
    """Quadratic rewards: own curvature, and pairs of agents."""
    own = np.stack([0.0 * x["slope"], x["slope"], x["curve"]], -1)
    terms = eq.games.PolynomialTerms(len(x["pairs"]), own, {(1, 1): x["pairs"]})
    return eq.ContinuousGame(terms)


def _crowd(x: Arrays, options: Mapping[str, Any]) -> Any:
    """Rewards that are linear in the aggregate, or fall with its square."""
    base, slope = x["base"], x["slope"]
    power = options.get("power", 1)

    def reward(at: Any) -> Any:
        return base + sum(slope[..., k] * at[..., k] ** power for k in range(slope.shape[-1]))

    return eq.AggregativeGame(
        x["influence"],
        reward,
        options["lipschitz"],
        counts=x["counts"],
        bounds=tuple(options["bounds"]),
    )


def _markov_crowd(x: Arrays, options: Mapping[str, Any]) -> Any:
    """Rewards and transitions that are linear in an aggregate of one coordinate from 0 to 1."""
    base, slope, calm, busy = x["base"], x["slope"], x["calm"], x["busy"]

    def reward(h: int, s: int, at: Any) -> Any:
        return base[s] + slope[s] * at[..., 0]

    def transition(h: int, s: int, at: Any) -> Any:
        share = at[..., :1]
        return (1.0 - share) * calm[s] + share * busy[s]

    return eq.AggregativeMarkovGame(
        x["influence"],
        reward,
        transition,
        horizon=options["horizon"],
        states=len(calm),
        counts=x["counts"],
        lipschitz=options["lipschitz"],
        transition_lipschitz=1.0,
        bounds=tuple(options["bounds"]),
    )


def _network(x: Arrays, options: Mapping[str, Any]) -> Any:
    ends = (x["tails"], x["heads"], x["origins"], x["destinations"], x["demand"])
    rest = {name: x[name] for name in ("free_flow", "capacity", "power", "tolls") if name in x}
    return eq.NetworkGame(*ends, **rest, atomic=bool(options.get("atomic", False)))


GAMES: dict[str, Callable[[Arrays, Mapping[str, Any]], Any]] = {
    "matrix": _matrix,
    "normal": _normal,
    "markov": _markov,
    "contextual": _contextual,
    "decoupled": _decoupled,
    "polynomial": _polynomial,
    "crowd": _crowd,
    "markov crowd": _markov_crowd,
    "network": _network,
}


def solve(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Solve a game: the options of `solve` are in `options["solve"]`."""
    solution = eq.solve(GAMES[options["game"]](x, options), **options.get("solve", {}))
    outputs = _solution(solution)
    stated = {
        name: solution.stats[name] for name in ("objective", "bound") if name in solution.stats
    }
    if not stated and solution.objective is not None:
        stated = {"objective": solution.objective.lower, "bound": solution.objective.upper}
    outputs |= {f"stated {name}": _number(value) for name, value in stated.items()}
    return outputs


def _number(value: Any) -> np.ndarray:
    """The ends of an interval, or a number."""
    if isinstance(value, eq.core.Interval):
        return np.array([value.lower, value.upper])
    return np.asarray(value, np.float64)


def certify(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Certify a policy, whose parts are the arrays `policy 0`, `policy 1`, ... or `policy`."""
    game = GAMES[options["game"]](x, options)
    parts = tuple(x[name] for name in sorted(x) if name.startswith("policy "))
    certificate = eq.certify(game, parts or x["policy"])
    return _certificate(certificate) | {"value": np.asarray(certificate.value)}


def equilibria(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """List the equilibria of a table."""
    listed = eq.equilibria(GAMES[options["game"]](x, options))
    upper = [float(each.certificate.max_upper) for each in listed]
    policies = [np.concatenate([np.ravel(part) for part in each.policy]) for each in listed]
    return {
        "status": str(listed.status.name),
        "number": np.array(len(policies)),
        "policy": np.array(policies),
        "upper": np.array(max(upper, default=0.0)),
    }


def prices(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """The price of anarchy of a network, and the tolls under which the optimum is stable."""
    game = _network(x, options)
    anarchy, design = eq.networks.price_of_anarchy(game), eq.networks.first_best_tolls(game)
    return {
        "status": str(anarchy.status.name),
        "price": _number(anarchy.anarchy),
        "after": _number(design.after),
        "policy": np.asarray(design.game.tolls),
    }


def learn(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Learn a crowd from samples of a simulator."""
    game = GAMES[options["game"]](x, options)
    simulator = eq.aggregative.Simulator(game, key=options["key"])
    run = eq.learn(simulator, key=options["key"], **options["learn"])
    judged = eq.certify(game, run.policy)
    return {
        "status": str(run.status.name),
        "width": np.array(run.width),
        "upper": np.array(run.bound),
        "regret": run.regret[-1:],
        "true gain": np.asarray(judged.max_gain),
    }


def play(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Let two learners play a batch of games."""
    game = GAMES[options["game"]](x, options)
    facts = {"markov": options["game"] == "markov", "rounds": options["rounds"]}
    seats = [eq.dynamics.make_learner(name, **facts) for name in options["seats"]]
    trace = eq.dynamics.play(game, *seats, rounds=options["rounds"], key=options["key"])
    last = trace.last
    return {f"policy {k}": np.asarray(part) for k, part in enumerate(last)} | {
        "NashConv": np.asarray(eq.certify(game, last).nash_conv)
    }


def card(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """NashConv of a shipped player in games that it has never seen."""
    game = GAMES[options["game"]](x, options)
    players = eq.incontext.load(options["player"])
    noise = {"Bernoulli": eq.dynamics.Bernoulli(), "Gaussian": eq.dynamics.Gaussian()}
    more = {"noise": noise[options["noise"]]} if "noise" in options else {}
    trace = eq.play(game, players, rounds=options["rounds"], key=options["key"], **more)
    return {"NashConv": np.asarray(eq.certify(game, trace.last).nash_conv)}


def figure(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """The record of a figure of a paper, at the quick scale."""
    from reproduction import figures_of

    [row] = figures_of(options["paper"], [options["figure"]])
    with tempfile.TemporaryDirectory() as folder:
        record, _ = row.run(Path(folder) / "run", "quick")
    return {name: np.asarray(array) for name, array in record.arrays.items()}


def read_log(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Read a table of what agents did and earned."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        path.write_text(options["text"], encoding="utf-8")
        log = eq.offline.Log.read(path, **options["read"])
    outputs: Outputs = {"agents": np.array(str(log.labels.players)), "rewards": log.rewards}
    outputs["actions"] = np.asarray(log.actions)
    for name in ("contexts", "states", "recorded"):
        if getattr(log, name) is not None:
            outputs[name] = np.asarray(getattr(log, name))
    return outputs


def from_log(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Fit rewards of a rank to a log, and solve the fitted game, as the paper does."""
    log = eq.offline.Log(x.get("contexts"), x["actions"], x["rewards"])
    model = eq.offline.fit(log, options["rank"])
    solution = eq.offline.solve(model, key=0)
    agents, actions = x["actions"].shape[1], int(x["actions"].max()) + 1
    even = np.full((model.game.contexts, agents, actions), 1.0 / actions)
    return {
        "advantages": np.asarray(model.game.interactions.expected(even)),
        "policy": np.asarray(solution.policy.policies).mean(0),
        "gain": np.asarray(solution.certificate.max_gain),
    }


def theory(x: Arrays, options: Mapping[str, Any]) -> Outputs:
    """Evaluate a function of the theory of one of the papers."""
    package, name = options["function"].split(".")
    value = getattr(getattr(eq, package).theory, name)(**options["arguments"])
    plain = {"value": value} if isinstance(value, float) else dataclasses.asdict(value)
    plain |= plain.pop("terms", {})
    return {key: np.asarray(number, np.float64) for key, number in plain.items()}


CALLS: dict[str, Callable[[Arrays, Mapping[str, Any]], Outputs]] = {
    "solve": solve,
    "certify": certify,
    "equilibria": equilibria,
    "prices": prices,
    "learn": learn,
    "play": play,
    "card": card,
    "figure": figure,
    "read log": read_log,
    "from log": from_log,
    "theory": theory,
}
