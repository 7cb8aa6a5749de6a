"""Pieces of HTML, and what notebooks show of results: whole, escaped, with the numbers in them."""

from html.parser import HTMLParser

import numpy as np
import pytest

import equipoise as eq
from equipoise.core.html import html_curve, html_facts, html_table
from equipoise.report import format_value

EVIL = '<script>alert("x")</script>'


class Text(HTMLParser):
    """Tags that are open, and all text."""

    def __init__(self, html):
        super().__init__()
        self.open, self.text, self.tags = [], "", []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def shown(value):
    return Text(value._repr_html_())


def test_everything_is_escaped():
    for html in (
        html_table((EVIL,), [(EVIL,)], mark=EVIL),
        html_facts({EVIL: EVIL}),
        html_curve([1, 2], [1.0, 2.0], EVIL),
    ):
        assert "script" not in Text(html).tags
        assert EVIL in Text(html).text


@pytest.mark.parametrize("y", [[0.0, 0.0], [1.0], [np.nan, 1.0]])
def test_a_curve_of_too_few_points_is_left_out(y):
    assert html_curve(range(1, len(y) + 1), y, "gap") == ""


def test_a_solution_and_its_certificate():
    solution = eq.solve(eq.MatrixGame([[3, -1], [-2, 1]]))
    text = shown(solution).text
    for expected in ("solved", format_value(1 / 7), "0.4286", solution.certificate.method):
        assert expected in text
    certificate = eq.certify(eq.MatrixGame([[1, -1], [-1, 1]]), ([1.0, 0.0], [0.5, 0.5]))
    page = shown(certificate)
    assert page.tags.count("tr") == 3
    assert "NashConv1" in page.text


def test_batches_crowds_and_networks_are_summed_up():
    batch = eq.solve(eq.games.families.uniform(actions=3).sample(50, key=0))
    assert shown(batch).tags.count("tr") == 0
    crowd = eq.solve(eq.games.load("public-good", agents=90))
    assert "max gain" in shown(crowd).text
    assert "max gain" in shown(eq.solve(eq.games.load("braess-network"))).text


def test_a_trace_and_a_structure():
    games = eq.games.families.uniform(actions=2).sample(4, key=0)
    omd = eq.dynamics.OMD()
    trace = eq.dynamics.play(games, omd, omd, rounds=100, key=1, record=(1, 10, 100))
    page = shown(trace)
    assert page.tags.count("polyline") == 1
    assert format_value(float(trace.curve[-1].mean())) in page.text
    game = eq.games.families.polymatrix(agents=3, actions=2).sample(key=0)
    structure = eq.offline.discover(eq.offline.collect(game, "uniform", samples=500, key=1))
    page = shown(structure)
    assert page.tags.count("tr") == 1 + len(structure.classes)
    assert "chosen" in page.text
