"""Build an old version of the library with its environment, to compare with as a process.

    python -m benchmarks.old released      into .cache/old/released; `make old WHICH=released`

`benchmarks/OLD` names the commits: `released` is version 0.2.0, and `mended` is what the references
froze. The folder has the source, an environment `.venv`, and in `references` the rows with the
calls that fit this version.
"""

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMITS = Path(__file__).parent / "OLD"
FOLDER = ROOT / ".cache" / "old"
CALLS = "benchmarks/references/api.py"


def commits() -> dict[str, str]:
    """Name -> commit."""
    return dict(line.split() for line in COMMITS.read_text(encoding="utf-8").splitlines())


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout


def _unpack(commit: str, folder: Path, *paths: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, *paths))) as archive:
        archive.extractall(folder, filter="data")


def build(which: str) -> Path:
    """Build a version unless it is there; return its folder."""
    names = commits()
    if which not in names:
        raise SystemExit(f"WHICH: expected one of {', '.join(names)}, found {which}")
    place, commit = FOLDER / which, names[which]
    stamp = place / "commit"
    if stamp.exists() and stamp.read_text() == commit:
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    _unpack(commit, place)
    # The calls as they were first written know the names of both versions; rows are today's.
    first = _git("log", "--diff-filter=A", "--format=%H", "--", CALLS).decode().split()[-1]
    _unpack(first, place / "references", "benchmarks/references", "benchmarks/__init__.py")
    rows = place / "references" / "benchmarks" / "references" / "data"
    shutil.rmtree(rows, ignore_errors=True)
    shutil.copytree(ROOT / "benchmarks" / "references" / "data", rows)
    subprocess.run([sys.executable, "-m", "venv", place / ".venv"], check=True)
    python = place / ".venv" / "bin" / "python"
    words = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--editable", "."]
    subprocess.run([python, *words], cwd=place, check=True)
    stamp.write_text(commit)
    return place


if __name__ == "__main__":
    print(build(*sys.argv[1:] or ["released"]))
