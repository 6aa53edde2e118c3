"""Any job gives the same bits however it is run, and those are the bits it says."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from jobrun.core.errors import SpecError
from jobrun.spec.dump import dump_tree
from tests.property.checks import check_metered, check_runner, check_threads
from tests.property.jobs import specs
from tests.support.expression_models import rendered
from tests.support.thinning import examples

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))


def _checked(check: Any, spec: dict[str, Any]) -> None:
    # Not tmp_path: hypothesis calls the test many times.
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(spec, Path(folder))
        except SpecError as error:
            # A drawn net may change a parameter in vain, which is refused; nothing else may be.
            if any(fault.code != "E511" for fault in error.faults):
                error.add_note(dump_tree(rendered(spec)))
                raise
        except BaseException as error:
            error.add_note(dump_tree(rendered(spec)))
            raise


@settings(_COMMON, max_examples=3)
@given(specs())
def test_a_job_resumed_from_any_epoch_ends_with_the_same_bits(spec):
    _checked(check_runner, spec)


@settings(_COMMON, max_examples=3)
@given(specs())
def test_a_job_that_is_measured_ends_with_the_same_bits(spec):
    _checked(check_metered, spec)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(_COMMON, max_examples=examples(20))
@given(specs())
def test_any_job_that_is_measured_ends_with_the_same_bits(spec):
    _checked(check_metered, spec)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(_COMMON, max_examples=examples(40))
@given(specs())
def test_any_job_in_a_session_does_what_it_says(spec):
    _checked(check_threads, spec)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(_COMMON, max_examples=examples(12))
@given(specs())
def test_any_job_resumed_from_any_epoch_ends_with_the_same_bits(spec):
    _checked(check_runner, spec)
