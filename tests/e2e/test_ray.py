"""The same job on a Ray cluster: the same bits. Losses on the way are in ``test_ray_losses``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.spec.load import load_spec
from jobrun.tools.profile import Profiler
from tests.support.command import ROOT, SPECS, environment
from tests.support.session_runs import AVERAGING, EXACT, run_here, same, same_in
from tests.support.stored_runs import only_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def shared():
    # Only here: the tests that are not long go without Ray.
    from tests.support import ray_cluster  # noqa: PLC0415

    with ray_cluster.shared() as context:
        yield context


# What libraries warn of is no error outside of tests.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", EXACT)
def test_a_shipped_spec_gives_the_same_bits_in_a_cluster(name, tmp_path, shared):
    same_in("ray", SPECS / name, tmp_path)


def test_parameters_are_averaged_alike_on_four_nodes_of_a_cluster(tmp_path, shared):
    same_in("ray", SPECS / AVERAGING, tmp_path, "nodes.trainer.count=4")


def test_a_run_continues_in_any_other_session(tmp_path, shared):
    spec = SPECS / AVERAGING
    whole = run_here("threads", spec, tmp_path / "whole", epochs=5)
    folder = tmp_path / "parts"

    run_here("threads", spec, folder, epochs=5, max_epochs=1)
    for session in ("ray", "processes", "ray", "threads"):
        more = RunOptions(run_dir=folder, session=session, max_epochs=1)
        resume_run(open_run(only_run(folder)), more)

    same(whole, only_run(folder))


def test_a_profile_has_the_steps_of_nodes_in_a_cluster(tmp_path, shared):
    profiler = Profiler()
    loaded = load_spec(str(SPECS / AVERAGING))
    options = RunOptions(run_dir=tmp_path, session="ray", epochs=2, profiler=profiler)

    start_run(loaded, compile_job(loaded).job, options, profiler.listen)

    table = profiler.table()
    assert {row.path: row.calls for row in table.steps}["epoch/train/steps[1]"] == 4
    assert {row.node for row in table.nodes} == {"trainer_0", "trainer_1"}


@pytest.mark.timeout(600)
def test_every_conformance_case_holds_in_a_cluster(shared):
    more = {"CONFORMANCE_SESSION": "ray", "RAYS_ADDRESS": shared.address_info["address"]}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not long",
         "--benchmark-disable", "tests/conformance"],
        cwd=ROOT, env=environment(PYTEST_ADDOPTS=None, **more),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout[-3000:]
