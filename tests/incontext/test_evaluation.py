"""The evaluation of players: static policies, learners, opponents, one record."""

import signal

import numpy as np
import pytest
from sample_players import random_players

import equipoise as eq
from equipoise import dynamics, incontext
from equipoise.dynamics import Mean
from equipoise.games import families
from equipoise.incontext import evaluation, static_policies
from equipoise.incontext._static import best_static
from equipoise.incontext.evaluation import beyond_value, make_opponents, rounds_to_gap
from equipoise.runs import Record, Run

FAMILY = families.uniform(3)
GAMES = FAMILY.sample(8, key=1)  # as many as in the example of `evaluate`


def gap(games, policies):
    return eq.certify(games, policies).nash_conv


@pytest.fixture(scope="module")
def record():
    players = random_players(seeds=2)
    return incontext.evaluate(
        players, GAMES, 20, 1, training=FAMILY, training_games=20, search=40, opponent_games=4
    )


def test_the_record_holds_everything(record, tmp_path):
    arrays = record.arrays
    assert arrays["rounds"].tolist() == [16, 20]
    assert arrays["gap/players"].shape == (2, 2, 8)
    learners = ("OMD", "OMD, vanishing", "log-barrier OMD", "entropic OMD", "EXP3-IX")
    rows = record.tables["gap"].column("who")
    assert rows[0] == "in-context players"
    assert set(rows[1:]) == {
        *learners,
        *("EXP3-IX, average", "uniform", "mean Nash", "best static"),
    }
    assert arrays["distance/OMD"].shape == (20,)
    met = {*learners, "best responder", "uniform", "the first action"} - {"OMD, vanishing"}
    opponents = record.tables["opponents"]
    pairs = {*zip(opponents.column("opponent"), opponents.column("seat"), strict=True)}
    assert pairs == {(name, seat) for name in met for seat in ("row", "column")}
    record.save(tmp_path)
    assert Record.load(tmp_path).tables["gap"].rows == record.tables["gap"].rows


def test_an_interrupted_evaluation_goes_on(record, tmp_path, monkeypatch):
    players, search = random_players(seeds=2), evaluation.rounds_to_gap

    def evaluate():
        with Run.start(tmp_path / "run", {}) as run:
            return incontext.evaluate(
                *(players, GAMES, 20, 1), training=FAMILY, training_games=20, search=40,
                opponent_games=4, run=run,
            )  # fmt: skip

    def interrupted(*given, **options):
        signal.raise_signal(signal.SIGINT)
        return search(*given, **options)

    monkeypatch.setattr(evaluation, "rounds_to_gap", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate()
    monkeypatch.setattr(evaluation, "rounds_to_gap", search)
    monkeypatch.setattr(evaluation, "learner_curves", lambda *_: pytest.fail("played again"))
    again = evaluate()
    assert again.tables == record.tables
    assert again.scalars == record.scalars
    for name, array in record.arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)


def test_ctrl_c_waits_for_a_few_games_and_keeps_them(record, tmp_path, monkeypatch):
    players, play, batches = random_players(seeds=2), evaluation.play, []
    monkeypatch.setattr(evaluation, "TOGETHER", 3)

    def interrupted(games, *some, **options):
        batches.append(len(games))
        if len(batches) == 2:
            signal.raise_signal(signal.SIGINT)
        return play(games, *some, **options)

    def evaluate():
        with Run.start(tmp_path / "run", {}) as run:
            return incontext.evaluate(players, GAMES, 20, 1, search=10, opponent_games=1, run=run)

    monkeypatch.setattr(evaluation, "play", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate()
    assert batches == [3, 3]
    again = evaluate().arrays
    assert batches[:6] == [3, 3, 2, 3, 3, 2]
    for name in ("gap/players", "distance/OMD"):
        np.testing.assert_allclose(again[name], record.arrays[name], atol=1e-5)


def test_the_numbers_are_those_of_play(record):
    omd = dynamics.OMD()
    trace = dynamics.play(GAMES, omd, omd, rounds=20, key=1, record=(16, 20))
    np.testing.assert_array_equal(record.arrays["gap/OMD"], trace.curve)
    keys = dynamics.game_keys(1, (8,), 2)
    one = incontext.play(
        GAMES, random_players(seeds=2)[1], rounds=20, key=keys[:, 1], record=(16, 20)
    )
    np.testing.assert_array_equal(record.arrays["gap/players"][1], one.curve)
    table = record.tables["gap"].rows[0]
    assert table[2] == pytest.approx(record.arrays["gap/players"][:, 1].mean())
    assert record.scalars["seed_error"] > 0


def test_learners_of_markov_games_are_met():
    games = families.uniform(2, states=2).sample(2, key=0)
    learners = ("OMD", "entropic OMD", "V-learning")
    assert [*make_opponents(games, 0)] == [
        *("best responder", *learners, "uniform", "the first action")
    ]


def test_a_best_responder_takes_and_a_weak_opponent_gives(record):
    rows = {(row[0], row[1]): row for row in record.tables["opponents"].rows}
    for seat in ("row", "column"):
        conceded = rows["best responder", seat][3]
        assert conceded < 0
        assert conceded < rows["uniform", seat][3]


def test_what_a_best_responder_takes_is_the_gain_it_has():
    games = GAMES[:4]
    episode = incontext.play(
        games,
        random_players(),
        dynamics.BestResponder(),
        rounds=20,
        key=1,
        exploration=0.0,
    )
    value = eq.solve(games).value
    _, taken = beyond_value(episode, value)
    worst = np.einsum("gta,gab->gtb", episode.history.held[0], games.payoff).min(-1)
    np.testing.assert_allclose(taken, worst - value[:, None], atol=1e-6)
    assert (taken <= 1e-6).all()


def test_rounds_beyond_the_value_in_a_markov_game():
    """Equilibrium play earns nothing beyond the value, on average over the next state."""
    game = families.uniform(2, states=2).sample(1, key=0)
    solution = eq.solve(game)
    x, y = (np.asarray(p)[0] for p in solution.policy)
    fixed = dynamics.Fixed(x), dynamics.Fixed(y)
    trace = dynamics.play(game, *fixed, rounds=4000, key=0, history=True)
    expected, beyond = beyond_value(trace, solution.value)
    by_hand = np.einsum("ta,tab,tb->t", *_at(game, trace.history, x, y))
    np.testing.assert_allclose(expected[0], by_hand, atol=1e-6)
    assert abs(beyond.mean()) < 4 * beyond.std() / 4000**0.5


def _at(game, history, x, y):
    states = history.states[0, :-1]
    return x[states], game.reward[0][states], y[states]


def test_the_best_static_pair_is_the_best_there_is(rng):
    sample = FAMILY.sample(30, key=3)
    best = best_static(sample)
    least = gap(sample, best).mean()
    for _ in range(50):
        x, y = (rng.dirichlet(np.ones(3)) for _ in range(2))
        assert gap(sample, (x, y)).mean() >= least - 1e-9
        near = tuple(0.99 * p + 0.01 * q for p, q in zip(best, (x, y), strict=True))
        assert gap(sample, near).mean() >= least - 1e-9
    single = best_static(FAMILY.sample(1, key=3))
    assert gap(FAMILY.sample(1, key=3), single).max() < 1e-9


def test_static_policies_of_markov_and_perturbed_families():
    base = families.uniform(2, states=2).sample(key=0)
    family = families.perturbed(base, scale=0.1)
    sample = family.sample(10, key=1)
    gaps = {
        name: gap(sample, pair).mean() for name, pair in static_policies(sample, family).items()
    }
    assert set(gaps) == {"uniform", "base Nash", "mean Nash", "best static"}
    assert gaps["best static"] <= min(gaps.values()) + 1e-6
    assert gaps["base Nash"] < 0.5 * gaps["uniform"]


def test_rounds_to_gap_is_the_first_look_below():
    omd = dynamics.OMD()
    settings = {"noise": None, "reward_range": (0.0, 1.0)}
    found, looks = rounds_to_gap(GAMES, omd, 0.15, 1, most=1000, settings=settings)
    assert found == looks[-1, 0]
    assert looks[-1, 1] <= 0.15 < looks[:-1, 1].min()
    trace = dynamics.play(GAMES, omd, omd, rounds=int(found), key=1)
    assert trace.curve[-1].mean() == looks[-1, 1]
    never, looks = rounds_to_gap(GAMES, omd, 0.0, 1, most=50, settings=settings)
    assert never is None
    assert looks[-1, 0] == 50


def test_means_and_errors():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(4, 3, 100))
    mean = Mean.of(samples, seeds=True)
    np.testing.assert_allclose(mean.value, samples.mean((0, 2)))
    np.testing.assert_allclose(mean.seed_error, samples.mean(2).std(0, ddof=1) / 2)
    assert Mean.of([1.0]).error == 0.0
    with pytest.raises(ValueError, match="confidence: expected a number in"):
        mean.interval(1.0)


@pytest.mark.parametrize(
    ("training", "complaint"),
    [
        (families.uniform(2), r"training: expected a family or a batch .* \(3, 3\) actions"),
        (families.uniform(3, states=2), r"training: expected .* no states, found .* 2 states"),
        (FAMILY.sample(key=0), r"training: expected .* and batch shape \(\)"),
    ],
)
def test_training_games_of_another_kind_are_refused_at_once(training, complaint):
    with pytest.raises(ValueError, match=complaint):
        incontext.evaluate(random_players(), GAMES, 20, 1, training=training)
