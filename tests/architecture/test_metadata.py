"""What is said in several places is the same everywhere."""

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
    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [page for value in values for page in pages(value)]

    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    files = {str(file.relative_to(ROOT / "docs")) for file in (ROOT / "docs").rglob("*.md")}
    assert set(pages(navigation)) == files
