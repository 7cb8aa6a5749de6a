"""Solutions in run folders: kept with a policy and a page, and read again."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli import _crowds, _documents, _policies
from equipoise.cli._kinds import describe, kind_of
from equipoise.cli._output import PAGE
from equipoise.core import Solution
from equipoise.core.results import Status
from equipoise.report import Report, RunFolder, page_of, player_names
from equipoise.runs import Record, Run
from equipoise.runs.environment import describe_environment

#: The file of the policy in a run folder.
POLICY = "policy.json"


@dataclass(frozen=True)
class Found:
    """A solution, how long it took, and whether it was there already."""

    solution: Solution
    seconds: float
    known: bool = False


@dataclass(frozen=True)
class Showing:
    """A game by its name, and how its solutions are told, written and drawn."""

    name: str
    game: Any
    tolerance: float
    settings: Sequence[str] = ()

    @property
    def crowd(self) -> bool:
        """Whether it is a game of very many agents."""
        return kind_of(self.game).startswith("aggregative")

    def document(self, found: Found) -> dict[str, Any]:
        """The solution as plain data."""
        if self.crowd:
            return _crowds.solution_document(self.name, self.game, found.solution)
        return _documents.solution_document(self.name, self.game, found.solution, self.tolerance)

    def page(self, found: Found) -> Report:
        """The page about it."""
        record, session = solution_record(self, found), describe_environment()
        session = {"started": "", **session}
        run = RunFolder(Path(), self.name, record.config, record, [], [session], found.seconds)
        return page_of(run)

    def write_policy(self, path: Path, found: Found) -> None:
        """Write what is played."""
        write = _crowds.write_policy if self.crowd else _policies.write_policy
        write(path, found.solution.policy, self.document(found))

    def show(self, found: Found) -> None:
        """Print it for people."""
        show = _crowds.print_solution if self.crowd else _documents.print_solution
        show(self.name, self.game, found.solution, found.seconds)


def solve_now(work: Callable[[], Solution]) -> Found:
    """Solve, and tell how long it took."""
    start = time.perf_counter()
    solution = work()
    return Found(solution, time.perf_counter() - start)


def solve_in(
    folder: Path, config: dict[str, Any], showing: Showing, work: Callable[[], Solution]
) -> Found:
    """The solution in a run folder; solved now, and kept with its policy and page, if not there."""
    if (folder / "config.json").exists():
        with Run.open(folder, config) as run:  # refuses another run before any work
            if run.finished:
                return _read(run.record(), showing.game)
    found = solve_now(work)  # a game that cannot be solved leaves no folder behind
    with Run.start(folder, config) as run:
        showing.write_policy(folder / POLICY, found)
        showing.page(found).write(folder / PAGE)
        record = replace(solution_record(showing, found), config=config)
        run.finish(record, seconds_before=found.seconds)
    return found


def config_of(game: str, **options: Any) -> dict[str, Any]:
    """What the folder is about; a file by its content too, which another of that name has not.

    >>> config_of("chicken", tolerance=None)
    {'game': 'chicken', 'tolerance': None}
    """
    config = {"game": game, **options}
    if game not in eq.games.names():
        with open(game, "rb") as file:
            config["game_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return config


def solution_record(showing: Showing, found: Found) -> Record:
    """All that a solution holds, under the names that reports look for."""
    game, solution = showing.game, found.solution
    if showing.crowd:
        record = _crowds.solution_record(game, solution, found.seconds)
    else:
        record = _table_record(game, solution, found.seconds)
    status = {"name": solution.status.name, "message": solution.status.message}
    stats, large = _sorted(solution.stats)
    named = {"game": ", ".join([showing.name, *showing.settings]), "description": describe(game)}
    scalars = {**record.scalars, **named, "status": status, "stats": stats}
    if np.ndim(solution.value) == 0:
        scalars["value"] = float(solution.value)
    return replace(record, scalars=scalars, arrays={**record.arrays, **large})


def _table_record(game: Any, solution: Solution, seconds: float) -> Record:
    """A solution of a game with a table of payoffs, or of a batch of them."""
    certificate = solution.certificate
    arrays: dict[str, Any] = {
        "gains": certificate.gains,
        "certified_value": certificate.value,
        "value": solution.value,
        "solved": solution.status.solved,
        **{f"policy_{i}": player for i, player in enumerate(solution.policy)},
    }
    if certificate.state_gains is not None:
        arrays["state_gains"] = certificate.state_gains
    if kind_of(game) == "matrix" and not game.batch_shape:
        arrays["payoff"] = game.payoff
        pairs = zip(player_names(2), solution.policy, strict=True)
        arrays |= {f"nash/{name}": player for name, player in pairs if len(player) == 3}
    scalars = {
        "kind": kind_of(game),
        "seconds": seconds,
        "method": certificate.method,
        "exact": certificate.exact,
        "concept": certificate.concept,
    }
    return Record("solution", {}, scalars, arrays)


def _sorted(stats: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Statistics that are numbers or words, and those that are arrays."""
    large = {f"stats/{k}": v for k, v in stats.items() if isinstance(v, np.ndarray)}
    return {k: v for k, v in stats.items() if f"stats/{k}" not in large}, large


def _read(record: Record, game: Any) -> Found:
    """The solution in a record; its policy is certified anew."""
    arrays, scalars = record.arrays, record.scalars
    stats = dict(scalars["stats"])
    stats |= {k.removeprefix("stats/"): v for k, v in arrays.items() if k.startswith("stats/")}
    policy: Any = _crowds.policy_in(arrays)
    if policy is None:
        policy = tuple(_players(arrays))
    status = Status(scalars["status"]["name"], scalars["status"]["message"], arrays["solved"])
    solution = Solution(policy, arrays["value"], eq.certify(game, policy), status, stats)
    return Found(solution, scalars["seconds"], known=True)


def _players(arrays: Any) -> Sequence[np.ndarray]:
    names = [name for name in arrays if name.startswith("policy_")]
    return [arrays[f"policy_{i}"] for i in range(len(names))]
