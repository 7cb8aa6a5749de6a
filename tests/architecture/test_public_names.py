"""Every public name has an example in its docstring and an entry in the API pages."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import equipoise

API_PAGES = sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.md"))

#: Public classes that need no example of their own: bases that cannot be made, and records that
#: only the library makes, shown in the example of what returns or takes them.
WITHOUT_EXAMPLE = {
    f"equipoise.dynamics.{name}"
    for name in (
        *("Anchor", "Estimate", "LossForm", "MirrorMap", "Noise"),
        *("Bandit", "Foresight", "MarkovBandit", "Nothing", "Values"),
        *("CertifiedOutput", "History", "PlayState", "Recorded"),
        *("loop.Event", "loop.LoopState", "loop.Remembered", "loop.Seats", "loop.Seen"),
    )
} | {
    "equipoise.runs.Interrupt",
    "equipoise.runs.Progress",
    "equipoise.solvers.no_regret.Critic",
}


def test_nothing_but_public_names_is_shown():
    """What a package imports for its own use is not offered to who looks for a name in it."""
    for module in (equipoise, equipoise.games, equipoise.offline):
        shown = {name for name in dir(module) if not name.startswith("__")}
        assert shown == set(listed(module))


def listed(module: ModuleType) -> list[str]:
    """What a module lists in its `__all__`; one without is found by a test below."""
    return getattr(module, "__all__", [])


def public_modules() -> Iterator[ModuleType]:
    """The sub-packages, and the public modules they list in `__all__`."""
    for info in pkgutil.iter_modules(equipoise.__path__):
        if info.name.startswith("_"):
            continue
        package = importlib.import_module(f"equipoise.{info.name}")
        yield package
        for name in listed(package):
            member = getattr(package, name)
            if inspect.ismodule(member):
                yield member


def public_names() -> list[str]:
    """`package.name` for every function and class that is listed in an `__all__`."""
    return sorted(
        {
            f"{module.__name__}.{name}"
            for module in public_modules()
            for name in listed(module)
            if inspect.isroutine(member := getattr(module, name)) or inspect.isclass(member)
        }
    )


def resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def documented() -> set[int]:
    """Identities of the objects that the API pages show."""
    shown: set[int] = set()
    for page in API_PAGES:
        for block in re.findall(r"^```\{api\}\n(.*?)^```$", page.read_text(), re.M | re.S):
            shown |= {id(resolve(name)) for name in block.split()}
    return shown


def test_the_surface_is_made_of_names_of_its_packages():
    homes = {id(resolve(name)) for name in public_names()}
    for name in equipoise.__all__:
        member = getattr(equipoise, name)
        own = getattr(member, "__module__", "") == "equipoise._files"
        assert inspect.ismodule(member) or own or id(member) in homes, name


def test_a_module_says_what_it_is_and_what_is_public():
    for module in public_modules():
        assert module.__doc__, f"{module.__name__} has no docstring"
        assert listed(module), f"{module.__name__} has no __all__"
        assert len(listed(module)) == len(set(listed(module)))


def test_what_needs_no_example_is_public():
    assert set(public_names()) >= WITHOUT_EXAMPLE


def test_a_public_name_has_an_example():
    names = [name for name in public_names() if name not in WITHOUT_EXAMPLE]
    assert len(names) > 300
    members = {name: resolve(name) for name in names}
    docs = {
        name: vars(member).get("__doc__") if inspect.isclass(member) else member.__doc__
        for name, member in members.items()
    }
    assert [name for name, doc in docs.items() if ">>>" not in (doc or "")] == []


def test_a_public_name_is_in_the_api_pages():
    shown = documented()
    missing = [name for name in public_names() if id(resolve(name)) not in shown]
    assert missing == [], "list the name in an {api} block of docs/api"
