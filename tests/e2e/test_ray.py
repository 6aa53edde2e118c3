"""The same job on a Ray cluster: the same bits. Losses on the way are in ``test_ray_losses``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jobrun.compile.job import compile_job
from jobrun.runner.rundir import open_run
from jobrun.runner.settings import RunOptions
from jobrun.runner.start import resume_run, start_run
from jobrun.spec.load import load_spec
from jobrun.tools.profiling.profiler import Profiler
from tests.e2e.test_sessions import AVERAGING, EXACT, same
from tests.support.command import ROOT, SPECS, environment
from tests.support.stored import only_run

pytestmark = pytest.mark.long

# So many show it: each begins with what the last one left, wherever that is.
EPOCHS = 3


@pytest.fixture(scope="module")
def shared():
    # Only here: the tests that are not long go without Ray.
    from tests.support import rays  # noqa: PLC0415

    with rays.shared() as context:
        yield context


def run_here(session: str, spec: Path, folder: Path, *sets: str, **more) -> Path:
    """As the command does, but in this process, which is attached to the cluster already."""
    loaded = load_spec(str(spec), overrides=sets)
    options = RunOptions(run_dir=folder, session=session, **more)
    start_run(loaded, compile_job(loaded).job, options)
    return only_run(folder)


# What libraries warn of is no error outside of tests.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", EXACT)
def test_a_shipped_spec_gives_the_same_bits_in_a_cluster(name, tmp_path, shared):
    keep = ("checkpoint.keep.last=1000",) if "keep" in (SPECS / name).read_text() else ()

    here = run_here("threads", SPECS / name, tmp_path / "threads", *keep, epochs=EPOCHS)
    there = run_here("ray", SPECS / name, tmp_path / "ray", *keep, epochs=EPOCHS)

    same(here, there)


def test_parameters_are_averaged_alike_on_four_nodes_of_a_cluster(tmp_path, shared):
    spec = SPECS / AVERAGING
    four = "nodes.trainer.count=4"

    here = run_here("threads", spec, tmp_path / "threads", four, epochs=EPOCHS)
    there = run_here("ray", spec, tmp_path / "ray", four, epochs=EPOCHS)

    same(here, there)


def test_a_run_goes_on_in_any_other_session(tmp_path, shared):
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
