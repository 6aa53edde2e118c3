"""The runner's own state, to JSON and back."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.core.errors import CheckpointError
from jobrun.graph.types import OutputRef
from jobrun.runner.saved_progress import Patience, Progress, from_json, to_json

FULL = Progress(
    epoch=7,
    elapsed_s=1.5,
    epoch_s=0.1,
    patience=(Patience("loss", 0.25, 2), Patience("other")),
    metrics=(("loss", float("inf")), ("n", 3), ("ok", True)),
    scores=((3, 0.5), (7, 0.25)),
    outputs={OutputRef("t", "local", "x"): np.float32(0.1)},
    stopping=("3 epochs have run",),
    constants={"local.X": "sha256:00"},
    failed_saves=1,
)


def test_progress_comes_back_from_json():
    text = json.dumps(to_json(FULL), allow_nan=False)

    back = from_json(json.loads(text))

    assert back == FULL
    assert type(back.outputs[OutputRef("t", "local", "x")]) is np.float32


def test_the_form_does_not_depend_on_the_order_of_outputs():
    refs = [OutputRef("t", "local", name) for name in "ab"]
    one = Progress(outputs=dict.fromkeys(refs, 1))
    other = Progress(outputs=dict.fromkeys(reversed(refs), 1))

    assert json.dumps(to_json(one)) == json.dumps(to_json(other))


@pytest.mark.parametrize("form", [{}, {**to_json(FULL), "outputs": [1]}])
def test_a_form_of_another_make_is_a_checkpoint_error(form):
    with pytest.raises(CheckpointError, match="no valid progress of the run"):
        from_json(form)
