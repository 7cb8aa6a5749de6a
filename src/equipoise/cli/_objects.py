"""Load objects of the user's own Python code: games, families, learners and simulators.

`mine.py:game` is the object `game` of the file mine.py, and `package.module:make_game` that of a
module on Python's path, which includes the working directory. Loading runs the code, with the
rights of the user.
"""

import hashlib
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from equipoise.cli._parsing import check_names
from equipoise.core.errors import InputError

#: A file or a module, a colon, and the name of an object in it; guarded:any names players.
_OBJECT = re.compile(r"(?!guarded:)(?P<module>.*\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_][\w.]*)")
#: Files that were loaded, to tell errors in them from errors of this package.
LOADED: set[Path] = set()


def is_object(text: str) -> bool:
    """Return whether a text names an object of the user's code, and not a file.

    >>> is_object("mine.py:game"), is_object("package.module:make"), is_object("game.nfg")
    (True, True, False)
    """
    return _OBJECT.fullmatch(text) is not None and not Path(text).exists()


def load_object(
    text: str,
    fits: Callable[[Any], bool],
    wanted: str,
    *,
    argument: str,
    settings: Sequence[tuple[str, Any]] = (),
) -> Any:
    """Load `module:object`, or call it with the settings if it is a function or a class.

    `fits` says whether an object can be used, and `wanted` describes such objects in errors, which
    name the `argument`.

    >>> load_object("math:pi", lambda found: isinstance(found, float), "a number", argument="game")
    3.141592653589793
    >>> load_object("math:pie", lambda found: isinstance(found, float), "a number", argument="game")
    Traceback (most recent call last):
    ...
    equipoise.core.errors.InputError: game: expected an object of math, found 'pie'; did you mean
    pi?
    """
    match = _OBJECT.fullmatch(text)
    if match is None:
        raise InputError(argument, "MODULE:OBJECT, such as mine.py:game", repr(text))
    place, name = match["module"], match["name"]
    found = _member(_module(place, text, argument), place, name, argument)
    if not isinstance(found, type) and fits(found):
        if settings:
            what = f"{text}, an object that takes no settings"
            raise InputError("set", f"a function that returns {wanted}", what)
        return found
    if not callable(found):
        expected = f"{wanted}, or a function that returns one"
        raise InputError(argument, expected, f"{text}, of type {type(found).__name__}")
    return _called(found, text, fits, wanted, dict(settings), argument)


def source_digest(text: str) -> str | None:
    """Return a digest of the file that defines `module:object`, after it was loaded.

    A run folder keeps it, so that a run of changed code is not taken for a run of the old code.

    >>> source_digest("game.nfg") is None
    True
    """
    match = _OBJECT.fullmatch(text)
    module = None if match is None else _known(match["module"])
    if module is None or module.__file__ is None:
        return None
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def told_of_user_code(error: BaseException) -> str | None:
    """Describe an error that the user's own code raised or caused; None for other errors.

    >>> told_of_user_code(ValueError("elsewhere")) is None
    True
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).absolute() in LOADED]
    if not own:
        return None
    reason = " ".join(str(error).split())
    told = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    return f"{own[-1].filename}, line {own[-1].lineno}: {told}; --traceback shows the calls"


def _called(
    make: Any,
    text: str,
    fits: Callable[[Any], bool],
    wanted: str,
    settings: dict[str, Any],
    argument: str,
) -> Any:
    """Call a function or a class of the user, and check what it returns."""
    parameters = _parameters(make)
    if not any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        check_names("set", settings, parameters, f"parameters of {text}")
    needed = [one.name for one in parameters.values() if _is_needed(one)]
    if missing := [name for name in needed if name not in settings]:
        expected = "a function whose parameters have values (--set NAME=VALUE) or defaults"
        raise InputError(argument, expected, f"{text}, which needs {', '.join(missing)}")
    found = make(**settings)
    if not fits(found):
        what = f"{text}, which returns {_described(found)}"
        raise InputError(argument, wanted, what)
    return found


def _parameters(make: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a function or a class; any, if it does not say what it takes."""
    try:
        return inspect.signature(make).parameters
    except ValueError:
        return inspect.signature(lambda **anything: anything).parameters


def _is_needed(parameter: inspect.Parameter) -> bool:
    several = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in several


def _described(found: Any) -> str:
    return "None" if found is None else f"an object of type {type(found).__name__}"


def _member(module: ModuleType, place: str, name: str, argument: str) -> Any:
    """Return an object of a module, or of a class in it; suggest the nearest name."""
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [own for own in vars(found) if not own.startswith("_")]
            close = get_close_matches(part, known, n=1)
            # Names that the file imported are not worth listing.
            own = [k for k in known if getattr(vars(found)[k], "__module__", "") == module.__name__]
            there = f"there are {', '.join(own[:12])}" if own else ""
            hint = f"did you mean {close[0]}?" if close else there
            raise InputError(argument, f"an object of {place}", repr(part), hint)
        found = getattr(found, part)
    return found


def _name_of(place: str) -> str:
    """Return the name of a module; a file has the name that `import` would give it."""
    return Path(place).stem if place.endswith(".py") else place


def _known(place: str) -> ModuleType | None:
    """Return a module that was loaded before, if it is that of the same file."""
    module = sys.modules.get(_name_of(place))
    if module is None or not place.endswith(".py"):
        return module
    same = module.__file__ is not None and Path(module.__file__) == Path(place).resolve()
    return module if same else sys.modules.get(_alias(place))


def _alias(place: str) -> str:
    """Return a name for the module of a file whose own name is taken by another module."""
    return f"{Path(place).stem} ({Path(place).resolve()})"


def _module(place: str, text: str, argument: str) -> ModuleType:
    """Import a module or a file; the working directory and the file's folder are on the path."""
    for folder in (str(Path.cwd()), str(Path(place).resolve().parent)):
        if folder not in sys.path and (folder == str(Path.cwd()) or place.endswith(".py")):
            sys.path.insert(0, folder)
    module = _known(place)
    if module is None:
        module = _import_file(place, argument) if place.endswith(".py") else None
        module = module or _import_module(place, text, argument)
    if module.__file__ is not None:
        LOADED.add(Path(module.__file__).absolute())
    return module


def _import_file(place: str, argument: str) -> ModuleType:
    """Run a file as a module."""
    path, name = Path(place).resolve(), _name_of(place)
    if not path.is_file():
        files = [file.name for file in Path(place).absolute().parent.glob("*.py")]
        close = get_close_matches(path.name, files, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise InputError(argument, "a Python file", f"no file {place}", hint)
    name = _alias(place) if name in sys.modules else name
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(argument, "a Python file", place)
    module = module_from_spec(spec)
    sys.modules[name] = module
    LOADED.add(path)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _failed(error, place, argument) from error
    return module


def _import_module(place: str, text: str, argument: str) -> ModuleType:
    """Import a module by its name."""
    try:
        return import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not (place == error.name or place.startswith(f"{error.name}.")):
            raise _failed(error, place, argument) from error
        files = [file.stem for file in Path.cwd().glob("*.py")]
        close = get_close_matches(place, files, n=1)
        hint = f"did you mean {close[0]}?" if close else "a file is named as in mine.py:game"
        found = f"no module {error.name!r} for {text!r}"
        raise InputError(argument, "a module on Python's path", found, hint) from None
    except Exception as error:
        raise _failed(error, place, argument) from error


def _failed(error: Exception, place: str, argument: str) -> InputError:
    """Return the error for code that cannot be imported, with the line that fails."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    outside = [f for f in frames if f.filename != __file__]
    where, reason = "", " ".join(str(error).split())
    if isinstance(error, SyntaxError):
        where, reason = f" ({Path(error.filename or place).name}, line {error.lineno})", error.msg
    elif outside:
        where = f" ({Path(outside[-1].filename).name}, line {outside[-1].lineno})"
    found = f"{type(error).__name__}: {reason}{where}"
    return InputError(argument, f"code that can be imported from {place}", found)
