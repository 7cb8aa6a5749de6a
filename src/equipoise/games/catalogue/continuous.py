"""Many agents whose actions are numbers from -1 to 1."""

from typing import Any

from equipoise.games.catalogue._entry import Entry, check_whole

_PAPER = (
    "W. Zhan, S. Fujimoto, Z. Zhu, J. D. Lee, D. R. Jiang, Y. Efroni, Exploiting structure in "
    "offline multi-agent RL: the benefits of low interaction rank (2024)"
)


def _pairwise(agents: int = 50, noise: float = 1.0) -> dict[str, Any]:
    import numpy as np

    from equipoise.games._continuous_terms import PolynomialTerms

    agents = check_whole("agents", agents)
    weights = np.full((agents, agents), 1.0 / np.sqrt(agents))
    return {"terms": PolynomialTerms(agents, pairs={(1, 1): weights}), "noise": noise}


def _square(agents: int = 50, noise: float = 1.0) -> dict[str, Any]:
    from equipoise.games._continuous_terms import PolynomialTerms

    return {"terms": PolynomialTerms(check_whole("agents", agents), [0, 0, 1]), "noise": noise}


GAMES = (
    Entry(
        name="pairwise-continuous",
        title="Agreement of many, in pairs",
        kind="continuous",
        source=f"{_PAPER}, section 6",
        build=_pairwise,
        notes=(
            "Agent i receives sum_j a_i a_j / sqrt(N), its own action among the j: interaction "
            "rank 2. All at 1, or all at -1, is an equilibrium. The metric of the paper's "
            "appendix B is sqrt(N) times the largest gain."
        ),
    ),
    Entry(
        name="square-continuous",
        title="Everybody alone",
        kind="continuous",
        source=f"{_PAPER}, appendix B",
        build=_square,
        notes=(
            "Agent i receives a_i^2: interaction rank 1. Any choice of -1 or 1 by each agent is "
            "an equilibrium."
        ),
    ),
)
