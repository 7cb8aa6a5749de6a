"""`equipoise offline --critic`: from a log of continuous actions to a policy, by networks."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._main import Interrupted
from equipoise.cli._mixtures import CONCEPTS
from equipoise.cli._output import print_pairs, print_table, write_run_page
from equipoise.cli._parsing import check_names
from equipoise.report import format_value
from equipoise.runs import Record, Run, Table

#: Polynomials in the place of networks.
LINEAR = "linear"


def critic_of(name: str) -> Any:
    """A critic by its name on the command line.

    >>> critic_of("2-IR-64").rank, critic_of("linear").degree
    (2, 2)
    """
    if name == LINEAR:
        return eq.offline.deep.Critic.linear()
    check_names("critic", [name], [LINEAR, *eq.offline.deep.ARCHITECTURES], "a kind of critic")
    return eq.offline.deep.Critic.named(name)


def learn(config: Mapping[str, Any], folder: Path) -> tuple[Record, bool]:
    """The record of a run folder, and whether it was there; goes on where it was stopped."""
    critic = critic_of(config["critic"])
    if (folder / "record.json").exists():
        with Run.open(folder, config) as run:
            return run.record(), True
    # A log that cannot be read leaves no folder behind.
    log = eq.offline.Log.read(config["log"], continuous=True)
    with Run.start(folder, config) as run:
        record = run.finish(_record(log, critic, run))
    write_run_page(folder)
    return record, False


def _record(log: Any, critic: Any, run: Run) -> Record:
    """Fit, improve, certify in the fitted game where there is one; as plain data."""
    deep, config, begun = eq.offline.deep, run.config, time.perf_counter()
    steps = {} if config["iterations"] is None else {"steps": config["iterations"]}
    critics = deep.fit(log, critic, key=config["seed"], run=run.path / "critics")
    _check_finished(run.path / "critics")
    actors = deep.improve(
        critics, log, deep.TD3BC(**steps), key=config["seed"] + 1, run=run.path / "actors"
    )
    _check_finished(run.path / "actors")
    explained = critics.explained[0]
    learned = bool(explained.mean() > 0)
    status = "learned: critics explain some of the rewards that were held out"
    if not learned:
        status = "nothing learned: critics explain held-out rewards no better than a constant does"
    scalars = {
        "agents": log.agents,
        "samples": log.samples,
        "contexts": log.contexts_count,
        "parameters of a critic": critics.parameters,
        "held-out variance explained": float(explained.mean()),
        "steps": actors.steps,
        "learned": learned,
        "status": status,
    }
    columns = {"explained": explained}
    arrays: dict[str, Any] = {"points": actors.points[0], "explained": explained}
    if log.states is None:
        own, found = (_certified(critics, p) for p in (_means(log), actors.policy))
        scalars |= {
            "gap in the fitted model": float(found.max_gain),
            _OWN: float(own.max_gain),
            "method": f"{found.method}, in the fitted model",
            "exact": False,
            "concept": found.concept,
        }
        arrays |= {"gains": found.gains, "value": found.value}
        columns |= {"value": found.value, "gain in the model": found.gains}
        if log.contexts_count == 1:
            columns |= {"action": actors.points[0, 0]}
    scalars["seconds"] = time.perf_counter() - begun
    rows = [(i, *(float(c[i]) for c in columns.values())) for i in range(log.agents)]
    tables = {"agents": Table(("agent", *columns), rows)}
    return Record(Path(config["log"]).name, config, scalars, arrays, tables)


#: The scalar that says how far from an equilibrium what the log shows is.
_OWN = "gap of the log's mean actions in the fitted model"


def _certified(critics: Any, policy: Any) -> Any:
    return eq.certify(critics.as_game(), policy)


def _means(log: Any) -> np.ndarray:
    """(contexts, agents): what was done on average; of contexts never seen, in all of them."""
    everywhere = log.actions.mean(0)
    seen = [log.contexts == c for c in range(log.contexts_count)]
    return np.stack([log.actions[here].mean(0) if here.any() else everywhere for here in seen])


def _check_finished(folder: Path) -> None:
    if not (folder / "record.json").exists():
        raise Interrupted("; what was done is kept; to go on, give the same command again")


def show(record: Record, where: str, page: Path) -> None:
    """Print what was learned."""
    scalars, agents = record.scalars, record.tables["agents"]
    most = Table(agents.columns, agents.rows[:20])
    print_table(most, "agents" if len(agents.rows) <= 20 else "the first 20 agents")
    names = ("agents", "samples", "held-out variance explained")
    gap = "not estimated: rewards of several steps are no game of one"
    if "gap in the fitted model" in scalars:
        found, own = (format_value(scalars[name]) for name in ("gap in the fitted model", _OWN))
        gap = f"{found} in the fitted model, by search ({own} of the log's mean actions)"
    print_pairs(
        [
            *((name, scalars[name]) for name in names),
            ("gap", gap),
            *([("concept", CONCEPTS[scalars["concept"]])] if "concept" in scalars else []),
            ("status", scalars["status"]),
            ("run folder", where),
            ("report", str(page)),
        ]
    )
