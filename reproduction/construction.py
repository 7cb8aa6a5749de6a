"""Error and exploitability of hand-built transformers against their size.

Theorem 4.1 of the in-context paper trades size for accuracy. Here, the trade-off is measured.
Networks whose reciprocal has N linear pieces are compared with the learner that they implement, on
the same histories (first panel), and then play themselves (second panel). The third panel shows
the generic route of the proof, which replaces the whole step by a fitted sum of M ReLUs; the exact
form of the step needs no such sum.
"""

from dataclasses import dataclass
from typing import Any

from equipoise import dynamics, incontext
from equipoise.certificates import certify
from equipoise.games import families
from equipoise.incontext import construct
from equipoise.runs import Record, Table
from reproduction import rows_of
from reproduction._drawing import finish, make_panels

__all__ = ["Config", "plot", "run"]


@dataclass(frozen=True)
class Config:
    """Sizes of the networks and of the games. `Config.quick()` takes about a minute.

    >>> Config().rounds
    64
    """

    #: Numbers of actions.
    actions: tuple[int, ...] = (2, 3)
    #: Numbers of linear pieces of the reciprocal.
    units: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    #: Numbers of Newton steps that refine the reciprocal.
    newton_steps: tuple[int, ...] = (0, 2, 4)
    #: Numbers of ReLUs of fitted steps.
    fitted_units: tuple[int, ...] = (16, 64, 256, 1024, 2048)
    #: Number of rounds.
    rounds: int = 64
    #: Number of games.
    games: int = 16

    @classmethod
    def quick(cls) -> "Config":
        """Shorter, with fewer sizes.

        >>> Config.quick().rounds
        30
        """
        return cls(
            actions=(2,), units=(1, 4, 16), newton_steps=(0,), fitted_units=(16, 64, 256), rounds=30
        )


def run(config: Config, key: int = 0) -> Record:
    """Build, compare and play every size. The record has the tables `sizes` and `fitted`.

    For Newton steps other than 0, the reciprocal has one linear piece, which the steps refine.

    **Example**

    >>> from reproduction import construction
    >>> tiny = construction.Config(actions=(2,), units=(4,), newton_steps=(0,), rounds=4, games=2,
    ...     fitted_units=(16,))
    >>> construction.run(tiny).tables["sizes"].column("units")
    [4]
    """
    rows, fitted = [], []
    for actions in config.actions:
        games = families.uniform(actions).sample(config.games, key=key)
        learner = dynamics.OMD.vanishing()
        trace = dynamics.play(games, learner, learner, rounds=config.rounds, key=key + 1)
        sizes = [(units, 0) for units in config.units if 0 in config.newton_steps]
        sizes += [(1, steps) for steps in config.newton_steps if steps > 0]
        for units, steps in sizes:
            row = _measure(actions, units, steps, games, config, key)
            rows.append(row | {"learner's gap": float(trace.curve[-1].mean())})
        for units in config.fitted_units:
            step = construct.fitted_step(actions, units, key=key)
            fitted.append({"actions": actions} | vars(step))
    tables = {"sizes": Table.from_dicts(rows), "fitted": Table.from_dicts(fitted)}
    return Record("construction", config, {"key": key}, {}, tables)


def _measure(
    actions: int, units: int, steps: int, games: Any, config: Config, key: int
) -> dict[str, Any]:
    """Return the size, the distance from the learner, and the gap of one network."""
    built = construct.omd(actions, config.rounds, reciprocal_units=units, newton_steps=steps)
    episode = incontext.play(games, built.players, rounds=config.rounds, key=key + 1)
    return {
        "actions": actions,
        "units": units,
        "newton steps": steps,
        "layers": built.size.layers,
        "hidden": built.size.hidden,
        "norm": built.norm,
        "residual": built.reciprocal.residual,
        "error": built.error(games, key=key + 1),
        "gap": float(certify(games, episode.last).nash_conv.mean()),
    }


def plot(record: Record) -> Any:
    """Draw three panels on logarithmic axes and return the Matplotlib figure.

    **Example**

    >>> from reproduction import construction
    >>> tiny = construction.Config(actions=(2,), units=(4,), newton_steps=(0,), rounds=4, games=2,
    ...     fitted_units=(16,))
    >>> len(construction.plot(construction.run(tiny)).axes)
    3
    """
    figure, (error, play, fit) = make_panels(3, 3, 4.4, 3.8)
    sizes, fitted = (rows_of(record.tables[name]) for name in ("sizes", "fitted"))
    for i, actions in enumerate(dict.fromkeys(row["actions"] for row in sizes)):
        color = f"C{i}"
        pieces = [r for r in sizes if r["actions"] == actions and r["newton steps"] == 0]
        units = [row["units"] for row in pieces]
        label = f"{actions} actions"
        error.plot(units, [row["error"] for row in pieces], "o-", color=color, label=label)
        play.plot(units, [row["gap"] for row in pieces], "o-", color=color, label=label)
        for row in sizes:
            if row["actions"] == actions and row["newton steps"]:
                error.plot(1, row["error"], "x", color=color)
                error.annotate(f" {row['newton steps']}", (1, row["error"]), fontsize=7)
        if pieces:
            play.axhline(pieces[0]["learner's gap"], color=color, ls=":", lw=1.0)
        own = [row for row in fitted if row["actions"] == actions]
        fit.plot([r["units"] for r in own], [r["mean_error"] for r in own], "o-", color=color)
    error.set(title="distance to the learner (x: Newton steps)", ylabel="largest over all tokens")
    play.set(title="play (dotted: the learner)", ylabel="mean duality gap of the last policies")
    fit.set(title="a fitted sum of ReLUs for one step", ylabel="mean distance to the step")
    for axes, name in ((error, "linear pieces N"), (play, "linear pieces N"), (fit, "ReLUs M")):
        finish(axes, xscale="log", yscale="log", xlabel=name)
    play.set_yscale("linear")
    error.legend(fontsize=8, frameon=False)
    return figure
