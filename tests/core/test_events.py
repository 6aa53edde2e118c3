import pickle

import pytest
from msgspec import Struct

from jobrun.core import events
from tests.support.tables import each_case


def _is_event(kind):
    return isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct


KINDS = [kind for kind in vars(events).values() if _is_event(kind)]


@each_case("kind", KINDS)
def test_an_event_is_frozen_and_crosses_processes(kind):
    fields = kind.__struct_fields__
    event = kind(**dict.fromkeys(fields, "x"))

    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(AttributeError):
        setattr(event, fields[0], "y")
