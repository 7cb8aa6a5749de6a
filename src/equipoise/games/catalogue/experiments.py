"""Games that people were watched at, in laboratories and on football fields."""

from fractions import Fraction

from equipoise.games.catalogue._entry import Entry, matrix, mix, pure

_WIN, _LOSE = 10, -6

GAMES = (
    Entry(
        name="penalty-kicks",
        title="Penalty kicks in professional football",
        kind="matrix",
        source=(
            "I. Palacios-Huerta, Professionals play minimax, Review of Economic Studies 70 (2003)"
        ),
        build=matrix(
            [[0.5830, 0.9497], [0.9291, 0.6992]], "left, right", players="kicker, goalkeeper"
        ),
        value=Fraction(2498593, 3140000),
        equilibrium=(mix("121/314", "193/314"), mix("2505/5966", "3461/5966")),
        notes=(
            "Chances to score of a kicker (rows) against a goalkeeper (columns), who both choose "
            "left or right, estimated from 1417 kicks. The equilibrium is unique: kickers go left "
            "with chance 0.385 and goalkeepers with 0.420, close to what they were seen to do."
        ),
    ),
    Entry(
        name="oneill",
        title="O'Neill's card game",
        kind="matrix",
        source=(
            "B. O'Neill, Nonmetric test of the minimax theory of two-person zerosum games, "
            "Proceedings of the National Academy of Sciences 84 (1987)"
        ),
        build=matrix(
            [[5, -5, -5, -5], [-5, -5, 5, 5], [-5, 5, -5, 5], [-5, 5, 5, -5]],
            "joker, ace, two, three",
        ),
        value=Fraction(-1),
        equilibrium=(mix("2/5", "1/5", "1/5", "1/5"), mix("2/5", "1/5", "1/5", "1/5")),
        notes=(
            "Joker, ace, two, three. The row player wins when both show the joker, or two "
            "different cards that are not the joker."
        ),
    ),
    Entry(
        name="rapoport-boebel",
        title="The game of Rapoport and Boebel",
        kind="matrix",
        source=(
            "A. Rapoport and R. B. Boebel, Mixed strategies in strictly competitive games, Games "
            "and Economic Behavior 4 (1992), first variant"
        ),
        build=matrix(
            [
                [_WIN, _LOSE, _LOSE, _LOSE, _LOSE],
                [_LOSE, _LOSE, _WIN, _WIN, _WIN],
                [_LOSE, _WIN, _LOSE, _LOSE, _WIN],
                [_LOSE, _WIN, _LOSE, _WIN, _LOSE],
                [_LOSE, _WIN, _WIN, _LOSE, _LOSE],
            ],
            "C, L, F, I, O",
        ),
        value=Fraction(0),
        equilibrium=(
            mix("3/8", "1/4", "1/8", "1/8", "1/8"),
            mix("3/8", "1/4", "1/8", "1/8", "1/8"),
        ),
        notes="A win pays 10 and a loss costs 6.",
    ),
    Entry(
        name="lieberman",
        title="Lieberman's game with a saddle point",
        kind="matrix",
        source=(
            "B. Lieberman, Human behavior in a strictly determined 3 x 3 matrix game, Behavioral "
            "Science 5 (1960)"
        ),
        build=matrix([[15, 0, -2], [0, -15, -1], [1, 2, 0]]),
        value=Fraction(0),
        equilibrium=(pure(2, 3), pure(2, 3)),
        notes="Strictly determined: the last row against the last column.",
    ),
)
