"""A zero-sum Markov game as an OpenSpiel game, for its `value_iteration`.

OpenSpiel's iteration knows neither rewards on the way nor a discount. The game that ends after
every step with probability 1 - discount, and then pays the reward of that step divided by
1 - discount, has the same value.
"""

import numpy as np
import pyspiel
from open_spiel.python.algorithms import lp_solver, value_iteration


class MarkovState(pyspiel.State):
    """A state of the game; after a joint action, a chance node until the next state is drawn."""

    def __init__(self, game: "OpenSpielMarkovGame"):
        super().__init__(game)
        self.state = 0
        self.joint: tuple[int, int] | None = None
        self.ended = False

    def current_player(self) -> int:
        """Terminal, chance, or both players at once."""
        if self.ended:
            return pyspiel.PlayerId.TERMINAL
        return pyspiel.PlayerId.SIMULTANEOUS if self.joint is None else pyspiel.PlayerId.CHANCE

    def _legal_actions(self, player: int) -> list[int]:
        return list(range(self.get_game().reward.shape[1 + player]))

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """The next states, and as the last outcome the end."""
        game = self.get_game()
        assert self.joint is not None
        going_on = game.discount * game.transition[self.state][self.joint]
        outcomes = [(t, float(p)) for t, p in enumerate(going_on) if p > 0.0]
        return [*outcomes, (len(going_on), 1.0 - game.discount)]

    def _apply_action(self, action: int) -> None:
        if action == self.get_game().reward.shape[0]:
            self.ended = True
        else:
            self.state, self.joint = action, None

    def _apply_actions(self, actions: list[int]) -> None:
        self.joint = (actions[0], actions[1])

    def _action_to_string(self, player: int, action: int) -> str:
        return f"{player}: {action}"

    def is_terminal(self) -> bool:
        """Whether the game has ended."""
        return self.ended

    def returns(self) -> list[float]:
        """The reward of the last step, divided by the chance to end there."""
        if not self.ended:
            return [0.0, 0.0]
        game = self.get_game()
        paid = float(game.reward[self.state][self.joint] / (1.0 - game.discount))
        return [paid, -paid]

    def __str__(self) -> str:
        return f"{self.state} {self.joint} {self.ended}"


class OpenSpielMarkovGame(pyspiel.Game):
    """The game; `value_iteration` wants perfect information and simultaneous moves."""

    def __init__(self, reward: np.ndarray, transition: np.ndarray, discount: float):
        states, rows, columns = reward.shape
        self.reward, self.transition, self.discount = reward, transition, discount
        bound = float(np.abs(reward).max() / (1.0 - discount))
        kind = pyspiel.GameType(
            short_name="equipoise_markov",
            long_name="Zero-sum Markov game",
            dynamics=pyspiel.GameType.Dynamics.SIMULTANEOUS,
            chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
            information=pyspiel.GameType.Information.PERFECT_INFORMATION,
            utility=pyspiel.GameType.Utility.ZERO_SUM,
            reward_model=pyspiel.GameType.RewardModel.TERMINAL,
            max_num_players=2,
            min_num_players=2,
            provides_information_state_string=False,
            provides_information_state_tensor=False,
            provides_observation_string=False,
            provides_observation_tensor=False,
            parameter_specification={},
        )
        information = pyspiel.GameInfo(
            num_distinct_actions=max(rows, columns),
            max_chance_outcomes=states + 1,
            num_players=2,
            min_utility=-bound,
            max_utility=bound,
            utility_sum=0.0,
            max_game_length=10_000,
        )
        super().__init__(kind, information, {})

    def new_initial_state(self) -> MarkovState:
        """The first state; all others are reached from it."""
        return MarkovState(self)


def solve(
    reward: np.ndarray, transition: np.ndarray, discount: float, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Values by OpenSpiel's iteration, then policies by its solver at those values."""
    game = OpenSpielMarkovGame(reward, transition, discount)
    values = value_iteration.value_iteration(game, -1, tolerance, cyclic_game=True)
    value = np.array([values[f"{s} None False"] for s in range(len(reward))])
    pairs = []
    for stage in reward + discount * transition @ value:
        x, y, _, _ = lp_solver.solve_zero_sum_matrix_game(pyspiel.create_matrix_game(stage, -stage))
        pairs.append((np.ravel(x), np.ravel(y)))
    return np.array([x for x, _ in pairs]), np.array([y for _, y in pairs])
