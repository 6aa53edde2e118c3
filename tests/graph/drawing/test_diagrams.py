"""Pictures."""

from __future__ import annotations

from jobrun.graph.drawing import diagrams as draw
from jobrun.graph.types import Cluster, Job, Node, RemoteNet, Retry, Task, TaskGroup

EPOCH = TaskGroup(
    "epoch",
    (
        Task("last", "n0", (), needs=("left", "right")),
        Task("left", "n0", (), needs=("first",), instances=4, hogwild=True),
        Task("left", "n1", (), needs=("first",), instances=4, hogwild=True),
        Task("right", "n0", (), needs=("first",)),
        Task("first", "n0", ()),
    ),
)
JOB = Job(
    'a "job"',
    Cluster((Node("n0"), Node("n1"))),
    TaskGroup("init", (Task("start", "n0", (), rebuild=True),)),
    EPOCH,
    TaskGroup("download"),
    TaskGroup("exit", (Task("end", "n0", ()),)),
)


def test_in_a_terminal_tasks_stand_behind_those_they_need():
    assert draw.ascii(JOB) == (
        'a "job"\n'
        "+- init\n"
        "|  +- [start] on n0, rebuild\n"
        "+- epoch  (repeated until a stop condition holds)\n"
        "|  +- [first] on n0\n"
        "|     +- [left] on n0 … n1 (2 nodes), 4 instances, hogwild <- first\n"
        "|     +- [right] on n0 <- first\n"
        "|        +- [last] on n0 <- left, right\n"
        "+- exit\n"
        "|  +- [end] on n0\n"
    )


def test_mermaid_has_a_box_for_each_task_and_an_arrow_for_each_need():
    text = draw.mermaid(JOB)

    assert text.startswith("flowchart TD\n")
    assert text.count('["') == 3 + 6
    assert text.count("    epoch_") == 4 + 4
    assert "    epoch_3 --> epoch_1\n" in text
    assert "  init_group --> epoch_group\n  epoch_group --> exit_group\n" in text
    assert text.count("subgraph") == text.count("  end\n") == 3


def test_mermaid_escapes_what_it_reads_as_its_own():
    group = TaskGroup("epoch", (Task('a"<b>#1', "n0", ()),))
    text = draw.mermaid(Job("j", JOB.cluster, JOB.init, group, JOB.download, JOB.exit))

    assert '["a#quot;#lt;b#gt;#35;1<br/>on n0"]' in text


def test_dot_has_a_cluster_for_each_group():
    text = draw.dot(JOB)

    assert text.startswith('digraph "a \\"job\\"" {\n')
    assert "epoch_3 -> epoch_0 [ltail=cluster_epoch, lhead=cluster_epoch" in text
    assert 'label="until stop"];' in text
    assert text.count("subgraph cluster_") == 3
    assert "epoch_3 -> epoch_2;" in text
    assert 'label="left\\non n0 … n1 (2 nodes), 4 instances, hogwild"' in text
    assert text.count("{") == text.count("}")


def test_dot_escapes_quotes_and_backslashes():
    group = TaskGroup("epoch", (Task('a\\"b', "n0", ()),))
    text = draw.dot(Job("j", JOB.cluster, JOB.init, group, JOB.download, JOB.exit))

    assert 'label="a\\\\\\"b\\non n0"' in text


def test_a_long_chain_stays_on_the_screen():
    chain = tuple(Task(f"t{i}", "n0", (), needs=(f"t{i - 1}",) if i else ()) for i in range(2000))
    job = Job("j", JOB.cluster, JOB.init, TaskGroup("epoch", chain), JOB.download, JOB.exit)

    assert max(len(line) for line in draw.ascii(job).splitlines()) < 80


REMOTE = Job(
    "j",
    JOB.cluster,
    TaskGroup("init", (Task("start", "n0", (), timeout_s=5.0, on_error="warn"),)),
    TaskGroup(
        "epoch",
        (Task("work", "n0", (), retry=Retry(2)),),
        remote=(RemoteNet("f", "n0", (), path="r"), RemoteNet("f", "n1", (), path="r")),
    ),
    TaskGroup("download", remote=(RemoteNet("g", "n0", ()),)),
)


def test_limits_and_remote_nets_are_shown_in_a_terminal():
    assert draw.ascii(REMOTE) == (
        "j\n"
        "+- init\n"
        "|  +- [start] on n0, at most 5 s, a failure is only reported\n"
        "+- epoch  (repeated until a stop condition holds)\n"
        "|  +- [work] on n0, 2 retries\n"
        "|  .. [remote net f] on n0 … n1 (2 nodes)\n"
        "+- download\n"
        "|  .. [remote net g] on n0\n"
    )


def test_remote_nets_are_shown_in_pictures():
    mermaid, dot = draw.mermaid(REMOTE), draw.dot(REMOTE)

    assert '    epoch_remote_0(["remote net f<br/>on n0 … n1 (2 nodes)"])\n' in mermaid
    assert '    download_remote_0 [label="remote net g\\non n0", style=dashed];\n' in dot
    assert "download_0" not in dot
