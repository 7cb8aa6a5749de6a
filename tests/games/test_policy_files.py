"""Policies in files: every form that is read, what is refused, and what a file may cost."""

import contextlib
import inspect
import json
from typing import Any

import numpy as np
import pytest

import equipoise as eq


def write_json(folder, content):
    path = folder / "policy.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


TERMS = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)


class TestLists:
    @pytest.mark.parametrize("content", [[[0.5, 0.5], [1, 0]], {"policy": [[0.5, 0.5], [1, 0]]}])
    def test_one_for_each_player(self, content, tmp_path):
        path = write_json(tmp_path, content)
        expected = eq.Profile([[0.5, 0.5], [1.0, 0.0]])
        assert eq.read_policy(path) == expected
        assert eq.read_policy(path, eq.MatrixGame(np.eye(2))) == expected

    def test_strategies_may_differ_in_length(self, tmp_path):
        policy = eq.read_policy(write_json(tmp_path, [[0.5, 0.5], [1, 0, 0]]))
        assert [len(s) for s in policy] == [2, 3]

    def test_product_policies_of_many_agents(self, tmp_path):
        policy = TERMS.uniform_policy()
        read = eq.read_policy(write_json(tmp_path, {"policy": policy.tolist()}), TERMS)
        assert read == eq.Mixture(policy[None])
        one = eq.certify(TERMS, read)
        np.testing.assert_array_equal(one.gains, eq.certify(TERMS, policy).gains)

    def test_points_of_all_agents(self, tmp_path):
        game = eq.games.load("square-continuous", agents=2)
        read = eq.read_policy(write_json(tmp_path, {"policy": [1, -0.5]}), game)
        assert read == eq.ContinuousPolicy([1.0, -0.5])

    def test_actions_of_every_agent(self, tmp_path):
        game = eq.games.load("two-roads", agents=4)
        read = eq.read_policy(write_json(tmp_path, {"policy": [0, 1, 1, 0]}), game)
        assert read == eq.AggregativePolicy([0, 0], [2, 2], [0, 1])
        with pytest.raises(ValueError, match=r"policy.json: policy: expected shape \(4,\)"):
            eq.read_policy(write_json(tmp_path, [0, 1]), game)

    def test_without_the_game_the_error_says_to_give_it(self, tmp_path):
        with pytest.raises(ValueError, match="pass the game to read_policy"):
            eq.read_policy(write_json(tmp_path, {"policy": [0, 1]}))


class TestObjects:
    @pytest.mark.parametrize(
        ("content", "policy"),
        [
            ({"policies": [[[1, 0], [0, 1]]]}, eq.Mixture([[[1, 0], [0, 1]]])),
            ({"points": [[1.0, 0.0]]}, eq.ContinuousPolicy([[1.0, 0.0]])),
            (
                {"rows": [0], "counts": [3], "actions": [1]},
                eq.AggregativePolicy([0], [3], [1]),
            ),
            ({"strategies": [[1, 0], [0, 1]]}, eq.Profile([[1, 0], [0, 1]])),
        ],
    )
    def test_the_parts_say_the_kind(self, content, policy, tmp_path):
        assert eq.read_policy(write_json(tmp_path, {"policy": content, "game": "x"})) == policy
        assert eq.read_policy(write_json(tmp_path, content)) == policy

    def test_archives_by_name_or_by_number(self, tmp_path):
        x, y = np.array([0.25, 0.75]), np.array([1.0, 0.0, 0.0])
        np.savez(tmp_path / "a.npz", policy_0=x, policy_1=y, value=np.zeros(()))
        np.savez(tmp_path / "b.npz", x, y)
        for name in "ab":
            assert eq.read_policy(tmp_path / f"{name}.npz") == eq.Profile([x, y])

    def test_archives_of_other_kinds_may_hold_more(self, tmp_path):
        policies = np.full((1, 2, 2), 0.5)
        np.savez(tmp_path / "run.npz", policies=policies, weights=np.ones(1), gains=np.zeros(2))
        assert eq.read_policy(tmp_path / "run.npz") == eq.Mixture(policies)


class TestRefusals:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "expected JSON"),
            ("[[true, false], [0, 1]]", "expected numbers, found 'True'"),
            ('[["a"], [1]]', "expected numbers, found 'a'"),
            ("[[0.5, 0.6], [1]]", "sum to 1, found a sum of 1.1"),
            ("[[-1, 2], [1]]", "expected probabilities >= 0"),
            ("[[[1], [1, 0]], [1]]", "rows of equal length"),
            ("{}", "expected rows, counts, actions"),
            ("3", "expected a list or an object, found int"),
            ("[]", "expected a list or an object"),
            ('{"policy": null}', "expected a list or an object, found NoneType"),
            ('{"policy": 1, "policy": 2}', "twice"),
            ("[" * 3000 + "]" * 3000, "nested"),
            (f"[[{'9' * 400}], [1]]", "beyond float64"),
            ("[[NaN], [1]]", "not a number"),
            ('{"kind": ["profile"]}', "kind: expected one of"),
            ('{"kind": "profile", "strategies": {"0": [1], "2": [1]}}', "expected parts 0, 1"),
        ],
    )
    def test_the_file_and_the_fault_are_named(self, content, message, tmp_path):
        path = write_json(tmp_path, content)
        with pytest.raises(ValueError, match="expected") as caught:
            eq.read_policy(path)
        assert str(caught.value).startswith(f"{path}: ")
        assert str(caught.value).count(str(path)) == 1
        assert message in str(caught.value)

    def test_archives_of_anything_else(self, tmp_path):
        np.savez(tmp_path / "p.npz", policy_0=np.ones(1), policy_2=np.ones(1))
        with pytest.raises(ValueError, match=r"p.npz: strategies: expected parts 0, 1"):
            eq.read_policy(tmp_path / "p.npz")
        np.savez(tmp_path / "p.npz", other=np.ones(1))
        with pytest.raises(ValueError, match=r"p.npz: policy: expected .* found other"):
            eq.read_policy(tmp_path / "p.npz")
        np.savez(tmp_path / "p.npz", policy_0=np.array([True, False]))
        with pytest.raises(ValueError, match="expected numbers, found true and false"):
            eq.read_policy(tmp_path / "p.npz")

    @pytest.mark.parametrize("act", [eq.read_policy, lambda p: eq.write_policy(p, [[1.0]])])
    def test_names_without_a_format(self, act, tmp_path):
        with pytest.raises(ValueError, match=r"path: expected a name that ends in \.json or"):
            act(tmp_path / "policy.txt")

    def test_a_missing_file_is_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            eq.read_policy(tmp_path / "none.json")

    def test_any_bytes(self, tmp_path):
        """Damaged files are read or refused with a ValueError, and never with anything else."""
        rng = np.random.default_rng(0)
        for suffix in ("json", "npz"):
            path = tmp_path / f"p.{suffix}"
            eq.write_policy(path, eq.Profile([[0.5, 0.5], [0.25, 0.75]]))
            whole = np.frombuffer(path.read_bytes(), np.uint8)
            for _ in range(150):
                damaged = whole.copy()
                where = rng.integers(len(whole), size=rng.integers(1, 4))
                damaged[where] = rng.integers(256, size=len(where))
                path.write_bytes(damaged[: rng.integers(1, len(whole) + 1)].tobytes())
                with contextlib.suppress(ValueError):
                    eq.read_policy(path)


class TestProfiles:
    def test_unpacks_like_a_tuple(self):
        profile = eq.Profile(([0.5, 0.5], [1.0]))
        x, y = profile
        assert x.tolist() == [0.5, 0.5]
        assert y is profile[1]
        assert len(profile) == 2
        assert profile[:1] == (x,)

    def test_square_ones_are_arrays(self):
        profile = eq.Profile(np.full((2, 3, 4), 0.25))
        assert np.asarray(profile).shape == (2, 3, 4)
        with pytest.raises(ValueError, match="expected one shape"):
            np.asarray(eq.Profile([[1.0], [0.5, 0.5]]))

    def test_rounding_is_put_right(self):
        (x,) = eq.Profile([[0.5, 0.5000001]])
        assert abs(x.sum() - 1) < 1e-15

    def test_what_is_shared_is_not_copied(self):
        x = np.array([0.5, 0.5])
        x.setflags(write=False)
        assert eq.Profile([x, x])[0] is x


def test_arguments_in_the_wrong_place_are_explained(tmp_path):
    profile = eq.Profile([[0.5, 0.5], [0.5, 0.5]])
    write: Any = inspect.unwrap(eq.write_policy)  # without the type checks of the tests
    with pytest.raises(ValueError, match=r"path: .* found Profile; the path comes first"):
        write(profile, tmp_path / "policy.json")
    write_game: Any = inspect.unwrap(eq.games.write)
    with pytest.raises(ValueError, match=r"path: .* found MatrixGame; the game comes first"):
        write_game(tmp_path / "game.npz", eq.MatrixGame([[1, -1], [-1, 1]]))
    page: Any = inspect.unwrap(eq.report.page_of)
    with pytest.raises(ValueError, match=r"record: expected a Record or a RunFolder, found str"):
        page("run1")
    with pytest.raises(ValueError, match=r"strategies: .* found 2 arguments; use Profile"):
        eq.Profile([0.5, 0.5], [0.5, 0.5])
    with pytest.raises(ValueError, match=r"actions: .* found rows of different lengths"):
        eq.AggregativePolicy.of_agents([[0, 1], [1]], [2])


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("path_starts", [0, 2**62, -(2**63), -(2**62), 8]),  # differences that overflow
        ("path_links", [[0, 1]] * 4),
        ("path_links", 3),
        ("path_flows", 1.0),
        ("path_flows", [[1.0] * 4] * 4),
    ],
)
def test_paths_that_no_network_has_are_refused_in_one_line(tmp_path, part, value):
    parts = {
        "flows": np.zeros(5),
        "path_flows": np.ones(4),
        "path_pairs": np.zeros(4, int),
        "path_links": np.zeros(8, int),
        "path_starts": np.arange(0, 9, 2),
    }
    np.savez(tmp_path / "flows.npz", **parts | {part: np.array(value)})
    with pytest.raises(ValueError, match=f"flows.npz: {part}: expected") as refused:
        eq.read_policy(tmp_path / "flows.npz")
    assert "\n" not in str(refused.value)
