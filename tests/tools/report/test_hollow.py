"""The tasks of a job from its recorded plan."""

from __future__ import annotations

import json

import pytest

from jobrun.api import prepare
from jobrun.graph.drawing import mermaid
from jobrun.runner.rundir.spec_folder import plan_text
from jobrun.tools.report.report_data import strip_job
from tests.support.command import SPECS


def test_it_looks_like_the_job():
    job = prepare(str(SPECS / "digits-kmeans.yaml")).job

    assert mermaid(strip_job(json.loads(plan_text(job)))) == mermaid(job)


@pytest.mark.parametrize("plan", [{}, {"job": 1, "nodes": [], "groups": {}, "seed": 0}])
def test_a_plan_of_another_form_is_refused(plan):
    with pytest.raises(KeyError):
        strip_job(plan)
