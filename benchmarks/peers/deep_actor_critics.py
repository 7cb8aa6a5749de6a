"""TD3+BC of Tianshou and d3rlpy with pair networks as critics, agent by agent.

Both see the joint action of the log as the observation and the own action as the action, and
hold the others at what they did; every row ends its episode. `PART` agents are trained, and their
time is multiplied accordingly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays

PART = 5


def part_of_agents(step: Callable[[], float], steps: int, agents: int) -> Callable[[int], Answer]:
    """Report the time of all agents, from that of `PART` of them."""

    def run(count: int) -> Answer:
        loss = 0.0
        for _ in range(steps):
            loss = step()
        return {"time_factor": np.float64(agents / PART), "loss": np.float64(loss)}

    return run


def pair_networks(agents: int, width: int, depth: int) -> Any:
    """A module from (joint actions, own action) to a sum of networks of pairs."""
    import torch
    from torch import nn

    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            sizes = list(pairwise([2, *[width] * depth, 1]))
            self.weights = nn.ParameterList(
                torch.empty(agents, a, b).uniform_(-(a**-0.5), a**-0.5) for a, b in sizes
            )
            self.biases = nn.ParameterList(
                torch.empty(agents, 1, b).uniform_(-(a**-0.5), a**-0.5) for a, b in sizes
            )

        def forward(self, joint: Any, own: Any) -> Any:
            joint, own = (torch.as_tensor(x, dtype=torch.float32) for x in (joint, own))
            hidden = torch.stack([own[:, 0].expand(agents, -1), joint.T], -1)
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                hidden = torch.relu(torch.baddbmm(bias, hidden, weight))
            ends = torch.baddbmm(self.biases[-1], hidden, self.weights[-1])
            return ends[..., 0].sum(0)[:, None]

    return Pairs()


def constant_layers(width: int, depth: int) -> Any:
    """Rectified layers of an actor that sees nothing."""
    from torch import nn

    layers: list[Any] = []
    for before in (1, *[width] * (depth - 1)):
        layers += [nn.Linear(before, width), nn.ReLU()]
    return nn.Sequential(*layers)


def tianshou(
    data: Arrays, depth: int, width: int, actor: tuple[int, int], batch: int, steps: int
) -> Callable[[int], Answer]:
    """Tianshou's `TD3BC`."""
    import gymnasium
    import torch
    from tianshou.algorithm.imitation.td3_bc import TD3BC
    from tianshou.algorithm.modelfree.ddpg import ContinuousDeterministicPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.utils.net.continuous import AbstractContinuousActorDeterministic
    from tianshou.utils.torch_utils import policy_within_training_step
    from torch import nn

    torch.set_num_threads(1)
    actions, rewards = (data[name].astype(np.float32) for name in ("actions", "rewards"))
    agents = actions.shape[1]

    class Actor(AbstractContinuousActorDeterministic):
        def __init__(self) -> None:
            super().__init__(output_dim=1)
            self.max_action = 1.0
            self.layers = constant_layers(*actor)
            self.last = nn.Sequential(nn.Linear(actor[0], 1), nn.Tanh())

        def get_preprocess_net(self) -> Any:
            return nn.Identity()

        def forward(self, obs: Any, state: Any = None, info: Any = None) -> Any:
            return self.last(self.layers(torch.ones(len(obs), 1))), state

    def make(number: int) -> tuple[Any, Any]:
        space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
        rate = AdamOptimizerFactory(lr=1e-3)
        algorithm = TD3BC(
            policy=ContinuousDeterministicPolicy(actor=Actor(), action_space=space),
            policy_optim=rate,
            critic=pair_networks(agents, width, depth),
            critic_optim=rate,
            critic2=pair_networks(agents, width, depth),
            critic2_optim=rate,
            alpha=5.0,
        )
        rows = ReplayBuffer(size=len(actions))
        for joint, reward in zip(actions, rewards[:, number], strict=True):
            own = {"obs": joint, "act": joint[number : number + 1], "rew": reward, "info": {}}
            rows.add(Batch(**own, terminated=True, truncated=False, obs_next=joint))
        return algorithm, rows

    made = [make(number) for number in range(PART)]

    def step() -> float:
        losses = []
        for algorithm, rows in made:
            with policy_within_training_step(algorithm.policy):
                losses.append(algorithm.update(rows, batch).critic1_loss)
        return float(np.mean(losses))

    return part_of_agents(step, steps, agents)


def d3rlpy(
    data: Arrays, depth: int, width: int, actor: tuple[int, int], batch: int, steps: int
) -> Callable[[int], Answer]:
    """d3rlpy's `TD3PlusBC`; a linear layer of its own comes after each network."""
    import logging

    import structlog
    import torch
    from d3rlpy.algos import TD3PlusBCConfig
    from d3rlpy.dataset import MDPDataset
    from d3rlpy.models.encoders import EncoderFactory
    from torch import nn

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    torch.set_num_threads(1)
    actions, rewards = (data[name].astype(np.float32) for name in ("actions", "rewards"))
    agents = actions.shape[1]

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = constant_layers(*actor)

        def forward(self, x: Any) -> Any:
            return self.layers(torch.ones(len(x), 1))

    @dataclass()
    class Networks(EncoderFactory):
        def create(self, observation_shape: Any) -> Any:
            return Constant()

        def create_with_action(
            self, observation_shape: Any, action_size: int, discrete_action: bool = False
        ) -> Any:
            return pair_networks(agents, width, depth)

        @staticmethod
        def get_type() -> str:
            return "pair networks"

    def make(number: int) -> tuple[Any, Any]:
        ends = np.ones(len(actions))
        rows = MDPDataset(actions, actions[:, number : number + 1], rewards[:, number], ends)
        algorithm = TD3PlusBCConfig(
            batch_size=batch,
            alpha=5.0,
            actor_encoder_factory=Networks(),
            critic_encoder_factory=Networks(),
            actor_learning_rate=1e-3,
            critic_learning_rate=1e-3,
        ).create(device="cpu")
        algorithm.build_with_dataset(rows)
        return algorithm, rows

    made = [make(number) for number in range(PART)]

    def step() -> float:
        found = [a.update(rows.sample_transition_batch(batch)) for a, rows in made]
        return float(np.mean([f["critic_loss"] for f in found])) / 2.0  # the sum of two

    return part_of_agents(step, steps, agents)
