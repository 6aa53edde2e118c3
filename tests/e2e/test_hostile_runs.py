"""Files of a run that somebody replaced or edited: each command that reads them ends in good order.

Each mutation changes one file of a stopped run. Then every reading command runs on that run: it
ends within seconds of processor time, with a code of the table, without a traceback, and with the
path of the file, or of the run, in what it refuses. Another job in the same directory of runs is
not stopped by it.

The kinds of mutation:

* in the place of each file: a pipe, brackets 100,000 deep; of some a socket, a device, a directory,
  a link that leads nowhere, a hole of a terabyte, bytes of any kind, nothing at all;
* ``run.json`` with values of other types, out of range, too many, or missing;
* lines of events and metrics with values of other types, numbers beyond a float, or no time;
* a journal that lies with right checksums; a manifest of other fields; a file of state cut short.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobrun.cli.run_command import invoke
from tests.support.sample_events import epoch_ended, written
from tests.support.thinning import thinned

SPEC = """\
jobrun: 1
name: {name}
init:
  - {{task: begin, steps: ["x = zeros(8)"]}}
epoch:
  - task: step
    steps:
      - x = x + rng.normal(size=8)
      - {{log: "x is {{x[0]:.3f}}"}}
metrics: {{m: sum(x)}}
stop: [epochs: 6]
"""
# What a command may end with: all but an internal error, and what means something else.
CODES = {0, 2, 4, 5, 7, 8}
MOST_CPU_S, MOST_WAIT_S = 5.0, 30.0
DEEP = "[" * 100_000
_Mutation = Callable[[Path], None]


def _replaced(make: Callable[[Path], None]) -> _Mutation:
    def mutate(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return mutate


def _socket(path: Path) -> None:
    # The name of a socket is short.
    with socket.socket(socket.AF_UNIX) as server:
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


PIPE = _replaced(os.mkfifo)
NESTED = _replaced(lambda path: path.write_text(DEEP))
SOCKET = _replaced(_socket)
DEVICE = _replaced(lambda path: path.symlink_to("/dev/zero"))
DIRECTORY = _replaced(Path.mkdir)
NOWHERE = _replaced(lambda path: path.symlink_to("nowhere"))
HOLE = _replaced(_hole)
NOISE = _replaced(lambda path: path.write_bytes(bytes(range(256)) * 20))
EMPTY = _replaced(Path.touch)
FILE = _replaced(lambda path: path.write_text("a file"))


def _edited(**changes: Any) -> _Mutation:
    """Change fields of a JSON object; a text that begins with ``raw:`` is put in as it is."""

    def mutate(path: Path) -> None:
        content = {**json.loads(path.read_text()), **changes}
        text = json.dumps(content)
        for value in changes.values():
            if isinstance(value, str) and value.startswith("raw:"):
                text = text.replace(json.dumps(value), value.removeprefix("raw:"))
        path.write_text(text)

    return mutate


def _line(text: str) -> _Mutation:
    """Add a line."""

    def mutate(path: Path) -> None:
        path.write_text(path.read_text() + text + "\n")

    return mutate


def _event(**changes: Any) -> _Mutation:
    content = {**json.loads(written(epoch_ended(3))), **changes}
    return _line(json.dumps({key: value for key, value in content.items() if value is not None}))


def _metric(value: str = "1.0", epoch: str = "3") -> _Mutation:
    head = '{"event": "Measured", "time": "2026-01-01T00:00:00+00:00", "generation": 0'
    return _line(f'{head}, "name": "m", "value": {value}, "epoch": {epoch}, "task": ""}}')


def _signed(entry: dict[str, Any]) -> _Mutation:
    """Add a line to the journal whose checksum is right."""

    def mutate(path: Path) -> None:
        run_id = json.loads((path.parent / "run.json").read_text())["run_id"]
        content = {**entry, "run_id": run_id}
        crc = f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"
        _line(json.dumps({**content, "crc32": crc}, sort_keys=True))(path)

    return mutate


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


EPOCH = "checkpoints/epoch-000003"
FILES = (
    "run.json", "events.jsonl", "metrics.jsonl", "committed.jsonl", "pins.json", "tags.json",
    "lost.json", "run.lock", "spec/resolved.yaml", "spec/plan.json", "spec/origins.json",
    "logs/step.log", f"{EPOCH}/manifest.json", f"{EPOCH}/local.h5", "../../.index.json",
    "profile/table-1.json",
)  # fmt: skip
MUTATIONS: dict[str, tuple[str, _Mutation]] = {
    **{f"pipe as {name}": (name, PIPE) for name in FILES},
    **{f"nested {name}": (name, NESTED) for name in FILES},
    **{f"device as {name}": (name, DEVICE) for name in FILES[:4]},
    **{f"directory as {name}": (name, DIRECTORY) for name in FILES[:5]},
    **{f"hole as {name}": (name, HOLE) for name in (*FILES[:5], *FILES[11:14])},
    **{f"noise in {name}": (name, NOISE) for name in FILES[:9]},
    "socket as run.json": ("run.json", SOCKET),
    "socket as metrics.jsonl": ("metrics.jsonl", SOCKET),
    "link as run.json": ("run.json", NOWHERE),
    "link as events.jsonl": ("events.jsonl", NOWHERE),
    "empty run.json": ("run.json", EMPTY),
    "empty journal": ("committed.jsonl", EMPTY),
    "file as checkpoints": ("checkpoints", FILE),
    "file as logs": ("logs", FILE),
    "pipe as logs": ("logs", PIPE),
    "file as spec": ("spec", FILE),
    "pipe as superseded": ("superseded", PIPE),
    "status is a list": ("run.json", _edited(status=[[]])),
    "status of another world": ("run.json", _edited(status="dreaming")),
    "environment is a number": ("run.json", _edited(environment=3)),
    "environment of lists": ("run.json", _edited(environment={"python": [[{}]], "blas": None})),
    "epoch beyond a float": ("run.json", _edited(epoch="raw:1e999")),
    "epoch of 4000 digits": ("run.json", _edited(epoch="raw:" + "9" * 4000)),
    "epoch of 5000 digits": ("run.json", _edited(epoch="raw:" + "9" * 5000)),
    "epoch is text": ("run.json", _edited(epoch="3")),
    "generation is a list": ("run.json", _edited(generation=[1])),
    "created is a number": ("run.json", _edited(created=7)),
    "created without a zone": ("run.json", _edited(created="2026-11-21T09:42:00")),
    "job with NUL": ("run.json", _edited(job="a\0b")),
    "job that leads away": ("run.json", _edited(job="../../other")),
    "folder with NUL": ("run.json", _edited(folder="\0")),
    "parent without a run": ("run.json", _edited(parent={"epoch": [3]})),
    "resized of numbers": ("run.json", _edited(resized=[1, 2])),
    "callables of lists": ("run.json", _edited(callables={"a": []})),
    "data of numbers": ("run.json", _edited(data={"a.npy": 3})),
    "format is infinite": ("run.json", _edited(format="raw:1e999")),
    "event without a time": ("events.jsonl", _event(time=None)),
    "event without a zone": ("events.jsonl", _event(time="2026-01-01T00:00:00")),
    "event at no time": ("events.jsonl", _event(time=[1])),
    "event of an endless epoch": ("events.jsonl", _event(epoch=float("inf"))),
    "event of text": ("events.jsonl", _event(seconds="long", metrics={"a": 1})),
    "event in an object": ("events.jsonl", _line('{"event": {"event": []}}')),
    "event of NaN seconds": ("events.jsonl", _event(seconds=float("nan"))),
    "metric of an endless epoch": ("metrics.jsonl", _metric(epoch="1e999")),
    "metric of a list": ("metrics.jsonl", _metric("[[1]]")),
    "metric beyond a float": ("metrics.jsonl", _metric("1e999")),
    "metric of 4000 digits": ("metrics.jsonl", _metric("9" * 4000)),
    "metric of 9000 digits": ("metrics.jsonl", _metric("9" * 9000)),
    "journal of lists": ("committed.jsonl", _signed({"kind": ["epoch"], "epoch": 3})),
    "journal without an epoch": ("committed.jsonl", _signed({"kind": "epoch", "generation": 0})),
    "journal of an endless epoch": (
        "committed.jsonl", _signed({"kind": "epoch", "epoch": 10**30, "generation": 0}),
    ),
    "pins of text": ("pins.json", _edited(pinned="x")),
    "manifest of lists": (f"{EPOCH}/manifest.json", _edited(files=[[1]])),
    "state cut short": (f"{EPOCH}/local.h5", _cut),
    "sweeps of nothing": ("../../.sweeps", FILE),
}  # fmt: skip


def commands(run: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """Each command that reads a run."""
    name = str(run)
    yield ("status", name)
    yield ("status", name, "--json")
    yield ("logs", name)
    yield ("metrics", name)
    yield ("metrics", name, "--json")
    yield ("report", name, "--out", "-")
    yield ("report", name, "--json")
    yield ("diff", name, name)
    yield ("diff", name, "--working", str(folder / "walk.yaml"))
    yield ("inspect-checkpoint", name, "--values")
    yield ("inspect-checkpoint", str(run / EPOCH / "local.h5"))
    yield ("ckpt", "verify", name)
    yield ("ckpt", "diff", f"{name}@2", f"{name}@3")
    yield ("ckpt", "export", name, "--out", str(folder / "out.npz"))
    yield ("ckpt", "copy", f"{name}@2", str(folder / "copy"))
    yield ("resume", name, "--dry-run")
    yield ("fork", f"{name}@2", "--max-epochs", "1", "--quiet")
    yield ("resume", name, "--max-epochs", "1", "--quiet")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    """A folder with a run that was stopped after three epochs, beside another job's run."""
    folder = tmp_path_factory.mktemp("stopped")
    for name, epochs in (("walk", 3), ("other", 2)):
        spec = folder / f"{name}.yaml"
        spec.write_text(SPEC.format(name=name))
        runs = str(folder / "runs")
        words = ["run", str(spec), "--run-dir", runs, "--quiet", "--max-epochs", str(epochs)]
        assert invoke(words) == 75
    [run] = (folder / "runs" / "walk").glob("2*")
    (run / "tags.json").write_text('["base"]')
    (run / "pins.json").write_text('{"format": 1, "pinned": [2]}')
    (run / "lost.json").write_text('{"files": {"metrics.jsonl": {"lines": 2, "why": "full"}}}')
    (run / "profile").mkdir()
    (run / "profile" / "table-1.json").write_text("{}")
    return folder


class Checking:
    """Runs commands in this process, each with a limit of time."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capture = capture

    def __call__(self, words: tuple[str, ...], codes: set[int], *paths: Path) -> None:
        """Run a command, and see that it ends in good order, and names one of the paths."""
        before = time.process_time()
        # What waits for a pipe uses no processor, and is interrupted.
        signal.setitimer(signal.ITIMER_REAL, MOST_WAIT_S)
        try:
            code = invoke([*words, "--run-dir", str(self._folder / "runs")])
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        output = self._capture.readouterr()
        shown = (words, code, output.err[-2000:])
        assert code in codes, shown
        assert "Traceback" not in output.out + output.err, shown
        assert time.process_time() - before < MOST_CPU_S, shown
        named = ["epoch 2", *(name for path in paths for name in (str(path), path.name))]
        words_said = output.out + output.err
        assert code in (0, 75) or any(name in words_said for name in named), shown


def _ring(number: int, frame: object) -> None:
    raise AssertionError("the command waits for something")


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(MUTATIONS, 24))
def test_a_file_that_is_not_what_it_was_is_refused_by_name_and_stops_no_other_job(
    stopped, tmp_path, name, capsys, monkeypatch
):
    folder = tmp_path / "f"
    shutil.copytree(stopped, folder, symlinks=True)
    monkeypatch.chdir(folder)
    [run] = (folder / "runs" / "walk").glob("2*")
    relative_path, mutate = MUTATIONS[name]
    path = Path(os.path.normpath(run / relative_path))
    mutate(path)
    check = Checking(folder, capsys)
    before = signal.signal(signal.SIGALRM, _ring)
    try:
        for words in commands(run, folder):
            check(words, CODES | {75}, path, run)
        check(("runs",), {0})
        check(("run", "other.yaml", "--resume", "auto", "--quiet"), {0})
    finally:
        signal.signal(signal.SIGALRM, before)
