"""`equipoise solve`: solve a game and certify the solution."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equipoise as eq
from equipoise.cli._inputs import (
    check_folder,
    check_suffix,
    check_tolerance,
    digest_of_game,
    find_game,
    make_folder_of,
    naming,
    setting,
)
from equipoise.cli._main import Interrupted
from equipoise.cli._output import (
    PAGE,
    print_json,
    print_pairs,
    print_solution,
    print_table,
    solution_document,
    write_run_page,
)
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings, Trips, check_names
from equipoise.core.errors import InputError
from equipoise.games.kinds import options_of

#: Name of the policy file in a run folder.
POLICY = "policy.json"


@dataclass(frozen=True)
class Solve:
    """Solve a game and certify the solution.

    Computes an equilibrium of a zero-sum or general-sum game, or of a batch of games; a correlated
    equilibrium that is best for an objective; a pure near-equilibrium of an aggregative game; or
    the equilibrium flows of a road network. The exit code is 0 if every game meets the tolerance,
    and 1 otherwise.

    Examples:
      equipoise solve colonel-blotto
      equipoise solve game.nfg --concept ce --objective welfare
      equipoise solve battle-of-the-sexes --all
      equipoise solve colonel-blotto --out policy.json --report report.html
      equipoise solve two-roads --set agents=1000 --objective welfare
      equipoise solve two-roads --objective welfare --option sense=min
      equipoise solve two-roads --concept optimum
      equipoise solve public-good --run runs/public-good
      equipoise solve batch.npz --json > solution.json
      equipoise solve net.tntp trips.tntp --tolerance 1e-12 --out flows.tntp --report map.html
      equipoise solve links.csv trips.csv --concept optimum
    """

    #: The game: a file (.nfg, .npz, .csv, .toml or .tntp), a name that `equipoise games` lists, or
    #: MODULE:OBJECT such as mine.py:game, whose code is run.
    game: Game
    #: The file with the trips. Required if the network is a .tntp file or a .csv table of links.
    trips: Trips = None

    # -- solver

    #: Largest gain of any player, in units of reward. For a network: largest excess cost of a used
    #: path, as a fraction of the mean cost of a trip (the relative gap is never larger). Default: a
    #: small fraction of the range of payoffs; 1e-10 for a network.
    tolerance: float | None = None
    #: Solution concept. For a general-sum game: nash, ce (correlated), cce (coarse correlated), or
    #: logit (quantal response, with --option rationality=NUMBER). For an aggregative game or a
    #: network: nash, or optimum (the social optimum). Default: nash; cce for games of many agents.
    concept: str | None = None
    #: Objective for equilibrium selection: welfare, egalitarian, entropy, or one weight for each
    #: player such as [1, 2]; for an aggregative game welfare, egalitarian, loss or regret. Default:
    #: any equilibrium.
    objective: str | None = None
    #: Stop after this many seconds and return the best policy so far. Default: 60, or 600 for a
    #: network.
    time_limit: float | None = None
    #: List all extreme equilibria of a two-player game, or all pure equilibria of a larger game.
    all: bool = False

    # -- output

    #: Save the policy to this .json or .npz file, or the flows of a network to this .tntp file.
    #: Default: nothing is saved.
    out: Path | None = None
    #: Write an HTML report to this file. Default: no report.
    report: Path | None = None
    #: Save the record, the policy and a report to this run folder, which `equipoise report` can
    #: read. Default: no run folder.
    run: Path | None = None

    # -- game

    #: Set a parameter of a named game, or of the function of MODULE:OBJECT, such as size=10.
    #: Repeat the flag for more.
    set: Settings = ()

    # -- solver

    #: Set an option of the solver. Repeat the flag for more. For Markov games: max_sweeps=NUMBER.
    #: For normal forms: method=logit, start=LABEL (Lemke-Howson), rationality=NUMBER (with concept
    #: logit). For aggregative games: objective=regret (any equilibrium), welfare, egalitarian or
    #: loss; sense=max or min (the best or the worst equilibrium); welfare=ARRAY or loss=ARRAY, the
    #: value by type and action; spacing=NUMBER, the side length of the first cells; potential=true
    #: or false; method=backward or state-wise (Markov games). To compare with the paper:
    #: slack=NUMBER, lemma or printed, with epsilon=NUMBER; rounding=vertex or sample, key=NUMBER.
    option: Settings = ()
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Solve, save and print."""
        check_tolerance(self.tolerance)
        check_suffix("report", self.report, ".html", ".htm")
        check_suffix("out", self.out, ".json", ".npz", ".tntp")
        if self.run is not None:
            check_folder(self.run)
        game = find_game(self.game, self.set, trips=self.trips)
        if game.kind != "network":
            check_suffix("out", self.out, ".json", ".npz")
        if self.all:
            return self._show_all(game)
        options = dict(setting(text, "option") for text in self.option)
        for name in ("concept", "objective", "time_limit"):
            if (value := getattr(self, name)) is not None:
                check_names(name, [name], _options_of(game), f"none for a {game.kind} game")
                options[name] = setting(f"{name}={value}")[1]
        _check_options(game, options)
        if self.tolerance is not None:
            options["tolerance"] = self.tolerance
        begun = time.perf_counter()
        record, known = self._record(game, options)
        seconds = time.perf_counter() - begun
        policy = eq.games.policy_from_plain((record.solution or {})["policy"])
        if self.out is not None:
            if self.out.suffix.lower() == ".tntp":
                eq.games.write_flows(make_folder_of(self.out), game, policy)
            else:
                eq.write_policy(make_folder_of(self.out), policy)
        if self.report is not None:
            from equipoise.runs.environment import describe_environment

            session = {"started": "", **describe_environment()}
            place = (Path(self.game), self.game, record.config, record, [], [session], seconds)
            eq.report.page_of(eq.report.RunFolder(*place)).write(make_folder_of(self.report))
        self._show(game, record, known, seconds)
        status = (record.solution or {})["status"]
        if status["name"] == "interrupted":
            raise Interrupted("; the policy above is the best so far")
        return 0 if status["name"] == "solved" else 1

    def _record(self, game: Any, options: dict[str, Any]) -> "tuple[eq.runs.Record, bool]":
        """Return the record, and whether it was read from the run folder."""
        name = ", ".join([self.game, *self.set])
        if self.run is None:
            return eq.report.record_of(game, _solve(game, options), name=name), False
        config = {"game": self.game, "set": self.set, "option": self.option}
        config |= {"tolerance": self.tolerance, "concept": self.concept}
        config |= {"objective": self.objective, "time_limit": self.time_limit}
        if (digest := digest_of_game(self.game)) is not None:
            config["game_sha256"] = digest  # the same name may refer to another file later
        if self.trips is not None:
            with open(self.trips, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
                config |= {"trips": str(self.trips), "trips_sha256": digest}
        if (self.run / "config.json").exists():
            with eq.runs.Run.open(self.run, config) as run:  # refuses another run's folder
                if run.finished:
                    return run.record(), True
        begun = time.perf_counter()
        found = _solve(game, options)  # a game that cannot be solved leaves no folder
        record = eq.report.record_of(game, found, name=name, config=config)
        with eq.runs.Run.start(self.run, config) as run:
            solution: eq.Solution = getattr(found, "solution", found)
            eq.write_policy(self.run / POLICY, solution.policy)
            if solution.status.name != "interrupted":  # else the next call solves again
                record = run.finish(record, seconds_before=time.perf_counter() - begun)
        write_run_page(self.run)
        return record, False

    def _show_all(self, game: Any) -> int:
        """Print every equilibrium of a small game, certified, with its component."""
        single = ("tolerance", "concept", "objective", "out", "report", "run")
        for name in single:
            if getattr(self, name) is not None:
                raise InputError(name, "no value together with --all", getattr(self, name))
        from equipoise.solvers import list_equilibria  # needs what the help does not

        limits = {} if self.time_limit is None else {"time_limit": self.time_limit}
        found = list_equilibria(game, **limits)
        component = {k: c for c, part in enumerate(found.components) for k in part}
        if self.common.json:
            equilibria = [
                {"component": component.get(k)} | solution.to_plain()
                for k, solution in enumerate(found)
            ]
            about = {"game": self.game, "kind": game.kind, "status": found.status.to_plain()}
            about |= {"components": found.components, "subsets": found.subsets}
            print_json({**about, "equilibria": equilibria})
        else:
            names = [game.labels.player(i) for i in range(game.players)]
            columns = ("equilibrium", "component", *names, "values", "largest gain")
            rows = [
                (
                    str(k),
                    str(component.get(k, "-")),
                    *(
                        eq.report.play_in_words(own, game.labels.actions_of(i))
                        for i, own in enumerate(solution.policy)
                    ),
                    eq.report.format_value(solution.certificate.value, 4),
                    float(solution.certificate.max_gain),
                )
                for k, solution in enumerate(found)
            ]
            print(f"{self.game}: {game.describe()}")
            print_table(eq.runs.Table(columns, rows), "Equilibria")
            print_pairs([("status", str(found.status))])
        if found.status.name == "interrupted":
            raise Interrupted("; the equilibria above were found so far")
        return 0 if found.status.ok else 1

    def _show(self, game: Any, record: "eq.runs.Record", known: bool, seconds: float) -> None:
        """Print the solution and the names of the files written."""
        if self.common.json:
            where = {"folder": str(self.run), "read_from_disk": known} if self.run else {}
            about = {"game": self.game, "kind": game.kind, "actions": game.actions}
            about |= {"batch_shape": game.batch_shape, "labels": game.labels.to_plain()}
            print_json({**where, **about, **solution_document(record)})
            return
        games = record.scalars.get("games")
        speed = f"{games / seconds:,.0f} (compilation included)" if games else None
        more = [("seconds", seconds), *([("games per second", speed)] if speed else [])]
        print_solution(record, [] if known else more)
        read = " (finished earlier; read from disk)" if known else ""
        files: list[tuple[str, Any]] = [("policy", self.out), ("report", self.report)]
        if self.run is not None:
            files += [("run folder", f"{self.run}{read}"), ("policy", self.run / POLICY)]
            page = self.run / PAGE
            files += [("report", page if page.exists() else None)]
        print_pairs(files)


def _solve(game: Any, options: dict[str, Any]) -> Any:
    """Return a solution; for an aggregative game a study, which compares several equilibria."""
    solver = eq.aggregative.study if game.kind.startswith("aggregative") else eq.solve
    with naming("option", set(_options_of(game)) - {"concept", "objective", "time_limit"}):
        if solver is eq.solve:
            return solver(game, **options)
        # A Markov game is planned stage by stage, as often as it takes to meet the tolerance.
        markov = game.kind == "aggregative-markov"
        with eq.runs.progress("solving", None if markov else 1) as line:

            def tell(found: dict[str, Any]) -> None:
                told = {name: found[name] for name in found if name not in ("stages", "of")}
                if markov and "stages" in found:
                    told["stage"] = f"{found['stages']} of {found['of']}"
                line.advance("stages" in found, **told)

            return solver(game, progress=tell, **options)


def _options_of(game: Any) -> list[str]:
    """Return the options of the solver for a game."""
    known = options_of(game.kind, "solve")
    return [name for name in known if name not in ("tolerance", "progress")]


def _check_options(game: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that the solver does not have, or that would have no effect."""
    check_names("option", options, _options_of(game), f"options of the solver of {game.kind} games")
    if not game.kind.startswith("aggregative"):
        return
    objective = options.get("objective", "regret")
    valued, found = objective in ("welfare", "loss"), f"objective={objective}"
    rounding, slack = options.get("rounding", "vertex"), options.get("slack")
    fair = objective in ("welfare", "egalitarian")
    needed = {
        "sense": (fair, "objective=welfare or egalitarian", found),
        "epsilon": (
            valued and slack == "lemma",
            "objective=welfare or loss, and slack=lemma",
            f"slack={slack}" if valued else found,
        ),
        "method": (
            valued or slack == "printed",
            "objective=welfare or loss, or with slack=printed",
            found,
        ),
        "key": (rounding == "sample", "rounding=sample", f"rounding={rounding}"),
    }
    for name, (has_effect, condition, instead) in needed.items():
        value = options.get(name)
        # The solver itself refuses values that are always wrong, and says why.
        wrong = name in ("epsilon", "key") and not (isinstance(value, int | float) and value >= 0)
        if name in options and not has_effect and not wrong:
            raise InputError(f"--option {name}", f"only with {condition}", instead)
