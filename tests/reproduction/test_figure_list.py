"""The list of figures: everything in it can be loaded, made at both scales, and is there once."""

import inspect
from dataclasses import is_dataclass

import pytest
from support import refuses

from reproduction import FIGURES, PAPERS, SCALES, Figure, figures_of


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.paper}-{figure.name}")
def test_a_figure_has_a_config_for_every_scale(figure):
    module = figure.load()
    for scale in SCALES:
        assert is_dataclass(figure.config(scale))
        assert figure.takes[scale]
    assert figure.config("quick") != figure.config("full")
    assert list(inspect.signature(module.run).parameters)[:2] == ["config", "key"]
    assert ("folder" in inspect.signature(module.run).parameters) == figure.in_parts
    assert callable(module.plot)


def test_names_are_unique_and_every_paper_has_some():
    names = [(figure.paper, figure.name) for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert {paper for paper, _ in names} == set(PAPERS)


def test_wrong_names_are_refused():
    refuses(lambda: figures_of("in-contxt"), "paper")
    with pytest.raises(ValueError, match=r"'planing'; did you mean planning\?"):
        figures_of("aggregative", ["planing"])
    refuses(lambda: FIGURES[0].config("huge"), "scale")


def test_a_figure_is_made_once_in_a_folder(tmp_path):
    from reproduction import aggregative_planning

    small = aggregative_planning.Config(games=("el-farol",), agents=(50,), states=2, horizon=2)
    figure = Figure("aggregative", "x", "", "", "aggregative_planning", {}, vars(small))
    made, known = figure.run(tmp_path / "x", "quick")
    again, read = figure.run(tmp_path / "x", "quick")
    assert (known, read) == (False, True)
    assert made.tables["welfare"].rows == [tuple(row) for row in again.tables["welfare"].rows]
    with pytest.raises(ValueError, match="key"):
        figure.run(tmp_path / "x", "quick", key=1)
