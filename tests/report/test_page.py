"""The HTML page: complete, escaped, self-contained, the same every time."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from equipoise.certificates import TableCertificate
from equipoise.report import (
    Report,
    certificate_table,
    content_policy,
    figures,
    format_value,
    rounding_note,
    state_table,
)
from equipoise.runs import Table

VOID = {"meta", "img", "br", "hr", "input", "link"}


class Checker(HTMLParser):
    """Collects elements, and notes tags that do not close as they opened."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text, self.ids = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parse(html):
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    return checker


def full_page():
    return (
        Report("Title", "A lead.")
        .section("First")
        .text("One `code`.\n\nTwo.")
        .facts({"value": 1 / 7})
        .figure(figures.heat_map([[1, -1], [-1, 1]]), alt="payoffs of pennies", caption="Payoffs.")
        .figure(figures.policy_bars({"row": [0.5, 0.5]}), alt="uniform policy")
        .figure(figures.policy_bars({"row": [0.5, 0.5]}), alt="again, as a bitmap", format="png")
        .section("Second")
        .table(Table(("name", "gap"), [("a", 1e-16), ("b", None)]), caption="Gaps.")
        .code("print(1 < 2)")
        .code("x = 1\n" * 50, summary="All of it")
        .config({"seed": 0})
        .reproduce("equipoise demo", {"python": "3.11"})
    )


def test_a_page_is_well_formed_and_complete():
    page = parse(full_page().html())
    tags = [tag for tag, _ in page.elements]
    assert tags.count("h1") == 1
    assert tags.count("h2") == 3  # two sections and the footer
    assert tags.count("svg") == 2
    assert tags.count("img") == 1
    assert tags.count("details") == 3
    assert tags.count("tr") == 3
    text = "".join(page.text)
    for expected in ("Title", "A lead.", "code", "0.1429", "1e-16", "print(1 < 2)", '"seed": 0'):
        assert expected in text
    assert "equipoise demo" in text


def test_every_figure_has_an_alternative_text():
    page = parse(full_page().html())
    alts = [attrs["aria-label"] for tag, attrs in page.elements if tag == "svg"]
    alts += [attrs["alt"] for tag, attrs in page.elements if tag == "img"]
    assert alts == ["payoffs of pennies", "uniform policy", "again, as a bitmap"]
    with pytest.raises(ValueError, match="alt: expected a description"):
        Report("x").figure(figures.policy_bars({"row": [1.0]}), alt=" ")


def test_the_page_loads_nothing_and_runs_its_own_script_alone():
    html = full_page().html()
    page = parse(html)
    assert not {tag for tag, _ in page.elements} & {"link", "iframe", "object"}
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == html.count("<script") == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(a["content"] for tag, a in page.elements if "http-equiv" in a)
    assert policy == content_policy()
    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'")
    for _, attrs in page.elements:
        for name in ("src", "href", "xlink:href"):
            assert attrs.get(name, "#").startswith(("#", "data:"))
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_inner_links_of_figures_lead_somewhere():
    page = parse(full_page().html())
    links = [attrs["xlink:href"] for _, attrs in page.elements if "xlink:href" in attrs]
    targets = {link for link in links if not link.startswith("data:")}
    targets |= {attrs["href"] for _, attrs in page.elements if "href" in attrs}
    clips = set(re.findall(r"url\(#([^)]+)\)", full_page().html()))
    assert targets | {f"#{clip}" for clip in clips} <= {f"#{name}" for name in page.ids}


def test_everything_is_escaped():
    evil = '<script>alert("x")</script>&\'"`<b>`'
    report = (
        Report(evil, evil)
        .section(evil)
        .section(evil)
        .text(evil)
        .facts({evil: evil})
        .table(Table((evil,), [(evil,)]), caption=evil)
        .figure(figures.policy_bars({evil: [1.0]}, title=evil), alt=evil, caption=evil)
        .figure(figures.policy_bars({evil: [1.0]}, title=evil), alt=evil, format="png")
        .code(evil, summary=evil)
        .config({evil: evil}, summary=evil)
        .reproduce(evil, {evil: evil})
    )
    html = report.html()
    assert html.count("<script") == 1  # that of the page itself
    assert "<b>" not in html
    parse(html)


def test_the_same_content_makes_the_same_page():
    assert full_page().html() == full_page().html()


def test_black_takes_the_colour_of_the_page():
    html = full_page().html()
    assert "#000000" not in html
    assert "currentColor" in html


def test_write_is_a_file(tmp_path):
    full_page().write(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == full_page().html()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-1 / 3, "-0.3333"),
        (1e-5, "1e-05"),
        (123456.0, "123,456"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (np.float32(0.5), "0.5"),
        (np.int64(12345), "12,345"),
        (np.array([0.5, 0.5]), "(0.5, 0.5)"),
        (np.bool_(False), "no"),
    ],
)
def test_values_are_written_short(value, text):
    assert format_value(value) == text


def test_a_batch_certificate_shows_mean_median_worst():
    gains = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 4.0]])
    table = certificate_table(TableCertificate(gains, 2 * gains, np.zeros((3, 2)), "m"))
    assert table.columns == ("measure", "mean", "median", "worst")
    assert table.rows[1] == ("NashConv (sum of gains)", 2.0, 2.0, 4.0)
    assert table.rows[-1] == ("max gain, at most", pytest.approx(10 / 3), 2.0, 8.0)


def test_a_markov_certificate_shows_gains_by_state():
    gains = np.array([[0.0, 0.1], [0.2, 0.0]])
    value = np.array([[1.0, -1.0], [2.0, -2.0]])
    sides = {"state_gains": gains, "state_upper": gains}
    certificate = TableCertificate(gains.max(0), gains.max(0), value, "m", **sides)
    assert state_table(certificate).rows[1] == (1, 2.0, 0.2, -2.0, 0.0)
    assert certificate_table(certificate).columns == ("player", "gain (worst state)", "at most")
    with pytest.raises(ValueError, match="players: expected 2 names"):
        certificate_table(certificate, ("row",))
    with pytest.raises(ValueError, match="expected a certificate of one Markov game"):
        state_table(TableCertificate(gains[0], gains[0], value[0], "m"))


def test_very_many_players_are_summed_up():
    gains = np.linspace(0.0, 1.0, 101)
    table = certificate_table(TableCertificate(gains, gains + 0.5, gains, "m"))
    assert table.columns == ("gains of 101 agents", "gain", "at most")
    assert table.rows[0] == ("largest, agent 100", 1.0, 1.5)
    assert table.rows[1] == ("median agent", 0.5, 1.0)


@pytest.mark.parametrize("batch", [False, True])
def test_a_largest_gain_above_the_nash_conv_is_explained(batch):
    def note(*gains):
        array = np.array([gains, gains] if batch else gains)
        return rounding_note(TableCertificate(array, array, np.zeros_like(array), "enumeration"))

    assert note(0.25, 0.0) == ""
    assert note(0.0, 0.0) == ""
    assert "negative by rounding" in note(8.9e-16, -1.1e-16)
