"""Define dataclasses with slots whose methods are generated when the first of them is used.

``dataclasses`` compiles six functions a class, half a millisecond in which a process may import
the whole module: a command uses few of the hundreds of classes that it imports. Here only the slots
are made at once; everything else is what ``dataclasses`` generates.
"""

from __future__ import annotations

import os
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - exported
else:

    def dataclass(cls: type | None = None, /, *, slots: bool = False, **options: bool) -> Any:
        """Make a class a dataclass; with slots, its methods are generated at first use."""

        def _decorate(given: type) -> type:
            if slots and _is_simple(given):
                return _Generated(given, options).cls
            import dataclasses  # noqa: PLC0415 - most are simple

            return dataclasses.dataclass(given, slots=slots, **options)

        return _decorate if cls is None else _decorate(cls)


# Generating takes a class apart: a second thread, or a forked process, must not meet its halves.
_LOCK = RLock()
os.register_at_fork(
    before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
)
_FIELDS = "__dataclass_fields__"
# Annotations that make no field.
_NO_FIELD = ("ClassVar", "typing.", "InitVar", "KW_ONLY", "dataclasses.")
_OWN = ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl")


def _is_simple(cls: type) -> bool:
    """Return whether a lazy dataclass has slots for exactly its annotated fields."""
    texts = cls.__annotations__.values()
    return all(isinstance(text, str) and not text.startswith(_NO_FIELD) for text in texts) and all(
        "__slots__" in vars(base) for base in cls.__mro__[1:-1] if _FIELDS in vars(base)
    )


class _Generated:
    """A class with slots, and the class as written, from which ``dataclasses`` generates."""

    def __init__(self, written: type, options: dict[str, bool]) -> None:
        self._written, self._options = written, options
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        self._is_done = False
        names = tuple(written.__annotations__)
        inherited = {
            name for base in written.__mro__[1:-1] for name in vars(base).get("__slots__", ())
        }
        skipped = {*names, *_OWN}
        body = {name: one for name, one in vars(written).items() if name not in skipped}
        body["__slots__"] = tuple(name for name in names if name not in inherited)
        generated = ["__init__", "__repr__", "__match_args__", _FIELDS, "__dataclass_params__"]
        if eq:
            generated.append("__eq__")
            if frozen and body.get("__hash__") is None:
                body["__hash__"] = _Deferred("__hash__", self)
            elif "__hash__" not in body:
                body["__hash__"] = None
        if frozen:
            generated += ["__setattr__", "__delattr__"]
            # Without these, pickle and copy would set attributes one by one.
            body.setdefault("__getstate__", _get_state)
            body.setdefault("__setstate__", _set_state)
        for name in generated:
            if name not in body:
                body[name] = _Deferred(name, self)
        self.cls = type(written)(written.__name__, written.__bases__, body)
        self.cls.__qualname__ = written.__qualname__

    def generate(self) -> None:
        """Generate the methods of a lazy dataclass, in place of those that defer it."""
        import dataclasses  # noqa: PLC0415 - a command that uses no such class does without

        with _LOCK:
            if self._is_done:
                return
            before = dict(vars(self._written))
            dataclasses.dataclass(**self._options)(self._written)
            if self._options.get("frozen") and "__init__" not in before:
                self._written.__init__ = _fast_init(self.cls, self._written)  # type: ignore[misc]
            skipped = {*_OWN, *self._written.__annotations__}
            for name, one in vars(self._written).items():
                if name not in skipped and before.get(name) is not one:
                    setattr(self.cls, name, one)
            self._is_done = True


def _fast_init(cls: type, written: Any) -> Any:
    """Compile the ``__init__`` of a frozen class to set each slot through its descriptor.

    That takes half as long as ``object.__setattr__``, by which ``dataclasses`` does it, and a large
    spec becomes a hundred values for each of its tasks.
    """
    import dataclasses  # noqa: PLC0415 - imported before

    fields = dataclasses.fields(written)
    if not all(one.init and not one.kw_only for one in fields):
        return written.__init__
    missing = dataclasses.MISSING
    known: dict[str, Any] = {"_missing": missing}
    parameters, lines = ["self"], []
    for number, one in enumerate(fields):
        value = parameter = one.name
        known[f"_set{number}"] = getattr(cls, one.name).__set__
        if one.default_factory is not missing:
            known[f"_make{number}"] = one.default_factory
            parameter, value = (
                f"{value}=_missing",
                f"_make{number}() if {value} is _missing else {value}",
            )
        elif one.default is not missing:
            known[f"_default{number}"] = one.default
            parameter = f"{value}=_default{number}"
        parameters.append(parameter)
        lines.append(f"_set{number}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "; ".join(lines) or "pass"
    exec(f"def __init__({', '.join(parameters)}): {body}", known)  # noqa: S102 - of a class's own names
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


class _Deferred:
    """An attribute of a class that is generated when it is first looked up."""

    __slots__ = ("_name", "_of")

    def __init__(self, name: str, of: _Generated) -> None:
        self._name, self._of = name, of

    def __get__(self, instance: object, owner: type) -> Any:
        self._of.generate()
        # Not that of the owner, which may override it and have asked for its base's.
        found = vars(self._of.cls)[self._name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in getattr(self, _FIELDS)]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(getattr(self, _FIELDS), state, strict=True):
        object.__setattr__(self, name, value)
