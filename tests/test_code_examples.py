"""The examples of the catalogue give the codes that they are examples of."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

import click
import pytest

from jobrun import api
from jobrun.cli.app import group
from jobrun.cli.terminal import Shell
from jobrun.core.error_catalogue import read_catalogue
from jobrun.core.errors import JobrunError
from jobrun.runner.preflight.checks import preflight
from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.tasks import TaskSpec
from tests.support.tables import each_case

JOB = {name.rstrip("_") for name in JobSpec.model_fields} | {"include"}
TASK = {*TaskSpec.model_fields} - JOB
# What the examples speak of and do not make.
BLOBS = {
    "a": "1.0", "b": "2.0", "v": "1.0", "x": "zeros(4)", "s": "zeros(4, dtype=int64)", "k": "2",
    "n": "3", "w": "zeros(3)", "M": "zeros((3, 3))", "rows": "0", "i": "0", "d": "1.0",
    "left": "counter(3)", "tol": "0.1", "shift": "1.0",
}  # fmt: skip
# Parts of an example that is too long to be written out.
LEFT_OUT = re.compile("…")
KEY = re.compile(r"^([a-z_]+):", re.MULTILINE)


def _spec(example: str) -> str | None:
    """A whole spec around an example; None where the example is no piece of one."""
    if LEFT_OUT.search(example):
        return None
    keys = set(KEY.findall(example))
    if example.startswith(("- {", "{task:")):
        inner = example if example.startswith("-") else f"- {example}"
        key = "epoch" if "task:" in example else "epoch: [{task: t, steps: []}]\nx-none"
        if key != "epoch":
            return _whole("epoch:\n  - task: t\n    steps:\n" + textwrap.indent(inner, " " * 6))
        return _whole(f"epoch:\n{textwrap.indent(inner, '  ')}")
    if keys and keys <= TASK:
        return _whole("epoch:\n  - task: t\n" + textwrap.indent(example, "    "))
    return _whole(example) if keys & JOB else None


def _whole(part: str) -> str:
    keys = set(KEY.findall(part))
    more = {
        "jobrun": "1",
        "name": "example",
        "init": _begin(part),
        "epoch": "[{task: step, steps: [y = 1]}]",
        "stop": "[{epochs: 1}]",
    }
    return part + "\n" + "\n".join(f"{key}: {more[key]}" for key in more if key not in keys) + "\n"


def _begin(part: str) -> str:
    """An init that makes the blobs that an example reads and nobody makes."""
    assigned = set(re.findall(r"(?:['\"\[ ]|^)(\w+) = ", part, re.MULTILINE))
    words = set(re.findall(r"\w+(?!\w*:)", part.partition("#")[0]))
    steps = [f"'{name} = {value}'" for name, value in BLOBS.items() if name in words - assigned]
    return f"[{{task: begin, steps: [{', '.join(steps)}]}}]" if steps else "[]"


def _codes(path) -> set[str]:
    try:
        prepared = api.prepare(api.load(str(path)))
        faults = [*prepared.warnings, *preflight(prepared.job, path.parent)]
    except JobrunError as error:
        faults = list(error.faults)
    return {fault.code for fault in faults}


def _pieces() -> Iterator[tuple[str, str]]:
    for code, entry in read_catalogue().items():
        spec = _spec(entry.example)
        if spec is not None and (code < "E200" or code[0] == "W"):
            yield code, spec


PIECES = dict(_pieces())
# Examples that show the right form, or need a file, a package, or more of the job around them.
ELSEWHERE = {
    "E004", "E009", "E117", "E120", "E129", "E133", "E137", "E148", "E184", "W133", "W143",
    "W184",
}  # fmt: skip


def test_most_codes_of_specs_have_an_example_that_can_be_run():
    of_specs = [code for code in read_catalogue() if code < "E190" and code[0] == "E"]

    assert len(set(of_specs) & (set(PIECES) - ELSEWHERE)) > 0.75 * len(of_specs)
    assert set(PIECES) >= ELSEWHERE


@pytest.mark.long
@pytest.mark.parametrize("code", sorted(set(PIECES) - ELSEWHERE))
def test_the_example_gives_its_code(code, tmp_path):
    path = tmp_path / "example.yaml"
    path.write_text(PIECES[code])

    assert code in _codes(path), PIECES[code]


def _command_lines() -> Iterator[tuple[str, list[str]]]:
    for code, entry in read_catalogue().items():
        for line in re.findall(r"(?:^|; |&& )jobrun ([^;&|<>\n#]+)", entry.example):
            yield code, line.split()


# These are about what is wrong with the line itself.
WRONG = {"E400", "E401", "E402", "E403", "E404"}


@each_case(("code", "words"), [part for part in _command_lines() if part[0] not in WRONG])
def test_options_of_a_command_line_in_an_example_exist(code, words):
    command: click.Command | None = group
    context = click.Context(group, info_name="jobrun", obj=Shell({}))
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        inner = command.get_command(context, word)
        assert inner is not None or getattr(command, "_default", ""), words
        if inner is None:
            break
        command = inner
    assert command is not None
    params = [*command.params, *getattr(command, "commands", {}).values()]
    known = {name for param in params for name in getattr(param, "opts", ())}
    if isinstance(command, click.Group):
        known |= {n for part in command.commands.values() for p in part.params for n in p.opts}
    assert [word for word in words if word.startswith("--") and word not in known] == []
