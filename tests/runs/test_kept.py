"""`kept`: a finished result is read, anything else is computed, and failures leave nothing."""

import pytest

from equipoise.core.errors import InputError
from equipoise.runs import Format, OtherConfig, Record, Run, kept

#: A sum, and whether it is finished.
SUMS = Format(
    lambda run: (run.record().scalars["sum"], True),
    lambda found, run: Record("sum", run.config, {"sum": found[0]}) if found[1] else None,
)


class Work:
    """Adds 1 to 4, so many numbers in a call."""

    def __init__(self, steps=4):
        self.steps, self.calls = steps, 0

    def __call__(self, run):
        self.calls += 1
        total, begun = (0, 0) if run is None else (run.restore(0), run.step)
        until = min(begun + self.steps, 4)
        total += sum(range(begun + 1, until + 1))
        if run is not None:
            run.checkpoint(until, total)
        return total, until == 4


def never():
    raise AssertionError("not called")


def test_without_a_folder_the_config_is_not_computed():
    assert kept(None, never, Work(), SUMS) == (10, True)


def test_a_finished_result_is_read(tmp_path):
    work = Work()
    assert kept(tmp_path / "run", {"to": 4}, work, SUMS) == (10, True)
    files = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    assert kept(tmp_path / "run", lambda: {"to": 4}, work, SUMS) == (10, True)
    assert work.calls == 1
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == files


def test_what_ran_out_of_time_goes_on(tmp_path):
    work = Work(steps=3)
    assert kept(tmp_path / "run", {"to": 4}, work, SUMS) == (6, False)
    assert not (tmp_path / "run" / "record.json").exists()
    assert kept(tmp_path / "run", {"to": 4}, work, SUMS) == (10, True)
    assert kept(tmp_path / "run", {"to": 4}, never, SUMS) == (10, True)


def test_another_call_is_refused(tmp_path):
    kept(tmp_path / "run", {"to": 4}, Work(), SUMS)
    with pytest.raises(OtherConfig, match="to"):
        kept(tmp_path / "run", {"to": 5}, Work(), SUMS)
    assert kept(tmp_path / "run", {"to": 4}, never, SUMS) == (10, True)


def fail(run):
    raise InputError("game", "another", "this")


def test_a_call_that_fails_at_once_leaves_no_folder(tmp_path):
    with pytest.raises(InputError):
        kept(tmp_path / "run", {}, fail)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("part", ["row", "checkpoint", "file"])
def test_a_call_that_fails_later_can_go_on(tmp_path, part):
    def work(run):
        if part == "row":
            run.log(1, gap=0.5)
        elif part == "checkpoint":
            run.checkpoint(1, 0)
        else:
            (run.path / "notes.txt").write_text("mine")
        fail(run)

    with pytest.raises(InputError):
        kept(tmp_path / "run", {"to": 4}, work)
    assert (tmp_path / "run" / "config.json").exists()
    with Run.open(tmp_path / "run", {"to": 4}) as run:
        assert run.step == (part == "checkpoint")


def test_a_run_that_was_there_before_is_not_discarded(tmp_path):
    Run.create(tmp_path / "run", {}).close()
    with pytest.raises(InputError):
        kept(tmp_path / "run", {}, fail)
    assert (tmp_path / "run" / "config.json").exists()
