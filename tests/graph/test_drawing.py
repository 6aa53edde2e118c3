"""Pictures."""

from __future__ import annotations

from xml.etree import ElementTree

from jobrun.graph import drawing as draw
from jobrun.graph.drawing import compute_levels, groups_of, needs_edges, svg, task_label
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
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


def test_in_a_terminal_tasks_are_behind_those_they_need():
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


def test_levels_are_the_longest_chains():
    assert compute_levels(4, [(0, 1), (1, 3), (0, 3), (2, 3)]) == [0, 1, 0, 2]


def test_in_a_circle_all_levels_are_zero():
    assert compute_levels(2, [(0, 1), (1, 0)]) == [0, 0]


def test_empty_groups_are_left_out():
    group = TaskGroup("epoch", (Task("a", "n", ()),))
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), group)

    assert [drawn.name for drawn, _ in groups_of(job)] == ["epoch"]


def test_what_a_task_needs_elsewhere_is_no_edge():
    task = Task("a", "n", (), needs=("gone",))

    assert list(needs_edges(((task, ("n",)),))) == []


def test_a_label_names_the_task_and_its_nodes():
    task = Task("a", "n", (), instances=2)

    assert task_label(task, ("n", "m"), {}) == ["a", "on n … m (2 nodes), 2 instances"]


HOSTILE = '</svg><script>alert(1)</script>"\x00'
NAMESPACE = "{http://www.w3.org/2000/svg}"


def _job(*tasks: Task, name: str = "j", remote: tuple[RemoteNet, ...] = ()) -> Job:
    return Job(
        name, Cluster((Node("n"),)), TaskGroup("init"), TaskGroup("epoch", tasks, remote=remote)
    )


def _boxes(job: Job) -> dict[str, tuple[int, int]]:
    """Return the place of the box of each task."""
    corners = {}
    for group in ElementTree.fromstring(svg(job)).iter(f"{NAMESPACE}g"):
        texts = group.findall(f"{NAMESPACE}text")
        rect = group.find(f"{NAMESPACE}rect")
        if rect is not None and group.find(f"{NAMESPACE}title") is not None:
            corners[texts[0].text] = (int(rect.get("x")), int(rect.get("y")))
    return corners


def test_a_task_is_right_of_those_it_needs():
    boxes = _boxes(_job(Task("last", "n", (), needs=("first",)), Task("first", "n", ())))

    assert boxes["first"][0] < boxes["last"][0]


def test_a_reader_is_right_of_the_writer_of_its_queue():
    queue = Queue("batches", 10)
    boxes = _boxes(
        _job(
            Task("use", "n", (), read=ReadQueue(queue, ("x",))),
            Task("make", "n", (), write=(WriteQueue(queue, ("x",)),)),
        )
    )

    assert boxes["make"][0] < boxes["use"][0]


def test_tasks_that_start_together_are_below_each_other():
    boxes = _boxes(_job(Task("a", "n", ()), Task("b", "n", ())))

    assert boxes["a"][0] == boxes["b"][0]
    assert boxes["a"][1] < boxes["b"][1]


def test_hostile_names_stay_text():
    text = svg(_job(Task(HOSTILE, "n", ()), name=HOSTILE, remote=(RemoteNet(HOSTILE, "n", ()),)))

    assert ElementTree.fromstring(text).tag == f"{NAMESPACE}svg"
    assert "<script" not in text


def test_the_drawing_of_a_very_large_group_is_marked_as_cut():
    text = svg(_job(*(Task(f"t{number}", "n", ()) for number in range(100))))

    assert "and 40 more tasks" in text


def test_needs_in_a_circle_are_drawn_all_the_same():
    assert (
        len(_boxes(_job(Task("a", "n", (), needs=("b",)), Task("b", "n", (), needs=("a",))))) == 2
    )


def test_the_heading_of_a_group_with_one_task_fits_the_picture():
    picture = ElementTree.fromstring(svg(_job(Task("only", "n", ()))))
    (heading,) = [text for text in picture.iter(f"{NAMESPACE}text") if "repeated" in text.text]

    # 12 px; the widest common fonts have letters of 7 px in the mean.
    assert int(heading.get("x")) + 7 * len(heading.text) <= int(picture.get("width"))
