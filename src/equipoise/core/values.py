"""Immutable values made of arrays: games, policies, families and the terms they consist of.

A `Value` is a frozen dataclass whose arrays cannot be modified. It compares with `==` by content,
copying it returns the same object, it can be sent between processes with `multiprocessing`, and
`to_plain` writes it as the arguments of its constructor.

It needs no JAX. Where JAX is loaded, a class becomes a pytree when it is first constructed;
packages that load JAX call `register_all` for values that exist already.
"""

import dataclasses
import inspect
import sys
from abc import ABCMeta
from collections.abc import Mapping
from functools import cache, partial
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import numpy as np

from equipoise.core import checks
from equipoise.core.devices import on_accelerator
from equipoise.core.errors import InputError, check_call

_registering = RLock()
_Own = TypeVar("_Own", bound="Value")


def static(**options: Any) -> Any:
    """Declare a field that is part of a value's structure: names, counts, functions."""
    return dataclasses.field(metadata={"static": True}, **options)


class _Checked(ABCMeta):
    """Answers a constructor's call that does not fit in one line, with the nearest name."""

    if not TYPE_CHECKING:  # a type checker would take every value for one of any type

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Create a value."""
            value = blank(cls)
            try:
                value.__init__(*args, **kwargs)
            except TypeError:
                check_call(cls.__init__, cls.__name__, args, kwargs, 1, cls._instead)
                raise
            return value

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the constructor."""
        found = inspect.signature(cls.__init__)
        return found.replace(parameters=list(found.parameters.values())[1:])


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(static,))
class Value(metaclass=_Checked):
    """Base of immutable values; every subclass is a frozen dataclass.

    A constructor sets its fields with `_set`, and freezes their arrays with `read_only`. Fields
    declared with `static()` are structure for JAX; all others are children of the pytree.
    """

    #: Name of the class in plain forms, if it has one.
    kind: ClassVar[str] = ""
    #: What errors of `from_plain` call such a value.
    _noun: ClassVar[str] = "value"
    #: What to use for further arguments by position.
    _instead: ClassVar[str] = ""
    #: Attributes that hold arguments of the constructor under another name.
    _held_by: ClassVar[Mapping[str, str]] = {}
    _registered: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        maker: Any = next(c for c in cls.__mro__ if "__init__" in vars(c))
        made = getattr(vars(maker).get("__dataclass_params__"), "init", False)
        generated = maker is object or (maker is not cls and made)
        dataclasses.dataclass(init=generated, frozen=True, eq=False, repr=False)(cls)
        cls._registered = False
        for field in _fields(cls):
            if isinstance(getattr(cls, field.name, None), property):
                setattr(cls, field.name, _Field())  # declared by a base class, stored by this one

    def _set(self, **fields: Any) -> None:
        """Set fields in a constructor."""
        vars(self).update(fields)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments with which the constructor makes an equal value."""
        return {name: getattr(self, own) for name, own in _stored(type(self)).items()}

    def replace(self: _Own, **changes: Any) -> _Own:
        """Return the same value with some arguments of its constructor changed.

        **Example**

        >>> import equipoise as eq
        >>> game = eq.games.load("braess-network").replace(tolls=[0, 0, 0, 0, 9])
        >>> game.costs([0, 0, 0, 0, 0]).tolist()
        [[0.0, 50.0, 50.0, 0.0, 19.0]]
        """
        return type(self)(**(self.arguments() | changes))

    def to_plain(self) -> dict[str, Any]:
        """Return `kind` and the arguments of the constructor: numbers, words, arrays, dictionaries.

        Optional arguments that are None or empty are left out. A function cannot be written.
        """
        own = type(self).__name__
        parts = {name: _plain(f"{own}.{name}", part) for name, part in self.arguments().items()}
        needed = parameters(type(self))
        named = {name: part for name, part in parts.items() if part is not None or needed[name]}
        return {"kind": self.kind, **named} if self.kind else named

    @classmethod
    def from_plain(cls: type[_Own], plain: Mapping[str, Any]) -> _Own:
        """Rebuild a value from its plain form. Arrays may be nested lists, as in JSON."""
        if plain.get("kind", cls.kind) != cls.kind:
            raise InputError("kind", repr(cls.kind), repr(str(plain["kind"])[:40]))
        parts = {name: part for name, part in plain.items() if name != "kind"}
        known = parameters(cls)
        missing = [name for name, needed in known.items() if needed and name not in parts]
        if set(parts) - set(known) or missing:
            expected = f"{', '.join(known)} for a {cls._noun} of kind {cls.kind or cls.__name__}"
            found = ", ".join(sorted(map(str, parts))) or "nothing"
            raise InputError(cls._noun, expected, found)
        return cls(**{name: cls._restored(name, part) for name, part in parts.items()})

    @classmethod
    def _restored(cls, name: str, plain: Any) -> Any:
        """Return an argument from its plain form; constructors that check take lists themselves."""
        if isinstance(plain, Mapping):
            return numbered(plain)
        made: Any = cls
        if not isinstance(plain, list) or not made.__dataclass_params__.init:
            return plain
        structure = next(f for f in _fields(cls) if f.name == name).metadata.get("static")
        return _tupled(plain) if structure else frozen(np.asarray(plain))

    def __repr__(self) -> str:
        fields = {f.name: getattr(self, f.name) for f in _fields(type(self))}
        parts = [f"{name}={_shown(part)}" for name, part in fields.items() if part is not None]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return same(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        shapes = tuple(_shapes(getattr(self, f.name)) for f in _fields(type(self)))
        return hash((type(self).__qualname__, shapes))

    def __copy__(self) -> "Value":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Value":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {f.name: getattr(self, f.name) for f in _fields(type(self))}
        return _restore, (type(self), fields)


class _Field:
    """Takes the place of a base class's property, so that the field of this name is found."""

    def __get__(self, value: Any, kind: Any = None) -> Any:
        return self


def blank(kind: type[Value]) -> Any:
    """Return a value without fields, which `_set` then sets: nothing is checked."""
    if not kind._registered and sys.modules.get("jax") is not None:
        register(kind)
    return object.__new__(kind)


def _restore(kind: type[Value], fields: dict[str, Any]) -> Value:
    """Rebuild a value sent from another process; its arrays arrive writeable."""
    value = blank(kind)
    value._set(**frozen(fields))
    return value


def register(kind: type[Value]) -> None:
    """Make a class a pytree of JAX. Rebuilding a value inside `jit` or `vmap` checks nothing."""
    from jax import tree_util

    with _registering:
        if kind._registered:
            return
        names = [f.name for f in _fields(kind) if not f.metadata.get("static")]
        fixed = [f.name for f in _fields(kind) if f.metadata.get("static")]
        keys = [tree_util.GetAttrKey(name) for name in names]

        def flatten(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
            own = vars(value)
            return [own[name] for name in names], tuple([own[name] for name in fixed])

        def flatten_with_keys(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
            children, structure = flatten(value)
            return list(zip(keys, children, strict=True)), structure

        def rebuild(structure: Any, children: Any) -> Any:
            value = object.__new__(kind)
            vars(value).update(zip(names, children, strict=True))
            vars(value).update(zip(fixed, structure, strict=True))
            return value

        tree_util.register_pytree_with_keys(kind, flatten_with_keys, rebuild, flatten)
        kind._registered = True


def register_all(kind: type[Value] = Value) -> None:
    """Make all values pytrees, also those that were made before JAX was loaded."""
    for each in kind.__subclasses__():
        register(each)
        register_all(each)


@cache
def _fields(kind: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


@cache
def parameters(kind: type[Value]) -> dict[str, bool]:
    """Names of a constructor's arguments, and whether they are required."""
    found = inspect.signature(kind).parameters.values()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p.default is p.empty for p in found if p.kind not in several}


@cache
def _stored(kind: type[Value]) -> dict[str, str]:
    """Names of the constructor's arguments, and of the fields or properties that hold them."""
    own = {name: kind._held_by.get(name, name) for name in parameters(kind)}
    fields = {f.name for f in _fields(kind)}
    return {name: held for name, held in own.items() if held in fields or hasattr(kind, held)}


def _plain(name: str, part: Any) -> Any:
    """Return the plain form of an argument; several arrays are parts 0, 1, ..."""
    if isinstance(part, Value):
        return part.to_plain() or None
    if is_array(part):
        return np.asarray(part)
    if isinstance(part, tuple) and any(map(is_array, part)):
        return {str(i): _plain(f"{name}[{i}]", array) for i, array in enumerate(part)}
    if isinstance(part, list | tuple):
        return [_plain(f"{name}[{i}]", item) for i, item in enumerate(part)]
    if isinstance(part, Mapping):
        words = {",".join(map(str, k)) if isinstance(k, tuple) else str(k): k for k in part}
        return {word: _plain(f"{name}[{word}]", part[k]) for word, k in words.items()} or None
    if callable(part):
        hint = "keep the program that makes it"
        raise InputError(name, "numbers, which can be written", "a function", hint)
    return part


def _tupled(plain: Any) -> Any:
    return tuple(map(_tupled, plain)) if isinstance(plain, list) else plain


def numbered(plain: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a dictionary whose keys are numbers again, or tuples of them.

    >>> numbered({"3": "triples"}), numbered({"1,2": "x"})
    ({3: 'triples'}, {(1, 2): 'x'})
    """

    def key(word: Any) -> Any:
        parts = word.split(",") if isinstance(word, str) else ()
        if not parts or not all(part.isdecimal() and len(part) < 10 for part in parts):
            return word
        return tuple(map(int, parts)) if len(parts) > 1 else int(word)

    return {key(word): part for word, part in plain.items()}


def is_array(part: Any) -> bool:
    """Whether `part` is an array of NumPy or of JAX, or one that JAX traces.

    >>> is_array(np.zeros(2)), is_array([0.0])
    (True, False)
    """
    return isinstance(part, np.ndarray) or is_jax(part)


def is_jax(part: Any) -> bool:
    """Whether `part` is an array of JAX, or one that it traces. Does not load JAX.

    >>> is_jax(np.zeros(2))
    False
    """
    return hasattr(part, "aval")


def _shown(part: Any) -> str:
    if is_array(part):
        return f"{part.dtype}[{','.join(map(str, part.shape))}]"
    if isinstance(part, dict):
        return f"{{{', '.join(f'{key!r}: {_shown(item)}' for key, item in part.items())}}}"
    if isinstance(part, tuple):
        return f"({', '.join(map(_shown, part))})"
    return repr(part)


def _shapes(part: Any) -> Any:
    """Shapes of the arrays of a field, which equal values share."""
    if isinstance(part, list | tuple):
        return tuple(map(_shapes, part))
    return part.shape if is_array(part) else None


def frozen(tree: Any) -> Any:
    """Make the NumPy arrays of a value, or of nested containers, read-only in place.

    No other code may hold them.

    >>> frozen({"x": np.zeros(2)})["x"].flags.writeable
    False
    """
    if isinstance(tree, np.ndarray):
        tree.setflags(write=False)
    elif isinstance(tree, list | tuple):
        for part in tree:
            frozen(part)
    elif isinstance(tree, dict):
        for part in tree.values():
            frozen(part)
    elif isinstance(tree, Value):
        frozen(vars(tree))
    return tree


def read_only(name: str, value: Any, *, booleans: bool = True, on_device: bool = False) -> Any:
    """Return `value` as a read-only float64 array; a JAX tracer is returned unchanged.

    With `on_device`, an array on an accelerator stays there.

    The array is copied only if other code could modify it: an array that is read-only already,
    including the memory it views, is shared.

    >>> read_only("payoff", [[1, 2]]).flags.writeable
    False
    """
    if checks.is_traced(value):
        return value
    if on_device and on_accelerator(value):
        return _doubled(name, value)
    array = checks.as_float_array(name, value, copy=False, booleans=booleans)
    fresh = isinstance(value, list | tuple)
    fresh |= is_array(value) and value.dtype != array.dtype
    return frozen(array if fresh else _unshared(array))


def _doubled(name: str, array: Any) -> Any:
    """Return an array on an accelerator in double precision."""
    from equipoise.core.precision import double_precision

    if not np.can_cast(array.dtype, np.float64, "same_kind"):
        raise InputError(name, "real numbers", f"dtype {array.dtype}")
    with double_precision():
        return array.astype(np.float64)


def read_only_integers(name: str, value: Any, dtype: Any = np.int64) -> np.ndarray:
    """Return `value` as a read-only array of whole numbers, copied only if it could be modified.

    >>> read_only_integers("rows", [0, 2])
    array([0, 2])
    """
    checks.check_known(name, value, "whole numbers")
    try:
        array = np.asarray(value)
    except ValueError as error:
        found = "rows of different lengths"
        raise InputError(name, "a rectangular array of whole numbers", found) from error
    if array.dtype.kind not in "iu":
        raise InputError(name, "whole numbers", f"dtype {array.dtype}")
    own = array.astype(dtype, copy=False)
    fresh = own is not array or isinstance(value, list | tuple)
    return frozen(own if fresh else _unshared(own))


def _unshared(array: np.ndarray) -> np.ndarray:
    """Return the array if it cannot change; otherwise a copy that stores repeated entries once."""
    base: Any = array
    while isinstance(base, np.ndarray) and not base.flags.writeable:
        base = base.base
    if isinstance(base, type(None) | bytes) or is_jax(base):
        return array  # not a memory-mapped file, nor bytes owned elsewhere
    if 0 in array.shape or all(array.strides):
        return array.copy()  # two cores that touch new memory at once are slower
    once = tuple(slice(None) if stride else slice(0, 1) for stride in array.strides)
    return np.broadcast_to(frozen(array[once].copy()), array.shape)


def same(first: Any, second: Any) -> bool:
    """Whether two values have the same content: arrays entry by entry, functions by identity.

    >>> same({"x": np.zeros(2)}, {"x": np.zeros(2)}), same((1, np.ones(1)), (1, np.zeros(1)))
    (True, False)
    """
    if first is second:
        return True
    if is_array(first) and is_array(second):
        return np.array_equal(np.asarray(first), np.asarray(second))
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, partial):
        parts = ("func", "args", "keywords")
        return all(same(getattr(first, part), getattr(second, part)) for part in parts)
    if dataclasses.is_dataclass(first):
        fields = dataclasses.fields(first)
        return all(same(getattr(first, f.name), getattr(second, f.name)) for f in fields)
    return bool(first == second)
