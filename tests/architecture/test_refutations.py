"""Every attack of `make soak` runs, on one case, and refutes nothing."""

import pytest
from soak.attacks import attacks

#: Attacks that `make soak` alone runs: their first case takes seconds, or they pass values of wrong
#: types, which the checks of annotations refuse before the library does.
SOAK_ALONE = {
    "crowds.peaks",
    "first_use.learners",
    "first_use.prints",
    "logs.changes",
    "logs.clean_logs",
    "logs.odd_agents",
    "reading.own_play",
    "roads.long_chains",
    "tables.awkward_input",
}
ATTACKS = attacks()


@pytest.mark.parametrize("name", sorted(ATTACKS.keys() - SOAK_ALONE))
@pytest.mark.filterwarnings("ignore")
def test_one_case_of_an_attack_refutes_nothing(name):
    assert list(ATTACKS[name](0, 0.0)) == []


def test_the_attacks_of_soak_exist():
    assert ATTACKS.keys() >= SOAK_ALONE
