"""Every command over texts and names that would control a terminal; none of it reaches one raw.

The commands are those of the program, so that a new one is refused here until it has arguments.
"""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from jobrun.cli.app import group
from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import COMPLETION_VARIABLE, Shell
from tests.support.thinning import thinned

# Colours that jobrun does not use, a title, C1, line ends of all kinds, and directions of writing.
FOREIGN_COLOUR = "\x1b[35;7m"
FORGED = "FORGED"
_UNSEEN = "\x1b]0;t\x07\x9b2J\x1b[2J\x08\x7f\x85\u2028\u202e\u2066\u200f\u061c\r\n"
HOSTILE = f"{FOREIGN_COLOUR}{_UNSEEN}{FORGED}"
_SGR = re.compile(r"\x1b\[[0-9;]*m")
SPEC = """\
jobrun: 1
name: foreign
params: {{note: {note}}}
seed: 3
init:
  - {{task: begin, steps: ["x = zeros(4)", "words = note"]}}
epoch:
  - task: step
    steps:
      - x += rng.normal(size=4)
      - {{log: "{{words}}"}}
      - {{call: "foreign_library:{function}", with: {{x: x}}, out: y}}
metrics: {{m: sum(x)}}
stop: [epochs: 3]
"""
LIBRARY = f"""\
def fine(x):
    return x.sum()


def fails(x):
    raise ValueError({HOSTILE!r})
"""


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from _leaves(inner, (*path, name))


# Logs of tasks keep their colours.
PRINT_LOGS = {"logs", "run", "resume", "fork", "status"}
LEAVES = sorted(" ".join(path) for path in _leaves(group))


class Stage:
    """A folder of runs whose every name and text is hostile, and the specs they came from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / f"home {HOSTILE}"
        self.folder.mkdir()
        (self.folder / "foreign_library.py").write_text(LIBRARY)
        self.spec = self._write("fine", "fine")
        self.failing = self._write("fails", "fails")
        self.broken = self.folder / f"broken {HOSTILE}.yaml"
        self.broken.write_text(f"jobrun: 1\nname: x\n{json.dumps(HOSTILE)}: {{}}\n")
        self.runs = self.folder / f"runs {HOSTILE}"
        for spec, code in ((self.spec, 0), (self.failing, 1)):
            assert invoke(["run", str(spec), "--run-dir", str(self.runs)]) == code
        self.run = self._newest()
        self.other = self.folder / f"other {HOSTILE}"
        assert invoke(["ckpt", "copy", f"{self.run}@2", str(self.other)]) == 0

    def _write(self, name: str, function: str) -> Path:
        path = self.folder / f"{name} {HOSTILE}.yaml"
        path.write_text(SPEC.format(note=json.dumps(HOSTILE), function=function))
        return path

    def _newest(self) -> Path:
        records = (self.runs / "foreign").glob("*/run.json")
        return max(
            record.parent for record in records if json.loads(record.read_text())["exit_code"] == 0
        )

    def spoil(self, name: str, *, spared: tuple[str, ...] = ()) -> None:
        """Add the hostile text to all texts of a file of the run, but for the spared keys."""
        path = self.run / name
        text = path.read_text().rstrip("\n")
        lines = text.split("\n") if name.endswith("l") else [text]
        spoilt = [_spoilt(json.loads(line), spared) for line in lines]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in spoilt))


def _spoilt(value: Any, spared: tuple[str, ...]) -> Any:
    match value:
        case dict():
            return {key: item if key in spared else _spoilt(item, spared)
                    for key, item in value.items()}  # fmt: skip
        case list():
            return [_spoilt(item, spared) for item in value]
        case str():
            return value + HOSTILE
        case _:
            return value


def _texts(stage: Stage) -> None:
    """Spoil what is only shown."""
    (stage.run / "tags.json").write_text(json.dumps([HOSTILE, f"a{HOSTILE}"]))
    (stage.run / "notes.txt").write_text(HOSTILE)
    (stage.run / "artifacts").mkdir(exist_ok=True)
    (stage.run / "artifacts" / HOSTILE).write_text("")
    (stage.run / "logs" / f"{HOSTILE}.log").write_text(f"[epoch 1] {HOSTILE}\n")
    (stage.run / "checkpoints" / HOSTILE).mkdir()
    content = json.loads((stage.run / "run.json").read_text())
    for key in ("reason", "params", "provenance", "packages", "parent", "sweep"):
        if key in content:
            content[key] = _spoilt(content[key], ())
    (stage.run / "run.json").write_text(json.dumps(content))
    stage.spoil("events.jsonl", spared=("event", "time", "level"))
    stage.spoil("metrics.jsonl", spared=("event", "time"))


def _record(stage: Stage) -> None:
    """Spoil every text of run.json, also those that decide which run it is."""
    stage.spoil("run.json")


def _spec_of_the_run(stage: Stage) -> None:
    """Spoil the run's own copy of its spec, and the manifest of its newest epoch."""
    for path in (*stage.run.glob("spec/*"), *stage.run.glob("checkpoints/epoch-*/manifest.json")):
        if path.is_file():
            path.write_text(f"{path.read_text()}\n{HOSTILE}")


def _nothing(stage: Stage) -> None:
    """Leave the run as it is: its params, blobs, logs, metrics and paths are hostile already."""


STATES: dict[str, Callable[[Stage], None]] = {
    "texts": _texts, "as it ended": _nothing, "record": _record, "spec": _spec_of_the_run,
}  # fmt: skip


def _calls(stage: Stage, command: str) -> list[list[str]]:
    """Return the arguments with which a command is called: its forms of output, and refusals."""
    run, spec, at = str(stage.run), str(stage.spec), ["--run-dir", str(stage.runs)]
    out = stage.folder / f"out {HOSTILE}"
    known: dict[str, list[list[str]]] = {
        "new": [["script", str(out)], ["--list"]],
        "run": [
            [spec, *at, "--resume", "never"],
            [spec, *at, "--resume", "never", "-v"],
            [str(stage.failing), *at, "--resume", "never"],
            ["--log-format", "json", spec, *at, "--resume", "never", "--json"],
            [spec, *at, "--resume", "auto"],
            [str(stage.broken), *at],
            ["--log-format", "github", str(stage.broken), *at],
        ],
        "resume": [[run], [run, "--dry-run"], [run, "--dry-run", "--json"], [*at]],
        "fork": [[f"{run}@1", *at, "--epochs", "4"], [run, spec, *at]],
        "sweep": [
            [spec, *at, "--grid", f"note={HOSTILE},b", "--jobs", "1"],
            [spec, *at, "--status"],
            [spec, *at, "--status", "--csv"],
            [spec, *at, "--status", "--json"],
        ],
        "submit": [[spec, *at, "--print"], [spec, *at, "--print", "--json"]],
        "stop": [[run], [*at]],
        "status": [[run], [run, "--json"], [*at]],
        "runs list": [[*at], [*at, "--csv"], [*at, "--json"], [*at, "--sort", "m"], [HOSTILE, *at]],
        "runs tag": [[run, "plain", *at], [run, HOSTILE, *at]],
        "runs remove": [[run, "--dry-run", *at], ["--older-than", "0s", "--dry-run", *at]],
        "runs path": [[run, *at], [*at]],
        "logs": [[run], [run, "-n", "1"], [*at]],
        "metrics": [[run], [run, "--csv"], [run, "--json"], [run, "--plot"], [run, "--follow"]],
        "report": [[run, "--out", str(out)], [run, "--json"]],
        "diff": [
            [run, str(stage.other)],
            [run, str(stage.other), "--json"],
            [f"{run}@1", f"{run}@2"],
            [run, "--working"],
        ],
        "prove": [[str(stage.broken)], [spec, "--epochs", "2", "--kills", "1"]],
        "test": [[spec, str(stage.failing), "--epochs", "1"]],
        "inspect-checkpoint": [[run], [run, "--json"], [run, "--plot"], [str(out)]],
        "ckpt verify": [[run], [run, "--json"]],
        "ckpt list": [[run], [run, "--json"]],
        "ckpt pin": [[f"{run}@1"]],
        "ckpt unpin": [[f"{run}@1"]],
        "ckpt prune": [[run, "--dry-run"], [run, "--dry-run", "--json"]],
        "ckpt diff": [[f"{run}@1", f"{run}@2"], [run, str(stage.other), "--json"]],
        "ckpt export": [[run, "--out", f"{out}.npz"], [run, "--out", f"{out}.{HOSTILE}"]],
        "ckpt copy": [[run, f"{out} copy"]],
        "validate": [
            [spec, str(stage.broken)],
            [spec, "--json"],
            [str(stage.broken), "--format", "github"],
        ],
        "plan": [[spec, *at], [spec, *at, "--json"], [spec, "--set", f"params.note={HOSTILE}"]],
        "graph": [[spec], [spec, "--format", "svg"], [spec, "--types"]],
        "lock": [[spec], [spec, "--check"]],
        "fmt": [[spec, "--diff"], [spec, "--check"], [str(stage.broken)]],
        "schema": [[], ["--out", str(out)]],
        "ops": [["sum"], []],
        "explain": [["E021"], [], ["tutorial"]],
        "doctor": [[*at]],
        "completion": [["bash"], ["zsh"]],
    }
    wrong = [[HOSTILE], [f"--{HOSTILE}"], [f"no such run {HOSTILE}", *at]]
    return [[*command.split(), *words] for words in (*known[command], *wrong)]


def _raw(text: str, *, colours: bool) -> list[str]:
    """Return the lines of output that would control a terminal, or were begun by foreign text."""
    if colours:
        text = _SGR.sub(lambda match: match[0] * (match[0] == FOREIGN_COLOUR), text)
    return [
        ascii(line)
        for line in text.split("\n")
        if line.startswith(FORGED) or any(unicodedata.category(char)[0] == "C" for char in line)
    ]


# These run jobs, or look at the machine.
_SLOW = {"doctor", "fork", "prove", "resume", "run", "sweep", "test"}


def _param(command: str) -> Any:
    return pytest.param(command, marks=[pytest.mark.long] if command in _SLOW else [])


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    Stage(folder)
    return folder


@pytest.fixture
def stage(template: Path, tmp_path: Path) -> Stage:
    copy = Stage.__new__(Stage)
    shutil.copytree(template, tmp_path, dirs_exist_ok=True, symlinks=True)
    copy.folder = tmp_path / f"home {HOSTILE}"
    copy.spec, copy.failing, copy.broken = (
        copy.folder / f"{name} {HOSTILE}.yaml" for name in ("fine", "fails", "broken")
    )
    copy.runs, copy.other = copy.folder / f"runs {HOSTILE}", copy.folder / f"other {HOSTILE}"
    copy.run = copy._newest()
    return copy


@pytest.mark.parametrize("state", thinned(STATES, len(STATES)))
@pytest.mark.parametrize("command", [_param(command) for command in LEAVES])
def test_foreign_text_reaches_no_terminal_raw(command, state, stage, capfd, monkeypatch):
    monkeypatch.chdir(stage.folder)
    STATES[state](stage)
    for colours in (False, True):
        monkeypatch.setattr(Shell, "_colours_on", lambda *_, wanted=colours: wanted)
        for words in _calls(stage, command):
            capfd.readouterr()
            code = invoke(words)
            printed = capfd.readouterr()
            text = printed.out + printed.err
            if command in PRINT_LOGS:
                text = text.replace(FOREIGN_COLOUR, "").replace("\x1b[0m", "")
            assert code != 70, text
            assert _raw(text, colours=colours) == [], words


@pytest.mark.parametrize("line", ["status ", "logs latest ", "metrics latest ", "run ", "fork "])
def test_foreign_text_is_no_completion(line, stage, capfd, monkeypatch):
    _texts(stage)
    monkeypatch.chdir(stage.folder)
    monkeypatch.setenv("JOBRUN_RUN_DIR", str(stage.runs))
    monkeypatch.setenv(COMPLETION_VARIABLE, "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", f"jobrun {line}")
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) + 1))

    assert invoke([]) == 0

    assert _raw(capfd.readouterr().out, colours=False) == []
