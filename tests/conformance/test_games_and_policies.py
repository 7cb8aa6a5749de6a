"""One test body for every kind of game and every kind of policy.

A new kind needs a sample in `kind_samples.py`; the first test fails until it is there.
"""

import dataclasses
import multiprocessing
from multiprocessing.reduction import ForkingPickler
from typing import Any

import jax
import numpy as np
import pytest
from kind_samples import games, plans, policies
from support import refuses

import equipoise as eq
from equipoise.games import kinds
from equipoise.games._policies import POLICIES as POLICY_KINDS

GAME = pytest.mark.parametrize("kind", list(kinds.KINDS))
POLICY = pytest.mark.parametrize("kind", list(POLICY_KINDS))
VALUES = pytest.mark.parametrize(
    ("values", "kind"),
    [(games, kind) for kind in kinds.KINDS] + [(policies, kind) for kind in POLICY_KINDS],
)


def test_every_kind_has_a_sample():
    assert list(games()) == list(kinds.KINDS)
    assert list(policies()) == list(POLICY_KINDS)


def arrays(value: Any) -> list[np.ndarray]:
    return [leaf for leaf in jax.tree.leaves(value) if isinstance(leaf, np.ndarray)]


class TestValues:
    @VALUES
    def test_nothing_of_it_can_be_written(self, values, kind):
        value = values()[kind]
        assert arrays(value)
        for array in arrays(value):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        for field in dataclasses.fields(value):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, field.name, None)
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.something = 1

    @VALUES
    def test_the_callers_arrays_are_not_shared(self, values, kind):
        value = values()[kind]
        parts = value.arguments()
        own = {n: np.array(a) for n, a in parts.items() if isinstance(a, np.ndarray)}
        if not own or (kind.startswith("aggregative") and values is games):
            pytest.skip("made of more than arrays")
        made = value.replace(**own)
        for array in own.values():
            array[...] = 0
        assert made == value

    @VALUES
    def test_equal_by_content(self, values, kind):
        value = values()[kind]
        values.cache_clear()
        again = values()[kind]
        assert again is not value
        assert (again == value) is True
        assert hash(again) == hash(value)
        assert (value != again) is False
        others = [other for k, other in {**games(), **policies()}.items() if other is not again]
        assert not any(value == other for other in others if type(other) is not type(value))
        assert value != 1

    @VALUES
    def test_a_change_is_seen(self, values, kind):
        value = values()[kind]
        leaves, tree = jax.tree.flatten(value)
        index = next(i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray))
        leaves[index] = leaves[index] + 1
        assert jax.tree.unflatten(tree, leaves) != value

    @VALUES
    def test_it_travels_between_processes(self, values, kind):
        value = values()[kind]
        arrived = ForkingPickler.loads(ForkingPickler.dumps(value))
        assert arrived == value
        assert not any(array.flags.writeable for array in arrays(arrived))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(arrived, dataclasses.fields(arrived)[0].name, None)

    @VALUES
    def test_it_is_a_pytree(self, values, kind):
        value = values()[kind]
        assert jax.tree.map(lambda leaf: leaf, value) == value


def test_another_process_describes_every_game():
    """Spawned, not forked: nothing but what was sent is there."""
    sent = tuple(games().values())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(describe, sent) == [game.describe() for game in sent]


def describe(game: Any) -> str:
    """Runs in another process."""
    return game.describe()


@pytest.mark.parametrize("name", eq.games.names())
def test_games_of_the_catalogue_travel_between_processes(name):
    game = eq.games.load(name)
    assert ForkingPickler.loads(ForkingPickler.dumps(game)) == game


class TestGames:
    @GAME
    def test_it_keeps_what_games_promise(self, kind):
        eq.testing.check_game(games()[kind])
        assert games()[kind].batch_shape == ()

    @GAME
    def test_it_knows_its_kind(self, kind):
        game = games()[kind]
        assert kinds.kind_of(game) == game.kind == kind
        assert isinstance(game, eq.games.Game)
        assert type(game) is kinds.class_of(kind)

    @GAME
    def test_labels_or_numbers(self, kind):
        labels = games()[kind].labels
        assert labels
        assert labels == eq.games.Labels(**labels.to_plain())
        assert labels.player(0) == (labels.players[0] if labels.players else "0")
        assert labels.action(1, 1) == (labels.actions[-1][1] if labels.actions else "1")
        assert labels.state(1) == (labels.states[1] if labels.states else "1")

    @GAME
    @pytest.mark.parametrize(
        "wrong",
        [
            {"players": ["a"] * 1234},
            {"actions": [["a"] * 1234]},
            {"states": ["a"] * 1234},
            {"types": ["a"] * 1234},
            {"players": "ab"},
            {"players": ["", "b"]},
            {"seats": ["a", "b"]},
            ["a", "b"],
        ],
        ids=str,
    )
    def test_labels_that_do_not_fit_are_refused(self, kind, wrong):
        from equipoise.games import Labels

        game = games()[kind]
        counts = {"players": game.players, "actions": game.actions}
        with pytest.raises(ValueError, match=r"^labels(\.\w+)?: expected .* found"):
            Labels.of(wrong, **counts)

    @GAME
    def test_files_keep_all_of_it(self, kind, tmp_path):
        game = games()[kind]
        suffixes = {"matrix": ("npz", "nfg", "csv"), "normal-form": ("npz", "nfg")}
        for suffix in suffixes.get(kind, ("npz",)):
            path = tmp_path / f"game.{suffix}"
            if kind.startswith("aggregative") or kind == "oracle":  # functions are no arrays
                with pytest.raises(ValueError, match="game: expected a MatrixGame or"):
                    eq.games.write(game, path)
                continue
            eq.games.write(game, path)
            assert eq.games.read(path) == game

    @pytest.mark.parametrize("kind", ["matrix", "markov"])
    def test_batches_keep_labels(self, kind):
        game = games()[kind]
        batch = jax.tree.map(lambda leaf: np.stack([leaf] * 3), game)
        assert len(batch) == 3
        assert batch[1] == game
        assert batch[1:].batch_shape == (2,)
        assert list(batch) == [game] * 3

    @pytest.mark.parametrize("thing", [1, "matrix", None, np.zeros((2, 2)), eq.MatrixGame])
    def test_what_is_no_game_is_refused(self, thing):
        with pytest.raises(ValueError, match=r"game: expected one of MatrixGame, .* found"):
            kinds.kind_of(thing)


class TestPolicies:
    @GAME
    def test_it_keeps_what_policies_promise(self, kind):
        eq.testing.check_policy(games()[kind], plans()[kind])

    @POLICY
    def test_plain_form(self, kind):
        policy = policies()[kind]
        plain = policy.to_plain()
        assert plain["kind"] == kind
        assert eq.games.policy_from_plain(plain) == policy
        assert type(policy).from_plain(plain) == policy
        leaves = jax.tree.leaves(plain)
        assert all(isinstance(leaf, str | int | np.ndarray) for leaf in leaves)

    @POLICY
    def test_the_kind_may_be_left_out(self, kind):
        plain = policies()[kind].to_plain()
        del plain["kind"]
        assert eq.games.policy_from_plain(plain) == policies()[kind]

    @POLICY
    @pytest.mark.parametrize("suffix", ["json", "npz"])
    def test_files(self, kind, suffix, tmp_path):
        path = tmp_path / f"policy.{suffix}"
        eq.write_policy(path, policies()[kind])
        assert eq.read_policy(path) == policies()[kind]

    @POLICY
    def test_wrong_parts_are_refused(self, kind):
        plain = policies()[kind].to_plain()
        with pytest.raises(ValueError, match="policy: expected"):
            eq.games.policy_from_plain({**plain, "more": 1})
        name = next(name for name in plain if name != "kind")
        for wrong in (
            True,
            "a",
            [True, 0.5],
            [["a"]],
            None,
            {"1": [1.0]},
            [[[[[[[[[[[[1]]]]]]]]]]]],
        ):
            with pytest.raises(ValueError, match="expected"):
                eq.games.policy_from_plain({**plain, name: wrong})
        with pytest.raises(ValueError, match="kind: expected one of profile"):
            eq.games.policy_from_plain({**plain, "kind": "another"})


def test_policies_are_abstract_or_final():
    with pytest.raises(TypeError, match="abstract"):
        eq.games.Policy()
    assert all(getattr(policies()[kind], "__final__", False) for kind in POLICY_KINDS)


class TestConversions:
    @GAME
    def test_a_policy_is_that_of_its_parts(self, kind, tmp_path):
        game, policy = games()[kind], plans()[kind]
        assert game.policy(policy) == policy
        assert game.policy(policy.to_plain()) == policy
        eq.write_policy(tmp_path / "policy.json", policy)
        assert game.policy(tmp_path / "policy.json") == policy
        lists = {
            "profile": lambda: [own.tolist() for own in policy],
            "mixture": lambda: policy.policies[0].tolist(),
            "continuous": lambda: policy.points.tolist(),
            "aggregative": lambda: policy.per_agent().tolist(),
            "flows": lambda: policy.flows.tolist(),
        }[policy.kind]()
        assert game.policy(lists) == policy
        assert eq.certify(game, lists).max_upper == eq.certify(game, policy).max_upper

    @pytest.mark.parametrize("kind", [kind for kind in games() if kind != "network"])
    def test_names_are_those_that_are_printed(self, kind):
        game, policy = games()[kind], plans()[kind]
        assert game.policy(by_names(game, policy)) == policy
        wrong = by_names(game, policy) | {"nobody": 0}
        refuses(lambda: game.policy(wrong), "policy")


def by_names(game, policy):
    """What each player, type or population plays, by the names that results print."""
    player = game.about.player
    if policy.kind == "aggregative":
        first = game.labels.action(0, 0)
        return {game.about.named("type", row): first for row in range(game.types)}
    if policy.kind == "flows":
        return {player(i): own.tolist() for i, own in enumerate(policy.flows)}
    if policy.kind == "continuous":
        return {player(i): 0.0 for i in range(game.players)}
    if policy.kind == "mixture":  # uniform
        equal = [[1 / count] * count for count in game.actions]
        return {player(i): named(game, i, own) for i, own in enumerate(equal)}
    if game.kind != "markov":
        return {player(i): named(game, i, own) for i, own in enumerate(policy)}
    states = [game.labels.state(s) for s in range(game.states)]
    return {
        player(i): {state: named(game, i, row) for state, row in zip(states, own, strict=True)}
        for i, own in enumerate(policy)
    }


def named(game, player, chances):
    """Probabilities by action; those of 0 are left out."""
    return {game.labels.action(player, a): p for a, p in enumerate(chances) if p}


def test_names_of_players_actions_and_states():
    labels = {"players": ["Ann", "Bob"], "actions": [["stay", "leave"]], "states": ["dry", "wet"]}
    reward, move = np.zeros((2, 2, 2)), np.full((2, 2, 2, 2), 0.5)
    game = eq.MarkovGame(reward, move, 0.5, labels=labels)
    ann = {"dry": "stay", "wet": {"stay": 0.25, "leave": 0.75}}
    policy = game.policy({"Bob": "leave", "Ann": ann})
    assert policy == eq.Profile([[[1, 0], [0.25, 0.75]], [[0, 1], [0, 1]]])
    for wrong, argument in (
        ({"Ann": ann}, "policy"),
        ({"Ann": ann, "Bpb": "stay"}, "policy"),
        ({"Ann": ann, "Bob": "stau"}, "policy['Bob']"),
        ({"Ann": {"dry": "stay"}, "Bob": "stay"}, "policy['Ann']"),
        ({"Ann": {"dry": "stay", "wt": "stay"}, "Bob": "stay"}, "policy['Ann']"),
        ({"Ann": ann, "Bob": {"stay": 0.5}}, "policy['Bob']"),
        ({"Ann": ann, "Bob": [1, 0, 0]}, "policy[1]"),
        ([[[1, 0, 0]] * 2, [[1, 0]] * 2], "policy[0]"),
    ):
        refuses(lambda value=wrong: game.policy(value), argument)
