"""`equipoise completion`: scripts that shells accept, and that know every verb and flag."""

import re
import shutil
import subprocess
import sys

import pytest

from equipoise.cli import VERBS, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_every_shell(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (*VERBS, "--tolerance", "--print-config", "--learning-rate", "omd-vanishing"):
        assert word.removeprefix("--") in script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    path = tmp_path / "equipoise.bash"
    path.write_text(capsys.readouterr().out)

    def completed(*words):
        line = " ".join(words)
        script = (
            f"source {path}; COMP_WORDS=({line or chr(34) * 2}); COMP_CWORD={len(words) - 1}; "
            f"COMP_LINE='{line}'; COMP_POINT={len(line)}; "
            "spec=$(complete -p equipoise); function=${spec##*-F }; "
            "${function%% *} equipoise; printf '%s\\n' ${COMPREPLY[@]}"
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        return done.stdout.split()

    assert completed("equipoise", "of") == ["offline"]
    assert "--tolerance" in completed("equipoise", "solve", "--tol")
    assert completed("equipoise", "solve", "oneill", "--tol") == ["--tolerance"]
    assert completed("equipoise", "pretrain", "--loss", "") == ["exploitability", "expert"]
    # Where tyro knows nothing, bash completes files.
    assert completed("equipoise", "solve", "no-such") == []
    script = f"source {path}; complete -p equipoise"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert "-o default" in done.stdout


def test_what_is_embedded_is_python(capsys):
    """Also in fish, where it stands in double quotes."""
    assert main(["completion", "fish"]) == 0
    script = capsys.readouterr().out
    embedded = script.partition('set -l pycode "')[2].partition('"\n    set -l results')[0]
    arguments = [
        "-c",
        re.sub(r"\\(.)", r"\1", embedded, flags=re.DOTALL),
        "equipoise",
        "solve",
        "--toler",
    ]
    done = subprocess.run([sys.executable, *arguments, "2"], capture_output=True, text=True)
    assert "--tolerance" in done.stdout, done.stderr


def test_other_shells_are_refused(capsys):
    assert main(["completion", "csh"]) == 2
    assert "bash" in capsys.readouterr().err
