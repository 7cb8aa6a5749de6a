"""Sweeps: settings become run folders, on every engine the same, stopped and resumed."""

import _thread
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path

import pytest

from equipoise.cli import main
from equipoise.core import InputError
from equipoise.runs import Record, _commands, _slurm, _sweep, read_sweep, sweep
from equipoise.runs._folder import FolderLock
from equipoise.runs._sweep import _Task, named_settings
from equipoise.runs.engines import Local, Slurm, engine_of, run_command

GAMES = {"game": ["oneill", "kuhn-poker"]}
SAME = ("config.json", "record.json", "record.npz", "metrics.jsonl")


def contents(folder, names):
    return {name: [(folder / name / file).read_bytes() for file in SAME] for name in names}


@pytest.fixture(scope="module")
def on_this_machine(tmp_path_factory):
    """A sweep of two games by processes of this machine, with its page."""
    folder = tmp_path_factory.mktemp("sweep") / "games"
    return sweep(folder, "solve", GAMES, workers=2)


def test_a_grid_becomes_run_folders_and_one_page(on_this_machine):
    found = on_this_machine
    assert found.states == {"game=oneill": "finished", "game=kuhn-poker": "finished"}
    assert found.done
    page = found.page.read_text()
    assert "game=oneill" in page
    assert "game=kuhn-poker" in page
    alone = found.folder.parent / "alone"
    assert main(["solve", "oneill", "--run", str(alone)]) == 0
    assert contents(found.folder, ["game=oneill"]) == {
        "game=oneill": [(alone / file).read_bytes() for file in SAME]
    }


def test_what_has_finished_is_not_done_again_and_a_sweep_may_grow(on_this_machine, monkeypatch):
    folder, seen = on_this_machine.folder, []
    monkeypatch.setattr(
        "equipoise.runs._sweep.run_command", lambda words, *_: seen.append(words) or (1, "")
    )
    settings = [{"game": "oneill"}, {"game": "colonel-blotto"}]
    found = sweep(folder, "solve", settings, workers=1, page=False)
    assert [Path(words[-1]).name for words in seen] == ["game=colonel-blotto"]
    assert found.states["game=colonel-blotto"] == "finished, tolerance missed or nothing learned"
    assert json.loads((folder / "states.json").read_text())["game=kuhn-poker"] == "finished"


def test_other_options_of_a_finished_run_are_refused(on_this_machine):
    found = sweep(
        on_this_machine.folder,
        "solve",
        {"game": ["kuhn-poker"]},
        options={"tolerance": 0.5},
        page=False,
    )
    assert "tolerance (None, now 0.5)" in found.states["game=kuhn-poker"]
    assert not found.done


def test_submitit_runs_the_same_sweep(on_this_machine, tmp_path):
    pytest.importorskip("submitit")
    engine = Slurm(tmp_path / "jobs", cluster="local", workers=2)
    found = sweep(tmp_path / "games", "solve", GAMES, on=engine, page=False)
    assert found.done
    assert contents(tmp_path / "games", found.states) == contents(
        on_this_machine.folder, found.states
    )


def fake_slurm(folder, run):
    """Commands of Slurm that keep the script of an array, and run its two entries if told to.

    The first array has the number 7, and the one after it 8.
    """
    entry = (
        "env SLURM_JOB_ID=${job}_$entry SLURM_ARRAY_JOB_ID=$job SLURM_ARRAY_TASK_ID=$entry "
        "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 "
        f'SLURM_JOB_NODELIST=here bash "{folder}/script-$job.sh"; touch "{folder}/done-$job-$entry"'
    )
    programs = {
        "srun": 'exec "${@:$(( $# - 4 ))}"',  # submitit's command has five words
        "sbatch": f"""
[ -e "{folder}/script-7.sh" ] && job=8 || job=7
cp "$1" "{folder}/script-$job.sh"
(for entry in {"0 1" if run else ""}; do {entry}; done) >"{folder}/log" 2>&1 </dev/null &
echo "Submitted batch job $job"
""",
        "sacct": f"""
echo "JobID|State|NodeList"
for job in 7 8; do for entry in 0 1; do
  [ -e "{folder}/done-$job-$entry" ] && state=COMPLETED || state=RUNNING
  [ -e "{folder}/cancelled" ] && state=CANCELLED
  echo "${{job}}_$entry|$state|here"
done; done
""",
        "scontrol": "exit 0",
        "scancel": f'touch "{folder}/cancelled"',
    }
    for name, text in programs.items():
        file = folder / name
        file.write_text(f"#!/bin/bash\n{text}\n")
        file.chmod(0o755)


def test_the_script_for_slurm_is_an_array_that_requeues(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    fake_slurm(tmp_path, run=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    options = {"minutes": 90, "workers": 1, "parameters": {"slurm_partition": "short"}}
    found = Slurm(tmp_path / "jobs", **options).map(str, [1, 2], stop=iter([False, True]).__next__)
    assert list(found) == []
    assert (tmp_path / "cancelled").exists()
    script = (tmp_path / "script-7.sh").read_text()
    for line in (
        *("--array=0-1%1", "--requeue", "--time=90", "--partition=short", "--open-mode=append"),
        "--signal=USR2@90",
    ):
        assert f"#SBATCH {line}\n" in script


def test_an_error_leaves_no_job_in_the_queue(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    fake_slurm(tmp_path, run=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    looks = iter([False])

    def stop():
        if next(looks, None) is None:
            raise OSError("no space left")
        return False

    with pytest.raises(OSError, match="no space left"):
        list(Slurm(tmp_path / "jobs").map(str, [1, 2], stop=stop))
    assert (tmp_path / "cancelled").exists()


@pytest.mark.soak
def test_the_script_for_slurm_runs_the_same_sweep(on_this_machine, tmp_path, monkeypatch):
    """The script that submitit writes, under commands that stand in for Slurm's."""
    pytest.importorskip("submitit")
    fake_slurm(tmp_path, run=True)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = sweep(tmp_path / "games", "solve", GAMES, on=Slurm(tmp_path / "jobs"), page=False)
    assert found.done
    assert contents(tmp_path / "games", found.states) == contents(
        on_this_machine.folder, found.states
    )


def test_a_killed_command_is_started_again(tmp_path, monkeypatch):
    codes = iter([(-9, ""), (-9, ""), (0, "")])
    monkeypatch.setattr("equipoise.runs._sweep.run_command", lambda *_: next(codes))
    assert sweep(tmp_path, "solve", {"game": ["oneill"]}, page=False).done
    monkeypatch.setattr("equipoise.runs._sweep.run_command", lambda *_: (-9, "no memory"))
    found = sweep(tmp_path, "solve", {"game": ["matching-pennies"]}, page=False)
    assert found.states["game=matching-pennies"] == "failed: killed by signal 9 4 times; no memory"


def test_very_many_settings_take_few_writes_and_a_short_command(tmp_path, monkeypatch):
    """The list of states is as long as the sweep, and a command line has a limit."""
    commands, writes = [], []

    def run(words, *_):
        commands.append(words)
        if words[0] == "solve":
            Path(words[-1]).mkdir()
            (Path(words[-1]) / "config.json").touch()
        return 0, ""

    def write(path, text):
        writes.append(Path(path).name)
        path.write_text(text)

    monkeypatch.setattr("equipoise.runs._sweep.run_command", run)
    monkeypatch.setattr("equipoise.runs._sweep.write_text", write)
    monkeypatch.setattr("equipoise.runs._sweep._SAVED", 1e9)
    found = sweep(tmp_path, "solve", {"tolerance": list(range(300))}, options={"game": "oneill"})
    assert found.done
    assert writes.count("states.json") <= 2
    assert len(json.loads((tmp_path / "states.json").read_text())) == 300
    assert commands[-1][:2] == ["report", "--config"]
    assert len(commands[-1]) == 3
    asked = tomllib.loads(Path(commands[-1][2]).read_text())
    assert asked["runs"] == [str(tmp_path / name) for name in found.states]


def test_states_survive_an_error(tmp_path):
    class Failing:
        def map(self, task, inputs, **_):
            yield 0, "finished"
            yield 1, "finished"
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        sweep(tmp_path, "solve", {"game": ["oneill", "chicken", "kuhn-poker"]}, on=Failing())
    states = json.loads((tmp_path / "states.json").read_text())
    assert list(states.values()) == ["finished", "finished", "stopped"]


@pytest.mark.parametrize(("here", "used"), [(None, "1"), ("3", "3")])
def test_commands_use_as_many_threads_on_every_engine(tmp_path, monkeypatch, here, used):
    """The number of threads of BLAS changes the last bits; Ray sets one for each of its workers."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    if here:
        monkeypatch.setenv("OMP_NUM_THREADS", here)
    code = f"import os, sys; sys.exit(' '.join(os.environ[n] for n in {names}))"
    monkeypatch.setattr(_commands, "_START", code)

    class Elsewhere:
        def map(self, task, inputs, **_):
            monkeypatch.setenv("OMP_NUM_THREADS", "7")  # as an engine may do for its workers
            yield 0, task(inputs[0])

    found, whole = [], _sweep.run_command
    monkeypatch.setattr(_sweep, "run_command", lambda *a: found.append(whole(*a)) or found[-1])
    sweep(tmp_path, "solve", {"game": ["oneill"]}, on=Elsewhere(), page=False)
    assert found == [(1, f"{used} {used}")]


def test_a_stop_ends_what_waits_for_a_folder_in_use(tmp_path):
    """Another process writes the folder of the only run, and does not end."""
    (tmp_path / "game=oneill").mkdir()
    lock = FolderLock(tmp_path / "game=oneill")
    task = _Task(str(tmp_path), str(tmp_path), "solve")
    found = Local(workers=1).map(task, ["game=oneill"], stop=lambda: True)
    assert list(found) == [(0, "stopped")]
    lock.release()


def test_a_command_that_is_interrupted_while_it_starts_is_not_started_again(tmp_path, monkeypatch):
    codes = iter([(-signal.SIGINT, "KeyboardInterrupt")])
    monkeypatch.setattr("equipoise.runs._sweep.run_command", lambda *_: next(codes))
    found = sweep(tmp_path, "solve", {"game": ["oneill"]}, page=False)
    assert found.states == {"game=oneill": "stopped"}


def test_a_worker_that_sees_no_folder_fails_its_run_alone(tmp_path):
    task = _Task(str(tmp_path / "not-here"), str(tmp_path), "solve")
    assert task("game=oneill").startswith("failed: [Errno 2]")


@pytest.mark.soak
def test_submitit_starts_again_what_ends_without_a_result(tmp_path):
    """A task that is preempted, or dies, is submitted again; one that raises is not."""
    pytest.importorskip("submitit")
    from submitit.core.utils import FailedJobError

    def ends_once(how):
        mark = tmp_path / how
        if not mark.exists():
            mark.touch()
            if how == "preempted":
                os.kill(os.getpid(), signal.SIGUSR2)
            os._exit(9)
        return how

    engine = Slurm(tmp_path / "jobs", cluster="local", workers=2)
    found = list(engine.map(ends_once, ["preempted", "dead"]))
    assert sorted(found) == [(0, "preempted"), (1, "dead")]
    never = Slurm(tmp_path / "never", cluster="local", workers=2, retries=0)
    (tmp_path / "dead").unlink()
    found = list(never.map(ends_once, ["dead"], lost=lambda reason: f"lost: {reason}"))
    assert found[0][1].startswith("lost: ")
    begun = len(list((tmp_path / "jobs").iterdir()))
    with pytest.raises(FailedJobError, match="invalid literal"):
        list(engine.map(int, ["x"]))
    assert len(list((tmp_path / "jobs").iterdir())) == begun + 1


def test_a_preempted_command_is_waited_for():
    """It is told once, and has ended when the task is handed back."""
    code = "import signal, time; signal.signal(signal.SIGINT, lambda *_: time.sleep(0.5) or exit())"
    command = [sys.executable, "-c", f"{code}; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        _commands._children[process] = False
        try:
            _slurm._Requeued(str).checkpoint(0)
            _commands.interrupt_all()
        finally:
            del _commands._children[process]
        assert process.poll() == 0


def test_an_interrupt_that_is_no_signal_reaches_the_command(monkeypatch):
    """As Ray cancels a task: nothing wakes up a call that waits."""
    monkeypatch.setattr(_commands, "_START", "import time; print(flush=True); time.sleep(600)")

    def interrupt():
        while not _commands._children:
            time.sleep(0.01)
        time.sleep(1.0)
        _thread.interrupt_main()

    thread = threading.Thread(target=interrupt)
    thread.start()
    code, _ = run_command([], ".")
    thread.join()
    assert code == -signal.SIGINT


def test_a_command_of_a_worker_that_blocks_interrupts_is_interrupted(tmp_path):
    """As workers of Ray do, whose processes would inherit it."""
    play = ["play", "--rounds", "1e9", "--games", "2", "--run", str(tmp_path / "run")]
    found = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        thread = threading.Thread(target=lambda: found.append(run_command(play, tmp_path)))
        thread.start()
        while not (tmp_path / "run" / "config.json").exists() and thread.is_alive():
            time.sleep(0.05)
        _commands.interrupt_all()
        thread.join()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert found[0][0] == 130


def test_more_settings_than_an_array_may_have(tmp_path, monkeypatch):
    """The second array is submitted when the first has ended."""
    pytest.importorskip("submitit")
    fake_slurm(tmp_path, run=True)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = list(Slurm(tmp_path / "jobs", array=2).map(str, range(4)))
    assert {i for i, _ in found[:2]} == {0, 1}
    assert dict(found) == {i: str(i) for i in range(4)}
    for job in (7, 8):
        script = (tmp_path / f"script-{job}.sh").read_text()
        assert "#SBATCH --array=0-1%2\n" in script


def test_slurm_without_slurm_says_so(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="which has the command srun"):
        list(Slurm(tmp_path).map(str, [1]))
    with pytest.raises(InputError, match="cluster: expected slurm or local, found 'moon'"):
        Slurm(tmp_path, cluster="moon")
    with pytest.raises(InputError, match="parameters of submitit's executor"):
        list(Slurm(tmp_path, cluster="local", parameters={"nope": 1}).map(str, [1]))


@pytest.mark.soak
def test_ctrl_c_stops_a_sweep_that_then_goes_on(tmp_path):
    """The commands get the interrupt once, keep their state, and end with the same bytes."""
    file = tmp_path / "sweep.toml"
    file.write_text('verb = "play"\n[options]\nrounds = 3e6\ngames = 2\n[grid]\nseed = [0]\n')
    words = [sys.executable, "-m", "equipoise", "sweep", str(file), "--run", str(tmp_path / "s")]
    with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        checkpoints = tmp_path / "s" / "seed=0" / "checkpoints"
        while not list(checkpoints.glob("*.npz")) and process.poll() is None:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"1 runs are left" in said
    assert list(checkpoints.glob("*.npz"))
    assert not (tmp_path / "s" / "seed=0" / "record.json").exists()


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ({"seed": 3}, {}, "a list of values"),
        ({"seed": "abc"}, {}, "a list of values"),
        ({}, {}, "none or an empty one"),
        ([{"seed": 1}, {"seed": 1}], {}, "seed=1 twice"),
        ([{"seed": 1, "games": 2}, {"games": 2, "seed": 1}], {}, "games=2,seed=1 twice"),
        ({"seed": [1]}, {"seed": 2}, "options that no setting has"),
        ({"run": ["x"]}, {}, "'run'"),
        ({name: range(10_000) for name in "abc"}, {}, "at most 1,000,000 combinations"),
    ],
)
def test_wrong_settings_are_refused(settings, options, said):
    with pytest.raises(InputError, match=said):
        named_settings(settings, options)


def test_names_of_folders_are_safe_and_distinct():
    values = ["a/b", "a-b", "../x", "x" * 300, ["p=1", "q=2"]]
    names = list(named_settings([{"set": value} for value in values], {}))
    assert len(set(names)) == len(values)
    assert all("/" not in name and len(name) < 120 for name in names)
    assert names[-1] == "set=p=1+q=2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('verb = "solve"', "one of \\[grid\\] and \\[\\[list\\]\\]"),
        ("[grid]\nseed = [1]", "verb, the command to sweep"),
        ('verb = "solve"\ngame = "x"\n[grid]\nseed = [1]', "'game'"),
        ('verb = "solve"\noptions = 3\n[grid]\nseed = [1]', "tables of options"),
    ],
)
def test_wrong_files_are_refused(tmp_path, text, said):
    (tmp_path / "sweep.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        read_sweep(tmp_path / "sweep.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('verb = "slove"\n[grid]\ngame = ["oneill"]', "did you mean solve?"),
        ('verb = "toll"\n[grid]\ntolls = [1]', "a verb that accepts --run"),
        ('verb = "solve"\n[grid]\ngames = ["oneill"]', "did you mean game?"),
    ],
)
def test_the_verb_refuses_what_no_task_could_take(tmp_path, capsys, text, said):
    (tmp_path / "sweep.toml").write_text(text)
    words = ["sweep", str(tmp_path / "sweep.toml"), "--run", str(tmp_path / "runs")]
    assert main(words) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_engines_by_name():
    assert engine_of("local", workers=3).workers == 3
    with pytest.raises(InputError, match="one of local, ray, slurm"):
        engine_of("cloud")
    with pytest.raises(InputError, match="options of local among workers"):
        engine_of("local", address="x")
    with pytest.raises(InputError, match="options of slurm among folder, minutes"):
        engine_of("slurm", work=1)
    for wrong in (-1, 0):
        with pytest.raises(InputError, match="workers"):
            Local(workers=wrong)
    with pytest.raises(InputError, match="an engine or one of"):
        engine_of(3)


def test_an_error_in_a_task_is_raised_and_the_rest_is_not_begun():
    begun = []

    def task(number):
        begun.append(number)
        raise ValueError(f"number {number}")

    with pytest.raises(ValueError, match="number 0"):
        list(Local(workers=1).map(task, range(100)))
    assert len(begun) < 100


def test_a_command_says_why_it_failed():
    code, said = run_command(["solve", "no-such-game"], ".")
    assert code == 2
    assert "no-such-game" in said


def test_records_by_name(on_this_machine):
    records = on_this_machine.records()
    assert isinstance(records["game=oneill"], Record)


@pytest.mark.parametrize("content", [b'{"game=oneill": 5}', b"[]", b"\xff"])
def test_states_that_make_no_sense_are_named(tmp_path, content):
    (tmp_path / "states.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"states\.json: .*expected"):
        sweep(tmp_path, "solve", {"game": ["oneill"]}, page=False)


def test_settings_in_another_encoding_are_other_settings(tmp_path):
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "game=oneill.toml").write_bytes(b"\xff\xfe")
    assert sweep(tmp_path, "solve", {"game": ["oneill"]}, page=False).done


@pytest.mark.skipif(os.name != "posix", reason="links of POSIX")
@pytest.mark.parametrize("name", ["states.json", "settings"])
def test_a_sweep_writes_through_no_link(tmp_path, name):
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / name).symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match=f"games/{name}: expected a file of its own"):
        sweep(tmp_path / "games", "solve", {"game": ["oneill"]}, page=False)
    assert not (tmp_path / "victim").exists()
