"""One step of TD3+BC for 50 agents with 2-IR critics, on one core.

Batches of 256 rows, critics of 50 pair networks (2 x 64 x 1) for each agent, actors of three layers
of 128. Three ways to do a step:

- `ours`: what `offline.deep` does. A reward is a return here: there is one critic for each agent,
  nothing is bootstrapped, and actors look at the others' current actions once, not once a row;
- `ours, all of TD3`: two critics, targets, smoothing, an actor step every second step, as the
  library does with local states;
- `PyTorch, agents in turn`: the same as the latter, one agent after the other, the pair networks of
  an agent stacked into one product;
- Tianshou's and d3rlpy's TD3+BC with the same networks, for some of the agents, their time
  multiplied.

Times are processor times, so that other processes on the machine count less.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender
from benchmarks.peers import deep_actor_critics as peers

#: Compared with PyTorch, Tianshou and d3rlpy, which `make bench` does without.
DEEP = True

BATCH, WIDTH, STEPS = 256, 64, 4
ACTOR_WIDTH, ACTOR_DEPTH = 128, 3


def _prepared(data: Arrays, depth: int) -> tuple[Any, Any, Any]:
    """A log, critics after one epoch, and a method."""
    from equipoise.offline import Log, deep

    log = Log(
        np.zeros(len(data["actions"]), int),
        *(data[n] for n in ("actions", "rewards")),
        continuous=True,
    )
    critic = deep.Critic(2, WIDTH, depth, batch=BATCH, epochs=1, standardise=False)
    method = deep.TD3BC(batch=BATCH, width=ACTOR_WIDTH, depth=ACTOR_DEPTH)
    return log, deep.fit(log, critic, key=0), method


def ours(depth: int, data: Arrays) -> Callable[[int], Answer]:
    """Least squares of all critics, and as many steps of all actors."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from equipoise.offline.deep import _ascent, _fit
    from equipoise.offline.deep._ascent import freeze
    from equipoise.offline.deep._rows import prepare

    log, critics, method = _prepared(data, depth)
    # All but one of the rows are trained on: an epoch is STEPS batches.
    rows = prepare([log], 1.0 / log.samples, False, jax.random.key(0))
    learners = _fit.start_learners(critics.models)
    frame = eqx.filter(critics.models, eqx.is_inexact_array, inverse=True)
    frame = jax.tree.map(lambda x: x[0], frame)
    key, alpha = jax.random.key(1), jnp.float32(method.alpha)
    actors = _ascent.start(method, critics.sizes, 1, key)
    frozen, done = freeze(critics, rows), 0

    def work() -> float:
        nonlocal learners, actors, done
        done += 1
        rule = _fit.Rule(jnp.float32(1e-3), jnp.int32(10**6), jnp.int32(done), BATCH, by_step=False)
        learners = _fit.advance_learners((frame, rows, key, rule), learners, False)
        given = (frozen, rows, key, alpha, jnp.int32(done * STEPS))
        actors = _ascent.advance(given, actors, method, critics.sizes)
        jax.block_until_ready(actors)
        return float(learners.loss.mean())

    return lambda count: {"loss": work()}


def ours_all(depth: int, data: Arrays) -> Callable[[int], Answer]:
    """Twin critics, targets and delayed actors."""
    import jax
    import jax.numpy as jnp

    from equipoise.offline.deep import _ascent
    from equipoise.offline.deep._rows import prepare

    log, critics, method = _prepared(data, depth)
    rows = prepare([log], 0.5, False, jax.random.key(0))
    key, alpha = jax.random.key(1), jnp.float32(method.alpha)
    state, done = _ascent.start_returns(method, critics, key), 0

    def work() -> float:
        nonlocal state, done
        done += STEPS
        given = (rows, key, alpha, jnp.int32(done))
        state = jax.block_until_ready(_ascent.advance_returns(given, state, method, critics.sizes))
        first = jax.tree.map(lambda x: x[0, 0], state.twins[0])
        batch = jax.tree.map(lambda x: x[0, :BATCH], rows.rows)
        return float(((first(batch) - rows.rewards[0, :BATCH, 0]) ** 2).mean())

    return lambda count: {"loss": work()}


def pytorch(depth: int, data: Arrays) -> Callable[[int], Answer]:
    """PyTorch, eager, one thread."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    agents = [
        _TorchAgent(
            i,
            depth,
            torch.from_numpy(data["actions"]).float(),
            torch.from_numpy(data["rewards"]).float(),
        )
        for i in range(data["actions"].shape[1])
    ]
    done = 0

    def work() -> float:
        nonlocal done
        loss = 0.0
        for _ in range(STEPS):
            done += 1
            with torch.no_grad():
                everybody = torch.cat([agent.act(agent.actor) for agent in agents])
                targets = torch.cat([agent.act(agent.slow_actor) for agent in agents])
            loss = float(np.mean([a.step(everybody, targets, done) for a in agents]))
        return loss

    return lambda count: {"loss": work()}


class _TorchAgent:
    """TD3+BC of one agent, with CORL's constants."""

    def __init__(self, number: int, depth: int, actions: Any, rewards: Any):
        import copy

        import torch
        from torch import nn

        self.number, self.actions, self.rewards = number, actions, rewards
        count = actions.shape[1]

        class Pairs(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                widths = [2, *[WIDTH] * depth, 1]
                sizes = list(pairwise(widths))
                self.weights = nn.ParameterList(
                    torch.empty(count, a, b).uniform_(-(a**-0.5), a**-0.5) for a, b in sizes
                )
                self.biases = nn.ParameterList(
                    torch.empty(count, 1, b).uniform_(-(a**-0.5), a**-0.5) for a, b in sizes
                )

            def forward(self, own: Any, others: Any) -> Any:
                hidden = torch.stack([own.expand(count, -1), others.T], -1)
                for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                    hidden = torch.relu(torch.baddbmm(bias, hidden, weight))
                ends = torch.baddbmm(self.biases[-1], hidden, self.weights[-1])
                return ends[..., 0].sum(0)

        self.critics = [Pairs(), Pairs()]
        layers: list[Any] = []
        for before in (1, *[ACTOR_WIDTH] * (ACTOR_DEPTH - 1)):
            layers += [nn.Linear(before, ACTOR_WIDTH), nn.ReLU()]
        self.actor = nn.Sequential(*layers, nn.Linear(ACTOR_WIDTH, 1), nn.Tanh())
        self.slow = copy.deepcopy(self.critics)
        self.slow_actor = copy.deepcopy(self.actor)
        weights = [p for critic in self.critics for p in critic.parameters()]
        self.critic_optimiser = torch.optim.Adam(weights, 1e-3)
        self.actor_optimiser = torch.optim.Adam(self.actor.parameters(), 1e-3)

    def act(self, actor: Any) -> Any:
        """The action; there is nothing to see."""
        import torch

        return actor(torch.ones(1, 1))[:, 0]

    def step(self, everybody: Any, targets: Any, number: int) -> float:
        """Both critics, every second time the actor and the targets."""
        import torch

        index = torch.randint(len(self.actions), (BATCH,))
        rows, rewards = self.actions[index], self.rewards[index, self.number]
        with torch.no_grad():
            noise = (torch.randn(BATCH, rows.shape[1]) * 0.2).clamp(-0.5, 0.5)
            following = (targets + noise).clamp(-1.0, 1.0)
            own = following[:, self.number]
            ahead = torch.minimum(*(critic(own, following) for critic in self.slow))
            goal = rewards + 0.0 * ahead  # every row ends its episode
        said = [critic(rows[:, self.number], rows) for critic in self.critics]
        loss = sum(((q - goal) ** 2).mean() for q in said)
        self.critic_optimiser.zero_grad()
        loss.backward()  # pyright: ignore
        self.critic_optimiser.step()
        if number % 2 == 0:
            self._improve(rows, everybody)
        return float(loss) / 2.0  # pyright: ignore

    def _improve(self, rows: Any, everybody: Any) -> None:
        import torch

        own = self.act(self.actor).expand(BATCH)
        others = everybody.expand(BATCH, -1).clone()
        others[:, self.number] = own
        value = self.critics[0](own, others)
        with torch.no_grad():
            size = self.critics[0](rows[:, self.number], rows).abs().mean()
        loss = -5.0 * value.mean() / size + ((own - rows[:, self.number]) ** 2).mean()
        self.actor_optimiser.zero_grad()
        loss.backward()
        self.actor_optimiser.step()
        with torch.no_grad():
            for slow, fast in (
                *zip(self.slow, self.critics, strict=True),
                (self.slow_actor, self.actor),
            ):
                for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                    old.lerp_(new, 0.005)


def draw(agents: int) -> Arrays:
    """Rows of the paper's game: STEPS batches, and one more row."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (STEPS * BATCH + 1, agents))
    means = actions * actions.sum(1, keepdims=True) / np.sqrt(agents)
    return {"actions": actions, "rewards": means + rng.uniform(-1, 1, means.shape)}


def case(agents: int, depth: int) -> Case:
    """One case; the measure is the critics' loss, which begins above 0.6."""
    options: dict[str, Any] = {"batched": True, "timeout": 300.0}
    networks: dict[str, Any] = {"depth": depth, "width": WIDTH, "batch": BATCH, "steps": STEPS}
    networks["actor"] = (ACTOR_WIDTH, ACTOR_DEPTH)
    own = {"ours": True, "compiles": True, "how": "one compiled program"}
    return Case(
        name=f"{agents} agents, batch {BATCH}, pair networks of {depth} x {WIDTH}",
        unit="step",
        items=STEPS,
        data=partial(draw, agents),
        contenders=(
            Contender("ours", partial(ours, depth), **own, **options),
            Contender("ours, all of TD3", partial(ours_all, depth), **own, **options),
            Contender(
                "PyTorch, agents in turn",
                partial(pytorch, depth),
                needs=("torch",),
                how="Python call per agent",
                **options,
            ),
            Contender(
                "Tianshou",
                partial(peers.tianshou, **networks),
                needs=("tianshou",),
                how="Python call per agent",
                notes=f"{peers.PART} agents, time multiplied",
                **options,
            ),
            Contender(
                "d3rlpy",
                partial(peers.d3rlpy, **networks),
                needs=("d3rlpy",),
                how="Python call per agent",
                notes=f"{peers.PART} agents, time multiplied",
                **options,
            ),
        ),
        measure=lambda data, answer: float(answer["loss"]),
        measured="critics' loss",
        goal=2.0,
    )


def cases(quick: bool) -> list[Case]:
    """One and two hidden layers."""
    return [case(8, 1)] if quick else [case(50, 1), case(50, 2)]
