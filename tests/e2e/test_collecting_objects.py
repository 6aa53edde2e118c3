"""Nodes that bring their own files to a real S3 server: what counts, what is lost on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from jobrun.checkpoint.stores.object_references import delete_fetched
from jobrun.core.errors import EnvironmentFaultError
from jobrun.session import node_files
from tests.support import isolated_nodes
from tests.support.command import jobrun
from tests.support.forked_commands import ROOT, run_module
from tests.support.s3 import VARIABLES, TroubledWay, serving
from tests.support.session_runs import measured
from tests.support.stored_runs import blobs, epochs, progress

pytestmark = pytest.mark.long
KEEP = "{last: 2}"
# Less than one request takes.
SIZE = 20_000


@pytest.fixture(scope="module")
def server():
    with serving() as s3_server:
        s3_server.make_bucket("bucket")
        yield s3_server


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The run of nodes that see everything, and all its epochs."""
    folder = tmp_path_factory.mktemp("shared")
    isolated_nodes.write_spec(folder, collected=False, size=SIZE)
    assert isolated_nodes.start(folder, blind=False) == 0
    return isolated_nodes.run_of(folder)


@pytest.fixture
def folder(tmp_path, server, monkeypatch):
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    to = f"s3://bucket/{tmp_path.name}"
    isolated_nodes.write_spec(tmp_path, collected=True, to=to, keep=KEEP, size=SIZE)
    yield tmp_path
    delete_fetched()


def process(folder, crash=""):
    environment = {**os.environ, "JOBRUN_CRASHPOINT": crash}
    return run_module(
        "tests.support.isolated_nodes", [str(folder)], cwd=ROOT, environment=environment
    )


def url_of(folder) -> str:
    return f"s3://bucket/{folder.name}/far/{isolated_nodes.run_of(folder).name}"


def objects(server, folder) -> list[str]:
    """The names of the objects of the run's epochs."""
    prefix = url_of(folder).removeprefix("s3://bucket/")
    actual = (
        name.removeprefix(f"{prefix}/")
        for name in server.names("bucket")
        if name.startswith(f"{prefix}/")
    )
    return sorted(name for name in actual if "/" in name)


def check(server, folder, shared, retained=(0, 2, 3)):
    """The run is what one is of nodes that see everything; nothing else is in the store."""
    run = isolated_nodes.run_of(folder)
    assert list(epochs(run)) == list(retained)
    for number, path in epochs(run).items():
        assert sorted(child.name for child in path.iterdir()) == [
            "a.h5.url",
            "manifest.json",
            "t_0.h5.url",
            "t_1.h5.url",
        ]
        assert progress(path) == progress(epochs(shared)[number])
    assert measured(run) == measured(shared)
    assert [path.name for path in (folder / "own").iterdir()] == []
    there = {Path(name).parts[0] for name in objects(server, folder)}
    assert there == {f"epoch-{number:06d}" for number in retained}
    assert len(objects(server, folder)) == 4 * len(retained)
    # Fetched by whom may be far away, from the URL alone.
    again = jobrun("resume", url_of(folder), "--run-dir", folder / "again")
    assert again.returncode == 0, again.stderr
    (fetched,) = (folder / "again" / "far").glob("2*")
    assert blobs(epochs(fetched)[3]) == blobs(epochs(shared)[3])


def test_nodes_bring_their_files_and_the_master_has_manifests_alone(folder, server, shared):
    assert isolated_nodes.start(folder) == 0

    check(server, folder, shared)


def test_one_run_may_go_either_way_in_any_session(folder, server, shared):
    isolated_nodes.start(folder, max_epochs=1)
    threads = jobrun(
        "resume", isolated_nodes.run_of(folder), "--session", "threads", "--max-epochs", "1"
    )
    assert threads.returncode == 75, threads.stderr
    isolated_nodes.write_spec(folder, collected=True, keep="{last: 5}", size=SIZE)
    assert isolated_nodes.start(folder) == 0

    # What was saved after the change is here, and what is elsewhere is read there.
    run = isolated_nodes.run_of(folder)
    assert [(path / "a.h5").exists() for path in epochs(run).values()] == [False] * 3 + [True]
    verified = jobrun("ckpt", "verify", run, "--json")
    assert [load["good"] for load in json.loads(verified.stdout)["epochs"]] == [True] * 4
    assert blobs(epochs(run)[3]) == blobs(epochs(shared)[3])
    for number in (0, 1, 2):
        copied = jobrun("ckpt", "copy", f"{run}@{number}", folder / f"copy-{number}")
        assert copied.returncode == 0, copied.stderr
        (there,) = (folder / f"copy-{number}" / "checkpoints").glob("epoch-*")
        assert blobs(there) == blobs(epochs(shared)[number])


def test_every_command_that_reads_a_checkpoint_fetches_it(folder, server, shared):
    isolated_nodes.start(folder, max_epochs=2)
    run = isolated_nodes.run_of(folder)

    shown = jobrun("inspect-checkpoint", f"{run}@2", "--json")
    assert json.loads(shown.stdout)["epoch"] == 2
    done = jobrun("ckpt", "export", f"{run}@2", "--out", folder / "out.npz")
    assert done.returncode == 0, done.stderr
    same = jobrun("ckpt", "diff", f"{run}@2", f"{shared}@2")
    assert same.returncode == 0, same.stdout
    forked = jobrun("fork", f"{run}@1", "--run-dir", folder / "forked")
    assert forked.returncode == 0, forked.stderr
    back = jobrun("resume", run, "--epoch", "1")
    assert back.returncode == 0, back.stderr
    assert {Path(name).parts[0] for name in objects(server, folder)} == {
        # Epoch 2 of before is set aside; those after it are of a new generation, and stay apart.
        "epoch-000000",
        "epoch-000002",
        "g1",
    }
    (aside,) = (run / "superseded" / "g0").glob("epoch-*")
    assert jobrun("inspect-checkpoint", aside).returncode == 0


# Three files an epoch; in the master, and those of nodes have their own.
@pytest.mark.parametrize(
    "crash", ["collect.file-synced:5", "runner.acknowledged:3", "checkpoint.removal-renamed:1"]
)  # fmt: skip
def test_a_master_killed_at_any_step_continues_and_the_store_has_what_counts(
    folder, server, shared, crash
):
    killed = process(folder, crash)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = list(epochs(isolated_nodes.run_of(folder)))
    reported = jobrun("ckpt", "verify", isolated_nodes.run_of(folder), "--json")
    if before:
        assert all(load["good"] for load in json.loads(reported.stdout)["epochs"])

    done = process(folder)

    assert done.returncode == 0, done.stderr
    check(server, folder, shared)


def test_a_node_killed_while_it_brings_its_file_is_renewed(folder, server, shared, monkeypatch):
    killed = []
    gathered = node_files.upload_from_nodes

    def killing(tickets, directory, objects, link):
        if "epoch-000002" in directory and not killed:
            killed.append(link("a").pid)
            threading.Timer(0.05, lambda: os.kill(killed[0], signal.SIGKILL)).start()
        return gathered(tickets, directory, objects, link)

    monkeypatch.setattr("jobrun.session.processes.session.upload_from_nodes", killing)

    assert isolated_nodes.start(folder) == 0

    assert len(killed) == 1
    check(server, folder, shared)


@pytest.fixture
def way(server, folder, monkeypatch):
    proxy = TroubledWay(server)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("case", ["lose", "flip"])
def test_what_goes_wrong_on_the_way_costs_no_epoch_and_no_bit(folder, server, shared, way, case):
    troubles = []

    def trouble(method, path):
        if method == "PUT" and "/epoch-000002/t_1." in path and not troubles:
            troubles.append(path)
            return case
        return ""

    way.trouble = trouble
    assert isolated_nodes.start(folder) == 0

    assert len(troubles) == 1
    check(server, folder, shared)


def test_an_epoch_of_which_the_store_lacks_a_file_does_not_count(folder, server, way):
    def trouble(method, path):
        return "403" if method == "PUT" and "/epoch-000002/t_1." in path else ""

    way.trouble = trouble
    with pytest.raises(EnvironmentFaultError) as caught:
        isolated_nodes.start(folder)

    assert "E336" in {fault.code for fault in caught.value.faults}
    run = isolated_nodes.run_of(folder)
    assert list(epochs(run)) == [0, 1]
    journal = (run / "committed.jsonl").read_text()
    assert '"epoch": 1' in journal.replace(":1", ": 1")
    assert "epoch-000002/manifest.json" not in objects(server, folder)
    way.trouble = lambda method, path: ""
    assert isolated_nodes.start(folder) == 0


def test_a_store_that_is_not_there_is_reported_before_anything_runs(folder, monkeypatch):
    isolated_nodes.write_spec(folder, collected=True, to="s3://no-such-bucket/runs")

    done = jobrun("run", folder / "far.yaml", "--run-dir", folder / "r", cwd=folder)

    assert done.returncode != 0
    assert "error[E336]" in done.stderr
    assert "far.yaml:" in done.stderr
    assert not (folder / "r" / "far").exists()


def copied(folder) -> Path:
    run = isolated_nodes.run_of(folder)
    return Path(shutil.copytree(run, folder / "copied" / "far" / run.name))


def test_of_a_run_and_its_copy_only_one_continues(folder, server, shared):
    isolated_nodes.start(folder, max_epochs=1)
    copy = copied(folder)
    assert isolated_nodes.start(folder, max_epochs=1) == 75

    refused = jobrun("resume", copy, "--session", "threads", cwd=folder)

    assert refused.returncode == 7, refused.stderr
    assert "error[E332]" in refused.stderr
    assert isolated_nodes.start(folder) == 0
    check(server, folder, shared)


def test_what_a_run_has_in_the_store_is_not_deleted_from_its_copy(folder, server, shared):
    isolated_nodes.write_spec(
        folder, collected=True, to=f"s3://bucket/{folder.name}", keep="{last: 9}", size=SIZE
    )
    assert isolated_nodes.start(folder) == 0
    copy = copied(folder)

    # The first that deletes has it from then on.
    pruned = jobrun("ckpt", "prune", isolated_nodes.run_of(folder), "--last", "2", cwd=folder)
    refused = jobrun("ckpt", "prune", copy, "--last", "2", cwd=folder)

    assert pruned.returncode == 0, pruned.stderr
    assert (refused.returncode, "error[E332]" in refused.stderr) == (7, True), refused.stderr
    check(server, folder, shared)
