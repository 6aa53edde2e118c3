"""Values are what plain Python makes of them: killed and resumed, in threads and processes."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest

from tests.support.command import jobrun
from tests.support.thinning import thinned

LIBRARY = """\
import os
import signal
from collections import Counter, OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

Pair = namedtuple("Pair", "left right")


class Point(NamedTuple):
    x: float
    path: list


@dataclass
class Config:
    rate: float
    layers: list
    seen: dict = field(default_factory=dict)
    none: object = None


@dataclass(frozen=True, slots=True)
class Frozen:
    name: str
    weights: np.ndarray


def begin():
    shared = [1]
    return (
        [], [0.0], ["start"], (1, 2.0), None,
        Point(1.0, []), Config(0.1, [64, 2**80], {"a": None}), Frozen("f", np.zeros(2)),
        {"tally": Counter("aab"), "order": OrderedDict(b=1, a=2), "pair": Pair(shared, shared)},
    )


def step(empty, floats, texts, both, nothing, point, config, frozen, table, epoch):
    assert nothing is None
    assert table["pair"].left is table["pair"].right
    empty = empty + [epoch / 3]
    floats = floats + [float(epoch)]
    texts = texts + [f"t{epoch}"]
    both = (both[0] + 1, both[1] * 2)
    point = point._replace(x=point.x + epoch, path=[*point.path, epoch])
    frozen = Frozen(frozen.name + "x", frozen.weights + epoch)
    table = dict(table, more=[np.float32(epoch), epoch, None, b"raw"])
    nothing = None if epoch else 1
    return empty, floats, texts, both, nothing, point, frozen, table


def change(config, epoch):
    config.rate *= 0.9
    config.layers.append(epoch)
    config.seen[epoch] = [None, (epoch,)]


def pause(epoch):
    if epoch == 2 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)


def tell(**values):
    with open("told.txt", "w") as file:
        for name, value in values.items():
            print(name, describe(value), file=file)


def describe(value):
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"{kind} {value.dtype} {value.tolist()}"
    if isinstance(value, dict):
        inner = ", ".join(f"{key!r}: {describe(one)}" for key, one in value.items())
        return f"{kind}({inner})"
    if isinstance(value, (list, tuple)):
        return f"{kind}({', '.join(map(describe, value))})"
    if hasattr(value, "__dataclass_fields__"):
        inner = [describe(getattr(value, name)) for name in value.__dataclass_fields__]
        return f"{kind}({', '.join(inner)})"
    return f"{kind} {value!r}"
"""
NAMES = "empty floats texts both nothing point config frozen table"
SPEC = f"""\
jobrun: 1
name: values
init:
  - task: start
    steps:
      - {{call: "values_library:begin", out: [{NAMES.replace(" ", ", ")}]}}
epoch:
  - task: train
    steps:
      - call: values_library:step
        with: {{{", ".join(f"{name}: {name}" for name in NAMES.split())}}}
        out: [empty, floats, texts, both, nothing, point, frozen, table]
      - {{call: "values_library:change", inout: [config]}}
      - {{call: "values_library:pause"}}
exit:
  - task: tell
    steps:
      - {{call: "values_library:tell", with: {{{", ".join(f"{n}: {n}" for n in NAMES.split())}}}}}
stop: [{{epochs: 4}}]
"""
PLAIN = """\
from values_library import *
names = "empty floats texts both nothing point config frozen table".split()
values = dict(zip(names, begin()))
for epoch in range(1, 5):
    made = step(**values, epoch=epoch)
    values.update(zip("empty floats texts both nothing point frozen table".split(), made))
    change(values["config"], epoch)
tell(**values)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "values_library.py").write_text(LIBRARY)
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "job.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "values_library", raising=False)
    runpy.run_path(str(folder / "plain.py"))
    monkeypatch.delitem(sys.modules, "values_library", raising=False)
    reported = folder / "told.txt"
    text = reported.read_text()
    reported.unlink()
    return text


def job(
    folder: Path, *steps: str, library: str = "", code: int = 1, epochs: int = 2, more: str = ""
) -> str:
    """What a job says whose one task of each epoch has these steps, and ``init`` the first."""
    first, *remaining = steps
    (folder / "small_library.py").write_text(f"import numpy as np\n{library}\n")
    (folder / "small.yaml").write_text(
        "jobrun: 1\nname: small\n"
        f"init: [{{task: start{more}, steps: [{first}]}}]\n"
        f"epoch: [{{task: train, steps: [{', '.join(remaining)}]}}]\n"
        f"stop: [{{epochs: {epochs}}}]\n"
    )
    done = jobrun("run", "small.yaml", "--resume", "never", cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stderr


def test_values_of_all_kinds_end_as_in_plain_python(folder, monkeypatch):
    wanted = plain(folder, monkeypatch)

    done = jobrun("run", "job.yaml", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert (folder / "told.txt").read_text() == wanted


def test_killed_and_resumed_they_are_the_same(folder, monkeypatch):
    wanted = plain(folder, monkeypatch)
    (folder / "kill").touch()

    assert jobrun("run", "job.yaml", cwd=folder).returncode != 0
    done = jobrun("resume", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert (folder / "told.txt").read_text() == wanted


def test_in_processes_they_are_the_same(folder, monkeypatch):
    wanted = plain(folder, monkeypatch)

    done = jobrun("run", "job.yaml", "--session", "processes", cwd=folder)

    assert done.returncode == 0, done.stderr
    assert (folder / "told.txt").read_text() == wanted


@pytest.mark.long
def test_tools_show_them_without_their_classes(folder):
    assert jobrun("run", "job.yaml", cwd=folder).returncode == 0
    for path in ("values_library.py", "plain.py"):
        (folder / path).unlink()

    shown = jobrun("inspect-checkpoint", "latest", "--json", cwd=folder)
    assert shown.returncode == 0, shown.stderr
    assert "values_library" not in json.loads(shown.stdout)
    for command in (("inspect-checkpoint", "latest"), ("plan", "job.yaml"), ("report",)):
        done = jobrun(*command, cwd=folder)
        assert done.returncode == 0, done.stderr
    done = jobrun("diff", "latest@1", "latest@4", cwd=folder)
    assert done.returncode in {0, 1}, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("history", ["[]", "[0.0]", "['start']"])
def test_list_a_callable_returns_stays_a_list(folder, history):
    library = (
        "def add(history, epoch):\n"
        "    assert type(history) is list, history\n"
        "    return history + [epoch / 3]\n"
    )

    job(
        folder,
        f'"h = {history}"',
        '{call: "small_library:add", with: {history: h}, out: h}',
        "{assert: len(h) >= epoch}",
        library=library,
        code=0,
    )


@pytest.mark.parametrize(
    ("begin", "change", "location"),
    thinned(
        [
            ("{'a': 1}", "b['a'] = 2", "'b/a'"),
            ("{'a': 1}", "b['c'] = 2", "'b'"),
            ("[1, 2]", "b.append(3)", "'b'"),
            ("[2, 1]", "b.sort()", "'b/0'"),
            ("{'a': {'deep': [1]}}", "b['a']['deep'][0] = 2", "'b/a/deep/0'"),
            ("{'a': np.zeros(2)}", "b['a'] = b['a'] + 1", "'b/a'"),
            ("{'b': 1, 'a': 2}", "b['b'] = b.pop('b')", "'b/b'"),
            ("({'a': 1},)", "b[0]['a'] = 2", "'b/0/a'"),
            ("Config(1)", "b.rate = 2", "'b/rate'"),
        ],
        2,
    ),
)
def test_change_of_a_container_that_is_not_in_inout_is_refused(folder, begin, change, location):
    library = (
        "from dataclasses import dataclass\n@dataclass\nclass Config:\n    rate: int\n"
        f"def begin():\n    return {begin}\ndef change(b):\n    {change}\n"
    )

    output = job(
        folder,
        '{call: "small_library:begin", out: b}',
        '{call: "small_library:change", with: {b: b}}',
        library=library,
    )

    assert "E246" in output
    assert location in output
    assert "add inout: [b]" in output


@pytest.mark.parametrize(
    "begin",
    [
        "np.zeros(3)",
        "{'a': np.zeros(3)}",
        "np.zeros(3, 'f8,i1')[1]",
        "{'a': np.zeros(3, 'f8,i1')[1]}",
    ],
)
def test_a_write_to_an_array_says_add_inout(folder, begin):
    part = "" if begin.startswith("np") else "['a']"
    library = (
        f"def begin():\n    return {begin}, np.ones(3)\n"
        f"def change(b, other):\n    b{part}[0] = other[0]\n"
    )

    output = job(
        folder,
        '{call: "small_library:begin", out: [b, c]}',
        '{call: "small_library:change", with: {b: b, other: c}}',
        library=library,
    )

    assert "E206" in output
    assert "add inout: [b]" in output


@pytest.mark.parametrize(
    ("value", "words"),
    thinned(
        [
            ("Population()", ("small_library.Population", "list(value)")),
            ("{'a': Population()}", ("small_library.Population", "'b/a'")),
            ("np.zeros(2, [('a', int)]).view(np.recarray)", ("recarray",)),
            ("np.matrix([[1]])", ("matrix",)),
            ("np.ma.zeros(2)", ("MaskedArray",)),
            ("Ordered()", ("Ordered",)),
            ("tagged()", ("the attribute 'tag'", "'b/d'")),
            ("extra()", ("the attribute 'more'", "no field")),
            ("local()", ("cannot be found again",)),
            ("{'s': memoryview(b'')}", ("class memoryview", "'b/s'")),
        ],
        2,
    ),
)
def test_what_would_lose_something_is_refused_by_name(folder, value, words):
    library = """
import enum
from collections import OrderedDict
from dataclasses import dataclass

class Population(list):
    fitness = 1

class Colour(enum.IntEnum):
    RED = 1

class Ordered(OrderedDict):
    pass

@dataclass
class Config:
    rate: int

def tagged():
    d = OrderedDict()
    d.tag = 1
    return {"d": d}

def extra():
    config = Config(1)
    config.more = 2
    return config

def local():
    @dataclass
    class Inner:
        a: int
    return Inner(1)

def begin():
    return """
    import warnings  # noqa: PLC0415 - what the job says, not this process

    with warnings.catch_warnings():
        output = job(
            folder, '{call: "small_library:begin", out: b}', '"c = 1"', library=library + value
        )

    assert "E202" in output
    assert all(word in output for word in words), output


@pytest.mark.parametrize(
    "step",
    thinned(["y = x + 1", "y = x * 2", "y = -x", "y = x < 2", "x += [1]", "y = [1, 2] * 2.0",
             "y = [1] + [2]", "y = x == [1, 2]", "y = array([1]) + x"], 3),
)  # fmt: skip
def test_arithmetic_on_a_list_is_refused_before_the_run(folder, step):
    output = job(folder, '"x = [1, 2]"', f'"{step}"', code=3)

    assert "E291" in output
    assert "is not supported for a list" in output
    assert "array(" in output
    assert "small.yaml:4" in output


@pytest.mark.parametrize("step", ["x += x", "y = x + x", "y = x * 2"])
def test_arithmetic_on_a_list_known_only_at_run_time_is_refused(folder, step):
    output = job(
        folder,
        '{call: "small_library:begin", out: x}',
        f'"{step}"',
        library="def begin():\n    return [1, 2]\n",
    )

    assert "E248" in output


def test_lists_in_expressions_are_pythons(folder):
    library = """
def check(**v):
    assert {name: type(value).__name__ for name, value in v.items()} == {
        "h": "list", "t": "tuple", "e": "list", "n": "NoneType", "s": "tuple", "a": "ndarray",
        "i": "ndarray", "f": "int", "k": "int",
    }
    assert v["i"].tolist() == [1.0, 0.0]
    assert (v["k"], v["f"]) == (3, 1)
"""
    job(
        folder,
        '"h = [1, 2.5, None]"',
        '"t = (1, 2.0)"',
        '"e = []"',
        '"n = None"',
        '"a = array([1, 2])"',
        '"s = a.shape + (1,)"',
        '"i = arange(2.0)[[1, 0]]"',
        '"f = h[0]"',
        '"k = len(h)"',
        '{call: "small_library:check", with: '
        "{h: h, t: t, e: e, n: n, s: s, a: a, i: i, f: f, k: k}}",
        library=library,
        code=0,
    )


def test_what_is_put_into_a_list_is_a_copy(folder):
    job(
        folder,
        '"h = [None, 1]"',
        '"a = zeros(2)"',
        '"h[0] = a"',
        '"a[0] = 5"',
        '{assert: "h[0][0] == 0"}',
        '"g = h[0]"',
        '"g[0] = 9"',
        '{assert: "h[0][0] == 0"}',
        code=0,
    )


OBJECTS = """
import random

class Box:
    def __init__(self):
        self.w, self.inner = np.zeros(3), random.Random(1)

    def state_dict(self):
        return {"w": self.w.copy(), "inner": self.inner.getstate()}

    def load_state_dict(self, state):
        self.w, _ = state["w"], self.inner.setstate(state["inner"])
"""


@pytest.mark.parametrize(
    ("make", "use"),
    thinned(
        [
            ("np.random.default_rng(1)", "r.random()"),
            ("np.random.RandomState(1)", "r.rand()"),
            ("random.Random(1)", "r.random()"),
            ("Box()", "r.w.__setitem__(0, 2.0)"),
            ("Box()", "r.inner.random()"),
        ],
        2,
    ),
)
def test_change_of_an_object_that_is_not_in_inout_is_refused(folder, make, use):
    library = f"{OBJECTS}\ndef make():\n    return {make}\ndef use(r):\n    {use}\n    return 1\n"
    created = '{call: "small_library:make", out: r}'

    output = job(
        folder,
        created,
        '{call: "small_library:use", with: {r: r}, out: x}',
        library=library,
        more=", rebuild: true",
    )

    assert "E247" in output
    assert "argument 'r', object of class" in output
    assert "add inout: [r]" in output
    job(
        folder,
        created,
        '{call: "small_library:use", inout: [r], out: x}',
        library=library,
        more=", rebuild: true",
        code=0,
    )


def test_container_that_the_class_of_a_reader_changes_is_refused(folder):
    (folder / "small_library.py").write_text(
        "class Rows:\n    def __init__(self, seen):\n        self.seen = seen\n"
        "    def __iter__(self):\n        for x in range(3):\n"
        "            self.seen['n'].append(x)\n            yield x\n"
        "def make():\n    return {'n': []}\n"
    )
    (folder / "small.yaml").write_text(
        "jobrun: 1\nname: small\n"
        "readers: {rows: {call: 'small_library:Rows', with: {seen: seen}, fields: [x]}}\n"
        "init: [{task: t, steps: [s = 0, {call: 'small_library:make', out: seen}]}]\n"
        "epoch: [{task: e, read: rows, steps: [s = s + x]}]\nstop: [{epochs: 2}]\n"
    )

    done = jobrun("run", "small.yaml", cwd=folder)

    assert done.returncode == 1
    assert "error[E246] small.yaml:3:11" in done.stderr
    assert "reader 'rows' has changed its argument 'seen', at 'seen/n'" in done.stderr


def test_object_changed_by_way_of_another_is_refused_at_the_next_save(folder):
    library = (
        f"{OBJECTS}\nkept = []\ndef make():\n    kept.append(Box())\n    return kept[0]\n"
        "def use():\n    kept[0].w += 1\n"
    )

    output = job(
        folder,
        '{call: "small_library:make", out: r}',
        '{call: "small_library:use"}',
        library=library,
        more=", rebuild: true",
    )

    assert "E247" in output
    assert "the object 'r' of class small_library.Box has changed" in output
    # Also at the first save after a resume: else each start would bring it one epoch on.
    again = jobrun("resume", cwd=folder)
    assert (again.returncode, "E247" in again.stderr) == (1, True), again.stderr
    assert "epoch 0 is saved" in again.stderr


def test_object_changed_by_way_of_another_is_refused_after_a_retry(folder):
    library = (
        f"{OBJECTS}\nkept, left = [], [OSError()]\ndef make():\n    kept.append(Box())\n"
        "    return kept[0]\ndef use():\n    if left:\n        raise left.pop()\n"
        "    kept[0].w += 1\n"
    )
    job(
        folder,
        '{call: "small_library:make", out: r}',
        '{call: "small_library:use"}',
        library=library,
        more=", rebuild: true",
    )
    spec = folder / "small.yaml"
    spec.write_text(spec.read_text().replace("task: train,", "task: train, retry: {max: 1},"))

    done = jobrun("run", "small.yaml", "--resume", "never", "--max-epochs", "1", cwd=folder)

    assert (done.returncode, "E247" in done.stderr) == (1, True), done.stderr


def test_an_object_that_is_only_looked_at_is_no_change(folder):
    library = (
        f"{OBJECTS}\ndef make():\n    return Box()\ndef use(r):\n    return r.w.sum()\n"
        "def change(r):\n    r.w += 1\n"
    )
    look = '{call: "small_library:use", with: {r: r}, out: x}'

    job(
        folder,
        '{call: "small_library:make", out: r}',
        look,
        '{call: "small_library:change", inout: [r]}',
        look,
        library=library,
        more=", rebuild: true",
        code=0,
        epochs=3,
    )


def test_an_output_of_init_keeps_its_type_over_a_resume(folder):
    library = (
        "from typing import NamedTuple\nclass Point(NamedTuple):\n    x: float\n    y: list\n"
        "def make():\n    return Point(1.0, [np.zeros(2), None])\n"
        "def check(p):\n    assert type(p) is Point and type(p.y) is list and p.y[1] is None, p\n"
    )
    (folder / "small_library.py").write_text(f"import numpy as np\n{library}")
    (folder / "small.yaml").write_text(
        "jobrun: 1\nname: small\n"
        "init: [{task: begin, steps: [{call: 'small_library:make', out: p}, x = 1], "
        "outputs: [p]}]\n"
        "epoch: [{task: e, steps: [{call: 'small_library:check', with: {p: begin.p}}]}]\n"
        "stop: [{epochs: 2}]\n"
    )

    done = jobrun("run", "small.yaml", "--max-epochs", "1", cwd=folder)
    assert done.returncode == 75, done.stderr
    done = jobrun("resume", cwd=folder)

    assert done.returncode == 0, done.stderr


def test_a_list_is_no_data_file(folder):
    output = job(folder, '"x = [1, 2]"', "{save: {x: out.npy}}", code=3)

    assert "E286" in output
    assert "it is a list" in output
    assert "array(x)" in output
