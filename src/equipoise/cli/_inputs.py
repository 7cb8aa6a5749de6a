"""Read and check what the user names: games, settings, numbers, files and run folders."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar

import equipoise as eq
from equipoise.cli._objects import is_object, load_object, source_digest
from equipoise.cli._parsing import check_names
from equipoise.core.errors import InputError

Found = TypeVar("Found")


def find_game(
    name: str, settings: Sequence[str] = (), argument: str = "game", trips: Path | None = None
) -> Any:
    """Load a game from a file, or by name from the catalogue with settings such as "size=10".

    A name such as mine.py:game is an object of the user's own code, or a function that returns a
    game and takes the settings. `argument` is the field of the command that holds the name. A
    network in a TNTP file, or in a table of links, needs a second file with its `trips`.

    >>> find_game("hide-and-seek", ["size=4"]).actions
    (8, 16)
    """
    if name in eq.games.names():
        if trips is not None:
            raise InputError("trips", "no trips with a named game", trips)
        return load_named(name, settings)
    if "\0" not in name and is_object(name):
        return _own_game(name, settings, argument, trips)
    path = Path(name)
    if "\0" in name or (not path.suffix and not path.exists()):
        raise InputError(argument, "a file or a named game", f"neither: {name!r}", hint(name))
    if path.suffix.lower() == ".tntp":
        return _find_network(path, settings, trips)
    if settings:
        raise InputError("set", "a named game", f"the file {name}")
    return eq.games.read(path, trips)


def _own_game(name: str, settings: Sequence[str], argument: str, trips: Path | None) -> Any:
    """Load a game from the user's own code."""
    if trips is not None:
        raise InputError("trips", f"no trips with {name}", trips)
    pairs = [setting(text) for text in settings]
    return load_object(name, _is_game, "a game", argument=argument, settings=pairs)


def _is_game(found: Any) -> bool:
    from equipoise.games.kinds import KINDS, class_of

    kind = getattr(type(found), "kind", None)
    return isinstance(kind, str) and kind in KINDS and isinstance(found, class_of(kind))


def digest_of_game(name: str) -> str | None:
    """Return a digest of the file that holds a game, or the code that makes it; None for a name.

    >>> digest_of_game("hide-and-seek") is None
    True
    """
    if name in eq.games.names():
        return None
    if is_object(name):
        return source_digest(name)
    with open(name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_family(
    name: str,
    actions: tuple[int, int],
    *,
    scale: float | None = None,
    base: str | None = None,
    seed: int = 0,
    fewest: int | None = None,
    settings: Sequence[str] = (),
    **markov: Any,
) -> Any:
    """Return a family of random games: one of `FAMILIES`, or an object of the user's own code.

    `markov` holds the number of states and what else Markov games need; None stands for a default.

    >>> find_family("gaussian", (2, 3), scale=0.1, states=None).actions
    (2, 3)
    """
    from equipoise.games import families

    more: dict[str, Any] = {key: value for key, value in markov.items() if value is not None}
    if is_object(name):
        for option, value in {"base": base, "scale": scale, **more}.items():
            if value is not None:
                raise InputError(option, f"no value with {name}, which decides it", value)
        return load_family(name, settings)
    if name not in FAMILIES:
        close = get_close_matches(name, FAMILIES, n=1)
        more_help = f"did you mean {close[0]}?" if close else ""
        wanted = f"one of {', '.join(FAMILIES)}, or MODULE:OBJECT"
        raise InputError("family", wanted, repr(name), more_help)
    if base is not None and name != "perturbed":
        raise InputError("base", "this option only with --family perturbed", name)
    if scale is not None and name not in ("perturbed", "gaussian"):
        raise InputError("scale", "this option only with --family perturbed or gaussian", name)
    if "concentration" in more and name == "mixture":
        raise InputError("concentration", "no value with --family mixture", more["concentration"])
    scaled: dict[str, Any] = {} if scale is None else {"scale": scale}
    if name == "mixture":
        return families.mixture(actions, fewest=fewest, **more)
    if name == "gaussian":
        return families.gaussian(actions, **scaled, **more)
    uniform = families.uniform(actions, **more)
    if name == "uniform":
        return uniform
    centre = uniform.sample(key=seed)
    if base is not None:
        centre = find_game(base, argument="base")
        if centre.kind not in ("matrix", "markov"):
            found = f"{base}, a game of kind {centre.kind}"
            raise InputError("base", "a matrix game or a Markov game", found)
    return families.perturbed(centre, **scaled)


#: Families of random games, by name.
FAMILIES = ("uniform", "gaussian", "perturbed", "mixture")
#: The keys of `equipoise.dynamics.NOISES`, of `equipoise.games.families.KINDS` and of
#: `equipoise.dynamics.LEARNERS`, repeated here because importing those imports JAX.
Noise = Literal["exact", "bernoulli", "gaussian"]
MixedKind = Literal[
    "uniform",
    "normal",
    "sparse",
    "binary",
    "narrow",
    "symmetric",
    "cyclic",
    "dominated",
    "known",
    "low-rank",
]
LEARNERS = (
    *("omd", "omd-vanishing", "omd-printed-constants", "omd-printed-signs"),
    *("omd-printed-regulariser", "omd-plain", "cai-euclidean", "log-barrier", "entropic"),
    *("exp3-ix", "v-learning", "optimistic", "regret-matching", "uniform", "best-responder"),
)


def load_family(name: str, settings: Sequence[str] = ()) -> Any:
    """Load a family of the user's own code.

    >>> load_family("math:pi")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: family: expected a family, or a function that returns one;
    found math:pi, of type float
    """
    from equipoise.games.families import Family

    def is_family(found: Any) -> bool:
        return isinstance(found, Family)

    pairs = [setting(text) for text in settings]
    return load_object(name, is_family, "a family", argument="family", settings=pairs)


def _find_network(path: Path, settings: Sequence[str], trips: Path | None) -> Any:
    """Read a network from two TNTP files, with the factors of tolls and distances."""
    if trips is None:
        raise InputError("trips", f"the file with the trips of {path} after it", "none")
    factors = dict(map(setting, settings))
    check_names("set", factors, ("toll_factor", "distance_factor"), "factors of a network")
    return eq.games.read_tntp(path, trips, **factors)


def load_named(name: str, settings: Sequence[str]) -> Any:
    """Load a game of the catalogue."""
    parameters, defaults = dict(map(setting, settings)), eq.games.describe(name).parameters
    check_names("set", parameters, defaults, f"parameters of {name}")
    try:
        with naming("set", parameters):
            return eq.games.load(name, **parameters)
    except TypeError as error:  # a parameter of another kind than its default
        raise InputError("set", f"values like {defaults}", parameters) from error


@contextmanager
def naming(flag: str, names: Collection[str]) -> Iterator[None]:
    """Name the flag in errors about one of these names.

    >>> with naming("option", ["spacing"]):
    ...     raise InputError("spacing", "a number > 0", -1)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: --option spacing: expected a number > 0, found -1
    """
    try:
        yield
    except InputError as error:
        if error.argument not in names:
            raise
        name = f"--{flag} {error.argument}"
        raise InputError(name, error.expected, error.found, error.hint) from error


def hint(name: str) -> str:
    """Suggest the closest name of a game, or how to list the names."""
    close = get_close_matches(name, eq.games.names(), n=1)
    return f"did you mean {close[0]}?" if close else "`equipoise games` lists the names"


def setting(text: str, argument: str = "set") -> tuple[str, Any]:
    """Split "size=10" into its name and value. A value that is not JSON is a word.

    >>> setting("size=10"), setting("sense=min")
    (('size', 10), ('sense', 'min'))
    """
    from equipoise.core.plain import parse_json

    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(argument, "NAME=VALUE", repr(text))
    try:
        return name, parse_json(value)
    except ValueError:
        return name, value  # a word


def check_counts(at_least: int = 1, **counts: float | None) -> None:
    """Refuse values that are not counts. None stands for an option that was not given.

    >>> check_counts(opponent_games=0)
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: opponent_games: expected a whole number in [1, 2^31), found 0
    """
    for name, count in counts.items():
        if count is not None and not at_least <= count < 2**31:
            found = count if abs(count) < 1e15 else f"{Decimal(count):.3g}"
            raise InputError(name, f"a whole number in [{at_least}, 2^31)", found)


def check_seed(seed: int) -> None:
    """Refuse a value that is not a seed."""
    if not 0 <= seed < 2**32:
        raise InputError("seed", "a number in [0, 2**32)", seed)


def check_tolerance(tolerance: float | None) -> None:
    """Refuse a tolerance that is not a finite positive number."""
    if tolerance is not None and not 0 < tolerance < float("inf"):
        raise InputError("tolerance", "a finite number > 0", tolerance)


def check_only_with_states(states: int | None, **values: float | None) -> None:
    """Refuse options of Markov games if --states is not given."""
    for name, value in values.items():
        if value is not None and states is None:
            raise InputError(
                name, "this option only with --states", value, "matrix games have no states"
            )


def check_suffix(argument: str, file: Path | None, *suffixes: str) -> None:
    """Refuse a file name whose suffix is not a known format, before any work is done.

    >>> check_suffix("report", Path("page.txt"), ".html")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: report: expected a name that ends in .html, found page.txt
    """
    if file is not None and file.suffix.lower() not in suffixes:
        raise InputError(argument, f"a name that ends in {' or '.join(suffixes)}", file)


def make_folder_of(file: Path) -> Path:
    """Create the folder of a file if it does not exist, and return the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     make_folder_of(Path(place, "new", "policy.json")).parent.is_dir()
    True
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        found = "a file in place of the folder"
        raise InputError(str(file), "a name in a folder", found) from error
    return file


def in_run_folder(
    given: Path | None, name: str, work: Callable[[Path], Found]
) -> tuple[Path, bool, Found]:
    """Do the work in the given run folder, or choose one of runs/NAME, runs/NAME-2, ...

    The first folder is chosen that is new or holds this very run. The same command therefore
    resumes, or reads the finished record, and another command gets a folder of its own. A folder
    that another process is writing is skipped. Returns the folder, whether it already held the
    record, and the result of the work.

    >>> import contextlib, tempfile
    >>> from equipoise.runs import Run
    >>> with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
    ...     def work(seed):
    ...         return in_run_folder(None, "x", lambda folder: Run.start(folder, seed).close())[0]
    ...     [str(work({"seed": seed})) for seed in (0, 1, 0)]
    ['runs/x', 'runs/x-2', 'runs/x']
    """

    def done(folder: Path) -> tuple[Path, bool, Found]:
        known = (folder / "record.json").exists()
        try:
            return folder, known, work(folder)
        except KeyboardInterrupt as stop:
            if stop.args or not folder.exists():
                raise
            told = f"; progress is saved in {folder}; to resume, run the same command again"
            raise KeyboardInterrupt(told) from None

    if given is not None:
        check_folder(given)
        return done(given)
    number, folder = 1, Path("runs", name)
    while True:
        if not folder.exists() or _is_run(folder):
            with suppress(eq.runs.OtherConfig, eq.runs.FolderInUse):
                return done(folder)
        number += 1
        folder = Path("runs", f"{name}-{number}")


def _is_run(folder: Path) -> bool:
    """Return whether a folder holds a run that can be resumed, or is empty."""
    return folder.is_dir() and eq.runs.Run.can_start(folder)


def check_folder(folder: Path, may_go_on: Callable[[Path], bool] = _is_run) -> None:
    """Refuse a folder that cannot hold the run, before doing work that would be lost.

    `may_go_on` returns whether a folder is empty or holds files that the command can resume.

    >>> check_folder(Path("a-new-folder"))
    """
    if folder.exists() and not folder.is_dir():
        raise InputError("run", "a folder", f"the file {folder}")
    if folder.exists() and not may_go_on(folder):
        wanted = "a new or empty folder, or the folder of the same run"
        raise InputError("run", wanted, f"other files in {folder}", "choose another folder")
    place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not os.access(place, os.W_OK):
        raise InputError("run", "a folder with permission to write", place)
