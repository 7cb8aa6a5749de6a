"""The page that goes with trained players."""

from typing import Any

from equipoise.incontext._config import Config


def _history(results: dict[str, Any]) -> str:
    """How training went on and ended, where that is known."""
    notes = [results["cycles"]] if "cycles" in results else []
    notes += [f"stopped {results['stopped']}"] if "stopped" in results else []
    return f" ({'; '.join(notes)})" if notes else ""


def model_card(family: dict[str, Any], config: Config, results: dict[str, Any]) -> str:
    """What the players are, what they were trained on, and what they are good for, as Markdown.

    >>> family = {"name": "uniform", "actions": [3, 3], "states": None, "discount": 0.0}
    >>> card = model_card(family, Config(), {"steps": 10, "held_out": [0.1], "measure": "gap"})
    >>> card.splitlines()[0]
    '# In-context players: uniform, 3 x 3 actions'
    """
    rows, columns = family["actions"]
    states = f", {family['states']} states" if family.get("states") else ""
    values = [f"{value:.4f}" for value in results["held_out"]]
    if "error" in results:
        values = [f"{v} ± {e:.4f}" for v, e in zip(values, results["error"], strict=True)]
    settings = "\n".join(f"| {name} | {value} |" for name, value in vars(config).items())
    return f"""# In-context players: {family["name"]}, {rows} x {columns} actions{states}

Frozen transformers that play two-player zero-sum games of this family. A player sees its own
actions and rewards (and states) and nothing else, and its weights do not change while it plays.

**Trained on** games drawn from the family `{family["name"]}`
({family.get("rewards", {}).get("kind", "rewards")}), {results["steps"]} steps{_history(results)}.
**Held out** ({results["measure"]}): {", ".join(values)}.

**Use** them on games of the same shape whose rewards are within [0, 1] (or are scaled to it) and
come from about the same distribution. **Do not** expect a near-equilibrium from games unlike the
family: certify what they play. Rewards in training are exact; noise is not part of it.

| setting | value |
|---|---|
{settings}
"""
