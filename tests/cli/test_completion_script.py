from __future__ import annotations

import subprocess

import pytest

from jobrun.cli.process.run_command import invoke
from tests.support.command import environment


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_the_shell_that_was_named(shell, capsys):
    assert invoke(["completion", shell]) == 0

    said = capsys.readouterr()
    assert f"_JOBRUN_COMPLETE={shell}_complete" in said.out
    assert shell in said.err


def test_without_a_name_it_is_the_users_own(monkeypatch, capsys):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")

    assert invoke(["completion"]) == 0

    assert "zsh_complete" in capsys.readouterr().out


def test_bash_takes_the_script(capsys):
    assert invoke(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ncomplete -p jobrun"],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert "_jobrun_completion" in done.stdout
