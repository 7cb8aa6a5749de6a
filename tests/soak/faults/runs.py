"""Faults in run folders and in files."""

from soak.faults.planting import Fault

_TESTS = "tests/runs"
PART = "runs"
FAULTS = [
    Fault(
        "links-in-a-folder", PART,
        "Links and devices in a run folder are written through.",
        r"not \(entry\.is_file\(follow_symlinks=False\) or "
        r"entry\.is_dir\(follow_symlinks=False\)\)",
        "False",
        (f"{_TESTS}/test_damaged_folders.py::test_checkpoints_behind_a_link_are_left_alone",),
    ),
    Fault(
        "checkpoint-of-another-step", PART,
        "A checkpoint that was renamed is taken for one of another step.",
        r"facts\.get\(.step.\) != int\(path\.stem\)",
        "False",
        (f"{_TESTS}/test_damaged_folders.py::test_a_renamed_checkpoint_is_refused",),
    ),
    Fault(
        "checkpoint-of-another-run", PART,
        "A checkpoint of a run with another config is taken.",
        r"facts\.get\(.config.\) != config or",
        "False or",
        (f"{_TESTS}/test_damaged_folders.py::test_a_checkpoint_of_another_run_is_refused",),
    ),
    Fault(
        "content-of-a-checkpoint", PART,
        "A checkpoint whose content has changed is read.",
        r"\w+ != _digest\(manifest, arrays\)",
        "False",
        (f"{_TESTS}/test_checkpoints.py::"
         "test_content_that_was_put_together_from_two_checkpoints_is_refused",),
    ),
    Fault(
        "content-of-a-record", PART,
        "A record that was edited after the run is read.",
        r'"sha256" in content and content\["sha256"\] != _content_digest\(content\)',
        "False",
        (f"{_TESTS}/test_damaged_folders.py::test_what_was_edited_after_the_end_is_refused",),
    ),
    Fault(
        "multiples-of-a-mark", PART,
        "A loop between two multiples of a number passes over the next one.",
        r"\(step // marks \+ 1\) \* marks",
        "(step // marks + 2) * marks",
        (f"{_TESTS}/test_resumable_loop.py::test_metrics_are_logged_at_marks_alone",),
    ),
    Fault(
        "torn-line", PART,
        "The incomplete last row of the metrics of a killed run is kept.",
        r"keep = content\.rfind\(b.\\n.\) \+ 1",
        "keep = len(content)",
        (f"{_TESTS}/test_run_folder.py::test_a_torn_line_is_left_out_and_repaired",),
    ),
    Fault(
        "oldest-checkpoints", PART,
        "The oldest checkpoints are kept and the latest are removed.",
        r"_checkpoints\(self\.path\)\[: -self\._keep\]",
        "_checkpoints(self.path)[self._keep :]",
        (f"{_TESTS}/test_run_folder.py::test_only_the_last_checkpoints_are_kept",),
    ),
    Fault(
        "size-of-an-array", PART,
        "An array of a file is allocated although its bytes are not there.",
        r"size != rest or cells > 1 << 48",
        "False",
        ("tests/core/test_arrays.py",),
    ),
    Fault(
        "horizon-of-a-file", PART,
        "The horizon of a Markov game is lost in an archive.",
        r"horizon = arrays\[.horizon.\]\.item\(\) if .horizon. in arrays else None",
        "horizon = None",
        ("tests/games/test_game_files.py::TestNpz::test_a_horizon_comes_back",),
    ),
]  # fmt: skip
