import dataclasses
import pickle

import pytest

from jobrun.core import events
from tests.support.tables import each_case

KINDS = [kind for kind in vars(events).values() if dataclasses.is_dataclass(kind)]


@each_case("kind", KINDS)
def test_an_event_is_frozen_and_crosses_processes(kind):
    fields = dataclasses.fields(kind)
    event = kind(**{field.name: "x" for field in fields if field.init})

    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, fields[0].name, "y")
