"""Every spec that is shipped keeps the promise: killed and resumed, it ends with the same bits."""

from __future__ import annotations

import json

import pytest

from tests.support.command import SPECS, jobrun

ALL = sorted(path.name for path in SPECS.glob("*.yaml"))


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ALL)
def test_a_shipped_spec_is_proven(name, tmp_path):
    done = jobrun(
        "prove", SPECS / name, "--kills", "6", "--json", cwd=tmp_path, timeout_s=280, started=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["landed"] >= 3
