"""A frozen player on games that it has never seen, next to mirror descent."""

import equipoise as eq
from equipoise.report import figures

games = eq.games.families.uniform(actions=3).sample(64, key=0)
rounds = [8, 16, 32, 64, 128, 256]
players = eq.incontext.load("iid3")
omd = eq.dynamics.OMD()
curves = {
    "frozen player": eq.play(games, players, rounds=256, key=1, record=rounds),
    "mirror descent": eq.dynamics.play(games, omd, omd, rounds=256, key=1, record=rounds),
}
figure = figures.learning_curves(
    rounds,
    {name: trace.curve.T for name, trace in curves.items()},
    fit=False,
    title="64 random 3 x 3 games: median, and 80% of the games",
)
