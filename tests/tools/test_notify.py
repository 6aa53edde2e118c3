from __future__ import annotations

import json
import sys

import pytest

from jobrun.core.notify_target import (
    NotifyTarget,
    check_target,
    describe_target,
    parse_targets,
)
from jobrun.runner.rundir.run_json import RunRecord, write_record
from jobrun.tools import notify
from jobrun.tools.notify import build_message, send, send_all
from tests.support.news_servers import NewsServer

MESSAGE = {"news": "finished", "text": "done"}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(notify, "_PAUSE_S", 0.0)


def test_a_message_arrives_as_json():
    with NewsServer() as server:
        assert send(NotifyTarget(post=server.url), MESSAGE) == ""
    assert server.got == [MESSAGE]


@pytest.mark.parametrize("first", [500, 503])
def test_a_failure_of_the_server_is_tried_again(first):
    with NewsServer(first, 200) as server:
        assert send(NotifyTarget(post=server.url), MESSAGE) == ""
    assert (server.asked, server.got) == (2, [MESSAGE])


@pytest.mark.parametrize(("code", "tries"), [(404, 1), (302, 1), (307, 1), (500, 3)])
def test_what_is_refused_is_described(code, tries):
    with NewsServer(code) as server:
        why = send(NotifyTarget(post=server.url), MESSAGE)
    assert f"the server answered {code}" in why
    assert (server.asked, server.got) == (tries, [])


def test_a_server_that_hangs_is_given_up_after_three_attempts():
    with NewsServer(0) as server:
        why = send(NotifyTarget(post=server.url), MESSAGE, timeout_s=0.1)
        assert server.asked == 3
    assert "timed out" in why


def test_a_server_that_is_not_there_is_described_without_its_path():
    with NewsServer() as server:
        url = server.url
    (line,) = send_all([NotifyTarget(post=url)], MESSAGE)

    assert "Connection refused" in line
    assert "secret" not in line
    assert "http://127.0.0.1/…" in line


def test_a_command_gets_the_message_on_its_standard_input(tmp_path):
    copy = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    target = NotifyTarget(run=(sys.executable, "-c", copy, str(tmp_path / "got")))

    assert send(target, MESSAGE) == ""
    assert json.loads((tmp_path / "got").read_text()) == MESSAGE


def test_a_command_that_fails_or_is_missing_is_described():
    assert send(NotifyTarget(run=("false",)), MESSAGE) == "it ended with 1"
    assert "No such file" in send(NotifyTarget(run=("no-such-program",)), MESSAGE)


def test_only_the_news_that_are_wanted_are_sent():
    with NewsServer() as server:
        assert send_all([NotifyTarget(("failed",), server.url)], MESSAGE) == []
    assert server.asked == 0


def test_a_message_names_the_run_the_reason_and_the_next_command(tmp_path):
    run = tmp_path / "walk" / "20261121-0942-brisk-heron"
    run.mkdir(parents=True)
    record = RunRecord(
        "id",
        "walk",
        "2026-11-21T09:42:00.000000+00:00",
        status="failed",
        epoch=7,
        exit_code=1,
        reason="'loss < 3' does not hold",
    )
    write_record(run, record)
    line = {"event": "measured", "name": "loss", "value": 4.5, "epoch": 7}
    (run / "metrics.jsonl").write_text(json.dumps(line) + "\n")

    message = build_message(run, "failed", 1)

    assert message["epoch"] == 7
    assert message["continue"] == f"jobrun resume {run}"
    assert message["text"].startswith(
        "walk/20261121-0942-brisk-heron failed after epoch 7: 'loss < 3' does not hold"
    )


def test_a_message_about_a_run_that_cannot_be_read_says_so(tmp_path):
    message = build_message(tmp_path / "gone" / "run", "failed", 7)

    assert message["exit_code"] == 7
    assert "not a jobrun run directory" in message["reason"]


@pytest.mark.parametrize(
    "target",
    [
        NotifyTarget(),
        NotifyTarget(post="https://a/b", run=("mail",)),
        NotifyTarget(post="ftp://host/x"),
        NotifyTarget(post="https:///x"),
        NotifyTarget(post="https://host:port/x"),
        NotifyTarget(post="https://ho st/x"),
        NotifyTarget(run=("",)),
    ],
)
def test_a_target_that_cannot_be_is_refused(target):
    assert check_target(target)


def test_targets_of_a_command_line_are_urls_or_commands():
    assert parse_targets(["https://ntfy.sh/t", "mail -s 'a run' me"]) == (
        NotifyTarget(post="https://ntfy.sh/t"),
        NotifyTarget(run=("mail", "-s", "a run", "me")),
    )
    with pytest.raises(ValueError, match="ftp"):
        parse_targets(["ftp://host"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:word@hooks.slack.com/services/T0/B0/secret", "https://hooks.slack.com/…"),
        ("mail -s secret me", "mail"),
        ("ftp://secret", "…"),
    ],
)
def test_a_description_hides_what_may_be_secret(text, shown):
    assert describe_target(text) == shown
