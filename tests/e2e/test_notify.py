"""News of a run are sent however it ends, and never decide its exit code."""

from __future__ import annotations

import contextlib
import json
import sys

import pytest

from jobrun import api as jobrun_api
from jobrun.core.errors import JobrunError
from jobrun.core.events import Noted
from jobrun.runner.options import RunOptions
from tests.support.command import environment, jobrun
from tests.support.manual_blocks import PAGES, blocks, iter_blocks
from tests.support.news_servers import MailServer, NewsServer
from tests.support.stored_runs import only_run

SPEC = """\
jobrun: 1
name: walk
init: [{{task: start, steps: ["w = 0"]}}]
epoch: [{{task: step, steps: ["w += 1", {more}]}}]
metrics: {{w: w}}
stop: [{{epochs: 3}}]
"""
LEAVE = "import os\ndef leave(w):\n    os._exit(0) if w == 2 else None\n"


def _run(folder, more, *words, **variables):
    (folder / "walk.yaml").write_text(SPEC.format(more=more))
    (folder / "leave.py").write_text(LEAVE)
    # What a crash leaves to be sent, only a supervisor sends.
    crashes, env = "leave" in more, environment(**variables)
    return jobrun("run", "walk.yaml", *words, cwd=folder, env=env, started=crashes)


@pytest.mark.parametrize(
    ("more", "words", "code", "news", "epoch"),
    [
        ("{log: x}", (), 0, "finished", 3),
        ("{log: x}", ("--max-epochs", "2"), 75, "stopped", 2),
        ("{assert: w < 3}", (), 1, "failed", 2),
        ("{call: 'leave:leave', with: {w: w}}", (), 1, "failed", 1),
    ],
)
def test_news_of_a_run_are_posted(tmp_path, more, words, code, news, epoch):
    with NewsServer() as server:
        ended = _run(tmp_path, more, *words, "--notify", server.url)
    (message,) = server.got

    assert ended.returncode == code, ended.stderr
    assert (message["news"], message["exit_code"]) == (news, code)
    assert message["directory"] == str(only_run(tmp_path / "runs").resolve())
    assert message["epoch"] == epoch
    if "leave" in more:
        assert "os._exit(0) in epoch 2 (tasks: step)" in message["reason"]
    assert ("continue" in message) == (news != "finished")


@pytest.mark.long
def test_the_manual_shows_how_to_send_mail(tmp_path):
    (block,) = (block for block in iter_blocks(PAGES["notifications"]) if "smtplib" in block.text)
    (tmp_path / "news_mail.py").write_text(block.text)
    script = f"{sys.executable} news_mail.py"
    with MailServer() as server:
        ended = _run(tmp_path, "{log: x}", "--notify", f"{script} {server.address} me@example.org")
    (mail,) = server.got

    assert ended.returncode == 0, ended.stderr
    assert mail["Subject"] == f"walk/{only_run(tmp_path / 'runs').name} finished"
    assert mail["To"] == "me@example.org"
    assert "finished after epoch 3: 3 epochs have run" in mail.get_payload()


@pytest.mark.long
def test_the_manual_shows_how_to_send_the_line_alone(tmp_path):
    (block,) = (
        value for name, value in blocks() if name == "notifications" and "$NTFY" in value.text
    )
    with NewsServer(reads=bytes.decode) as server:
        (tmp_path / "walk.yaml").write_text(SPEC.format(more="{log: x}") + block.text)
        ended = jobrun("run", "walk.yaml", cwd=tmp_path, env=environment(NTFY=server.url))

    assert ended.returncode == 0, ended.stderr
    (text,) = server.got
    assert text.startswith("walk/")
    assert " finished after epoch 3" in text


@pytest.mark.long
def test_a_server_that_refuses_changes_nothing_but_a_line(tmp_path):
    with NewsServer(404) as server:
        ended = _run(tmp_path, "{log: x}", JOBRUN_NOTIFY=server.url)

    assert ended.returncode == 0, ended.stderr
    assert "was not sent: the server answered 404" in ended.stderr
    recorded = (only_run(tmp_path / "runs") / "run.json").read_text()
    assert "secret" not in ended.stderr + recorded


@pytest.mark.long
def test_a_target_of_the_command_line_is_not_recorded(tmp_path):
    with NewsServer() as server:
        _run(tmp_path, "{log: x}", "--notify", server.url)
        _run(tmp_path, "{log: x}", f"--notify={server.url}", "--resume", "never")

    for record in (tmp_path / "runs").glob("walk/2*/run.json"):
        assert "secret" not in record.read_text()
    assert len(server.got) == 2


def test_a_spec_names_who_gets_which_news(tmp_path):
    with NewsServer() as server:
        notify = {"on": ["failed"], "post": "${env:HOOK}"}
        copy = {"run": ["sh", "-c", "cat > got.json"]}
        more = "{log: x}"
        text = SPEC.format(more=more) + f"notify: {json.dumps([notify, copy])}\n"
        (tmp_path / "walk.yaml").write_text(text)
        ended = jobrun("run", "walk.yaml", cwd=tmp_path, env=environment(HOOK=server.url))

    assert ended.returncode == 0, ended.stderr
    assert server.got == []
    assert json.loads((tmp_path / "got.json").read_text())["metrics"] == {"w": 3}
    assert not any(
        b"secret" in path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    ("more", "epochs", "code", "news"),
    [
        ("{log: x}", 0, 0, "finished"),
        ("{log: x}", 2, 75, "stopped"),
        ("{assert: w < 3}", 0, 1, "failed"),
    ],
)
def test_news_of_a_run_from_python_are_posted(tmp_path, more, epochs, code, news):
    with NewsServer() as server:
        spec = SPEC.format(more=more) + f"notify: {{post: '{server.url}'}}\n"
        (tmp_path / "walk.yaml").write_text(spec)
        options = RunOptions(run_dir=tmp_path / "runs", max_epochs=epochs)
        with contextlib.suppress(JobrunError):
            jobrun_api.run(tmp_path / "walk.yaml", options)
    (message,) = server.got

    assert (message["news"], message["exit_code"]) == (news, code)
    assert message["directory"] == str(only_run(tmp_path / "runs").resolve())
    assert message["reason"]


def test_news_of_a_run_from_python_that_cannot_be_sent_are_a_warning(tmp_path):
    (tmp_path / "walk.yaml").write_text(SPEC.format(more="{log: x}") + "notify: {run: ['false']}\n")
    events = []

    ended = jobrun_api.run(
        tmp_path / "walk.yaml", RunOptions(run_dir=tmp_path / "runs"), listener=events.append
    )

    messages = [
        event.text for event in events if isinstance(event, Noted) and event.level == "warning"
    ]
    assert ended.exit_code == 0
    assert "the notification to the command 'false' was not sent: it ended with 1" in messages


def test_a_module_beside_the_spec_is_not_taken_for_one_of_python(tmp_path):
    (tmp_path / "shlex.py").write_text("raise SystemExit(3)\n")
    with NewsServer() as server:
        ended = _run(tmp_path, "{log: x}", "--notify", server.url)

    assert ended.returncode == 0, ended.stderr
    assert [entry["news"] for entry in server.got] == ["finished"]


def test_a_target_that_cannot_be_is_refused_before_anything_runs(tmp_path):
    text = SPEC.format(more="{log: x}") + "notify: {post: 'ftp://host/x'}\n"
    (tmp_path / "walk.yaml").write_text(text)

    ended = jobrun("validate", "walk.yaml", cwd=tmp_path)

    assert ended.returncode == 3
    assert "error[E223] walk.yaml:7:16  notify.post: 'ftp:' is no scheme" in ended.stderr


@pytest.mark.long
def test_starts_that_make_no_progress_are_reported(tmp_path):
    with NewsServer() as server:
        for _ in range(4):
            ended = _run(tmp_path, "{assert: w < 1}", "--resume", "auto", "--notify", server.url)

    assert ended.returncode == 1
    assert "this is start 3 after epoch 0, and none before it has saved anything" in ended.stderr
    assert [entry["news"] for entry in server.got].count("no_progress") == 1
    assert [entry["news"] for entry in server.got].count("failed") == 4
