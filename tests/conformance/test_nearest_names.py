"""Every public function and constructor answers an argument that it lacks with the nearest one."""

import importlib
import inspect
import subprocess
import sys

import pytest

import equipoise as eq

PACKAGES = (
    "aggregative",
    "dynamics",
    "games",
    "games.families",
    "incontext",
    "networks",
    "offline",
)
KINDS = (eq.games.Game, eq.games.Policy, eq.dynamics.Learner)


def callables():
    """Public functions with options, games, policies and learners, by name."""
    for package in ("equipoise", *(f"equipoise.{name}" for name in PACKAGES)):
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isfunction(value):
                options = list(inspect.signature(value).parameters.values())
                if any(o.default is not o.empty for o in options) and not any(
                    o.kind is o.VAR_KEYWORD for o in options
                ):
                    yield f"{package}.{name}", value
            elif inspect.isclass(value) and issubclass(value, KINDS):
                yield f"{package}.{name}", value


CALLABLES = dict(callables())


@pytest.mark.parametrize("name", CALLABLES)
def test_a_misspelt_argument_is_answered_with_the_nearest(name):
    value = CALLABLES[name]
    owner = value.__init__ if inspect.isclass(value) else value
    if inspect.isabstract(value):
        pytest.skip("abstract")
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [p.name for p in inspect.signature(owner).parameters.values() if p.kind in kinds]
    known = [p for p in known if p not in ("self", "cls")]
    if not known:
        pytest.skip("no arguments by name")
    right = max(known, key=len)
    wrong = right + "x"
    with pytest.raises(eq.core.InputError) as raised:
        value(**{wrong: None})
    assert f"found '{wrong}'" in str(raised.value)
    assert f"did you mean {right}?" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_other_words_for_an_argument_are_known():
    game = eq.games.load("rock-paper-scissors")
    omd = eq.dynamics.OMD()
    calls = {
        "key": lambda: eq.dynamics.play(game, omd, omd, rounds=3, seed=1),
        "tolerance": lambda: eq.solve(game, tol=1e-9),
        "level": lambda: eq.advise("log.csv", confidence=0.9),
        "time_limit": lambda: eq.equilibria(game, timeout=3),
    }
    for right, call in calls.items():
        with pytest.raises(eq.core.InputError, match=rf"did you mean {right}\?"):
            call()


def test_too_many_positions_are_counted():
    omd = eq.dynamics.OMD()
    with pytest.raises(
        eq.core.InputError, match=r"play: expected 3 arguments by position .*found 4"
    ):
        eq.dynamics.play(eq.games.load("three-player-pennies"), omd, omd, omd, rounds=8)


def test_plain_classes_answer_too():
    # In another process: the checks of types that tests switch on replace these constructors.
    calls = (
        "eq.Online(None, action=3)",
        "eq.offline.Log([0], label=1)",
        "eq.games.Labels(player=1)",
    )
    code = "import equipoise as eq"
    for call in (*calls, "eq.incontext.Config(round=3)"):
        code += f"\ntry: {call}\nexcept eq.core.InputError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    meant = [line.rpartition("did you mean ")[2] for line in done.stdout.splitlines()]
    assert meant == ["actions?", "labels?", "players?", "rounds?"]
