"""Planted faults: every formula is found, and every replacement makes another program."""

import json
import re
from collections import Counter

import pytest
from soak.faults import FAULTS, TABLE, chosen
from soak.faults.planting import PACKAGES, ROOT, changed, places


def test_there_are_ten_for_each_part():
    assert Counter(fault.part for fault in FAULTS) == dict.fromkeys(PACKAGES, 10)
    for field in ("name", "wrong", "pattern"):
        assert len({getattr(fault, field) for fault in FAULTS}) == len(FAULTS)
    assert not {fault.name for fault in FAULTS} & set(PACKAGES)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_changes_one_place_and_still_compiles(fault):
    path, text = changed(fault)
    assert compile(text, str(path), "exec") != compile(path.read_text(), str(path), "exec")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_of_a_fault_are_in_the_folders_of_its_part(fault):
    assert fault.tests
    for test in fault.tests:
        path, *names = re.sub(r"\[.*", "", test).split("::")
        assert path.split("/")[:2] in [["tests", package] for package in PACKAGES[fault.part]]
        text = (ROOT / path).read_text()
        assert all(re.search(rf"^ *(def|class) {name}\b", text, re.MULTILINE) for name in names)


def test_formulas_that_are_missing_or_ambiguous_are_named():
    fault = FAULTS[0]._replace(pattern=r"no such formula")
    assert places(fault) == []
    with pytest.raises(ValueError, match=f"{fault.name}: expected one place .* found no file"):
        changed(fault)
    with pytest.raises(ValueError, match=r"expected one place for 'import', found src/equipoise/"):
        changed(fault._replace(pattern="import"))


def test_white_space_in_a_formula_does_not_matter(tmp_path):
    fault = FAULTS[0]._replace(pattern=r"one \+ two", replacement="one")
    for package in PACKAGES[fault.part]:
        (tmp_path / "src/equipoise" / package).mkdir(parents=True)
    file = tmp_path / "src/equipoise" / PACKAGES[fault.part][-1] / "sums.py"
    file.write_text("total = (\n    one\n    + two\n)\n")
    assert changed(fault, tmp_path) == (file, "total = (\n    one\n)\n")


def test_faults_are_chosen_by_name_and_by_part():
    assert chosen([]) == FAULTS
    logs = [fault for fault in FAULTS if fault.part == "logs"]
    assert chosen(["logs", FAULTS[0].name]) == [FAULTS[0], *logs]
    with pytest.raises(ValueError, match="expected names of faults or parts, found nothing"):
        chosen(["nothing"])


def test_the_table_is_of_these_faults():
    named = {fault.name: fault for fault in FAULTS}
    rows = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    assert list(rows) == [name for name in named if name in rows]
    for name, row in rows.items():
        assert row["part"] == named[name].part
        assert row["package"] in PACKAGES[row["part"]]
        assert row["test"].startswith(named[name].tests)
        assert row["seconds"] > 0
