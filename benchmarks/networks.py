"""User equilibria of road networks: ours to 1e-10 against biconjugate Frank-Wolfe to 1e-6.

Sioux Falls and Anaheim are read where they lie beside the project (`../shared/data/tntp`), and left
out elsewhere; the grid city is generated. Accuracy is the relative gap, as certified. AequilibraE
stops at a gap of 1e-6, ours when no used path exceeds the cheapest by 1e-10 of a mean trip.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Answer, Arrays, Case, Contender

TNTP = Path(__file__).parents[2] / "shared" / "data" / "tntp"
#: Networks of the collection, and rows, columns and zones of the generated city.
PUBLISHED = ("SiouxFalls", "Anaheim")
CITY = (16, 16, 60)
QUICK_CITY = (6, 6, 10)
#: How many times as fast as AequilibraE on one core.
GOAL = 10.0
#: Relative gap that AequilibraE is asked for, and after how many iterations it stops in any case:
#: it is slow to get there on grids, whose paths overlap.
PEER_GAP, PEER_ITERATIONS = 1e-6, 2000
_ARRAYS = (
    *("tails", "heads", "origins", "destinations", "demand", "free_flow", "rise", "capacity"),
    "power",
)


def arrays_of(game: Any) -> Arrays:
    """What a network is made of."""
    arrays = {name: getattr(game, name) for name in _ARRAYS}
    return arrays | {"first_through": np.array(game.first_through)}


def game_of(data: Arrays) -> Any:
    """The network as a game."""
    import equipoise as eq

    arrays = {name: data[name] for name in _ARRAYS}
    return eq.NetworkGame(**arrays, first_through=int(data["first_through"]))


def ours(data: Arrays) -> Callable[[int], Answer]:
    """The whole public call: validation, solution, certificate."""
    import equipoise as eq

    def run(count: int) -> Answer:
        return {"flows": eq.solve(game_of(data)).policy.flows[None]}

    return run


def aequilibrae(data: Arrays) -> Callable[[int], Answer]:
    """`TrafficAssignment` on a graph and a matrix that are made in the call, as our game is."""
    os.environ["AEQ_SHOW_PROGRESS"] = "FALSE"
    import logging

    import pandas as pd
    from aequilibrae.matrix import AequilibraeMatrix
    from aequilibrae.paths import Graph, TrafficAssignment, TrafficClass

    logging.disable(logging.CRITICAL)
    free = data["free_flow"]
    network = pd.DataFrame(
        {
            "link_id": np.arange(1, len(free) + 1),
            "a_node": data["tails"] + 1,
            "b_node": data["heads"] + 1,
            "direction": 1,
            "capacity": data["capacity"],
            "time": free,
            "b": np.where(free > 0, data["rise"] / np.where(free > 0, free, 1.0), 0.0),
            "power": data["power"],
        }
    )
    zones = np.union1d(data["origins"], data["destinations"])
    blocked = bool((zones < data["first_through"]).all())

    def run(count: int) -> Answer:
        graph = Graph()
        graph.network = network.copy()
        graph.mode = "c"
        graph.prepare_graph(zones + 1)
        graph.set_graph("time")
        graph.set_blocked_centroid_flows(blocked)
        matrix = AequilibraeMatrix()
        matrix.create_empty(zones=len(zones), matrix_names=["car"], memory_only=True)
        matrix.index[:] = zones + 1
        table = np.zeros((len(zones), len(zones)))
        ends = (np.searchsorted(zones, data[name]) for name in ("origins", "destinations"))
        np.add.at(table, tuple(ends), data["demand"])
        matrix.matrices[:, :, 0] = table
        matrix.computational_view(["car"])
        assignment = TrafficAssignment()
        assignment.set_classes([TrafficClass("car", graph, matrix)])
        assignment.set_vdf("BPR")
        assignment.set_vdf_parameters({"alpha": "b", "beta": "power"})
        assignment.set_capacity_field("capacity")
        assignment.set_time_field("time")
        assignment.set_algorithm("bfw")
        assignment.set_cores(1)
        assignment.max_iter = PEER_ITERATIONS
        assignment.rgap_target = PEER_GAP
        assignment.execute()
        return {"flows": assignment.results()["car_tot"].to_numpy()[None]}

    return run


def measure(data: Arrays, answer: Answer) -> float:
    """The relative gap of the link flows."""
    import equipoise as eq

    (flows,) = np.asarray(answer["flows"], np.float64)
    return float(eq.certify(game_of(data), flows).relative_gap_upper)


def _published(name: str) -> Arrays:
    import equipoise as eq

    return arrays_of(eq.games.read_tntp(TNTP / f"{name}_net.tntp", TNTP / f"{name}_trips.tntp"))


def _city(rows: int, columns: int, zones: int) -> Arrays:
    import equipoise as eq

    sizes = {"rows": rows, "columns": columns, "zones": zones}
    return arrays_of(eq.games.load("grid-city", **sizes, trips=10_000.0))


def cases(quick: bool) -> list[Case]:
    """One case for each network."""
    contenders = (
        Contender(
            "ours, to 1e-10", ours, ours=True, batched=True, how="one call", compiles=True,
            notes="with certificate", timeout=300.0,
        ),
        Contender(
            "AequilibraE bfw, to 1e-6", aequilibrae, needs=("aequilibrae", "pandas"),
            batched=True, how="one call", timeout=600.0,
        ),
    )  # fmt: skip
    size = QUICK_CITY if quick else CITY
    networks = {f"grid city {size[0]}x{size[1]}, {size[2]} zones": lambda: _city(*size)}
    if TNTP.exists():
        named = {name: lambda name=name: _published(name) for name in PUBLISHED}
        networks = named | networks
    return [
        Case(
            name=name,
            unit="network",
            items=1,
            data=data,
            contenders=contenders,
            measure=measure,
            measured="relative gap",
            goal=GOAL,
        )
        for name, data in networks.items()
    ]
