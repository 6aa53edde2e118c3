"""Files that a later save replaces are warned of."""

from __future__ import annotations

import pytest

from tests.support.compiling import compile_text

A, B = "{save: {w: 'w.npz::a'}}", "{save: {w: 'w.npz::b'}}"
NODES = "nodes: {n: {count: 2}}\ninit: [{task: start, node: '*', steps: [w = 1.0]}]\n"
NODES += "epoch: [{task: t, node: '*', steps: [w = w + 1]}]\n"


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        (f"exit: [{{task: t, steps: [{A}, {B}]}}]", True),
        (f"exit: [{{task: t, steps: [{A}, {A}]}}]", False),
        (f"exit: [{{task: t, steps: [{A}]}}, {{task: u, steps: [{A}]}}]", True),
        (f"exit: [{{task: t, steps: [{A}]}}, {{task: u, steps: [{B}]}}]", True),
        (f"download: [{{task: t, steps: [{A}]}}]\nexit: [{{task: u, steps: [{A}]}}]", False),
        (f"download: [{{task: t, steps: [{A}]}}]\nexit: [{{task: u, steps: [{B}]}}]", True),
        (f"epoch: [{{task: t, steps: [w = w + 1, {A}], report: [{{every: 1s, steps: [{B}]}}]}}]",
         True),
        (f"exit: [{{task: t, setup: {{task: {{exit: [{B}]}}}}, steps: [{A}]}}]", True),
        ("exit: [{task: t, instances: 2, steps: [{save: {w: w.npy}}]}]", True),
        ("exit: [{task: t, instances: 2, steps: [{save: {w: 'w${instance}.npy'}}]}]", False),
        (NODES + "exit: [{task: u, node: '*', steps: [{save: {w: w.npy}}]}]", True),
        (NODES + "exit: [{task: u, node: '*', steps: [{save: {w: 'w-${node}.npy'}}]}]", False),
    ],
)  # fmt: skip
def test_save_that_replaces_what_another_has_written_is_warned_of(tmp_path, text, warned):
    codes = {fault.code for fault in compile_text(tmp_path, text).warnings}

    assert codes == ({"W145"} if warned else set())
