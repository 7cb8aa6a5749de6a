"""Faults in what is learned from logs."""

from soak.faults.planting import Fault

_TESTS = "tests/offline"
_READING = f"{_TESTS}/test_reading.py::test_a_table_is_the_log_that_a_reader_would_write_down"
PART = "logs"
FAULTS = [
    Fault(
        "moves-never-made", PART,
        "Actions that nobody plays count as free parameters that the log determines.",
        r"determined \*= np\.diagonal\(cells\.gram, axis1=1, axis2=2\) > 0",
        "determined *= 1.0",
        (f"{_TESTS}/test_fit.py::test_actions_that_nobody_plays_are_no_free_parameters",),
    ),
    Fault(
        "difference-from-the-last-move", PART,
        "The basis of a term adds the function at the last move and does not subtract it.",
        r"bases\[:, :-1\] - bases\[:, -1:\]",
        "bases[:, :-1] + bases[:, -1:]",
        (f"{_TESTS}/test_fit.py::test_covering_data_without_noise_gives_the_reward_back",),
    ),
    Fault(
        "held-out-rows", PART,
        "Rows that are held out are also fitted.",
        r"train = held\.sum\(0\) - held",
        "train = held.sum(0) + 0.0 * held",
        (f"{_TESTS}/test_select_rank.py::test_held_out_errors_are_those_of_refitted_models",),
    ),
    Fault(
        "day-and-month", PART,
        "Dates are read with the day first where the second number shows that it is the day.",
        r"return first > 12\b",
        "return second > 12",
        (_READING,),
    ),
    Fault(
        "chi-squared-divergence", PART,
        "The chi-squared divergence of a deviation is not divided by the log's probabilities.",
        r"\(p - nu\) \*\* 2 / played",
        "(p - nu) ** 2",
        (f"{_TESTS}/test_learning.py::"
         "test_on_support_gains_are_those_of_the_constrained_best_reply",),
    ),
    Fault(
        "normalising-constant", PART,
        "The density of a Gaussian leaves out the power of two pi.",
        r"\.sum\(\) \+ len\(left\) \* np\.log\(2\.0 \* np\.pi\) / 2\.0",
        ".sum()",
        (f"{_TESTS}/test_transitions.py::"
         "test_the_linear_class_is_least_squares_and_its_likelihood_the_closed_form",),
    ),
    Fault(
        "steps-of-a-place", PART,
        "The situations of a log of episodes are numbered by context alone.",
        r"tables\[.contexts.\]\.astype\(np\.int64\) \* game\.horizon \+ tables\[.steps.\]",
        'tables["contexts"].astype(np.int64) * game.horizon',
        (f"{_TESTS}/test_collect.py::"
         "test_episodes_follow_the_occupancies_and_the_values",),
    ),
    Fault(
        "impossible-outcomes", PART,
        "The last word of a random stream may draw an outcome of probability zero.",
        r"np\.where\(after > 0\.0, (np\.round\(np\.minimum\(left, 1\.0\) \* 2\.0\*\*31\) - 1\.0), "
        r"2\.0\*\*31 - 1\.0\)",
        r"\1",
        (f"{_TESTS}/test_collect.py::test_actions_without_a_chance_are_never_played",),
    ),
    Fault(
        "size-of-noise", PART,
        "The noise of collected rewards has a standard deviation of one, whatever is asked for.",
        r"scale \* quantiles / quantiles\.std\(\)",
        "quantiles / quantiles.std()",
        (f"{_TESTS}/test_collect.py::test_rewards_are_those_of_the_game",),
    ),
    Fault(
        "broken-episodes", PART,
        "A log is read although the states of an episode do not follow one another.",
        r"not np\.array_equal\(here, led\)",
        "False",
        (f"{_TESTS}/test_log.py::test_broken_episodes_are_refused",),
    ),
]  # fmt: skip
