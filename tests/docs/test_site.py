"""What the site adds to Sphinx: Markdown in docstrings, lists of names, pages without a network."""

import enum
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def extension() -> ModuleType:
    pytest.importorskip("sphinx")
    specification = importlib.util.spec_from_file_location(
        "equipoise_docs", DOCS / "_ext" / "equipoise_docs.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("markdown", "rst"),
    [
        ("the `payoff` of it", "the ``payoff`` of it"),
        ("keys are `Dict`s", "keys are ``Dict``\\ s"),
        ("at most |x|, x_ or (*x, size)", "at most \\|x\\|, x\\_ or (\\*x, size)"),
        ("*really* and **truly**", "*really* and **truly**"),
        ("about $x^2$", "about :math:`x^2`"),
        ("[Gambit](https://gambit.org)", "`Gambit <https://gambit.org>`__"),
        ("**Arguments**", ".. rubric:: Arguments"),
        (">>> f(`x`, *y)", ">>> f(`x`, *y)"),
        ("Text:\n>>> 1 + 1\n2", "Text:\n\n>>> 1 + 1\n2"),
    ],
)
def test_docstrings_in_markdown_are_read_as_such(extension, markdown, rst):
    assert "\n".join(extension.as_rst(markdown.split("\n"))) == rst


def test_a_list_of_names_becomes_a_table_and_entries(extension):
    source = ["```{api}\nequipoise.games.Game\nequipoise.games.read\n```"]
    extension.expand_api_blocks(None, "api/games", source)
    assert source[0].startswith("```{eval-rst}\n")
    assert "   ~equipoise.games.read\n" in source[0]
    assert ".. py:module:: equipoise.games\n" in source[0]
    assert ".. autoclass:: equipoise.games.Game\n   :members:\n" in source[0]
    assert ".. autofunction:: equipoise.games.read\n" in source[0]


def test_the_comment_of_a_constant_is_found_where_it_is_defined(extension):
    name = "equipoise.dynamics.LEARNERS"
    assert extension.comment_of(name, extension.resolve(name))


def test_a_page_asks_for_nothing_from_elsewhere():
    assert (DOCS / "_static" / "mathjax" / "tex-svg-full.js").stat().st_size > 2_000_000
    settings = (DOCS / "conf.py").read_text()
    own = [*(DOCS / "_static").glob("*.*"), *(DOCS / "_templates").glob("*.html")]
    for text in (settings, *(file.read_text() for file in own)):
        assert not re.findall(r"https?://|\burl\(", text)


def api_names(extension: ModuleType) -> list[str]:
    pages = (DOCS / "api").glob("*.md")
    return [
        name
        for page in pages
        for block in extension.API_BLOCK.findall(page.read_text())
        for name in block.split()
    ]


def test_text_before_a_colon_is_not_taken_for_the_type_of_an_attribute(extension):
    for what in ("attribute", "data", "property"):
        lines = ["Number of games: 64 by default."]
        extension.docstring_as_rst(None, what, "Settings.games", None, None, lines)
        assert lines == ["Number of games: 64 by default."]
    lines = ["Solve it.", "", "Args:", "    game: The game."]
    extension.docstring_as_rst(None, "function", "solve", None, None, lines)
    assert ":param game: The game." in lines
    assert "napoleon" not in (DOCS / "conf.py").read_text()  # its handler would do so


def test_every_field_on_the_api_pages_is_described(extension):
    from sphinx.pycode import ModuleAnalyzer

    missing = []
    for name in api_names(extension):
        found = extension.resolve(name)
        if not inspect.isclass(found):
            continue
        own = [k for k in found.__mro__ if k.__module__.startswith("equipoise")]
        fields = {*inspect.get_annotations(found)}
        fields |= {*found.__members__} if issubclass(found, enum.Enum) else set()
        comments = {
            attribute
            for k in own
            for place, attribute in ModuleAnalyzer.for_module(k.__module__).find_attr_docs()
            if place == k.__qualname__
        }
        told = "\n".join(k.__doc__ or "" for k in own)
        for field in sorted(fields - comments - {"kind"}):
            named = re.search(rf"(^|[\s,`]){field}(`|:|, [\w, ]+:)", told, re.M)
            if not field.startswith("_") and not named:
                missing.append(f"{name}.{field}")
    assert missing == []
