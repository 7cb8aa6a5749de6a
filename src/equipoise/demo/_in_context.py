"""The demo's act about a family of similar games: a frozen player meets games it has never seen."""

from typing import Any

import numpy as np

import equipoise as eq
from equipoise.demo._acts import Act, Settings, Tell, timed
from equipoise.report import Curve, Report, figures, format_value
from equipoise.runs import Record, Run, Table

#: Learners compared with the player at equal rounds, by last or average policy, the better one.
LEARNERS = {
    "mirror descent, last policy": (lambda: eq.dynamics.OMD(), "curve"),
    "log-barrier, last policy": (lambda: eq.dynamics.LogBarrierOMD(), "curve"),
    "EXP3-IX, average policy": (lambda: eq.dynamics.EXP3IX(), "average_curve"),
}
OURS = "in-context player"
FIRST = next(iter(LEARNERS))
ROUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Rounds up to which mirror descent is followed, to see when it reaches the player's NashConv.
FAR = (*ROUNDS, *(2**k for k in range(9, 17)))


class InContext(Act):
    """The bundled player against itself, compared with learners on the same games."""

    name = "in-context"
    steps = ("the player, compiling", "the player", *LEARNERS)

    def config(self, settings: Settings) -> dict[str, Any]:
        """The players, and the number of games."""
        return {"players": "any", "games": settings.games, "seed": settings.seed}

    def play(self, config: dict[str, Any], run: Run, tell: Tell) -> Record:
        """Play the player against itself, and learners on the same games."""
        players = eq.incontext.load(config["players"])
        games = eq.games.families.uniform(actions=3).sample(config["games"], key=config["seed"])
        key, rounds = config["seed"] + 1, ROUNDS[-1]

        def play() -> eq.dynamics.Trace:
            return eq.play(games, players, rounds=rounds, key=key, record=ROUNDS)

        tell(self.steps[0])
        _, first_seconds = timed(play)
        tell(self.steps[1])
        episode, seconds = timed(play)
        certificate = eq.certify(games, episode.last)
        curves, far, paths = {OURS: np.asarray(episode.curve)}, np.zeros(0), np.zeros((0, 3))
        shown, nash = _typical(games, curves[OURS][-1])
        for name, (make, which) in LEARNERS.items():
            tell(name)
            record = FAR if name == FIRST else ROUNDS
            trace = eq.dynamics.play(
                games, make(), make(), rounds=record[-1], key=key, record=record
            )
            curve = np.asarray(getattr(trace, which))
            if name == FIRST:
                far, paths = curve.mean(1), trace.recorded.last[0][: len(ROUNDS), shown]
            curves[name] = curve[: len(ROUNDS)]
        arrays = {
            "rounds": np.asarray(ROUNDS),
            "far": far,
            "path": _from_uniform(episode.recorded.last[0][:, shown]),
            "path_of_learner": _from_uniform(paths),
            "nash": nash,
        } | {f"gap/{name}": curve for name, curve in curves.items()}
        last = {name: float(curve[-1].mean()) for name, curve in curves.items()}
        rows = [(name, *(float(g) for g in c.mean(1)[[4, 6, 8]])) for name, c in curves.items()]
        table = Table(("who", "after 16 rounds", "after 64", "after 256"), rows)
        scalars = {
            "game": f"{config['games']} unseen 3x3 games, {rounds} rounds",
            "seconds": seconds,
            "first_seconds": first_seconds,
            "as announced": last[OURS] < min(last[name] for name in LEARNERS),
        }
        message = f"{rounds} rounds were played in each of {config['games']} games"
        status = eq.Verdict("learned", message)
        value = certificate.value[..., 0]
        solution = eq.Solution(eq.Profile(episode.last), value, certificate, status)
        plain = solution.to_plain()
        return Record("in-context", config, scalars, arrays, {"gaps": table}, plain)

    def outcome(self, record: Record) -> str:
        """Compare the player with the best learner at equal rounds, and with mirror descent."""
        last = {name: float(record.arrays[f"gap/{name}"][-1].mean()) for name in (OURS, *LEARNERS)}
        ours = last.pop(OURS)
        best = min(last, key=last.__getitem__)
        reached = [t for t, gap in zip(FAR, record.arrays["far"], strict=True) if gap <= ours]
        when = f"needs {reached[0]:,} rounds" if reached else f"needs more than {FAR[-1]:,} rounds"
        least = format_value(last[best], 2)
        return (
            f"After {ROUNDS[-1]} rounds the player's mean NashConv is {format_value(ours, 2)}, "
            f"and the best learner's ({best}) is {least}; mirror descent {when} to reach the same "
            "NashConv."
        )

    def show(self, page: Report, record: Record) -> None:
        """Plot NashConv against rounds for player and learners, and two paths in one game."""
        curves = {name: record.arrays[f"gap/{name}"] for name in (OURS, *LEARNERS)}
        page.table(record.tables["gaps"], caption="Mean NashConv, certified on the true games.")
        page.figure(
            figures.compared_curves(
                {name: Curve.of(ROUNDS, curve.T) for name, curve in curves.items()},
                title="NashConv at equal rounds",
            ),
            alt="NashConv against rounds of the in-context player, the lowest, and three learners",
            caption="Means over games, with two standard errors.",
        )
        for name, title in (("path", OURS), ("path_of_learner", "mirror descent")):
            page.figure(
                figures.simplex_plot(
                    record.arrays[name], equilibrium=record.arrays["nash"], title=title
                ),
                alt=f"Path of the row player's policy in one game, by {title}, and the Nash point",
                caption=f"The row player in a typical mixed game, {ROUNDS[-1]} rounds.",
            )


def _typical(games: eq.MatrixGame, gaps: np.ndarray) -> tuple[int, np.ndarray]:
    """A game to plot, and its equilibrium: among the more mixed half, the one of median gap."""
    nash = eq.solve(games).policy[0]
    mixed = np.argsort(nash.max(-1), kind="stable")[: (len(nash) + 1) // 2]
    shown = int(mixed[np.argsort(gaps[mixed], kind="stable")[len(mixed) // 2]])
    return shown, nash[shown]


def _from_uniform(path: Any) -> np.ndarray:
    return np.concatenate([np.full((1, 3), 1 / 3), path])
