import pytest
from pydantic import TypeAdapter, ValidationError

from jobrun.spec.models import base_types as values
from jobrun.spec.models.base_types import Every, kind_of
from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.model_keys import fields_of
from jobrun.spec.models.readers import QueueSpec
from tests.support.tables import each_case


def _checked(kind, value):
    return TypeAdapter(getattr(values, kind)).validate_python(value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("90s", 90.0), ("30m", 1800.0), ("4h", 14400.0), ("2d", 172800.0),
     ("1.5h", 5400.0), ("0s", 0.0)],
)  # fmt: skip
def test_durations_are_seconds(text, seconds):
    assert _checked("Seconds", text) == seconds


@each_case("value", ["90", 90, "", "s", "-1s", "1 h", "1h30m", "1e3s", None, True, []])
def test_durations_have_a_unit(value):
    with pytest.raises(ValidationError):
        _checked("Seconds", value)


@pytest.mark.parametrize(
    ("text", "every"),
    [("1ep", Every("epochs", 1)), ("5 ep", Every("epochs", 5)), ("10m", Every("seconds", 600.0)),
     ("100records", Every("records", 100))],
)  # fmt: skip
def test_how_often(text, every):
    assert _checked("EveryValue", text) == every
    assert _checked("EveryValue", every) == every


@each_case("value", ["0ep", "0s", "ep", "1.5ep", "-1ep", 5, None, "5"])
def test_how_often_is_more_than_never(value):
    with pytest.raises(ValidationError):
        _checked("EveryValue", value)


@pytest.mark.parametrize("value", ["x + 1", "", True, 3, 2.5, ["a", 1], [["a"], "b"]])
def test_expressions_are_text_numbers_bools_and_lists(value):
    checked = _checked("Expression", value)

    assert checked == (tuple(_tuples(value)) if isinstance(value, list) else value)


def _tuples(value):
    return [tuple(item) if isinstance(item, list) else item for item in value]


@pytest.mark.parametrize("value", [None, {}, {"a": 1}, [None], [{}], object()])
def test_nothing_else_is_an_expression(value):
    with pytest.raises(ValidationError):
        _checked("Expression", value)


@pytest.mark.parametrize("name", ["w", "λ", "été", "_x9"])
def test_blob_names(name):
    assert _checked("BlobName", name) == name


@each_case("name", ["", "1a", "a-b", "a.b", "a b", "ﬁ", "e\u0301", "a²", "²", 3, None, "a" * 65])
def test_a_blob_has_one_spelling_in_expressions(name):
    with pytest.raises(ValidationError):
        _checked("BlobName", name)


@each_case(
    ("kind", "value"),
    [("Int", True), ("Int", 3.0), ("Int", "3"), ("Float", True), ("Float", "1"),
     ("Float", float("nan")), ("Float", float("inf")), ("Bool", 1), ("Bool", "true"), ("Str", 1)],
)  # fmt: skip
def test_nothing_is_converted(kind, value):
    with pytest.raises(ValidationError):
        _checked(kind, value)


def test_an_integer_is_accepted_as_a_float():
    assert _checked("Float", 3) == 3.0


@pytest.mark.parametrize(
    ("value", "kind"),
    [({}, "mapping"), ([], "list"), ((), "list"), ("a", "text"), (3, "text"), (None, "text")],
)
def test_kinds(value, kind):
    assert kind_of(value) == kind


def _all_models(model=values.Model):
    for subclass in model.__subclasses__():
        yield subclass
        yield from _all_models(subclass)


def test_no_key_has_a_bound_that_its_scalar_type_would_lose():
    # Pydantic puts the bounds of an assigned Field before the type, which gives its own schema.
    assert JobSpec in set(_all_models())
    lost = [
        (model.__name__, name)
        for model in _all_models()
        for name, field in fields_of(model)
        if any(isinstance(metadata, values.Scalar) for metadata in field.metadata[1:])
    ]
    assert lost == []


def _job(**spec):
    return JobSpec.model_validate({"jobrun": 1, "name": "a", **spec})


def test_a_part_whose_model_is_deferred_is_of_that_model():
    assert _job(queues={"q": {"capacity": 3}}).queues == {"q": QueueSpec(capacity=3)}


def test_errors_in_a_deferred_model_have_their_full_path():
    with pytest.raises(ValidationError) as caught:
        _job(queues={"q": {"capacity": 0, "shred": 1}, "r": 3})

    assert [error["loc"] for error in caught.value.errors()] == [
        ("queues", "q", "capacity"),
        ("queues", "q", "shred"),
        ("queues", "r"),
    ]


def test_a_deferred_model_is_dumped_with_its_keys():
    spec = _job(readers={"r": {"call": "a:B", "with": {"n": 3}}})

    assert spec.model_dump(by_alias=True)["readers"]["r"]["with"] == {"n": 3}
