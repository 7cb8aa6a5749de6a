"""The notebooks run from top to bottom, and what they conclude is true.

A notebook is JSON with cells of source; nothing of Jupyter is needed to run those.
"""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def cells(notebook: Path, kind: str) -> list[str]:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    return ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_ends_well(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(cells(notebook, "code"), start=1):
        exec(compile(source, f"{notebook.name}, cell {number}", "exec"), names)
    assert names["better"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(notebook):
    content = json.loads(notebook.read_text(encoding="utf-8"))
    identities = [cell["id"] for cell in content["cells"]]
    assert len(set(identities)) == len(identities)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None


def test_there_is_one_for_each_structure():
    assert [path.stem for path in NOTEBOOKS] == ["aggregative", "in_context", "offline"]
    listed = (FOLDER.parents[1] / "examples" / "README.md").read_text()
    for path in NOTEBOOKS:
        assert f"notebooks/{path.name}" in listed
        assert cells(path, "markdown")[0].startswith("# ")
