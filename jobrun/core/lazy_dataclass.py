"""Define dataclasses with slots, of which each method is generated when it is first used.

``dataclasses`` compiles six functions a class, half a millisecond in which a process may import
the whole module: a command uses few of the hundreds of classes that it imports, and of most of
those it uses the constructor alone. Here only the slots are made at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import MISSING, Field
from functools import cache, cached_property, partial
from threading import RLock
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported
    from dataclasses import replace as replace  # noqa: PLC0414
else:

    def replace(given: Any, /, **changes: Any) -> Any:
        """Copy a dataclass instance, lazy or not, with some fields changed."""
        for name in _parameters(type(given)):
            if name not in changes:
                changes[name] = getattr(given, name)
        return type(given)(**changes)

    def dataclass(cls: type | None = None, /, *, slots: bool = False, **options: bool) -> Any:
        """Make a class a dataclass; generate each method at its first use (lazily)."""

        def _decorate(given: type) -> type:
            if options.keys() <= _LAZY and _is_simple(given):
                return _Generated(given, options, has_dict=not slots).cls
            import dataclasses  # noqa: PLC0415 - most are simple

            return dataclasses.dataclass(given, slots=slots, **options)

        return _decorate if cls is None else _decorate(cls)


def is_dataclass(kind: Any) -> bool:
    """Return whether a type is a dataclass, lazy or not, without making ``Field`` objects."""
    return isinstance(kind, type) and (_lazy_of(kind) is not None or hasattr(kind, _FIELDS))


def field_values(value: Any) -> dict[str, Any]:
    """Map field names of a dataclass instance, lazy or not, to their values, without copying."""
    kind: Any = type(value)
    return {name: getattr(value, name) for name in field_types(kind)}


@cache
def required_fields(kind: type) -> dict[str, bool]:
    """Map each field name of a dataclass, lazy or not, to True if the field has no default."""
    if (lazy := _lazy_of(kind)) is not None:
        missing = _MISSING
        return {
            name: one.default is missing and one.factory is missing
            for name, one in lazy.parts.items()
        }
    return {
        name: one.default is MISSING and one.default_factory is MISSING
        for name, one in getattr(kind, _FIELDS).items()
    }


@cache
def field_types(kind: type) -> dict[str, Any]:
    """Map field names of a dataclass, lazy or not, to unevaluated annotations; {} for others."""
    if isinstance(lazy := _lazy_of(kind), _Generated):
        return lazy.types()
    return {name: one.type for name, one in getattr(kind, _FIELDS, {}).items()}


@cache
def _parameters(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, lazy or not, that its constructor takes."""
    lazy = _lazy_of(kind)
    found = lazy.parts if lazy else getattr(kind, _FIELDS)
    return tuple(name for name, one in found.items() if one.init)


def _lazy_of(kind: type) -> _Generated | None:
    """Find the ``_Generated`` that makes methods for a lazy dataclass or its subclass, or None."""
    for base in kind.__mro__:
        if _LAZY_MARK in vars(base):
            found: _Generated = vars(base)[_LAZY_MARK]
            return found
        if _FIELDS in vars(base):
            break
    return None


# So many instances of a class pay for a constructor of its own.
_MANY = 6
# Generating takes a class apart: a second thread, or a forked process, must not meet its halves.
_LOCK = RLock()
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)
_FIELDS, _PARAMS = "__dataclass_fields__", "__dataclass_params__"
_LAZY_MARK = "__lazy_dataclass__"
# How annotations begin that make no field.
_NO_FIELD = ("\nClassVar", "\ntyping.", "\nInitVar", "\nKW_ONLY", "\ndataclasses.")
_LAZY = {"frozen", "eq", "kw_only"}
_OWN = ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl")


def _is_simple(cls: type) -> bool:
    """Return whether the methods of a dataclass can be generated lazily, at their first use.

    It has annotations of plain fields only, and the dataclasses that it extends have slots.
    """
    try:
        texts = "\n".join(["", *cls.__annotations__.values()])
    except TypeError:
        return False
    return not any(mark in texts for mark in _NO_FIELD) and all(
        "__slots__" in vars(base) for base in cls.__mro__[1:-1] if _FIELDS in vars(base)
    )


class _Part(NamedTuple):
    """A field, as generated methods need it: ``_MISSING`` is what it does not have.

    ``dataclasses`` takes as long to describe one as to compile a method.
    """

    name: str
    default: Any
    factory: Any
    init: bool
    kw_only: bool
    is_shown: bool = True
    is_compared: bool = True
    is_hashed: bool = True


_MISSING = object()
# A literal takes a third of the time of a call.
_EMPTY: dict[Any, str] = {list: "[]", dict: "{}"}


def _part(name: str, given: Any, *, kw_only: bool) -> _Part:
    """Describe a field of a lazy dataclass, from its default value or ``field()`` call."""
    if not isinstance(given, Field):
        if given is not _MISSING and type(given).__hash__ is None:
            raise ValueError(f"mutable default {type(given)} for field {name}: use default_factory")
        return _Part(name, given, _MISSING, init=True, kw_only=kw_only)
    default, factory = (
        _MISSING if one is MISSING else one for one in (given.default, given.default_factory)
    )
    own = kw_only if given.kw_only is MISSING else bool(given.kw_only)
    is_hashed = given.compare if given.hash is None else given.hash
    return _Part(name, default, factory, given.init, own, given.repr, given.compare, is_hashed)


class _Generated:
    """A class with slots, and the class as written, of which its methods are generated."""

    def __init__(self, written: type, options: dict[str, bool], *, has_dict: bool) -> None:
        self.written, self.options = written, options
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        names = tuple(written.__annotations__)
        inherited = {
            name for base in written.__mro__[1:-1] for name in vars(base).get("__slots__", ())
        }
        skipped = {*names, *_OWN}
        body = {name: one for name, one in vars(written).items() if name not in skipped}
        body[_LAZY_MARK] = self
        body["__slots__"] = tuple(name for name in names if name not in inherited)
        if has_dict and not any(base.__dictoffset__ for base in written.__bases__):
            # Beside the slots of its fields, for properties that are cached.
            body["__slots__"] += ("__dict__", "__weakref__")
        generated = ["__init__", "__repr__", "__match_args__", _FIELDS, _PARAMS]
        if eq:
            generated.append("__eq__")
            if frozen and body.get("__hash__") is None:
                body["__hash__"] = _Deferred("__hash__", self)
            elif "__hash__" not in body:
                body["__hash__"] = None
        if frozen:
            body.setdefault("__setattr__", _set_attribute)
            body.setdefault("__delattr__", _delete_attribute)
            # Without these, pickle and copy would set attributes one by one.
            body.setdefault("__getstate__", _get_state)
            body.setdefault("__setstate__", _set_state)
        for name in generated:
            if name not in body:
                body[name] = _Deferred(name, self)
        self.cls: Any = type(written)(written.__name__, written.__bases__, body)
        self.cls.__qualname__ = written.__qualname__
        # How many instances were made without a generated constructor.
        self.constructed = 0

    def generate(self, name: str) -> None:
        """Generate one method of a lazy dataclass in place of its placeholder."""
        with _LOCK:
            if isinstance(vars(self.cls)[name], _Deferred):
                setattr(self.cls, name, _GENERATORS[name](self))

    @cached_property
    def parts(self) -> dict[str, _Part]:
        """Return the fields of a lazy dataclass by name, those of its base classes first."""
        found: dict[str, _Part] = {}
        for base in self.written.__mro__[-1:0:-1]:
            if isinstance(lazy := vars(base).get(_LAZY_MARK), _Generated):
                found |= lazy.parts
            elif _FIELDS in vars(base):
                fields = getattr(base, _FIELDS).values()
                found |= {one.name: _part(one.name, one, kw_only=one.kw_only) for one in fields}
        kw_only, given = self.options.get("kw_only", False), vars(self.written)
        for name in self.written.__annotations__:
            found[name] = _part(name, given.get(name, _MISSING), kw_only=kw_only)
        return found

    def types(self) -> dict[str, Any]:
        """Return a lazy dataclass's field annotations by name, those of its base classes first."""
        found: dict[str, Any] = {}
        for base in self.written.__mro__[-1:0:-1]:
            found |= field_types(base) if _FIELDS in vars(base) else {}
        return found | self.written.__annotations__

    def compile(self, signature: str, body: str, known: dict[str, Any]) -> Any:
        """Compile a generated method of a lazy dataclass from its signature and body."""
        exec(f"def {signature}: {body}", known)  # noqa: S102 - of a class's own names
        made = known[signature.partition("(")[0]]
        made.__qualname__ = f"{self.cls.__qualname__}.{made.__name__}"
        return made


def _fields_of(one: _Generated) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in one.written.__mro__[-1:0:-1]:
        found |= getattr(base, _FIELDS, {})
    found |= getattr(_as_written(one), _FIELDS)
    return found


def _params_of(one: _Generated) -> Any:
    params = getattr(_as_written(one), _PARAMS)
    for name in ("init", "repr", "eq"):
        setattr(params, name, one.options.get(name, True))
    params.frozen = one.options.get("frozen", False)
    return params


def _as_written(one: _Generated) -> type:
    """Build an ordinary dataclass with a lazy dataclass's fields but no generated methods."""
    import dataclasses  # noqa: PLC0415 - a command that uses no such class does without

    given = vars(one.written)
    body = {name: given[name] for name in one.written.__annotations__ if name in given}
    # With a docstring: dataclasses renders the signature where there is none.
    body |= {"__annotations__": one.written.__annotations__, "__doc__": "As written."}
    return dataclasses.dataclass(
        init=False, repr=False, eq=False, kw_only=one.options.get("kw_only", False)
    )(type(one.written.__name__, (), body | {"__module__": one.written.__module__}))


def _construct(one: _Generated, instance: Any, /, *args: Any, **kwargs: Any) -> None:
    """Set the fields of a new lazy dataclass instance without a generated ``__init__``.

    Most classes have few instances in a process, for which it takes longer to generate that.
    """
    parts = one.parts
    positional = [name for name, part in parts.items() if part.init and not part.kw_only]
    given = dict(zip(positional, args, strict=False)) | kwargs
    values, missing, used = {}, False, 0
    for name, part in parts.items():
        if part.init and name in given:
            values[name] = given[name]
            used += 1
        elif part.factory is not _MISSING:
            values[name] = part.factory()
        elif part.default is not _MISSING:
            values[name] = part.default
        else:
            missing = missing or part.init
    if missing or used != len(args) + len(kwargs):
        # It says what is wrong.
        one.generate("__init__")
        one.cls.__init__(instance, *args, **kwargs)
        return
    for name, value in values.items():
        object.__setattr__(instance, name, value)
    if hasattr(one.cls, "__post_init__"):
        instance.__post_init__()


def _init_of(one: _Generated) -> Any:
    """Generate ``__init__`` of a lazy dataclass, faster than that of ``dataclasses`` if frozen.

    It sets each slot of a frozen class by the slot's descriptor. That takes half as long as
    ``object.__setattr__``, by which ``dataclasses`` does it, and a large spec becomes a hundred
    values for each of its tasks. To assign, as to one that is not frozen, takes a third of that.
    """
    is_plain = one.cls.__setattr__ is object.__setattr__
    slots: dict[str, str] = {}
    missing = _MISSING
    known: dict[str, Any] = {"_missing": missing}
    parameters, names, by_keyword, lines = ["self"], ["self"], [], []
    defaults, keyword_defaults = [], {}
    for number, field in enumerate(one.parts.values()):
        name, parameter = field.name, f"_{number}"
        value, default = parameter, field.default
        if field.factory is not missing:
            known[f"_make{number}"] = field.factory
            value = _EMPTY.get(field.factory, f"_make{number}()")
            if field.init:
                value = f"{value} if {parameter} is _missing else {parameter}"
        elif not field.init:
            if default is missing:
                continue
            known[f"_default{number}"] = default
            value = f"_default{number}"
        if is_plain:
            slots[f"_slot{number}"] = name
            lines.append(f"self._slot{number} = {value}")
        else:
            known[f"_set{number}"] = getattr(one.cls, name).__set__
            lines.append(f"_set{number}(self, {value})")
        has_default = default is not missing or field.factory is not missing
        if field.init and field.kw_only:
            by_keyword.append((name, parameter))
            if has_default:
                # That of a field with a factory is the one that asks for a call of it.
                keyword_defaults[name] = default
        elif field.init:
            if has_default:
                defaults.append(default)
            elif defaults:
                message = f"non-default argument {name!r} follows default argument"
                raise TypeError(message)
            parameters.append(parameter)
            names.append(name)
    if hasattr(one.cls, "__post_init__"):
        lines.append("self.__post_init__()")
    if by_keyword:
        parameters += ["*", *(parameter for _, parameter in by_keyword)]
    code = _compile_init(", ".join(parameters), "; ".join(lines) or "pass")
    code = code.replace(
        co_varnames=(*names, *(name for name, _ in by_keyword)),
        co_names=tuple([slots.get(used, used) for used in code.co_names]),
        co_qualname=f"{one.cls.__qualname__}.__init__",
    )
    made = FunctionType(code, known, "__init__", tuple(defaults))
    made.__kwdefaults__ = keyword_defaults
    return made


@cache
def _compile_init(parameters: str, body: str) -> CodeType:
    """Compile one ``__init__`` for all lazy dataclasses with equally many fields of like kinds.

    Their parameters and slots are numbered, and get their names when a class takes the code.
    """
    known: dict[str, Any] = {}
    exec(f"def __init__({parameters}): {body}", known)  # noqa: S102 - of a class's own names
    code: CodeType = known["__init__"].__code__
    return code


def _repr_of(one: _Generated) -> Any:
    from reprlib import recursive_repr  # noqa: PLC0415 - for messages and tests

    names = [part.name for part in one.parts.values() if part.is_shown]
    shown = ", ".join(f"{name}={{self.{name}!r}}" for name in names)
    text = f"return f'{{self.__class__.__qualname__}}({shown})'"
    return recursive_repr()(one.compile("__repr__(self)", text, {}))


def _eq_of(one: _Generated) -> Any:
    names = [part.name for part in one.parts.values() if part.is_compared]
    own, its = ("".join(f"{of}.{name}," for name in names) for of in ("self", "other"))
    text = f"return ({own}) == ({its}) if other.__class__ is self.__class__ else NotImplemented"
    return one.compile("__eq__(self, other)", text, {})


def _hash_of(one: _Generated) -> Any:
    names = [part.name for part in one.parts.values() if part.is_hashed]
    own = "".join(f"self.{name}," for name in names)
    return one.compile("__hash__(self)", f"return hash(({own}))", {})


def _match_args_of(one: _Generated) -> tuple[str, ...]:
    return tuple(part.name for part in one.parts.values() if part.init and not part.kw_only)


_GENERATORS: dict[str, Callable[[_Generated], Any]] = {
    _FIELDS: _fields_of, _PARAMS: _params_of, "__init__": _init_of, "__repr__": _repr_of,
    "__eq__": _eq_of, "__hash__": _hash_of, "__match_args__": _match_args_of,
}  # fmt: skip


class _Deferred:
    """An attribute of a class that is generated when it is first looked up."""

    __slots__ = ("_name", "_of")

    def __init__(self, name: str, of: _Generated) -> None:
        self._name, self._of = name, of

    def __get__(self, instance: object, owner: type) -> Any:
        # A constructor is bound to an instance: anything else asks what it is.
        if self._name == "__init__" and owner is self._of.cls and instance is not None:
            self._of.constructed += 1
            if self._of.constructed < _MANY:
                return partial(_construct, self._of, instance)
        self._of.generate(self._name)
        # Not that of the owner, which may override it and have asked for its base's.
        found = vars(self._of.cls)[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _set_attribute(self: Any, name: str, value: Any) -> None:
    _require_own(self, name, "assign to")
    object.__setattr__(self, name, value)


def _delete_attribute(self: Any, name: str) -> None:
    _require_own(self, name, "delete")
    object.__delattr__(self, name)


def _require_own(one: Any, name: str, act: str) -> None:
    """Refuse to change a frozen lazy dataclass's attribute, unless a subclass added it."""
    if _FIELDS in vars(type(one)) or name in getattr(one, _FIELDS):
        from dataclasses import FrozenInstanceError  # noqa: PLC0415 - a defect of the caller

        message = f"cannot {act} field {name!r}"
        raise FrozenInstanceError(message)


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)
