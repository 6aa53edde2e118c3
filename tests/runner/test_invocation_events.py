from __future__ import annotations

from jobrun.core.errors import Fault
from jobrun.core.events import Noted
from jobrun.runner.invocation import fan_out_events, report_warnings
from jobrun.runner.options import RunOptions
from tests.support.resumable_job import WalkJob


def test_a_terminal_that_goes_away_ends_the_display_and_not_the_run(tmp_path):
    walk = WalkJob(tmp_path)
    shown = []

    def listener(event):
        shown.append(event)
        raise BrokenPipeError

    walk.start(max_epochs=1)
    run = walk.run
    with fan_out_events(run, walk.load()[1], listener, 0, RunOptions()) as listen:
        listen(Noted("one"))
        listen(Noted("two"))

    assert [event.text for event in shown] == ["one"]
    written = (run.path / "events.jsonl").read_text()
    assert '"one"' in written
    assert '"two"' in written


def test_warnings_include_their_mend():
    events = []

    report_warnings((Fault("W180", "prog is not on PATH", "install it"),), events.append)

    assert events == [Noted("prog is not on PATH (install it)", "warning")]
