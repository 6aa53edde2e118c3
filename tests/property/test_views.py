"""Names that share memory keep the values that copies would have, to the bit."""

from __future__ import annotations

import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jobrun.core.errors import SpecError
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.dump import dump_tree
from jobrun.values.axis_order import axis_order
from jobrun.values.copies import has_boundary_form
from tests.property.checks import compare_values, compiled, written
from tests.property.view_programs import view_programs
from tests.support.expression_models import rendered
from tests.support.reference import run_reference
from tests.support.thinning import examples

_COMMON = settings(deadline=None, suppress_health_check=list(HealthCheck))


def _may_differ_by_rounding(spec):
    """Whether a product may be taken of a reversed view, as in plain Python, or of its copy.

    A name that is never changed, and whose source is not either, is the view itself; BLAS takes no
    negative strides, so numpy adds in another order than for the copy that the reference has.
    """
    text = dump_tree(rendered(spec))
    return "@" in text and ("::-1" in text or "flip" in text)


def _compare(expected, actual, where, *, is_rounded):
    if is_rounded and isinstance(expected, np.ndarray):
        assert (expected.dtype, expected.shape) == (actual.dtype, actual.shape), where
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9, err_msg=where)
    else:
        compare_values(expected, actual, where)


def _check(spec):
    expected = run_reference(spec)
    is_rounded = _may_differ_by_rounding(spec)
    with tempfile.TemporaryDirectory() as folder:
        job = compiled(written(spec, Path(folder)))
        keep = {node: (*names,) for node, names in job.state}
        session, outputs = ThreadsSession(), {}
        session.open(job.cluster, RunContext(job.seed, folder, folder))
        try:
            for epoch, nodes in enumerate(expected.epochs):
                outputs |= session.run(job.epoch if epoch else job.init, epoch, outputs)
                _check_owned(session, keep["local"])
                session.settle(keep)
                values = session.read("local", keep["local"])
                for name, value in nodes["local"].items():
                    where = f"{name}, epoch {epoch}"
                    _compare(value, values[name], where, is_rounded=is_rounded)
                    assert axis_order(values[name]) == axis_order(value), (name, epoch)
                    assert has_boundary_form(values[name]), (name, epoch)
        finally:
            session.close()


def _check_owned(session, names):
    """What a task leaves in the node's workspace shares no memory."""
    arrays = {name: session._workspaces["local"][name] for name in names}
    for first, second in combinations(arrays, 2):
        assert not np.may_share_memory(arrays[first], arrays[second]), (first, second)


def _checked(spec):
    try:
        _check(spec)
    except SpecError as error:
        error.add_note(dump_tree(rendered(spec)))
        raise
    except BaseException as error:
        error.add_note(dump_tree(rendered(spec)))
        raise


@settings(_COMMON, max_examples=20)
@given(view_programs())
def test_views_keep_the_values_that_copies_have(spec):
    _checked(spec)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(_COMMON, max_examples=examples(150))
@given(view_programs())
def test_any_views_keep_the_values_that_copies_have(spec):
    _checked(spec)
