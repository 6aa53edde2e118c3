from jobrun.graph.effects.effect import declared_keys
from jobrun.graph.effects.table import DECLARED


def test_a_declared_kind_of_step_has_its_first_key_as_its_form():
    assert list(DECLARED) == [
        next(iter(declared_keys(one).values())).name for one in DECLARED.values()
    ]
