"""`equipoise duel`: play against a pre-trained player, in the terminal or through a pipe."""

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

import tyro

import equipoise as eq
from equipoise.cli._inputs import check_counts, check_seed, find_game
from equipoise.cli._output import print_json, print_pairs
from equipoise.cli._parsing import COMMON, CommonOptions, Game, Settings
from equipoise.core.errors import InputError


@dataclass(frozen=True)
class Duel:
    """Play a game against a pre-trained player that learns while it plays.

    In every round, type the name or the number of an action and press Enter; q ends the duel. The
    player sees only its own actions and rewards. PLAYERS is a folder that `equipoise pretrain`
    wrote, or the name of players that come with the package. The players "any" play two-player
    zero-sum games with 2 to 6 actions each. Moves are read from the standard input, so a program
    can play, too.

    Examples:
      equipoise duel any matching-pennies
      equipoise duel any game.nfg --seat column --rounds 50
    """

    ARGUMENTS: ClassVar = {"name": "PLAYERS"}

    #: The players: a run folder of `equipoise pretrain`, or the name of players in the package.
    players: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PLAYERS")]
    #: The game: a file (.nfg, .npz, .csv or .toml), a name that `equipoise games` lists, or
    #: MODULE:OBJECT such as mine.py:game, whose code is run.
    game: Game

    # -- play

    #: Your seat: the row player or the column player.
    seat: Literal["row", "column"] = "row"
    #: Number of rounds.
    rounds: int = 100
    #: Bound the player's regret: a no-regret learner takes over when the bound requires it.
    guarded: bool = False

    # -- game

    #: Set a parameter of a named game, or of the function of MODULE:OBJECT, such as size=10.
    #: Repeat the flag for more.
    set: Settings = ()

    # -- play

    #: Random seed, a whole number in [0, 2^32).
    seed: int = 0
    common: CommonOptions = COMMON

    def execute(self) -> int:
        """Read moves until the last round, q, or the end of the input."""
        check_counts(rounds=self.rounds)
        check_seed(self.seed)
        players: Any = eq.incontext.load(self.players)
        if self.guarded:
            players = eq.incontext.Guarded(players)
        game = find_game(self.game, self.set)
        duel = eq.incontext.Duel(players, game, seat=self.seat, key=self.seed)
        yours, theirs = duel.names
        self._say(f"Your actions: {', '.join(yours)}")
        while len(duel.turns) < self.rounds:
            self._say(f"round {len(duel.turns) + 1}> ", end="")
            word = sys.stdin.readline()
            if not word or word.strip().lower() in ("q", "quit"):
                break
            action = find_action(word.strip(), yours)
            if action is None:
                self._say(f"expected one of {', '.join(yours)}, or q to end")
                if not sys.stdin.isatty() and self.common.json:
                    raise InputError("action", f"one of {', '.join(yours)}", repr(word.strip()))
                continue
            turn = duel.play(action)
            numbers = (turn.earned, duel.score, duel.best_response)
            earned, score, best = map(eq.report.format_value, numbers)
            self._say(
                f"You: {yours[turn.yours]}, opponent: {theirs[turn.theirs]}, reward {earned}. "
                f"Total {score}; expected total of a best response: {best}"
            )
        self._show(duel, yours)
        return 0

    def _say(self, text: str, end: str = "\n") -> None:
        if not self.common.json:
            print(text, end=end, flush=True)

    def _show(self, duel: Any, yours: list[str]) -> None:
        count, value = len(duel.turns), float(eq.solve(eq.MatrixGame(duel.payoff)).value)
        best, earned = duel.best_action
        if self.common.json:
            print_json(
                {
                    "rounds": count,
                    "score": duel.score,
                    "best_response": duel.best_response,
                    "best_action": yours[best],
                    "best_action_score": earned,
                    "value": value,
                    "turns": [asdict(turn) for turn in duel.turns],
                }
            )
            return
        self._say("")
        print_pairs(
            [
                ("rounds", count),
                ("your score", duel.score),
                ("value of the game, times rounds", value * count),
                ("always " + yours[best], earned),
                ("a best response to its policies", duel.best_response),
            ]
        )


def find_action(word: str, names: list[str]) -> int | None:
    """Return the index of the action that a word names, or None.

    The word is a name, an unambiguous beginning of a name, or a number that counts from 1.

    >>> find_action("pa", ["rock", "paper"]), find_action("2", ["rock", "paper"])
    (1, 1)
    >>> find_action("lizard", ["rock", "paper"]) is None
    True
    """
    lower = [name.lower() for name in names]
    if word.lower() in lower:
        return lower.index(word.lower())
    if word.isdigit():
        return int(word) - 1 if 1 <= int(word) <= len(names) else None
    begun = [i for i, name in enumerate(lower) if word and name.startswith(word.lower())]
    return begun[0] if len(begun) == 1 else None
