"""Measured numbers in the prose of the pages occur in the records that the text refers to.

A number is checked if it has a decimal point, a power of ten, a percent sign or a ±; other whole
numbers are mostly sizes. It has to be an entry of a table of a record, rounded as it is written, or
a mean, standard error, least or largest entry over the rows that repeat a measurement. The records
are those that the section refers to, or for a row of the index those of the sections it links to.
Times have to be in an `environment.json`, a column of seconds, or the list of figures. Of what is
measured in many settings, records have more numbers than this test can tell apart; there, other
tests say which number it has to be.
"""

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from equipoise.core.plain import read_json
from equipoise.runs import Record
from reproduction import FIGURES, rows_of

FOLDER = Path(__file__).parents[2] / "docs" / "reproduction"
PAGES = ("in-context", "last-iterate", "interaction-rank", "interaction-rank-deep", "aggregative")

NUMBER = r"(?<![\w.^])-?(?:\d[\d,]*\d|\d)?(?:\.\d+|(?<=\d))(?:e-?\d+)?"
#: Matches text that is not prose: tables from records, code, formulas, headings, link targets.
NO_PROSE = [
    r"<!-- record .*?<!-- end of record -->",
    r"^ *```.*?^ *```$",
    r"^    \S.*?$",
    r"`[^`\n]*`",
    r"\$[^$]*\$",
    r"^#.*?$",
    r"\]\([^)]*\)",
]
#: Numbers of statements in print.
PRINTED = (
    r"(?:Theorem|Lemma|Definition|Assumption|Remark|Section|Proposition|Eq\.|section|appendix)s? "
    r"\(?[A-Z]?[\d.]*\d\)?(?:(?:,| and| to) [A-Z]?\.?[\d.]*\d)*"
)
#: Settings, by the words before the number.
SETTING = (
    rf"(?:rho|noise|alpha|lambda|C|K|eps|deviation|side|probability|discount|Dirichlet|below|within)"
    rf"(?: of| =|)? {NUMBER}(?:(?:,| and) {NUMBER})*"
)
#: A time, with its unit.
TIME = rf"(?:({NUMBER}) to )?({NUMBER})(?: (?:busy|processor|of))* (s|seconds?|minutes?)\b"


def prose(text):
    """The text without what is no prose, on one line for each paragraph."""
    for pattern in NO_PROSE:
        text = re.sub(pattern, " ", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\n(?!\n|\||- )", " ", text)


def parts(text):
    """Heading of each section -> its text."""
    pieces = re.split(r"^(#{1,4} .*)$", text, flags=re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", h.lstrip("# ")).lower().replace(" ", "-"): body
        for h, body in zip(pieces[1::2], pieces[2::2], strict=True)
    }


@functools.cache
def page(name):
    return (FOLDER / f"{name}.md").read_text()


def records_in(text):
    """Folders of the records that a text refers to."""
    names = re.findall(r"(?:in-context|interaction-rank|aggregative)/[\w-]+", text)
    return {name for name in names if (FOLDER / name / "record.json").exists()}


#: Columns of numbers that say what was measured; rows that agree in them repeat a measurement.
KEYS = {"agents", "actions", "samples", "rows per agent", "episodes", "at", "C", "noise", "length"}
KEYS |= {"x", "n", "dimensions", "units", "newton steps"}


def numbers_of_table(table):
    """Entries of a table; means, errors, least and largest entries if rows repeat a setting."""
    groups = {}
    for row in rows_of(table):
        key = tuple(v for k, v in row.items() if isinstance(v, str) or k in KEYS)
        groups.setdefault(key, []).append(row)
    for group in groups.values():
        for name, first in group[0].items():
            own = [row[name] for row in group]
            if any(isinstance(v, (str, bool)) or v is None for v in own):
                yield from (v for v in own if isinstance(v, (int, float)))
            elif len(group) == 1 or name in KEYS:
                yield first
            else:
                yield from (np.mean(own), min(own), max(own))
                yield np.std(own, ddof=1) / len(own) ** 0.5


@functools.cache
def known(name):
    """The numbers of a record that a page may state."""
    record = Record.load(FOLDER / name)
    found = [v for table in record.tables.values() for v in numbers_of_table(table)]
    found += [v for v in record.scalars.values() if isinstance(v, (int, float))]
    found += [array.item() for array in record.arrays.values() if array.size == 1]
    values = np.array(found, float)
    return np.sort(values[np.isfinite(values)])


@functools.cache
def seconds(name):
    """Seconds of a record, its sessions and its parts on each machine, and numbers in notes."""
    found, machines = [], {}
    for table in Record.load(FOLDER / name).tables.values():
        for column in table.columns:
            found += [t for t in table.column(column) if "seconds" in column and t is not None]
    for figure in FIGURES:
        if f"{figure.paper}/{figure.name}" == name:
            times = re.findall(rf"({NUMBER}) (min|s)", figure.takes["full"])
            found += [float(t) * (60 if unit == "min" else 1) for t, unit in times]
    for file in (FOLDER / name).rglob("environment.json"):
        environment = read_json(file, "sessions")
        found.append(environment["seconds"])
        for session in environment["sessions"]:
            found.append(session["seconds"])
            found += [float(n) for n in re.findall(r"\d+", session.get("note", ""))]
        if "parts" in file.parts:
            cores = environment["sessions"][0]["machine"]["cores"]
            machines[cores] = machines.get(cores, 0.0) + environment["seconds"]
    return found + list(machines.values())


def occurs(written, values):
    """Whether some value is the number as it is written."""
    text = written.replace(",", "").removesuffix("%")
    mantissa, _, power = text.partition("e")
    places = len(mantissa.partition(".")[2]) - int(power or 0)
    half = 0.5 * 10.0**-places * (1 + 1e-9)
    number = float(text) / (100 if written.endswith("%") else 1)
    half /= 100 if written.endswith("%") else 1
    return bool((np.abs(np.asarray(values) - number) <= half).any())


def numbers(text):
    """The measured numbers of a text."""
    text = re.sub(TIME, " ", re.sub(PRINTED, " ", text))
    text = re.sub(SETTING, " ", text)
    for match in re.finditer(rf"({NUMBER})(%?)( ±)?", text):
        written, percent, error = match.groups()
        if re.search(r"[.e%]", written + percent) or error or text[: match.start()].endswith("± "):
            yield written + percent


def missing(text, names):
    """The measured numbers of a text that no record has."""
    values = np.concatenate([known(name) for name in sorted(names)])
    return [n for n in numbers(text) if not occurs(n, values)]


#: Sections about numbers that no record has.
ELSEWHERE = {
    "continuous-local-states": "printed by a test",
    "a-thousand-agents": "printed by the benchmarks",
    "table-2": "settings",
    "errata-of-section-6-and-appendix-b": "settings; test_numbers_by_setting has the rest",
}
#: Numbers that are not from a record of their section.
NO_RESULTS = {
    "results-at-full-size": {".007": "another player", ".064": "another player"},
    "imitation-from-n-trajectories": {"-.5": "a power in the theorem"},
    "last-iterate-convergence-of-no-regret-learners": {"95%": "the level of the bands"},
    "offline-learning-with-low-interaction-rank-measurements": {"1.3": "a ratio of sizes"},
    "figures-3-and-4": {"0.333": "the variance of the noise"},
    "learning-from-samples": {
        "5%": "the probability of the theorem",
        "0.73": "another config",
        "4.4e-4": "another config",
    },
    "several-coordinates": {"2e-16": "the rounding error that the table leaves out"},
}


def sections():
    """Page, heading and text of each section, with its records."""
    for name in PAGES:
        for heading, body in parts(page(name)).items():
            yield name, heading, prose(body), records_in(body)


def test_measured_numbers_are_in_the_records():
    checked = 0
    for name, heading, text, names in sections():
        found = list(numbers(text))
        assert names or not found or heading in ELSEWHERE, f"{name}: {heading} has no record"
        if not names or heading in ELSEWHERE:
            continue
        exempt = NO_RESULTS.get(heading, {})
        # An exemption for a number that the page does not state would hide nothing but a change.
        assert set(exempt) <= set(found), f"{name}: {heading}"
        lost = [n for n in missing(text, names) if n not in exempt]
        assert not lost, f"{name}: {heading}: {lost} in none of {sorted(names)}"
        checked += len(found) - len(exempt)
    assert checked > 60


def rows_with_records():
    """Claim and number of the rows of the index that link to a section with records."""
    for line in page("index").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" |")]
        if not line.startswith("| ") or len(cells) not in (4, 5) or cells[0] == "claim":
            continue
        names = set()
        links = r"\]\((theory/)?([\w-]+)\.md(?:#([\w-]+))?\)"
        for theory, target, anchor in re.findall(links, cells[-1].replace("../", "")):
            if target == "construction":
                names.add("in-context/construction")
            elif target in PAGES and not theory:
                text = page(target)
                names |= records_in(parts(text)[anchor] if anchor else text)
        if names:
            yield cells[0], prose(cells[2]), names


def test_numbers_of_the_index_are_in_the_records():
    rows = list(rows_with_records())
    assert len(rows) > 30
    assert sum(len(list(numbers(text))) for _, text, _ in rows) > 100
    for claim, text, names in rows:
        lost = missing(text, names)
        assert not lost, f"{claim}: {lost} in none of {sorted(names)}"


def test_times_are_those_of_the_records():
    checked = 0
    for name, heading, text, names in sections():
        if heading in ELSEWHERE:
            continue
        known_times = np.array([t for at in sorted(names) for t in seconds(at)])
        for first, last, unit in re.findall(TIME, text):
            times = known_times / (60 if unit.startswith("minute") else 1)
            for written in filter(None, (first, last)):
                assert occurs(written, times), f"{name}: {heading}: {written} {unit}"
                checked += 1
    assert checked > 8


def test_a_wrong_number_is_noticed():
    largest = known("aggregative/learning")[-1]
    right, wrong = f"{largest:.3f}", f"{largest + 0.01:.3f}"
    assert missing(f"gaps of {right} and {wrong}", {"aggregative/learning"}) == [wrong]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Theorem 4.2 and Lemmas 1.1, 2.2 and 3.3 at rho = 0.1 or noise of 0.15", []),
        ("with 12 agents a gap of .05, 1.5e-3 and 7%", [".05", "1.5e-3", "7%"]),
        ("53 ± 13 with 64 units (slope -.31)", ["53", "13", "-.31"]),
        ("It took 2.5 s and 12 processor seconds, with `bonus=0.5` and $x^{1.5}$.", []),
        ("1,234.5 rows.", ["1,234.5"]),
    ],
)
def test_which_numbers_are_measured(text, found):
    assert list(numbers(prose(text))) == found


@pytest.mark.parametrize(
    ("written", "value", "same"),
    [
        (".050", 0.0504, True),
        (".050", 0.0506, False),
        ("-.31", -0.312, True),
        ("1.8e-4", 1.84e-4, True),
        ("1.8e-4", 1.86e-4, False),
        ("6%", 0.0635, True),
        ("2,788", 2788.4, True),
    ],
)
def test_numbers_are_compared_as_they_are_rounded(written, value, same):
    assert occurs(written, [value]) is same
