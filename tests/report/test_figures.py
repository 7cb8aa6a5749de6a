"""Figures show the numbers they were given."""

import numpy as np
import pytest
from matplotlib import rc_context

from equipoise.report import Curve, Report, figures


def test_slopes_are_recovered_in_noise(rng):
    t = np.unique(np.geomspace(1, 1e5, 200).astype(int))
    values = 2.0 * t**-0.7 * rng.lognormal(0, 0.05, t.size)
    slope, scale = figures.fit_slope(t, values)
    assert slope == pytest.approx(-0.7, abs=0.03)
    assert scale == pytest.approx(2.0, rel=0.3)


def test_only_the_tail_is_fitted():
    t = np.arange(1, 10_001)
    values = np.where(t < 500, 1.0, 500.0 / t)
    assert figures.fit_slope(t, values)[0] == pytest.approx(-1.0)
    assert figures.fit_slope(t, values, start=1)[0] > -1.0


@pytest.mark.parametrize("values", [np.zeros(10), np.ones(9)])
def test_what_cannot_be_fitted_is_refused(values):
    with pytest.raises(ValueError, match="values: expected"):
        figures.fit_slope(np.arange(1, 11), values)


def test_learning_curves_draw_medians_bands_and_labels(rng):
    t = np.arange(1, 101)
    runs = rng.uniform(1, 2, (7, 100)) / t
    figure = figures.learning_curves(t, {"a": runs, "b": 1 / t}, references={"1/t": -1.0})
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[1:] == ["b  (slope −1.00)", "1/t"]
    drawn = [line.get_ydata() for line in axes.lines]
    assert any(np.array_equal(y, np.median(runs, 0)) for y in drawn if len(y) == 100)
    assert len(axes.collections) == 1  # one band, for the curve with several runs
    assert axes.get_yscale() == "log"


def tick_labels(figure):
    """The labels on the vertical axis that are within it."""
    figure.draw_without_rendering()
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    ticks = [*axes.yaxis.get_major_ticks(), *axes.yaxis.get_minor_ticks()]
    return [
        t.label1.get_text() for t in ticks if low <= t.get_loc() <= high and t.label1.get_text()
    ]


T = np.arange(1.0, 21.0)
WOBBLE = 1 + 1e-9 * np.sin(T)


@pytest.mark.parametrize(
    "values", [np.full(20, 0.8521), 0.8521 * WOBBLE, np.zeros(20), -WOBBLE, 1 / T - 0.5]
)
def test_what_has_no_rate_is_given_none_and_has_readable_ticks(values):
    for figure in (
        figures.compared_curves({"a": Curve(T, values)}),
        figures.learning_curves(T, {"a": values}),
    ):
        (axes,) = figure.axes
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a"]
        assert len(axes.lines) == 1
        if figure.axes[0].get_yscale() == "linear":
            heights = [float(text.replace("−", "-")) for text in tick_labels(figure)]
            assert len(heights) >= 3
            assert min(heights) <= np.median(values) + 0.1
            assert max(heights) >= np.median(values) - 0.1


def test_of_several_curves_only_those_that_change_have_a_rate():
    curves = {"flat": Curve(T, np.full(20, 0.5)), "falling": Curve(T, 1 / T)}
    (axes,) = figures.compared_curves(curves).axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["flat", "falling  (slope −1.00)"]
    assert axes.get_yscale() == "log"


def test_less_than_a_decade_has_ticks_with_labels():
    figure = figures.compared_curves({"a": Curve(T, 1.05 + 0.5 / T)})  # no power of ten in there
    assert figure.axes[0].get_yscale() == "log"
    assert len(tick_labels(figure)) >= 3


def test_curves_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match=r"curves\['a'\]: expected 3 values per run"):
        figures.learning_curves([1, 2, 3], {"a": [1.0, 2.0]})


def test_bars_are_as_high_as_the_probabilities():
    figure = figures.policy_bars({"row": [0.25, 0.75], "column": [0.1, 0.2, 0.7]})
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert heights == [0.25, 0.75, 0.1, 0.2, 0.7]


def test_corners_of_the_simplex_are_pure_actions():
    figure = figures.simplex_plot(np.eye(3), equilibrium=[0, 0, 1], actions=("x", "y", "z"))
    (axes,) = figure.axes
    path = next(line for line in axes.lines if line.get_label() == "policy").get_xydata()
    star = next(line for line in axes.lines if line.get_label() == "Nash").get_xydata()[0]
    assert np.allclose(np.linalg.norm(path[[0, 1, 2]] - path[[1, 2, 0]], axis=1), 1.0)
    assert np.allclose(star, path[2])
    places = {text.get_text(): text.get_position() for text in axes.texts}
    for name, corner in zip("xyz", path, strict=True):
        nearest = min(places, key=lambda k: np.linalg.norm(np.subtract(places[k], corner)))
        assert nearest == name


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figures.heat_map([1, 2]), "values: expected a matrix"),
        (lambda: figures.heat_map([[1, 2]], columns=("a",)), "columns: expected 2 names, found 1"),
        (lambda: figures.policy_bars({"p": [[1.0]]}), r"policies\['p'\]: expected one axis"),
        (lambda: figures.simplex_plot([[0.5, 0.5]]), r"expected shape \(rounds, 3\)"),
    ],
)
def test_wrong_shapes_are_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


@pytest.mark.parametrize("name", ["$5 or $6", r"$\frac", "100$", "<&>"])
def test_names_are_shown_as_they_are(name):
    from html import escape

    figure = figures.heat_map([[1.0]], rows=(name,), columns=(name,), title=name)
    html = Report("x").figure(figure, alt="x").html()
    assert html.count(f">{escape(name, quote=False)}<") == 3


def test_the_users_settings_neither_change_figures_nor_are_changed():
    plain = Report("x").figure(figures.policy_bars({"p": [1.0]}), alt="x").html()
    with rc_context({"lines.linewidth": 9, "axes.facecolor": "red", "font.size": 30}) as _:
        other = Report("x").figure(figures.policy_bars({"p": [1.0]}), alt="x").html()
        from matplotlib import rcParams

        assert rcParams["font.size"] == 30
    assert plain == other


def test_large_matrices_have_no_numbers_and_constant_ones_are_drawn():
    assert len(figures.heat_map(np.zeros((40, 40))).axes[0].texts) == 0
    Report("x").figure(figures.heat_map(np.ones((2, 2))), alt="constant")
    Report("x").figure(figures.histogram(np.zeros(3), log=True), alt="all zero")


def test_a_notebook_shows_a_figure_without_pyplot():
    shown = figures.policy_bars({"row": [0.25, 0.75]})._repr_png_()
    assert shown.startswith(b"\x89PNG")
