"""The page about an evaluation of in-context players, from its record alone."""

import numpy as np

from equipoise.report import Report, figures
from equipoise.runs import Record

#: Curves that are drawn; tables hold the others.
DRAWN = ("OMD", "OMD, vanishing", "EXP3-IX, average", "V-learning, average")


def evaluation_page(record: Record, command: str) -> Report:
    """Gap curves, what opponents make of the players, and how far they are from mirror descent."""
    config, arrays = record.config, record.arrays
    family = config["family"]
    sizes = " x ".join(str(count) for count in family["actions"])
    states = f", {family['states']} states" if family["states"] else ""
    page = Report(
        "In-context players, evaluated",
        f"{config['players']}: {config['games']:,} games of the family {family['name']} "
        f"({sizes} actions{states}) that training never saw, {config['rounds']:,} rounds each.",
    )
    page.facts(
        {
            "final gap": record.scalars["gap"],
            "standard error": record.scalars["error"],
            "weights": config["parameters"],
        }
    )
    rounds = arrays["rounds"]
    curves = {"in-context players": arrays["gap/players"].mean(0).mean(-1)}
    curves |= {n: arrays[f"gap/{n}"].mean(-1) for n in DRAWN if f"gap/{n}" in arrays}
    if "static/best static" in arrays:
        curves["best static"] = np.full(len(rounds), arrays["static/best static"].mean())
    page.section("Gap against rounds")
    if len(rounds) > 1:
        page.figure(
            figures.learning_curves(rounds, curves, fit=False, title="mean over games"),
            alt="Mean NashConv of players and learners against rounds, on logarithmic axes",
        )
    page.table(record.tables["gap"], caption="Mean NashConv of the last policies.")
    page.table(record.tables["gap_error"], caption="Standard errors over games.")
    page.table(
        record.tables["rounds_to_gap"],
        caption="Rounds that mirror descent needs for the players' final gap.",
    )
    page.section("Opponents")
    page.text(
        "One player meets others, in either seat. A best responder knows the game and the very "
        "policy it meets. Rewards are per round; what is beyond the value of the game is what "
        "the player earned more than either could have secured. `late` is the last quarter."
    )
    page.table(record.tables["opponents"])
    page.section("Distance from mirror descent")
    page.text(
        "Half the sum of the differences between what the players play and what mirror descent "
        "would play after the same actions and rewards."
    )
    page.table(record.tables["distance"])
    page.config(config)
    return page.reproduce(command)
