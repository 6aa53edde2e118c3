"""What is put into a line for bash is one word there, whatever it holds."""

from __future__ import annotations

import shlex

import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.errors import SpecError
from jobrun.spec.load import load_spec
from tests.support.stored_runs import only_run

NASTY = "x; touch INJ1; $(touch INJ2) `touch INJ3` \" ' \\ * $HOME $(x) $ \n# && touch INJ4 |"


def _spec(line, value=""):
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return (
        f'jobrun: 1\nname: shell\nparams: {{p: "{quoted}", n: 3, yes: true}}\n'
        f"init: [{{task: start, steps: [x = 0]}}]\n"
        f"epoch:\n  - task: t\n    steps:\n      - run: |\n          {line}\n"
        "stop: [{epochs: 1}]\n"
    )


def _words(tmp_path, monkeypatch, line, value):
    """The words of each call of the program ``show`` in lines for bash."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "show").write_text(
        '#!/bin/bash\nprintf "%s\\0" "$@" >> shown; printf "\\1" >> shown\n'
    )
    (tmp_path / "show").chmod(0o755)
    (tmp_path / "shell.yaml").write_text(_spec(line, value))
    assert invoke(["run", "shell.yaml", "-q"]) == 0
    calls = (tmp_path / "shown").read_text().split("\1")[:-1]
    return [call.split("\0")[:-1] for call in calls]


LINES = {
    "./show ${p}": ["{}"],
    './show "${p}"': ["{}"],
    "./show '${p}'": ["{}"],
    "./show $'${p}'": ["{}"],
    "./show a${p}b": ["a{}b"],
    './show "a ${p} b" ${p}': ["a {} b", "{}"],
    "./show 'it is ${p}' --flag=${p}": ["it is {}", "--flag={}"],
    './show "$(printf "%s" "${p}")"': ["{}"],
    './show "$(printf %s ${p})"': ["{}"],
    'X=${p}; ./show "$X"': ["{}"],
    "./show ${n} ${yes} $$((${n} + 1)) '${n}'": ["3", "true", "4", "3"],
    "true # ${p} it's\n          ./show '#' ${p}": ["#", "{}"],
    "./show ${epoch} ${node}": ["1", "local"],
}


@pytest.mark.parametrize("value", [NASTY, "", "two words"], ids=["nasty", "empty", "words"])
def test_a_value_is_one_word_and_no_command(tmp_path, monkeypatch, value):
    shown = _words(tmp_path, monkeypatch, "\n      - run: |\n          ".join(LINES), value)

    assert dict(zip(LINES, shown, strict=True)) == {
        line: [word.replace("{}", value) for word in expected] for line, expected in LINES.items()
    }
    assert not list(tmp_path.glob("INJ*"))


def test_a_param_of_the_command_line_cannot_run_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shell.yaml").write_text(_spec("echo ${p}", "fine"))

    value = "x; touch INJ1; $(touch INJ2) `touch INJ3`"
    assert invoke(["run", "shell.yaml", "-q", "--set", f"params.p={value}"]) == 0

    assert not list(tmp_path.glob("INJ*"))
    log = (only_run(tmp_path / "runs") / "logs" / "t.log").read_text()
    assert value in log


def test_a_value_of_the_environment_is_one_word_too(tmp_path, monkeypatch):
    monkeypatch.setenv("SHELL_TEST", "a b; touch INJ1 $$ ${node}")
    shown = _words(tmp_path, monkeypatch, "./show ${env:SHELL_TEST}", "")
    assert shown == [["a b; touch INJ1 $$ ${node}"]]
    assert not list(tmp_path.glob("INJ*"))


def test_the_directory_of_the_run_may_have_spaces(tmp_path, monkeypatch):
    folder = tmp_path / "a folder"
    folder.mkdir()
    [[shown]] = _words(folder, monkeypatch, "./show ${run.dir}/artifacts/x", "")
    assert shown == f"{only_run(folder / 'runs')}/artifacts/x"


def test_raw_makes_a_value_a_part_of_the_line(tmp_path, monkeypatch):
    shown = _words(tmp_path, monkeypatch, "./show ${raw:p} ${p}", "--fast 'a b' $NO")
    assert shown == [["--fast", "a b", "--fast 'a b' $NO"]]


@pytest.mark.parametrize(
    "line",
    [
        "echo `echo ${p}`", "echo $$((${p} + 1))", "cat <<'END'\n          ${p}\n          END",
        "echo $${X:-${p}}", "echo \\${p}", "(( x = ${p} ))",
    ],
)  # fmt: skip
def test_where_it_cannot_be_one_word_it_is_refused(tmp_path, line):
    path = tmp_path / "shell.yaml"
    path.write_text(_spec(line, "text"))

    with pytest.raises(SpecError) as caught:
        load_spec(str(path))

    [fault] = caught.value.faults
    assert fault.code == "E446"
    assert "${raw:p}" in fault.mend
    assert fault.where.line >= 7


def test_raw_is_for_lines_of_a_shell_only(tmp_path):
    path = tmp_path / "shell.yaml"
    path.write_text(_spec("true", "text").replace("run: |\n          true", "log: '${raw:p}'"))
    with pytest.raises(SpecError, match=r"is only allowed in the command of a 'run' step"):
        load_spec(str(path))


def test_the_same_line_with_another_value_is_another_spec(tmp_path):
    from jobrun.spec.dump import dump_resolved, spec_digest  # noqa: PLC0415

    path = tmp_path / "shell.yaml"
    path.write_text(_spec("echo ${p}", "one"))
    first = load_spec(str(path))
    second = load_spec(str(path), overrides=["params.p=two"])
    assert spec_digest(first) != spec_digest(second)
    assert "echo ${p}" in dump_resolved(first)
    assert shlex.quote("one") not in first.spec.epoch[0].steps[0].run
