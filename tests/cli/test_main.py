"""The frame around the verbs: help, version, usage errors, imports, signals."""

import json
import os
import subprocess
import sys

import pytest

import equipoise
from equipoise.cli import VERBS, main
from equipoise.cli._help import comments
from equipoise.cli._parsing import command_kind, options

COMMAND = [sys.executable, "-m", "equipoise"]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, **options)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"equipoise {equipoise.__version__}\n"


def test_version_as_json_is_what_a_bug_report_needs(capsys):
    assert main(["--version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["equipoise"] == equipoise.__version__
    assert set(found) == {"versions", "python", "machine"}


def test_help_names_every_verb(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for verb, summary in VERBS.items():
        assert f"  {verb} " in shown
        assert summary in " ".join(shown.split())


def test_help_of_a_verb_can_be_asked_for_first(capsys):
    assert main(["help", "solve"]) == 0
    first = capsys.readouterr().out
    assert main(["solve", "--help"]) == 0
    assert first == capsys.readouterr().out
    assert main(["help"]) == 0
    assert capsys.readouterr().out.startswith("usage: equipoise VERB")


def test_help_of_what_is_no_verb_is_refused(capsys):
    assert main(["help", "slove"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("found 'slove'; did you mean solve?\n")
    assert main(["help", "foo", "--json"]) == 2
    assert capsys.readouterr().err.startswith('{"error": "VERB: expected one of solve')


def test_no_arguments_is_wrong_usage(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: equipoise")


def test_an_unknown_verb_is_one_line(capsys):
    assert main(["slove", "x"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("equipoise: error: VERB: expected one of solve")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb, capsys):
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"usage: equipoise {verb}" in shown
    assert f"  equipoise {verb}" in shown.partition("Examples:")[2]
    assert VERBS[verb] in shown


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("columns", [60, 100])
def test_help_is_wrapped_and_every_option_has_a_sentence(verb, columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "{None}" not in shown
    assert "default: None" not in shown
    _, _, after = shown.partition("Examples:\n")
    groups = after.partition("\n\n")[2].split("\n\n")
    for group in groups:
        title, *lines = group.rstrip("\n").splitlines()
        assert title.endswith((" options:", "options:", "arguments:"))
        assert max(map(len, lines)) <= columns
    for option in options(command_kind(verb)):
        text, _ = comments(command_kind(verb), option.path)
        assert text[0].isupper()
        assert text.endswith(".")


#: Words that no command takes, and what is said of them.
WRONG_USAGE = {
    "solve": "GAME",
    "certify oneill": "POLICY",
    "solve a b c": "equipoise solve: expected GAME TRIPS and options, found 'c' as well",
    "demo now": "equipoise demo: expected options only, found 'now' as well",
    "solve a --nonsense": "OPTION: expected an option of equipoise solve, found '--nonsense'",
    "solve a -t": "OPTION: expected an option of equipoise solve, found '-t'",
    "solve a --tolerance few": "Error parsing --tolerance: expected FLOAT, found 'few'; For full",
    "solve a --tolerance": "Missing value for argument '--tolerance'",
    "play --rounds 1.5": "Error parsing --rounds: expected a whole number, found '1.5'",
    "play --seed x": "Error parsing --seed: expected a whole number, found 'x'",
    "play --noise unifrom": "--noise: expected one of exact, bernoulli, gaussian; found 'unifrom'",
    "pretrain --loss foo": "--loss: expected one of exploitability, expert; found 'foo'",
    "pretrain --head-groups x": "Error parsing --head-groups",
    "pretrain --preset huge": "--preset: expected one of default, paper, large, any; found 'huge'",
    "completion csh": "shell: expected one of bash, zsh, fish; found 'csh'",
}


@pytest.mark.parametrize("line", WRONG_USAGE)
def test_wrong_usage_of_a_verb_is_explained_by_the_parser(line, capsys):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert WRONG_USAGE[line] in err
    assert f"equipoise {line.split()[0]} --help" in err


@pytest.mark.parametrize(
    ("line", "hint"),
    {
        "solve game.nfg --tollerance 1e-3": "did you mean --tolerance?",
        "solve game.nfg --toleranse=1e-3 --tolerance x": "did you mean --tolerance?",
        "solve --time_limmit 3": "did you mean --time-limit?",
        "solve game.nfg --no-josn": "did you mean --no-json?",
    }.items(),
)
def test_an_unknown_option_gets_one_line_that_suggests_the_nearest(line, hint, capsys):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    given = next(w for w in line.split() if w.startswith("--")).partition("=")[0]
    expected = f"OPTION: expected an option of equipoise solve, found {given!r}; {hint}"
    assert err == f"equipoise: error: {expected}\n"


def test_ctrl_c_ends_with_130(monkeypatch, capsys):
    from equipoise.cli import games

    def interrupt(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(games.Games, "execute", interrupt)
    assert main(["games"]) == 130
    assert capsys.readouterr().err == "equipoise: interrupted\n"


def test_a_bug_has_its_own_exit_code_and_is_not_hidden(monkeypatch, capsys):
    from equipoise.cli import games

    def fail(self):
        raise ValueError("a bug")

    monkeypatch.setattr(games.Games, "execute", fail)
    assert main(["games"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("equipoise: error: internal error: ValueError: a bug; ")
    assert error.count("\n") == 1
    assert "please report it" in error
    assert main(["games", "--traceback"]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith(error)
    assert main(["games", "--json"]) == 3
    assert capsys.readouterr().err.startswith('{"error": "internal error')


def test_a_library_that_is_not_installed_is_no_bug(monkeypatch, capsys):
    from equipoise.cli import games
    from equipoise.core.extras import import_extra

    monkeypatch.setattr(games.Games, "execute", lambda self: import_extra("no_ray", "Ray", "ray"))
    assert main(["games"]) == 2
    error = capsys.readouterr().err
    told = "Ray is not installed; in the clone of equipoise, run: pip install '.[ray]'"
    assert error == f"equipoise: error: {told}\n"


def test_wrong_input_found_by_the_library_shows_its_place_when_asked(capsys):
    assert main(["solve", "no.nfg", "--traceback"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback")
    assert error.endswith("equipoise: error: no.nfg: No such file or directory\n")


@pytest.mark.parametrize(
    "arguments", ["games", "games --json", "games oneill", "games --help", "--help", "--version"]
)
def test_a_reader_that_leaves_is_no_error(arguments):
    # Buffered, as it is by default: what is left is written when Python ends, if not before.
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    reader, writer = os.pipe()
    os.close(reader)  # before anything is written
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, *arguments.split()], stdout=gone, stderr=subprocess.PIPE, env=buffered
        )
    assert done.returncode == 141
    assert done.stderr == b""


@pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX")
def test_head_takes_the_first_line_and_nobody_complains():
    script = f"set -o pipefail; {sys.executable} -m equipoise games | head -3"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode in (0, 141)  # as fast as head is
    assert "name" in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_cannot_be_written_is_told():
    script = f"{sys.executable} -m equipoise games > /dev/full"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "equipoise: error: standard output: No space left on device\n"


def test_what_the_library_warns_of_is_one_line():
    script = (
        "import warnings; from equipoise.cli import games, main\n"
        "games.Games.execute = lambda self: warnings.warn('a checkpoint\\nis damaged') or 0\n"
        "before = warnings.formatwarning\n"
        "code = main(['games'])\n"
        "raise SystemExit(code if warnings.formatwarning is before else 'not restored')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "equipoise: warning: a checkpoint is damaged\n"
