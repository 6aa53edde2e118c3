from jobrun.graph.effects import DECLARED


def test_a_declared_kind_of_step_has_its_first_key_as_its_form():
    for key, kind in DECLARED.items():
        assert next(iter(kind.keys.values())).name == key
