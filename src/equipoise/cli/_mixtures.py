"""Games of interaction terms on the command line: mixtures in run folders and files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.cli._output import print_pairs, print_table
from equipoise.cli._policies import check_suffix, read_json
from equipoise.core import Certificate
from equipoise.core.arrays import read_npz
from equipoise.runs import Record, Table

_FORM = (
    '{"policy": [...]}, probabilities by context, agent and action (by step and state, where there '
    'are any), or {"policy": {"policies": [...], "weights": [...]}}, a mixture of such'
)


def as_terms(game: Any) -> Any:
    """A game of one payoff table as one of interaction terms, of which there are mixtures.

    >>> pennies = eq.MatrixGame([[1, -1], [-1, 1]])
    >>> eq.certify(as_terms(pennies), [[1, 0], [0.5, 0.5]]).gains.tolist()
    [0.0, 1.0]
    """
    if not isinstance(game, eq.MatrixGame | eq.NormalFormGame):
        return game
    if game.batch_shape:
        raise ValueError(
            f"game: expected a single game for a mixture, found a batch of {game.batch_shape}"
        )
    zero_sum = isinstance(game, eq.MatrixGame)
    payoffs = np.stack([game.payoff, -game.payoff]) if zero_sum else np.asarray(game.payoffs)
    # Nobody reads what is added: the game says how many actions there are.
    room = [(0, max(game.actions) - count) for count in game.actions]
    padded = np.pad(payoffs, [(0, 0), *room])
    return eq.ContextualGame(eq.games.Interactions.from_dense(padded[None]), actions=game.actions)


def read_policy(path: Path) -> Any:
    """A mixture from the folder of a run of `equipoise offline`; or it or a product from a file.

    A `.npz` file holds `policies` and perhaps `weights`, as `record.npz` of such a folder does;
    JSON holds `{"policy": [...]}`, or `{"policy": {"policies": [...], "weights": [...]}}`.
    """
    if path.is_dir():
        arrays: Any = Record.load(path).arrays
    else:
        check_suffix(path)
        arrays = read_npz(path) if path.suffix.lower() == ".npz" else _read_probabilities(path)
    if isinstance(arrays, list):
        return arrays
    if "policies" not in arrays:
        raise ValueError(
            f"{path}: expected policies, as a run of `equipoise offline` has, "
            f"found {', '.join(sorted(arrays)) or 'nothing'}"
        )
    return eq.games.Mixture(arrays["policies"], arrays.get("weights"))


def _read_probabilities(path: Path) -> Any:
    policy = read_json(path)
    if not isinstance(policy, list | dict):
        raise ValueError(f"{path}: expected {_FORM}")
    return policy


#: Concepts in words.
CONCEPTS = {
    "nash": "Nash: everybody plays independently",
    "cce": "coarse correlated: whoever leaves decides before anything is drawn",
    "ce": "correlated: whoever leaves has been told its own part",
}


def print_certificate(certificate: Certificate, more: Sequence[tuple[str, Any]] = ()) -> None:
    """Print what the agent with most to gain, and the others, could gain by leaving a mixture."""
    worst = int(certificate.gains.argmax())
    rows = [
        (f"largest, agent {worst}", float(certificate.max_gain)),
        ("median agent", float(np.median(certificate.gains))),
        ("mean agent", float(np.mean(certificate.gains))),
    ]
    print_table(Table((f"gains of {certificate.players:,} agents", "gain"), rows))
    facts = [
        ("mean value", float(certificate.value.mean())),
        ("concept", CONCEPTS[certificate.concept]),
        ("method", certificate.method),
        ("exact", certificate.exact),
    ]
    print_pairs([*facts, *more])
