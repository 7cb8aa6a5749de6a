"""What tests share and import by name; fixtures are in conftest.py."""

import functools
import importlib
import importlib.util
import mmap
import os
import typing
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import beartype
import jaxtyping
import numpy as np
import pytest

#: As a type checker reads annotations: an int is a float, and so is a scalar of NumPy an array,
#: which is what its functions return where an array has no axes left.
check_types = beartype.beartype(
    conf=beartype.BeartypeConf(
        is_pep484_tower=True,
        violation_type=TypeError,
        hint_overrides=beartype.FrozenDict({np.ndarray: np.ndarray | np.generic}),
    )
)


def is_plain(hint: Any) -> bool:
    """Whether an annotation has neither shapes nor words.

    Words in the place of types are looked up by jaxtyping, which forgives those that only type
    checkers import.
    """
    if isinstance(hint, str | typing.ForwardRef) or "jaxtyping" in repr(hint):
        return False
    return typing.get_origin(hint) is typing.Literal or all(map(is_plain, typing.get_args(hint)))


def check_lightly() -> None:
    """Let the hook of jaxtyping bind shapes only where annotations have some.

    Otherwise it binds the arguments of every call to a signature and checks them twice, which takes
    longer than most functions do. What has no shapes is checked once, by beartype alone.
    """
    bind = jaxtyping.jaxtyped

    def decorate(function: Any = None, **options: Any) -> Any:
        if function is None:
            return functools.partial(decorate, **options)
        hints = function.__annotations__.values() if isinstance(function, FunctionType) else [""]
        if all(map(is_plain, hints)):
            return check_types(function)
        return bind(function, **options)

    jaxtyping.jaxtyped = decorate


def refuses(call: Callable[[], Any], argument: str) -> None:
    """Check that a call is refused: the error names the argument, in one line."""
    from equipoise.core import InputError  # only once the hook checks what is imported

    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


def peer(name: str) -> ModuleType:
    """Import another library to compare with; without it the test is skipped.

    With EQUIPOISE_REQUIRE_PEERS set, as `make test` does, its absence is an error instead: a
    comparison that never runs is not a comparison.
    """
    if os.environ.get("EQUIPOISE_REQUIRE_PEERS"):
        return importlib.import_module(name)
    return pytest.importorskip(name)


def known_flags(**flags: str) -> str:
    """Those of some flags of XLA that the installed build has: it aborts on any other.

    They are looked for in the library itself, since asking XLA would load it.
    """
    spec, known = importlib.util.find_spec("jaxlib"), set()
    [folder] = (spec and spec.submodule_search_locations) or [""]
    for file in Path(folder).glob("*.so"):
        with (
            file.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as code,
        ):
            known |= {name for name in flags if code.find(name.encode() + b"\0") >= 0}
    return " ".join(f"--{name}={value}" for name, value in flags.items() if name in known)


def files_of(run: Path) -> dict[str, bytes]:
    """All files of a run folder but its log of starts and stops, which differs from run to run."""
    files = (path for path in sorted(run.rglob("*")) if path.is_file())
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for path in files
        if path.name != "environment.json"
    }


#: Words that break parsers: they are inserted at random places of text files.
WORDS = (b"NaN", b"1e999", b"9" * 400, b"[" * 3000, b"{" * 3000, b"true", b"null", b"-1", b'"')


def damage(rng: np.random.Generator, data: bytes) -> bytes:
    """Flip, overwrite, cut, repeat or insert some bytes."""
    array = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(len(array))) if array else 0
        match rng.integers(7):
            case 0 if array:
                array[at] ^= 1 << int(rng.integers(8))
            case 1:
                array[at : at + 1] = bytes([int(rng.integers(256))])
            case 2:
                width = int(rng.integers(1, 9))
                array[at : at + width] = bytes([int(rng.choice([0, 255, 127, 128]))]) * width
            case 3 if rng.random() < 0.3:
                del array[at:]
            case 4:
                piece = array[at : at + int(rng.integers(1, 40))]
                other = int(rng.integers(len(array) + 1))
                array[other : other + len(piece)] = piece
            case 5:
                array[at:at] = WORDS[int(rng.integers(len(WORDS)))]
            case _:
                array[at:at] = rng.bytes(int(rng.integers(1, 4)))
    return bytes(array)
