"""Logs with numeric contexts and numeric local states: checks, files and refusals."""

import numpy as np
import pytest

import equipoise as eq


def tables(rng, episodes=20, horizon=3, agents=2, width=2):
    path = rng.normal(size=(episodes, horizon + 1, agents, width))
    count = episodes * horizon
    return {
        "contexts": None,
        "actions": rng.integers(0, 2, (count, agents)),
        "rewards": rng.normal(size=(count, agents)),
        "states": path[:, :-1].reshape(count, agents, width),
        "next_states": path[:, 1:].reshape(count, agents, width),
        "steps": np.tile(np.arange(horizon), episodes),
        "episodes": np.repeat(np.arange(episodes), horizon),
        "covariates": np.repeat(rng.normal(size=(episodes, 1)), horizon, 0),
    }


def test_numbers_are_kept(rng):
    given = tables(rng)
    log = eq.offline.Log(**given)
    np.testing.assert_array_equal(log.states, given["states"])
    np.testing.assert_array_equal(log.covariates, given["covariates"])
    assert log.horizon == 3
    assert log.numeric == "numeric contexts and numeric local states"
    assert "states=2 numbers, horizon=3, covariates=1" in repr(log)
    assert log.take([4, 5]).covariates.shape == (2, 1)
    changed = eq.offline.Log(**given | {"covariates": given["covariates"] + 1.0})
    assert changed.fingerprint() != log.fingerprint()


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
def test_files_keep_numbers(suffix, rng, tmp_path):
    log = eq.offline.Log(**tables(rng))
    path = tmp_path / f"log.{suffix}"
    log.write(path)
    read = eq.offline.Log.read(path)
    assert read.fingerprint() == log.fingerprint()
    assert read.horizon == 3
    parts = list(eq.offline.Log.read_chunks(path, rows=25))
    np.testing.assert_array_equal(np.concatenate([p.states for p in parts]), log.states)
    np.testing.assert_array_equal(np.concatenate([p.covariates for p in parts]), log.covariates)


def test_a_parquet_file_with_gaps_in_its_columns_is_refused(rng, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    log = eq.offline.Log(**tables(rng))
    log.write(tmp_path / "log.parquet")
    table = parquet.read_table(tmp_path / "log.parquet")
    assert isinstance(table, pyarrow.Table)
    parquet.write_table(table.drop(["state_1_0"]), tmp_path / "gap.parquet")
    with pytest.raises(
        ValueError, match=r"columns state_i_k for every agent i from 0 to 1 and number k"
    ):
        eq.offline.Log.read(tmp_path / "gap.parquet")
    renamed = ["covariate_1" if n == "covariate_0" else n for n in table.column_names]
    parquet.write_table(table.rename_columns(renamed), tmp_path / "gap.parquet")
    with pytest.raises(ValueError, match="columns covariate_0 to covariate_0, found covariate_1"):
        eq.offline.Log.read(tmp_path / "gap.parquet")


def test_wrong_numbers_are_refused_by_row(rng):
    given = tables(rng)
    hole = given["states"].copy()
    hole[4, 1, 0] = np.nan
    jump = given["next_states"].copy()
    jump[3, 1, 1] += 1.0
    drift = given["covariates"].copy()
    drift[1] += 1.0
    for what, changes in (
        ("states: expected finite numbers for agent 1, found nan in row 4", {"states": hole}),
        ("states: expected agent 1 in state", {"next_states": jump}),
        ("covariates: expected one context in episode 0", {"covariates": drift}),
        (r"covariates: expected shape \(60, numbers\)", {"covariates": given["covariates"][:, 0]}),
        (r"next_states: expected shape \(60, 2, 2\), as states", {"next_states": jump[..., :1]}),
        ("states_count: expected none for numeric local states", {"states_count": 3}),
        ("behaviour: expected none for a log with numeric", {"behaviour": np.full((1, 2, 2), 0.5)}),
        ("covariates: expected numbers, found dtype", {"covariates": [["a"]] * 60}),
    ):
        with pytest.raises(ValueError, match=what):
            eq.offline.Log(**given | changes)


@pytest.mark.parametrize(
    "function",
    [
        eq.advise,
        eq.offline.coverage,
        eq.offline.discover,
        eq.offline.select_rank,
        eq.offline.estimate_behaviour,
    ],
)
def test_what_counts_contexts_and_states_refuses_numbers(function, rng):
    log = eq.offline.Log(**tables(rng))
    with pytest.raises(
        ValueError, match="contexts and states that are counted, found numeric"
    ) as raised:
        function(log)
    assert "use fit and solve" in str(raised.value)
