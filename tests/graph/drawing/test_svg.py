"""A job as an SVG picture."""

from __future__ import annotations

from xml.etree import ElementTree

from jobrun.graph.drawing.svg import svg
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Cluster, Job, Node, RemoteNet, Task, TaskGroup

HOSTILE = '</svg><script>alert(1)</script>"\x00'
NAMESPACE = "{http://www.w3.org/2000/svg}"


def _job(*tasks: Task, name: str = "j", remote: tuple[RemoteNet, ...] = ()) -> Job:
    return Job(
        name, Cluster((Node("n"),)), TaskGroup("init"), TaskGroup("epoch", tasks, remote=remote)
    )


def _boxes(job: Job) -> dict[str, tuple[int, int]]:
    """Return the place of the box of each task."""
    found = {}
    for group in ElementTree.fromstring(svg(job)).iter(f"{NAMESPACE}g"):
        texts = group.findall(f"{NAMESPACE}text")
        rect = group.find(f"{NAMESPACE}rect")
        if rect is not None and group.find(f"{NAMESPACE}title") is not None:
            found[texts[0].text] = (int(rect.get("x")), int(rect.get("y")))
    return found


def test_a_task_stands_right_of_those_it_needs():
    boxes = _boxes(_job(Task("last", "n", (), needs=("first",)), Task("first", "n", ())))

    assert boxes["first"][0] < boxes["last"][0]


def test_a_reader_stands_right_of_the_writer_of_its_queue():
    queue = Queue("batches", 10)
    boxes = _boxes(
        _job(
            Task("use", "n", (), read=ReadQueue(queue, ("x",))),
            Task("make", "n", (), write=(WriteQueue(queue, ("x",)),)),
        )
    )

    assert boxes["make"][0] < boxes["use"][0]


def test_tasks_that_start_together_stand_below_each_other():
    boxes = _boxes(_job(Task("a", "n", ()), Task("b", "n", ())))

    assert boxes["a"][0] == boxes["b"][0]
    assert boxes["a"][1] < boxes["b"][1]


def test_hostile_names_stay_text():
    text = svg(_job(Task(HOSTILE, "n", ()), name=HOSTILE, remote=(RemoteNet(HOSTILE, "n", ()),)))

    assert ElementTree.fromstring(text).tag == f"{NAMESPACE}svg"
    assert "<script" not in text


def test_a_very_large_group_is_cut_and_says_so():
    text = svg(_job(*(Task(f"t{number}", "n", ()) for number in range(100))))

    assert "and 40 more tasks" in text


def test_needs_in_a_circle_are_drawn_all_the_same():
    assert (
        len(_boxes(_job(Task("a", "n", (), needs=("b",)), Task("b", "n", (), needs=("a",))))) == 2
    )


def test_the_heading_of_a_group_with_one_task_fits_the_picture():
    picture = ElementTree.fromstring(svg(_job(Task("only", "n", ()))))
    (heading,) = [one for one in picture.iter(f"{NAMESPACE}text") if "repeated" in one.text]

    # 12 px; the widest common fonts have letters of 7 px in the mean.
    assert int(heading.get("x")) + 7 * len(heading.text) <= int(picture.get("width"))
