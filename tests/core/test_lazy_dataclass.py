"""Dataclasses that are generated at first use are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
import subprocess
import sys
import weakref
from dataclasses import FrozenInstanceError, field
from threading import Barrier, Thread
from typing import ClassVar

import pytest

from jobrun.core.lazy_dataclass import (
    _compile_init,
    _Deferred,
    dataclass,
    field_types,
    field_values,
    is_dataclass,
    replace,
    required_fields,
)


@dataclass(frozen=True, slots=True)
class Base:
    name: str
    tags: list = field(default_factory=list, compare=False)


@dataclass(frozen=True, slots=True)
class Derived(Base):
    """A second level, with a default and a field that is no parameter."""

    size: int = 3
    twice: int = field(init=False, default=0, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "twice", 2 * self.size)


@dataclass(slots=True)
class Open:
    count: int = 0


def _fresh(**options):
    """A class that nothing has used yet."""

    @dataclass(frozen=True, slots=True, **options)
    class Fresh:
        first: int
        second: str = "two"

    return Fresh


def test_nothing_is_generated_before_the_first_use():
    fresh = _fresh()
    assert isinstance(vars(fresh)["__init__"], _Deferred)

    fresh(1)

    waiting = {name for name, instance in vars(fresh).items() if isinstance(instance, _Deferred)}
    assert waiting >= {"__init__", "__repr__", "__eq__", "__hash__", "__match_args__"}


def test_a_class_of_many_instances_gets_a_constructor_of_its_own():
    fresh = _fresh()

    built = [fresh(number) for number in range(10)]

    assert not isinstance(vars(fresh)["__init__"], _Deferred)
    assert [instance.first for instance in built] == list(range(10))
    assert {instance.second for instance in built} == {"two"}


def _outcome(kind, *args, **kwargs):
    try:
        return str(kind(*args, **kwargs))
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1,), {}), ((1, "b"), {}), ((1, "b", 3), {}), ((1,), {"first": 2}),
     ((), {"second": "x", "first": 1}), ((1,), {"third": 3}), ((), {"second": 1})],
)  # fmt: skip
def test_the_first_instances_are_as_the_later_ones(args, kwargs):
    later = _fresh()
    for number in range(10):
        later(number)

    assert _outcome(_fresh(), *args, **kwargs) == _outcome(later, *args, **kwargs)


@dataclass(frozen=True, slots=True)
class Listing:
    number: int
    names: list[str] = field(default_factory=list)
    twice: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.number)


def test_the_first_instances_have_defaults_of_their_own_and_are_finished():
    instance, other = Listing(1), Listing(2)

    assert (instance.names, instance.twice, other.twice) == ([], 2, 4)
    assert instance.names is not other.names


def test_construction_compiles_one_function_for_all_classes_of_one_shape():
    fresh, calls = _fresh(), []
    _compile_init.cache_clear()

    @dataclass(frozen=True, slots=True)
    class Alike:
        label: str
        other: tuple = ()

    def note(event, arguments):
        if event == "exec" and calls is not None:
            calls.append(arguments)

    sys.addaudithook(note)
    for _ in range(10):
        fresh(1)
        alike = Alike(label="a")
    compiled, calls = calls, None

    assert len(compiled) == 1
    assert (alike.label, alike.other, fresh(1).second) == ("a", (), "two")
    with pytest.raises(TypeError, match=r"Alike.__init__\(\) missing 1 required .*'label'"):
        Alike()


FIRST_USES = {
    "construction": lambda kind: kind(1).second == "two",
    "fields": lambda kind: (
        [instance.name for instance in dataclasses.fields(kind)] == ["first", "second"]
    ),
    "is_dataclass": dataclasses.is_dataclass,
    "signature": lambda kind: list(inspect.signature(kind).parameters) == ["first", "second"],
    "match_args": lambda kind: kind.__match_args__ == ("first", "second"),
    "params": lambda kind: kind.__dataclass_params__.frozen,
}


@pytest.mark.parametrize("use", FIRST_USES.values(), ids=FIRST_USES)
def test_any_first_use_finds_what_dataclasses_generates(use):
    assert use(_fresh())


def test_a_subclass_has_the_fields_of_its_base_in_order():
    instance = Derived("a", ["t"], 5)

    assert [part.name for part in dataclasses.fields(instance)] == ["name", "tags", "size", "twice"]
    assert repr(instance) == "Derived(name='a', tags=['t'], size=5)"
    assert (instance.twice, Derived("a").tags) == (10, [])
    assert not hasattr(instance, "__dict__")


def test_equality_and_hash_are_of_the_compared_fields():
    assert Derived("a", ["x"]) == Derived("a", ["y"])
    assert hash(Derived("a", ["x"])) == hash(Derived("a", ["y"]))
    assert Derived("a") != Derived("b")
    assert Derived("a") != Base("a")


def test_what_is_not_frozen_can_be_set_and_not_hashed():
    instance = Open()
    instance.count = 4
    assert instance == Open(4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Open())


def test_what_is_frozen_cannot_be_set_or_deleted_not_even_unmade():
    bare = object.__new__(_fresh())
    with pytest.raises(FrozenInstanceError):
        bare.first = 1
    with pytest.raises(FrozenInstanceError):
        del Base("a").name


def test_an_ordinary_subclass_of_a_frozen_class_may_have_attributes_of_its_own():
    class Marked(Base):
        pass

    instance = Marked("a")
    instance.mark = 3
    assert instance.mark == 3
    with pytest.raises(FrozenInstanceError):
        instance.name = "b"


def test_copies_and_pickles_come_back():
    instance = Derived("a", ["t"], 5)
    for copied in (
        copy.copy(instance),
        copy.deepcopy(instance),
        pickle.loads(pickle.dumps(instance)),
    ):
        assert (copied, copied.tags, copied.twice) == (instance, ["t"], 10)
    assert dataclasses.replace(instance, name="b").name == "b"
    assert dataclasses.asdict(instance) == {"name": "a", "tags": ["t"], "size": 5, "twice": 10}


def test_an_overriding_method_finds_that_of_its_base():
    class Loud(Base):
        __slots__ = ()

        def __init__(self, name):
            super().__init__(name.upper())

    assert Loud("a").name == "A"


def test_fields_can_be_matched_by_position():
    match _fresh()(1, "b"):
        case object(first=first, second=second):
            assert (first, second) == (1, "b")
    match Derived("a", size=7):
        case Derived(name, _, size):
            assert (name, size) == ("a", 7)


def test_a_class_without_slots_can_cache_properties_and_be_referred_to_weakly():
    @dataclass(frozen=True)
    class Cached:
        first: int
        many: list = field(default_factory=list)

        @functools.cached_property
        def twice(self):
            return [2 * self.first]

    assert isinstance(vars(Cached)["__init__"], _Deferred)
    instance = Cached(3)

    assert instance.twice is instance.twice
    assert weakref.ref(instance)() is instance
    assert (instance, dataclasses.replace(instance, first=4).twice) == (Cached(3), [8])
    with pytest.raises(FrozenInstanceError):
        instance.first = 4


def test_a_class_with_class_variables_is_made_at_once():
    @dataclass(frozen=True, slots=True)
    class Counted:
        limit: ClassVar[int] = 3
        count: int = 0

    assert Counted.limit == 3
    assert [instance.name for instance in dataclasses.fields(Counted)] == ["count"]


def test_parameters_by_keyword_only_stay_so():
    with pytest.raises(TypeError):
        _fresh(kw_only=True)(1)
    assert _fresh(kw_only=True)(first=1).first == 1


def test_threads_that_use_a_class_first_at_once_find_it_whole():
    for _ in range(20):
        kind, together, built = _fresh(), Barrier(4), []

        def make(kind=kind, together=together, built=built):
            together.wait()
            built.append(kind(1))

        threads = [Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert built == [kind(1)] * 4


def test_importing_a_class_does_not_generate_it():
    program = (
        "import jobrun.graph.types as types; from jobrun.core.lazy_dataclass import _Deferred;"
        "assert isinstance(vars(types.Job)['__init__'], _Deferred)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_default_that_can_change_is_refused():
    @dataclass(frozen=True, slots=True)
    class Shared:
        items: list = []  # noqa: RUF012 - that is refused

    with pytest.raises(ValueError, match="mutable default"):
        Shared()


def test_a_subclass_of_an_ordinary_dataclass_takes_its_fields():
    @dataclasses.dataclass(frozen=True, slots=True)
    class Plain:
        first: int = 1

    @dataclass(frozen=True, slots=True)
    class Lazy(Plain):
        second: int = 2

    assert Lazy(3) == Lazy(3, 2)
    assert dataclasses.asdict(Lazy(5)) == {"first": 5, "second": 2}


def test_a_copy_with_changes_generates_no_description_of_the_fields():
    fresh = _fresh()
    changed = replace(fresh(1), second="new")
    assert (changed.first, changed.second) == (1, "new")
    assert isinstance(vars(fresh)["__dataclass_fields__"], _Deferred)


@pytest.mark.parametrize(
    "instance", [Derived("a", ["b"], 4), Open(3), dataclasses.make_dataclass("M", ["x"])(1)]
)
def test_a_copy_with_a_change_is_that_of_dataclasses(instance):
    first = dataclasses.fields(instance)[0].name
    assert replace(instance, **{first: "c"}) == dataclasses.replace(instance, **{first: "c"})


def test_a_field_that_is_no_parameter_cannot_be_changed():
    with pytest.raises(TypeError, match="twice"):
        replace(Derived("a"), twice=1)


def test_types_of_fields_are_those_of_dataclasses():
    built = dataclasses.make_dataclass(
        "Made", [("more", "bool", True)], bases=(Derived,), frozen=True
    )
    for kind in (Base, Derived, Open, built):
        types = {instance.name: instance.type for instance in dataclasses.fields(kind)}
        assert list(field_types(kind).items()) == list(types.items())
    assert field_types(int) == {}


def test_names_values_and_defaults_of_fields_need_no_description_of_them():
    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list)

    assert is_dataclass(Point)
    assert field_values(Point(1)) == {"x": 1, "y": 2, "tags": []}
    assert required_fields(Point) == {"x": True, "y": False, "tags": False}
    assert isinstance(vars(Point)["__dataclass_fields__"], _Deferred)


def test_names_values_and_defaults_of_fields_are_those_of_an_ordinary_dataclass():
    @dataclasses.dataclass
    class Point:
        x: int
        tags: list[str] = field(default_factory=list)

    assert is_dataclass(Point)
    assert field_values(Point(1)) == {"x": 1, "tags": []}
    assert required_fields(Point) == {"x": True, "tags": False}


def test_what_is_no_dataclass_is_none():
    assert not is_dataclass(int)
    assert not is_dataclass(3)
