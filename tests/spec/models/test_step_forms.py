from jobrun.graph.effects.effect import declared_keys
from jobrun.graph.effects.table import declared_kinds


def test_a_declared_kind_of_step_has_its_first_key_as_its_form():
    for form, kind in declared_kinds().items():
        assert next(iter(declared_keys(kind).values())).name == form
