"""Test that an adapter keeps all that decides what a value or an object does next.

Subclass ``AdapterContract``, and supply a fixture ``adapted`` that returns an ``Adapted``::

    class TestSampler(AdapterContract):
        @pytest.fixture
        def adapted(self):
            return Adapted(make_sampler, lambda sampler, step: (sampler, sampler.draw(3)))
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.write.writer import write_state
from jobrun.runtime.snapshots.node_objects import load_object_state
from jobrun.values.blob_kinds import Value, check_storable, is_object
from jobrun.values.change_detection import fingerprint, lend
from jobrun.values.compare import find_difference, same_bits
from jobrun.values.copies import boundary_form, detach

_STEPS = 3


class Adapted(NamedTuple):
    """What a contract of adapters tests.

    Attributes:
        make: Makes a new value or object, each time an equal one.
        advance: Takes a value or object and the number of the step. Changes it, or makes another;
            returns that, and what shows what it did: arrays, numbers, text, containers of these.
    """

    make: Callable[[], Any]
    advance: Callable[[Any, int], tuple[Any, Value]]

    def run(self, value: Any, first: int = 0, *, plainly: bool = False) -> tuple[Any, list[Value]]:
        """Advance an adapted value by some steps; return it, and a copy of each step's output.

        With ``plainly`` no copy of the value is made between steps, as in plain Python.
        """
        shown: list[Value] = []
        for step in range(first, first + _STEPS):
            value, output = self.advance(value, step)
            shown.append(detach(output))
            value = value if plainly else boundary_form(value)
        return value, shown


class AdapterContract:
    """Tests that an adapter of your own passes; subclass it."""

    @pytest.fixture
    def adapted(self) -> Adapted:
        """Return functions to create and change a value of the tested adapter; override this."""
        raise AssertionError("a subclass supplies the fixture 'adapted'")

    def test_a_blob_can_hold_it(self, adapted: Adapted) -> None:
        assert check_storable(adapted.make(), "value") is None

    def test_from_a_checkpoint_it_goes_on_with_the_same_bits(
        self, adapted: Adapted, tmp_path: Path
    ) -> None:
        value, _ = adapted.run(adapted.make())
        loaded = through_checkpoint(value, adapted.make, tmp_path / "state.h5")
        whole, shown = adapted.run(value, _STEPS)
        resumed, shown_again = adapted.run(loaded, _STEPS)

        assert find_difference(shown, shown_again) is None
        assert same_bits(shown, shown_again)
        assert find_difference(_state(whole), _state(resumed)) is None

    def test_in_a_job_it_does_what_it_does_in_plain_python(self, adapted: Adapted) -> None:
        _, shown = adapted.run(boundary_form(adapted.make()))
        _, plain = adapted.run(adapted.make(), plainly=True)

        assert find_difference(shown, plain) is None
        assert same_bits(shown, plain)

    def test_a_save_changes_nothing(self, adapted: Adapted, tmp_path: Path) -> None:
        saved, _ = adapted.run(adapted.make())
        through_checkpoint(saved, adapted.make, tmp_path / "state.h5")
        _, shown = adapted.run(saved, _STEPS)
        _, shown_without = adapted.run(adapted.run(adapted.make())[0], _STEPS)

        assert find_difference(shown, shown_without) is None

    def test_a_change_is_detected(self, adapted: Adapted) -> None:
        value = adapted.make()
        before = fingerprint(value) if is_object(value) else None
        loan = None if is_object(value) else lend(value)
        lent = value if loan is None else loan.lent
        changed, _ = adapted.advance(lent, 0)

        if loan is None:
            assert fingerprint(value) != before
        else:
            # Another value has been made, or the change of what was lent is seen.
            assert changed is not lent or loan.change() is not None


def through_checkpoint(value: Any, make: Callable[[], Any], path: Path) -> Any:
    """Save an adapted value to a checkpoint file, and return it as a resume would load it."""
    held = capture_object("value", value) if is_object(value) else value
    at: Any = {"node": "n", "epoch": 1, "run_id": "r"}
    file: Any = write_state(str(path), **at, values=flatten_values({"value": held}))
    stored = read_state(str(path), **at, digest=file.digest, names=["value"])["value"]
    if not is_object(value):
        return stored
    fresh = make()
    load_object_state("value", fresh, stored)
    return fresh


def _state(value: Any) -> Value:
    return capture_object("value", value) if is_object(value) else value
