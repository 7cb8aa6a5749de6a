"""The examples in the docstrings of the library give what they say."""

import ast
import doctest
import importlib
from pathlib import Path

import pytest
from support import peer

ROOT = Path(__file__).parents[2]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def examples(file: Path) -> list[tuple[str, int, str]]:
    """Name, line and text of every docstring with an example.

    They are read from the source: wrapped functions and methods of modules have theirs too.
    """
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, DOCUMENTED):
            text = ast.get_docstring(node)
            if text and ">>>" in text:
                line = node.body[0].lineno - 1
                found.append((getattr(node, "name", "module"), line, text))
    return found


FOLDERS = (ROOT / "src", ROOT / "reproduction")
FILES = [file for folder in FOLDERS for file in sorted(folder.rglob("*.py")) if examples(file)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_run(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if file.name == "adapters.py":
        [peer(library) for library in ("pyspiel", "pygambit", "quantecon")]
    if file.name == "_pettingzoo.py":
        peer("pettingzoo")
    dotted = ".".join(file.relative_to(ROOT).with_suffix("").parts)
    module = importlib.import_module(dotted.removeprefix("src.").removesuffix(".__init__"))
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    for name, line, text in examples(file):
        test = doctest.DocTestParser().get_doctest(text, dict(vars(module)), name, str(file), line)
        runner.run(test, out=report.append)
    result = runner.summarize(verbose=False)
    assert result.attempted > 0
    assert result.failed == 0, "".join(report)
