"""A Ray cluster of several machines, of which processes, machines and masters are lost."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.support.command import environment, jobrun
from tests.support.ray_jobs import LIBRARY, SPEC, pids, started
from tests.support.s3 import VARIABLES, serving
from tests.support.session_runs import is_alive, run, same
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def machines():
    # Only here: the tests that are not long go without Ray.
    from tests.support import ray_cluster  # noqa: PLC0415

    with ray_cluster.machines({"place": 1}, {"place": 1}) as actual:
        yield actual


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "losses_library.py").write_text(LIBRARY)
    (tmp_path / "job.yaml").write_text(SPEC)
    return tmp_path / "job.yaml"


def marked(spec: Path) -> list[int]:
    """All processes that the command has started, however far down."""
    mark = f"RAYS_MARK={spec.parent}".encode()
    collected = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            if mark in (entry / "environ").read_bytes().split(b"\0") and is_alive(pid):
                collected.append(pid)
    return collected


def _of_jobrun(pids: list[int]) -> list[int]:
    """Those of the processes that are no agents of Ray's."""
    collected = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if b"agent" not in Path(f"/proc/{pid}/cmdline").read_bytes().lower():
                collected.append(pid)
    return collected


def test_a_lost_process_and_a_lost_machine_cost_an_epoch_each_and_no_bit(machines, spec):
    whole = run(spec, spec.parent / "whole")

    with started(spec, f"ray:{machines.address}") as process:
        victim = pids(spec)["trainer_0"]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: pids(spec)["trainer_0"] != victim, "new process")
        machines.lose_last()
        machines.add({"place": 1})
        _, output = process.communicate(timeout=200)

    assert process.returncode == 0, output
    # Until Ray knows that the machine is gone it may put a new process there, which is lost too.
    assert output.count("is lost: its process") >= 2, output
    same(whole, only_run(spec.parent / "hit"))


def test_actors_end_with_their_master_and_the_run_continues_later(machines, spec):
    whole = run(spec, spec.parent / "whole")

    with started(spec, f"ray:{machines.address}") as process:
        nodes = pids(spec)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not any(map(is_alive, nodes.values())), "end of the actors")
    done = jobrun("resume", "--run-dir", spec.parent / "hit", started=True)

    assert len(nodes) == 2
    assert done.returncode == 0, done.stderr
    same(whole, only_run(spec.parent / "hit"))


def test_a_machine_that_does_not_share_the_runs_directory_is_refused_or_brings_its_files(
    machines, spec
):
    runs, separate = spec.parent / "runs", spec.parent / "own"
    runs.mkdir()
    machines.add_blind({"blind": 2}, runs)
    text = SPEC.replace("{place: 1}", "{blind: 1}").replace("12}]", "2}]")
    spec.write_text(text)
    whole = run(spec, spec.parent / "whole")
    options = ("--run-dir", runs, "--session", f"ray:{machines.address}")

    refused = jobrun("run", spec, *options, started=True)
    with serving() as server:
        server.make_bucket("bucket")
        policy = f"every: 1ep, node_dir: {separate}, collect: 's3://bucket/r'"
        spec.write_text(text.replace("every: 1ep", policy))
        env = environment(**VARIABLES, AWS_ENDPOINT_URL=server.url)
        first = ("run", spec, *options, "--resume", "never", "--max-epochs", "1")
        stopped = jobrun(*first, env=env, started=True)
        done = jobrun("resume", *options, env=env, started=True)
        copied = jobrun("ckpt", "copy", "latest@2", spec.parent / "copy", *options[:2], env=env)

    assert refused.returncode == 7, refused.stderr
    assert "error[E397]" in refused.stderr
    assert "node 'trainer_0' does not see" in refused.stderr
    assert (stopped.returncode, done.returncode) == (75, 0), done.stderr
    assert copied.returncode == 0, copied.stderr
    assert [path.name for path in separate.iterdir()] == []
    assert blobs(epochs(spec.parent / "copy")[2]) == blobs(epochs(whole)[2])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_cluster_that_was_started_for_a_run(spec, number):
    spec.write_text(SPEC.replace(", resources: {place: 1}", ""))
    with started(spec, "ray") as process:
        before = marked(spec)
        if number == signal.SIGINT:
            # As a terminal does: to all of them.
            os.killpg(process.pid, number)
            _, output = process.communicate(timeout=200)
            assert process.returncode == 130, output
            assert "is lost" not in output
        else:
            process.kill()
        try:
            wait_until(lambda: not _of_jobrun(marked(spec)), "end of the cluster")
        finally:
            # Those of Ray may look for a head that was killed for a minute before they end.
            for pid in marked(spec):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    assert len(before) > 4


def test_a_node_for_which_there_is_no_machine_is_refused_at_once(machines, spec):
    spec.write_text(SPEC.replace("{place: 1}", "{gpu: 1}"))

    done = jobrun(
        "run",
        spec,
        "--run-dir",
        spec.parent / "r",
        "--session",
        f"ray:{machines.address}",
        started=True,
    )

    assert done.returncode == 7, done.stderr
    assert "error[E398]" in done.stderr
    assert "has the resources that node 'trainer_0' asks for (gpu 1)" in done.stderr


def test_a_cluster_that_does_not_answer_is_reported(spec):
    done = jobrun(
        "run", spec, "--run-dir", spec.parent / "r", "--session", "ray:127.0.0.1:9", started=True
    )

    assert done.returncode == 7, done.stderr
    assert "the Ray cluster at '127.0.0.1:9' cannot be used" in done.stderr


def test_a_cluster_does_not_let_in_who_has_no_token(machines, spec):
    # Else Ray would try for twenty seconds.
    env = environment(RAY_AUTH_TOKEN="f" * 64, RAY_NUM_REDIS_GET_RETRIES="2")

    done = jobrun(
        "run",
        spec,
        "--run-dir",
        spec.parent / "r",
        "--session",
        f"ray:{machines.address}",
        env=env,
        started=True,
    )

    assert done.returncode == 7, done.stderr
    assert "error[E398]" in done.stderr
