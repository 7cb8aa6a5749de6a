"""Logs from other libraries, with the libraries themselves."""

import contextlib
import io
import warnings

import numpy as np
import pytest
from support import peer

from equipoise.offline import adapters


def quietly(name: str):
    """A library that warns while it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer(name)


@pytest.fixture
def corridor():
    """Two walkers on three cells, who are paid for meeting; actions begin at 1."""
    pettingzoo, spaces = quietly("pettingzoo"), quietly("gymnasium.spaces")

    class Corridor(pettingzoo.ParallelEnv):
        metadata = {"name": "corridor"}  # noqa: RUF012
        possible_agents = ["left", "right"]  # noqa: RUF012

        def __init__(self, horizon=4, leaves_early=False):
            self.horizon, self.leaves_early = horizon, leaves_early

        def observation_space(self, agent):
            return spaces.Discrete(3)

        def action_space(self, agent):
            return spaces.Discrete(2, start=1)

        def reset(self, seed=None, options=None):
            self.agents, self.time = list(self.possible_agents), 0
            self.cells = {"left": 0, "right": 2}
            self.length = self.horizon if isinstance(self.horizon, int) else self.horizon.pop()
            return dict(self.cells), {}

        def step(self, actions):
            self.time += 1
            for agent, action in actions.items():
                self.cells[agent] = int(np.clip(self.cells[agent] + (-1, 1)[action - 1], 0, 2))
            met = float(self.cells["left"] == self.cells["right"])
            over = dict.fromkeys(actions, self.time == self.length)
            if self.leaves_early:
                over["left"] = True
            return dict(self.cells), dict.fromkeys(actions, met), over, over, {}

    return Corridor


def test_rollouts_of_pettingzoo(corridor):
    log = adapters.from_pettingzoo(corridor(), episodes=50, key=0)
    assert (log.samples, log.horizon, log.states_count) == (200, 4, 3)
    assert log.actions_per_agent == (2, 2)
    moved = np.clip(log.states + 2 * log.actions - 1, 0, 2)
    np.testing.assert_array_equal(log.next_states, moved)
    np.testing.assert_array_equal(log.rewards[:, 0], moved[:, 0] == moved[:, 1])
    assert 0.4 < log.actions.mean() < 0.6
    again = adapters.from_pettingzoo(corridor(), episodes=20, key=0)
    np.testing.assert_array_equal(again.actions, log.actions[:80])


def test_policies_states_and_contexts_of_pettingzoo(corridor):
    log = adapters.from_pettingzoo(
        corridor(),
        episodes=5,
        key=0,
        policies={"left": lambda cell: 2, "right": lambda cell: 1},
        state=lambda agent, cell: int(cell > 0),
        context=lambda cells: cells["right"],
    )
    assert (log.actions == [1, 0]).all()
    assert log.states_count == 2
    assert (log.contexts == 2).all()


def test_episodes_of_different_lengths_stand_alone(corridor):
    log = adapters.from_pettingzoo(corridor(horizon=[2, 3]), episodes=2, key=0)
    assert log.episodes is None
    assert (log.samples, log.horizon) == (5, 3)
    cut = adapters.from_pettingzoo(corridor(horizon=9), episodes=2, key=0, steps=3)
    assert cut.horizon == 3


def test_what_cannot_be_logged_of_pettingzoo(corridor):
    with pytest.raises(ValueError, match="'left' left episode 0 in step 0"):
        adapters.from_pettingzoo(corridor(leaves_early=True), episodes=1, key=0)
    with pytest.raises(ValueError, match="possible_agents"):
        adapters.from_pettingzoo(object(), episodes=1, key=0)
    env = corridor()
    env.observation_space = lambda agent: quietly("gymnasium.spaces").Box(0, 1)
    with pytest.raises(ValueError, match=r"observation_space: expected a Discrete .* pass state="):
        adapters.from_pettingzoo(env, episodes=1, key=0)


def test_joint_datasets_of_minari(tmp_path, monkeypatch, rng):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari, spaces = quietly("minari"), quietly("gymnasium.spaces")
    from minari.data_collector import EpisodeBuffer

    agents, steps = ("a", "b"), 3
    observation = spaces.Dict({agent: spaces.Discrete(4) for agent in agents})
    action = spaces.Dict({agent: spaces.Discrete(2) for agent in agents})
    buffers, states, actions, rewards = [], [], [], []
    for episode in range(5):
        s = {agent: rng.integers(0, 4, steps + 1) for agent in agents}
        a = {agent: rng.integers(0, 2, steps) for agent in agents}
        r = {agent: rng.random(steps + 1) for agent in agents}  # the first is of the reset
        buffers.append(
            EpisodeBuffer(
                id=episode,
                observations=s,
                actions=a,
                rewards=[0.0] * steps,
                terminations=[False] * steps,
                truncations=[False] * (steps - 1) + [True],
                infos={"rewards": r},
            )
        )
        states.append(np.stack([s[agent][:-1] for agent in agents], 1))
        actions.append(np.stack([a[agent] for agent in agents], 1))
        rewards.append(np.stack([r[agent][1:] for agent in agents], 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset = minari.create_dataset_from_buffers(
            "corridor/joint-v0", buffers, observation_space=observation, action_space=action
        )
    log = adapters.from_minari(dataset)
    assert (log.samples, log.horizon, log.actions_per_agent) == (15, 3, (2, 2))
    np.testing.assert_array_equal(log.states, np.concatenate(states))
    np.testing.assert_array_equal(log.actions, np.concatenate(actions))
    np.testing.assert_allclose(log.rewards, np.concatenate(rewards))
    by_name = adapters.from_minari("corridor/joint-v0", state=lambda agent, seen: int(seen) // 2)
    np.testing.assert_array_equal(by_name.states, np.concatenate(states) // 2)


def test_a_vault(tmp_path, rng):
    flashbax, vaults = quietly("flashbax"), quietly("flashbax.vault")
    import jax
    import jax.numpy as jnp

    time, agents = 12, 2
    data = {
        "observations": rng.integers(0, 3, (1, time, agents)).astype(np.int32),
        "actions": rng.integers(0, 2, (1, time, agents)).astype(np.int32),
        "rewards": rng.random((1, time, agents)).astype(np.float32),
        "terminals": np.zeros((1, time, agents), bool),
        "truncations": np.zeros((1, time, agents), bool),
    }
    data["terminals"][0, [4, 9]] = True  # two episodes of five steps, and one broken off
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        buffer = flashbax.make_flat_buffer(
            max_length=50, min_length=1, sample_batch_size=1, add_sequences=True
        )
        first = jax.tree.map(lambda table: jnp.asarray(table[0, 0]), data)
        state = buffer.init(first)
        state = buffer.add(state, jax.tree.map(lambda table: jnp.asarray(table[0]), data))
        vault = vaults.Vault("corridor", state.experience, rel_dir=str(tmp_path), vault_uid="one")
        vault.write(state)
        log = adapters.from_vault(tmp_path / "corridor" / "one")
    assert (log.samples, log.horizon, log.agents) == (10, 5, 2)
    np.testing.assert_array_equal(log.actions, data["actions"][0, :10])
    np.testing.assert_array_equal(log.states, data["observations"][0, :10])
    np.testing.assert_allclose(log.rewards, data["rewards"][0, :10])
    inside = np.delete(np.arange(10), [4, 9])
    np.testing.assert_array_equal(log.next_states[inside], log.states[inside + 1])


def test_what_cannot_be_logged_of_a_vault(rng):
    experience = {"observations": rng.random((1, 4, 2, 7)), "actions": np.zeros((1, 4, 2), int)}
    with pytest.raises(ValueError, match="terminals or truncations; found"):
        adapters.from_vault(experience)
    experience |= {"rewards": np.zeros((1, 4, 2)), "terminals": np.ones((1, 4, 2))}
    with pytest.raises(ValueError, match="state: expected a function"):
        adapters.from_vault(experience)
    log = adapters.from_vault(experience, state=lambda agent, seen: int(seen[0] > 0.5))
    assert log.horizon == 1
    experience["terminals"][:] = 0
    with pytest.raises(ValueError, match="at least one that ends"):
        adapters.from_vault(experience, state=lambda agent, seen: 0)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "minari", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[minari\]'"):
        adapters.from_minari("some/dataset-v0")
