"""Games everybody knows, and their weighted cousins."""

from fractions import Fraction
from typing import Any

from equipoise.games.catalogue._entry import Entry, matrix, mix, named, pure, uniform

_VON_NEUMANN_MORGENSTERN = (
    "J. von Neumann and O. Morgenstern, Theory of Games and Economic Behavior, "
    "Princeton University Press, 1944, chapter III"
)
_RPS = "rock, paper, scissors"
_OPENSPIEL = "M. Lanctot et al., OpenSpiel, arXiv:1908.09453, 2019"


def _biased_rock_paper_scissors(
    rock: float = 50.0, paper: float = 25.0, scissors: float = 5.0
) -> dict[str, Any]:
    for name, win in {"rock": rock, "paper": paper, "scissors": scissors}.items():
        if not win > 0:
            raise ValueError(f"{name}: expected a positive win, found {win}")
    payoff = [[0, -paper, rock], [paper, 0, -scissors], [-rock, scissors, 0]]
    return {"payoff": payoff, "labels": named(_RPS)}


GAMES = (
    Entry(
        name="rock-paper-scissors",
        title="Rock, paper, scissors",
        kind="matrix",
        source=_VON_NEUMANN_MORGENSTERN,
        build=matrix([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], _RPS),
        value=Fraction(0),
        equilibrium=(uniform(3), uniform(3)),
        notes="The equilibrium is unique.",
    ),
    Entry(
        name="matching-pennies",
        title="Matching pennies",
        kind="matrix",
        source=_VON_NEUMANN_MORGENSTERN,
        build=matrix([[1, -1], [-1, 1]], "heads, tails"),
        value=Fraction(0),
        equilibrium=(uniform(2), uniform(2)),
        notes="The row player wins when the pennies match. The equilibrium is unique.",
    ),
    Entry(
        name="holmes-moriarty",
        title="Sherlock Holmes and Professor Moriarty",
        kind="matrix",
        source=_VON_NEUMANN_MORGENSTERN,
        build=matrix([[100, 0], [-50, 100]], "Dover, Canterbury", players="Moriarty, Holmes"),
        value=Fraction(40),
        equilibrium=(mix("3/5", "2/5"), mix("2/5", "3/5")),
        notes=(
            "Moriarty (rows) and Holmes leave the train at Dover or at Canterbury; Moriarty "
            "catches Holmes where they both get off, and Holmes is safe once he sails from Dover."
        ),
    ),
    Entry(
        name="biased-rock-paper-scissors",
        title="Rock, paper, scissors with unequal wins",
        kind="matrix",
        source=f"matrix_brps of {_OPENSPIEL}",
        build=_biased_rock_paper_scissors,
        value=Fraction(0),
        equilibrium=(mix("1/16", "5/8", "5/16"), mix("1/16", "5/8", "5/16")),
        notes=(
            "The parameters are what winning with each action pays. The one equilibrium plays an "
            "action in proportion to the win in which it takes no part: rock as `scissors` pays."
        ),
    ),
    Entry(
        name="rock-paper-scissors-water",
        title="Rock, paper, scissors, water",
        kind="matrix",
        source=f"matrix_rpsw of {_OPENSPIEL}",
        build=matrix([[0, -1, 1, 0], [1, 0, -1, 0], [-1, 1, 0, 0], [0, 0, 0, 0]], f"{_RPS}, water"),
        value=Fraction(0),
        equilibrium=(pure(3, 4), pure(3, 4)),
        notes=(
            "Water ties with everything. Every mixture of water with equal parts of the rest is "
            "an equilibrium strategy: a segment of them."
        ),
    ),
    Entry(
        name="rock-paper-scissors-lizard-spock",
        title="Rock, paper, scissors, lizard, Spock",
        kind="matrix",
        source="S. Kass and K. Bryla, Rock Paper Scissors Spock Lizard",
        build=matrix(
            [
                [0, -1, 1, 1, -1],
                [1, 0, -1, -1, 1],
                [-1, 1, 0, 1, -1],
                [-1, 1, -1, 0, 1],
                [1, -1, 1, -1, 0],
            ],
            f"{_RPS}, lizard, Spock",
        ),
        value=Fraction(0),
        equilibrium=(uniform(5), uniform(5)),
        notes="Each action beats two of the others. The equilibrium is unique.",
    ),
)
