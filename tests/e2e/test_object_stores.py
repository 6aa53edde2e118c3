"""Runs that bring their checkpoints to a real S3 server, on a way on which things go wrong."""

from __future__ import annotations

import json
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobrun.api import inspect_checkpoint, resume_from, run
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.object_store import ObjectStore
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.object_url import parse_object_url
from jobrun.runner.options import RunOptions
from jobrun.testing.stores import write_epoch
from tests.support.command import environment, jobrun
from tests.support.s3 import SECRET, VARIABLES, S3Server, TroubledWay, serving
from tests.support.stored_runs import blobs, epochs, only_run

SPEC = """\
jobrun: 1
name: job
nodes: {{a: {{}}, b: {{}}}}
init:
  - {{task: one, node: a, steps: [w = arange(4.0)]}}
  - {{task: two, node: b, steps: ["v = rng.normal(size=3)"]}}
epoch:
  - {{task: step, node: a, steps: [w = w * 2]}}
  - {{task: stir, node: b, steps: ["v = v + rng.normal(size=3)"]}}
exit:
  - {{task: last, node: a, steps: [save: {{w: "${{run.dir}}/artifacts/w.npy"}}]}}
stop: [epochs: 3]
checkpoint: {{keep: {keep}, upload: {{to: '{to}', when: committed, required: {required}}}}}
"""


def spec(folder: Path, to: str, *, required: bool = False, keep: str = "{}") -> Path:
    path = folder / "job.yaml"
    path.write_text(SPEC.format(to=to, required=str(required).lower(), keep=keep))
    return path


def test_a_run_continues_from_the_url_alone(tmp_path):
    """In the memory of this process, which is a store as others are."""
    to = f"memory://{tmp_path.name}/up"
    whole = run(spec(tmp_path, to), RunOptions(run_dir=tmp_path / "runs"))
    url = f"{to}/job/{Path(whole.run_path).name}"

    assert [inspect_checkpoint(f"{url}@{n}").epoch for n in range(4)] == [0, 1, 2, 3]
    again = resume_from(url, options=RunOptions(run_dir=tmp_path / "again", epoch=1))

    assert again.exit_code == 0
    first, second = (epochs(Path(handle.run_path))[3] for handle in (whole, again))
    assert blobs(first) == blobs(second)
    assert str(ObjectStore(parse_object_url(f"{url}/g1")).epochs()) == "(2, 3)"


@pytest.fixture(scope="module")
def server():
    with serving() as s3_server:
        s3_server.make_bucket("bucket")
        yield s3_server


@pytest.fixture
def way(server):
    proxy = TroubledWay(server)
    yield proxy
    proxy.close()


class Place:
    """A folder, and a prefix in the bucket."""

    def __init__(self, path: Path, endpoint: str, *, required: bool = False, **more) -> None:
        self.path = path
        self.to = f"s3://bucket/{path.name}"
        self.spec = spec(path, self.to, required=required, **more)
        self.variables = {**VARIABLES, "AWS_ENDPOINT_URL": endpoint}

    def jobrun(self, *arguments, crash: str = "", **more):
        env = environment(**self.variables, JOBRUN_CRASHPOINT=crash or None)
        return jobrun(*arguments, env=env, cwd=self.path, **more)

    def run(self, **more):
        return self.jobrun("run", self.spec, "--resume", "auto", **more)

    @property
    def url(self) -> str:
        return f"{self.to}/job/{only_run(self.path / 'runs').name}"

    def verify(self, *whole: int) -> None:
        """All epochs are there, as the original ones are."""
        done = self.jobrun("ckpt", "verify", self.url, "--json")
        actual = json.loads(done.stdout)
        assert [(entry["epoch"], entry["good"]) for entry in actual["epochs"]] == [
            (epoch, True) for epoch in whole
        ]


@pytest.fixture
def job(tmp_path, server, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return Place(tmp_path, server.url)


@pytest.mark.long
def test_everything_that_reads_a_checkpoint_reads_one_from_its_url(job, tmp_path):
    assert job.run().returncode == 0
    job.verify(0, 1, 2, 3)
    url = job.url

    shown = job.jobrun("inspect-checkpoint", f"{url}@2", "--json")
    assert json.loads(shown.stdout)["epoch"] == 2
    resumed = job.jobrun("resume", url, "--epoch", "1", "--run-dir", tmp_path / "again")
    assert resumed.returncode == 0, resumed.stderr
    forked = job.jobrun("fork", f"{url}@1", "--run-dir", tmp_path / "forked")
    assert forked.returncode == 0, forked.stderr
    behind = job.jobrun("fork", f"{url}@0", "--run-dir", tmp_path / "forked")
    assert behind.returncode == 2
    assert f"but not 0, which is at {url}" in behind.stderr
    original = blobs(epochs(only_run(tmp_path / "runs"))[3])
    assert blobs(epochs(only_run(tmp_path / "again"))[3]) == original
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(SECRET.encode() in text for text in texts)


@pytest.mark.long
@pytest.mark.parametrize("crash", ["upload.file-synced:3", "upload.published:2"])
def test_a_run_killed_during_an_upload_finishes_it_on_resume(job, crash):
    assert job.run(crash=crash).returncode == -signal.SIGKILL

    done = job.run()

    assert done.returncode == 0, done.stderr
    job.verify(0, 1, 2, 3)


@pytest.mark.long
def test_the_run_does_not_wait_for_a_slow_store(job, way, tmp_path):
    journals = tmp_path / "runs" / "job"

    def slow(method, path):
        while method == "PUT" and ".h5" in path:
            (journal,) = journals.glob("2*/committed.jsonl")
            if journal.read_text().count("\n") == 4:
                break
            time.sleep(0.02)
        return ""

    way.trouble = slow
    job.variables["AWS_ENDPOINT_URL"] = way.url

    done = job.run()

    assert done.returncode == 0, done.stderr
    job.verify(0, 1, 2, 3)


@pytest.mark.long
def test_requests_that_a_store_refuses_at_first_are_retried(job, way):
    first = {}

    def trouble(method, path):
        """Of each object the first try is troubled, each in another way; of manifests, too."""
        if method != "PUT" or path in first or ".probe" in path:
            return ""
        first[path] = ("lose", "500", "503")[len(first) % 3]
        return first[path]

    way.trouble = trouble
    job.variables["AWS_ENDPOINT_URL"] = way.url
    done = job.run()

    assert done.returncode == 0, done.stderr
    assert "could not be uploaded" not in done.stderr
    assert len(first) == 14
    job.verify(0, 1, 2, 3)


@pytest.mark.long
def test_a_store_that_dies_ends_a_run_that_requires_it_and_a_resume_continues(tmp_path):
    s3_server = S3Server()
    s3_server.make_bucket("bucket")
    way = TroubledWay(s3_server)
    job = Place(tmp_path, way.url, required=True)
    killed = threading.Event()

    def kill(method, path):
        if method == "PUT" and "epoch-000001" in path and not killed.is_set():
            killed.set()
            s3_server.kill()
        return "500" if killed.is_set() else ""

    way.trouble = kill
    done = job.run()
    way.close()
    s3_server.kill()

    assert done.returncode == 7
    assert "error[E321]" in done.stderr
    assert "epoch 1 could not be uploaded" in done.stderr
    with serving() as back:
        back.make_bucket("bucket")
        job.variables["AWS_ENDPOINT_URL"] = back.url
        assert job.run().returncode == 0
        job.verify(0, 1, 2, 3)


@pytest.mark.long
def test_a_missing_bucket_or_server_is_reported_before_anything_runs(job, tmp_path):
    spec(tmp_path, "s3://not-there/x")
    done = job.run()

    assert done.returncode == 7
    assert "error[E336]" in done.stderr
    assert "job.yaml:13:37" in done.stderr
    assert "make 'not-there'" in done.stderr

    away = Place(tmp_path, "http://127.0.0.1:1", required=True).run()
    assert away.returncode == 7
    assert "error[E331]" in away.stderr
    assert "does not answer" in away.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.long
def test_a_damaged_object_is_found_and_an_older_epoch_is_used(job, server, tmp_path, monkeypatch):
    assert job.run().returncode == 0
    (name,) = [
        n for n in server.names("bucket") if f"{tmp_path.name}/" in n and "epoch-000003/a." in n
    ]
    for variable, value in job.variables.items():
        monkeypatch.setenv(variable, value)
    bucket = Bucket(parse_object_url("s3://bucket"))
    data = bytearray(bucket.read(name, 1 << 20))
    data[len(data) // 2] ^= 1
    bucket.put(name, [bytes(data)], len(data))

    verified = job.jobrun("ckpt", "verify", job.url)
    assert verified.returncode == 8
    assert "epoch 3  damaged" in verified.stdout
    resumed = job.jobrun("resume", job.url, "--run-dir", tmp_path / "again")
    assert "after epoch 2" in resumed.stderr
    # What it computes again is not what is in the store: the record has another time in it.
    assert blobs(epochs(only_run(tmp_path / "again"))[3]) == blobs(
        epochs(only_run(tmp_path / "runs"))[3]
    )


@pytest.mark.long
def test_a_stop_does_not_wait_for_an_upload(job, way, tmp_path):
    free = threading.Event()

    def stuck(method, path):
        if method == "PUT" and ".h5" in path:
            free.wait(60)
        return ""

    way.trouble = stuck
    job.variables["AWS_ENDPOINT_URL"] = way.url
    done = job.jobrun("run", job.spec, "--max-epochs", "1", timeout_s=90)
    free.set()

    assert done.returncode == 75, done.stderr
    assert "not uploaded yet; a resume continues with that" in done.stderr
    assert job.run().returncode == 0
    job.verify(0, 1, 2, 3)


@pytest.mark.long
def test_of_many_runners_with_one_place_exactly_one_has_the_epoch(server, tmp_path, monkeypatch):
    for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": server.url}.items():
        monkeypatch.setenv(name, value)
    url = parse_object_url(f"s3://bucket/{tmp_path.name}/race")
    stores = []
    for number in range(6):
        stores.append(DirectoryStore(str(tmp_path / str(number))))
        write_epoch(stores[-1], 3, nodes=(f"n{number}",))
    begin = threading.Barrier(len(stores))

    def upload(store):
        begin.wait()
        try:
            return ObjectStore(url).upload(store.path(3), store.manifest(3))
        except EnvironmentFaultError as error:
            return error.faults[0].code

    with ThreadPoolExecutor(len(stores)) as pool:
        actual = list(pool.map(upload, stores))

    assert sorted(map(str, actual)) == ["E332"] * 5 + ["True"]
    there = ObjectStore(url)
    assert there.manifest(3) == stores[actual.index(True)].manifest(3)
    assert there.verify(3) is None
