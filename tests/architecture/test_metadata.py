"""What is said in several places is the same everywhere."""

import os
import re
import tomllib
from pathlib import Path

import yaml

import equipoise

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_there_is_one_version():
    assert equipoise.__version__ == PROJECT["version"] == CITATION["version"]


def test_there_is_one_licence():
    assert PROJECT["license"] == CITATION["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_the_installation_page_lists_every_extra():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "install.md").read_text(), re.M)
    assert set(rows) == set(PROJECT["optional-dependencies"])


def test_every_page_is_in_the_navigation():
    docs = ROOT / "docs"
    named = {docs / "index"}
    for page in docs.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.M | re.S):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            paths = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
            named |= {Path(os.path.normpath(page.parent / path)) for path in paths}
    files = [*docs.rglob("*.md"), *(docs / "notebooks").glob("*.ipynb")]
    assert named == {file.with_suffix("") for file in files}
