"""Sharing between blobs, and inside objects: kept through a kill, or refused right after init."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.command import jobrun
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned

LIBRARY = """\
import os
import signal

import numpy as np


def kill(epoch):
    if epoch == 3 and os.path.exists("kill"):
        os.remove("kill")
        os.kill(os.getpid(), signal.SIGKILL)


class Views:
    def __init__(self):
        self.buf = np.zeros(4)
        self.head = self.buf[:2]

    def state_dict(self):
        return {"buf": self.buf, "head": self.head}

    def load_state_dict(self, state):
        self.buf, self.head = state["buf"], state["head"]


class Apart(Views):
    def load_state_dict(self, state):
        self.buf, self.head = state["buf"].copy(), state["head"].copy()


class InPlace(Views):
    def load_state_dict(self, state):
        self.buf[...], self.head[...] = state["buf"], state["head"]


class Drawing:
    def __init__(self, rng):
        self.rng = rng
        self.seen = []

    def state_dict(self):
        return {"rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        self.rng.bit_generator.state = state["rng"]


class Renewing(Drawing):
    def load_state_dict(self, state):
        self.rng = np.random.default_rng()
        self.rng.bit_generator.state = state["rng"]


class Estimator:
    def __init__(self, random_state):
        self.random_state = random_state

    def get_params(self, deep=True):
        return {"random_state": self.random_state}

    def set_params(self, **params):
        vars(self).update(params)

    def fit(self):
        self.random_state_ = self.random_state
        return self.random_state.rand()


class Half:
    def __init__(self):
        self.w = np.zeros((4, 6))[:, ::2]

    def state_dict(self):
        return {"w": self.w}

    def load_state_dict(self, state):
        self.w = state["w"]


def views():
    return Views(), 0


def in_place():
    return InPlace(), 0


def estimator():
    r = np.random.RandomState(0)
    return Estimator(r), r


class MiniBatch(Estimator):
    def fit(self):
        # As scikit-learn's MiniBatchKMeans does: an attribute that comes first in the alphabet.
        self._random_state = self.random_state
        return self._random_state.rand()


def mini_batch():
    r = np.random.RandomState(0)
    return MiniBatch(r), r


def drawing():
    rng = np.random.default_rng(0)
    return Drawing(rng), rng


def renewing():
    rng = np.random.default_rng(0)
    return Renewing(rng), rng


def late():
    return Drawing(np.random.default_rng(0)), np.random.default_rng(1)


def half():
    return Half(), 0


def twice():
    r = np.random.RandomState(0)
    return r, r


def arrays():
    one, other = Views(), Views()
    one.buf = other.head = np.zeros(3)
    one.head, other.buf = np.zeros(2), np.zeros(2)
    return one, other


def apart():
    return Apart(), 0


def step(k, r, epoch):
    kill(epoch)
    if isinstance(k, Views):
        k.buf += epoch
        k.head *= 2
        return float(k.buf.sum())
    if isinstance(k, Half):
        k.w *= 1.5
        k.w += 1e-3 * epoch
        return float(k.w.sum()) + k.w.strides[1]
    if isinstance(k, Estimator):
        return k.fit() + 2 * r.rand()
    return k.rng.random() + 2 * r.random()


def share(k, r, epoch):
    if epoch == 2:
        k.rng = r
    return 0.0
"""
SPEC = """\
jobrun: 1
name: sharing
seed: 3
init:
  - task: make
    rebuild: true
    steps: [{{call: "library:{make}", out: [k, r]}}]
  - task: start
    steps: [s = 0.0]
epoch:
  - task: go
    steps:
      - {{call: "library:{step}", with: {{k: k, r: r, epoch: epoch}}, inout: {inout}, out: s}}
stop: [{{epochs: 5}}]
"""


def _run(folder: Path, make: str, *, step: str = "step", inout: str = "[k, r]", to: str = "runs"):
    (folder / "library.py").write_text(LIBRARY)
    (folder / "job.yaml").write_text(SPEC.format(make=make, step=step, inout=inout))
    return jobrun("run", "job.yaml", "--run-dir", to, cwd=folder, started=to != "runs")


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "inout"),
    [
        ("estimator", "[k, r]"),
        ("mini_batch", "[k, r]"),
        ("drawing", "[k, r]"),
        ("in_place", "[k]"),
        ("views", "[k]"),
        ("half", "[k]"),
    ],
)
def test_sharing_that_a_load_keeps_outlives_a_kill(tmp_path, make, inout):
    whole = _run(tmp_path, make, inout=inout, to="whole")
    assert whole.returncode == 0, whole.stderr
    (tmp_path / "kill").touch()
    killed = _run(tmp_path, make, inout=inout, to="parts")
    assert killed.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL, 7}, killed.stderr
    resumed = jobrun("resume", "--run-dir", "parts", cwd=tmp_path, started=True)
    assert resumed.returncode == 0, resumed.stderr

    ours, theirs = (
        blobs(list(epochs(only_run(tmp_path / name)).values())[-1]) for name in ("whole", "parts")
    )
    assert theirs == ours


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        ("apart", "E257", ("'k'.head shares memory with 'k'.buf", "after a resume")),
        ("renewing", "E256", ("'k'.rng is the object 'r'", "after a resume")),
        ("twice", "E256", ("'r' is the object 'k'",)),
        ("arrays", "E257", ("'r'.head shares memory with 'k'.buf",)),
    ],
)
def test_sharing_that_a_load_loses_is_refused_right_after_init(tmp_path, make, code, words):
    done = _run(tmp_path, make, inout="[k]" if make == "apart" else "[k, r]")

    assert done.returncode == 1, done.stderr
    assert code in done.stderr
    for word in words:
        assert word in " ".join(done.stderr.split())
    assert "job.yaml:7:13  init/make/steps[0]" in done.stderr
    # Nothing was saved, so nothing was computed in vain.
    assert not epochs(only_run(tmp_path / "runs"))


def test_sharing_that_begins_later_is_refused_at_the_next_save(tmp_path):
    done = _run(tmp_path, "late", step="share")

    assert done.returncode == 1
    assert "E256" in done.stderr
    assert "'k'.rng is the object 'r', and was not when it was made" in " ".join(
        done.stderr.split()
    )
    assert "job.yaml:7:13  init/make/steps[0]" in done.stderr
    # What was saved before it came to be shared is there.
    assert "epoch 1 is saved" in done.stderr
    assert 1 in epochs(only_run(tmp_path / "runs"))


APART = """\
jobrun: 1
name: apart
init:
  - task: make
    rebuild: true
    steps:
      - {call: "library:source", out: r}
      - {call: "library:user", with: {r: r}, out: k}
  - {task: start, steps: [s = 0.0]}
epoch:
  - {task: go, steps: [{call: "library:step", with: {k: k, r: r, epoch: epoch}, inout: [k, r],
                        out: s}]}
stop: [{epochs: 2}]
"""


def test_what_two_steps_make_and_a_load_does_not_share_names_the_places_of_both(tmp_path):
    (tmp_path / "library.py").write_text(
        LIBRARY + "\n\ndef source():\n    return np.random.default_rng(0)\n"
        "\n\ndef user(r):\n    return Renewing(r)\n"
    )
    (tmp_path / "job.yaml").write_text(APART)

    done = jobrun("run", "job.yaml", cwd=tmp_path)

    output = " ".join(done.stderr.split())
    assert done.returncode == 1
    assert "error[E256] job.yaml:8:9 init/make/steps[1]: 'k'.rng is the object 'r'" in output
    assert "'r' is made at job.yaml:7:9" in output


def test_arrays_of_a_container_that_overlap_do_so_after_a_resume(tmp_path):
    (tmp_path / "library.py").write_text(
        "import numpy as np\ndef begin():\n    buf = np.arange(6.0)\n"
        "    return {'buf': buf, 'parts': [buf[1:3], buf[::-2]], 'same': buf}\n"
        "def step(state):\n    state['parts'][0][:] *= 3\n    state['parts'][1][0] += 1\n"
        "    return state['buf'].copy()\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit:\n"
        "  - {task: t, steps: [{call: 'library:begin', out: state}, y = zeros(6)]}\nepoch:\n"
        "  - {task: e, steps: [{call: 'library:step', inout: [state], out: y}]}\n"
        "stop: [{epochs: 4}]\ncheckpoint: {every: 1ep}\n"
    )
    assert jobrun("run", "job.yaml", "--max-epochs", "2", cwd=tmp_path).returncode == 75
    done = jobrun("resume", cwd=tmp_path)
    assert done.returncode == 0, done.stderr

    last = blobs(list(epochs(only_run(tmp_path / "runs")).values())[-1])
    (y,) = (value.content for name, value in last.items() if name.endswith("/y"))
    assert np.frombuffer(y).tolist() == [0.0, 81.0, 162.0, 3.0, 4.0, 9.0]


# Of each: what init returns, the steps of an epoch, and the same in plain Python.
_STATEMENTS = {
    "change": ("two", ["a += 1", "s = s + sum(b)"], "a += 1; s = s + b.sum()"),
    "item": ("two", ["a[0] = epoch", "s = s + sum(b)"], "a[0] = epoch; s = s + b.sum()"),
    "operator": ("two", ["add_at(b, 0, 2)", "s = s + sum(a)"], "b[0] += 2; s = s + a.sum()"),
    "part": ("head", ["a[0] = epoch", "s = s + sum(b)"], "a[0] = epoch; s = s + b.sum()"),
    "bound": ("two", ["a = a + 1", "s = s + sum(b)"], "a = a + 1; s = s + b.sum()"),
    "late": ("two", ["b = b * 2", "a += 1", "s = s + sum(b)"],
             "b = b * 2; a += 1; s = s + b.sum()"),
    "copy": ("copied", ["a += 1", "s = s + sum(b)"], "a += 1; s = s + b.sum()"),
}  # fmt: skip
STATEMENTS = """\
import numpy as np


def two():
    w = np.zeros(3)
    return w, w


def head():
    w = np.zeros(3)
    return w, w[:2]


def copied():
    w = np.zeros(3)
    return w, w.copy()
"""


@pytest.mark.parametrize(
    ("returned", "names"),
    [("table, table[1]", "table, row")],
)
def test_a_row_is_refused_beside_the_table_of_which_it_is_a_view(tmp_path, returned, names):
    (tmp_path / "library.py").write_text(
        "import numpy as np\ndef begin():\n    table = np.zeros(3, 'i4,f8')\n"
        f"    return {returned}\ndef step(**given):\n    pass\n"
    )
    args = ", ".join(f"{name}: {name}" for name in names.split(", "))
    out = f"[{names}]" if "," in names else names
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit:\n"
        f"  - {{task: t, steps: [{{call: 'library:begin', out: {out}}}]}}\nepoch:\n"
        f"  - {{task: e, steps: [{{call: 'library:step', with: {{{args}}}, inout: [{names}]}}]}}\n"
        "stop: [{epochs: 2}]\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "E258" in done.stderr
    assert "row" in done.stderr


@pytest.mark.parametrize("case", thinned(list(_STATEMENTS), 4))
def test_a_blob_that_an_expression_changes_in_place_is_as_in_plain_python(tmp_path, case):
    maker, steps, plain = _STATEMENTS[case]
    (tmp_path / "library.py").write_text(STATEMENTS)
    written = json.dumps(steps)
    (tmp_path / "job.yaml").write_text(
        f"jobrun: 1\nname: c\ninit: [{{task: t, steps: [{{call: 'library:{maker}', out: [a, b]}}, "
        f"s = 0.0]}}]\nepoch: [{{task: e, steps: {written}}}]\nstop: [{{epochs: 4}}]\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    names: dict[str, Any] = {"s": 0.0}
    exec(STATEMENTS, names)
    names["a"], names["b"] = names[maker]()
    for names["epoch"] in range(1, 5):
        exec(plain, names)
    if case in {"change", "item", "operator", "part"}:
        assert done.returncode == 1
        assert "E258" in done.stderr
        assert "'a' and 'b' the same memory" in " ".join(done.stderr.split())
        assert "array.copy()" in " ".join(done.stderr.split())
        assert not epochs(only_run(tmp_path / "runs"))
        return
    assert done.returncode == 0, done.stderr
    last = blobs(list(epochs(only_run(tmp_path / "runs")).values())[-1])
    assert last["local:/blobs/s"].content == np.float64(names["s"]).tobytes()


OBJECTS = """\
import numpy as np


class Model:
    def __init__(self):
        self.parts = [{"w": np.zeros(3)}]

    def state_dict(self):
        return {"w": self.parts[0]["w"]}

    def load_state_dict(self, state):
        self.parts[0]["w"][...] = state["w"]


def make():
    return Model()


def part(m):
    return m.parts[0]["w"]


def head(m):
    return m.parts[0]["w"][:2]


def copy(m):
    return m.parts[0]["w"].copy()


def put(m, x):
    m.parts[0]["w"] = x


def step(m):
    m.parts[0]["w"] += 1
    return m.parts[0]["w"].sum()
"""
_CALLS = {
    "step": "{call: 'library:step', with: {m: m}, inout: [m], out: v}",
    "put": "{call: 'library:put', with: {m: m, x: x}, inout: [m]}",
    **{value: f"{{call: 'library:{value}', with: {{m: m}}, out: x}}" for value in
       ("part", "head", "copy")},
}  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "message"),
    thinned(
        [
            (["part", "step"], "'m'.parts.0.w and 'x'"),
            (["head", "step"], "'m'.parts.0.w and 'x'"),
            (["part", "x += 1"], "'m'.parts.0.w and 'x'"),
            (["x = x + 1", "put", "step"], "'m'.parts.0.w and 'x'"),
            (["copy", "step"], ""),
            (["step", "part"], ""),
            (["part", "x = x + 1", "step"], ""),
        ],
        4,
    ),
)
def test_a_part_of_an_object_is_refused_where_a_change_of_it_would_be_missed(
    tmp_path, steps, message
):
    (tmp_path / "library.py").write_text(OBJECTS)
    written = ", ".join(_CALLS.get(step, f"'{step}'") for step in steps)
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit:\n  - {task: m, rebuild: true, steps: [{call: 'library:make', "
        "out: m}]}\n  - {task: t, steps: [x = zeros(3)]}\nepoch:\n"
        f"  - {{task: e, steps: [{written}]}}\nstop: [{{epochs: 2}}]\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    if not message:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 1, done.stderr
    assert "E259" in done.stderr
    assert message in " ".join(done.stderr.split())
    assert "job.yaml:7:" in done.stderr


AROUND = """\
jobrun: 1
name: c
init: [{task: t, steps: [x = zeros(3), y = zeros(2), s = 0.0]}]
epoch:
  PLACE
  tasks: [{task: e, steps: [x += 1, s = s + sum(y)]}]
stop: [{epochs: 3}]
"""


@pytest.mark.parametrize(
    "template", ["setup: {init: [STEP]}", "report: [{every: 1h, steps: [STEP]}]"]
)
def test_callables_around_and_beside_the_tasks_of_a_node_are_as_in_plain_python(tmp_path, template):
    (tmp_path / "library.py").write_text("def head(x):\n    return x[:2]\n")
    step = "{call: 'library:head', with: {x: x}, out: y}"
    (tmp_path / "job.yaml").write_text(AROUND.replace("PLACE", template.replace("STEP", step)))

    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "E258" in done.stderr
    assert "'x' and 'y' the same memory" in " ".join(done.stderr.split())


@pytest.mark.parametrize("value", ["[1]", "{'v': 1}", "{1, 2}", "[np.zeros(2)]"])
@pytest.mark.parametrize("inputs", ["s['cur']", "[s['cur'], 1]"])
def test_a_part_that_an_expression_takes_out_is_refused_if_it_is_returned_and_changed(
    tmp_path, value, inputs
):
    part = "c[0]" if inputs[0] == "[" else "c"
    (tmp_path / "library.py").write_text(
        f"import numpy as np\ndef begin(): return {{'cur': {value}}}\ndef take(c): return {part}\n"
        "def change(c): c.clear()\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit: [{task: t, steps: [{call: 'library:begin', out: s}]}]\n"
        "epoch:\n  - task: e\n    steps:\n"
        f'      - {{call: "library:take", with: {{c: "{inputs}"}}, out: c}}\n'
        "      - {call: 'library:change', with: {c: c}, inout: [c]}\n"
        "stop: [{epochs: 2}]\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "error[E258] job.yaml:7:9" in done.stderr
    assert "the same memory" in done.stderr


# Of each: what init returns, the body of an epoch, and whether it has the blob in 'inout'.
_KEPT = {
    "a container that was lent to be changed": (
        "{'a': np.zeros(2)}",
        "if M.last is not None: M.last['a'] += 100\n    x['a'] += 1; M.last = x",
        "inout: [x]",
        "was lent in epoch 1 as 'x', and kept, was changed by 'library:step' in epoch 2",
    ),
    "a list that was returned": (
        "[1]",
        "if M.last is not None: M.last.append(9)\n    M.last = x + [2]; return M.last",
        "out: x",
        "returned in epoch 1 as 'x', and kept, was changed by 'library:step' in epoch 2",
    ),
    "an array that another callable returned": (
        "G",
        "G[:] += 10; x += 1",
        "inout: [x]",
        "'library:begin' returned in epoch 0 as 'x', and kept, was changed by 'library:step'",
    ),
    "a list that was lent to be read": (
        "[1]",
        "if M.last is not None: M.last.append(9)\n    M.last = x; return 0",
        "out: n",
        "was lent in epoch 1 as 'x', and kept, was changed by 'library:step' in epoch 2",
    ),
    "a part of a container that was lent to be read": (
        "{'a': [1], 'b': 2}",
        "if M.last is not None: M.last.append(9)\n    M.last = x['a']; return 0",
        "out: n",
        "was lent in epoch 1 as 'x/a', and kept, was changed by 'library:step' in epoch 2",
    ),
    "a list that only the end of the epoch looks at": (
        "H",
        "H.append(1); return 0",
        "out: n",
        "'library:begin' returned in epoch 0 as 'x', and kept, was changed by 'library:step'",
    ),
    "a part of its own argument that it returns": (
        "{'h': []}",
        "G[:] += 1; x['h'].append(G); return x",
        "inout: [x], out: x",
        "'library:step' returned in epoch 1 as 'x/h/0', and kept, was changed by 'library:step'",
    ),
}


@pytest.mark.parametrize("case", thinned(list(_KEPT), 2))
def test_a_change_of_what_a_callable_has_kept_is_refused(tmp_path, case):
    created, body, layout, output = _KEPT[case]
    with_x = "" if "only the end" in case else "with: {x: x}, "
    (tmp_path / "library.py").write_text(
        "import numpy as np\nG, H = np.zeros(2), [1]\nclass M: last = None\n"
        f"def begin(): return {created}\ndef step(x=None):\n    {body}\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit: [{task: t, steps: [{call: 'library:begin', out: x}, n = 0]}]\n"
        f"epoch: [{{task: e, steps: [{{call: 'library:step', {with_x}{layout}}}]}}]\n"
        "stop: [{epochs: 3}]\ncheckpoint: {every: 1ep}\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "error[E246] job.yaml:" in done.stderr
    assert output in " ".join(done.stderr.split())


@pytest.mark.parametrize("value", ["np.arange(9.0)", "[np.arange(9.0)]"])
@pytest.mark.parametrize("inputs", ["p: a, q: a", "p: a, q: 'a[0:]'", "p: 'a[0:]', q: a"])
@pytest.mark.parametrize("returned", ["p", "q"])
def test_a_blob_that_is_given_twice_and_returned_is_refused_if_it_changes(
    tmp_path, value, inputs, returned
):
    (tmp_path / "library.py").write_text(
        f"import numpy as np\n\ndef source():\n    return {value}\n\n"
        f"def same(p, q):\n    return {returned}\n\n"
        "def double(p):\n    p[0] *= 2\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit: [{task: t, steps: [{call: 'library:source', out: a}]}]\n"
        "epoch:\n  - task: e\n    steps:\n"
        f"      - {{call: 'library:same', with: {{{inputs}}}, out: b}}\n"
        "      - {call: 'library:double', with: {p: b}, inout: [b]}\n"
        "stop: [{epochs: 1}]\n"
    )

    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "error[E258] job.yaml:7:9" in done.stderr


_LIBRARY = """
import functools
import numpy as np

BUFFER, TABLE, KEPT = np.zeros(3), np.zeros(400_000), []

def observe():
    BUFFER[:] += 1
    return BUFFER

def shared(): return BUFFER

def table(): return TABLE

def advance(): BUFFER[:] += 1

def change_table(epoch): TABLE[7 * epoch + 1] = 1

@functools.lru_cache
def kernel(): return np.ones(3)

def double(k): k *= 2

def take(x): KEPT.append(x)

def change_taken():
    if KEPT: KEPT[-1][:] = 50

def total(a, b=0.0): return float(np.sum(a) + np.sum(b))
"""

_READ_LATER = {
    "a scratch blob that a callable reads": (
        "n = 0",
        "- {call: 'library:observe', out: a}\n- {call: 'library:observe', out: b}\n"
        "- {call: 'library:total', with: {a: a, b: b}, out: n}",
        "returned in epoch 1 as 'a', and kept, was changed by 'library:observe' in epoch 1",
    ),
    "a scratch blob that an expression reads": (
        "n = 0.0",
        "- {call: 'library:observe', out: a}\n- {call: 'library:advance'}\n- n = n + sum(a)",
        "returned in epoch 1 as 'a', and kept, was changed by 'library:advance' in epoch 1",
    ),
    "a scratch blob that an expression reads in a loop": (
        "n = 0.0",
        "- loop: 2\n  steps:\n      - {call: 'library:observe', out: a}\n"
        "      - {call: 'library:advance'}\n      - n = n + sum(a)",
        "returned in epoch 1 as 'a', and kept, was changed by 'library:advance' in epoch 1",
    ),
    "a blob that an expression binds again": (
        "{call: 'library:shared', out: w}",
        "- {call: 'library:advance'}\n- w = w * 1.0",
        "returned in epoch 0 as 'w', and kept, was changed by 'library:advance' in epoch 1",
    ),
    "a blob that was lent to be changed": (
        "x = zeros(3)",
        "- {call: 'library:take', inout: [x]}\n- {call: 'library:change_taken'}\n- x = x * 1.0",
        "was lent in epoch 1 as 'x', and kept, was changed by 'library:change_taken' in epoch 1",
    ),
    "a cached array that a step has changed": (
        "n = 0.0",
        "- {call: 'library:kernel', out: k}\n- {call: 'library:double', inout: [k]}\n"
        "- n = n + sum(k)",
        "returned in epoch 1 as 'k', and kept, was returned again by 'library:kernel' in epoch 2",
    ),
    "one item of a large array": (
        "{call: 'library:table', out: t}",
        "- {call: 'library:change_table'}",
        "returned in epoch 0 as 't', and kept, was changed by 'library:change_table' in epoch 1",
    ),
}


def run_with_library(tmp_path, begin, steps, *more):
    (tmp_path / "library.py").write_text(_LIBRARY)
    (tmp_path / "job.yaml").write_text(
        f"jobrun: 1\nname: c\ninit:\n  - task: t\n    steps:\n      - {begin}\n"
        "epoch:\n  - task: e\n    steps:\n"
        + "".join(f"      {line}\n" for line in steps.splitlines())
        + "stop: [{epochs: 4}]\n"
    )
    return jobrun("run", "job.yaml", *more, cwd=tmp_path)


@pytest.mark.parametrize("case", thinned(list(_READ_LATER), 2))
def test_a_blob_that_differs_from_what_a_callable_has_kept_is_refused_when_it_is_read(
    tmp_path, case
):
    begin, steps, output = _READ_LATER[case]
    done = run_with_library(tmp_path, begin, steps)

    assert done.returncode == 1
    assert "error[E246] job.yaml:" in done.stderr
    assert output in " ".join(done.stderr.split())


def test_a_buffer_that_a_simulator_fills_again_may_be_used_until_then(tmp_path):
    steps = (
        "- loop: 3\n  steps:\n      - {call: 'library:observe', out: a}\n"
        "      - {call: 'library:total', with: {a: a}, out: t}\n      - n = n + t + sum(a)\n"
        "      - {call: 'library:advance'}\n"
        "- {call: 'library:kernel', out: k}\n- n = n + sum(k)\n"
        "- {log: 'n is {n}'}"
    )
    done = run_with_library(tmp_path, "n = 0.0", steps)

    expected = sum(2 * 3.0 * (2 * number + 1) for number in range(12)) + 4 * 3.0
    assert done.returncode == 0, done.stderr
    assert f"n is {expected}" in done.stdout + done.stderr


_MARK = """\
import threading

marked, seen = threading.Event(), threading.Event()


def make():
    return {"a": [1, 2]}


def mark(t):
    t["a"].append(9)
    marked.set()
    seen.wait(60)
    t["a"].pop()
    return 0


def wait():
    marked.wait(60)
    return 0


def look(p):
    seen.set()
    return sum(p)
"""
_MARKED_MEANWHILE = {
    "another task": (
        "  - task: mark\n    steps: [{mark}]\n  - task: look\n    steps: [{wait}, {look}]\n"
    ),
    "another branch": "  - task: both\n    steps: [{{parallel: [[{mark}], [{wait}, {look}]]}}]\n",
}


@pytest.mark.parametrize("beside", list(_MARKED_MEANWHILE))
def test_what_a_callable_changes_and_changes_back_is_not_seen_meanwhile(tmp_path, beside):
    (tmp_path / "marks.py").write_text(_MARK)
    tasks = _MARKED_MEANWHILE[beside].format(
        mark="{call: 'marks:mark', with: {t: t}, out: n}",
        wait="{call: 'marks:wait', out: w}",
        look="{call: 'marks:look', with: {p: \"t['a']\"}, out: total}",
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit:\n"
        "  - {task: t, steps: [{call: 'marks:make', out: t}, n = 0, w = 0, total = 0]}\n"
        f"epoch:\n{tasks}"
        "exit:\n  - {task: show, steps: [{log: 'the total is {total}'}]}\n"
        "stop: [{epochs: 1}]\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "the total is 3" in done.stdout + done.stderr


def test_a_retry_sees_a_tree_as_it_was_before_the_callable_changed_it_and_raised(tmp_path):
    (tmp_path / "flaky.py").write_text(
        "CALLS = []\n\n\ndef make():\n    return {'a': [1, 2]}\n\n\ndef total(t):\n"
        "    CALLS.append(1)\n    if len(CALLS) == 1:\n        t['a'].append(9)\n"
        "        raise ValueError\n    return sum(t['a'])\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: c\ninit: [{task: t, steps: [{call: 'flaky:make', out: t}, n = 0]}]\n"
        "epoch:\n  - task: e\n    retry: {max: 1}\n"
        "    steps: [{call: 'flaky:total', with: {t: t}, out: n}]\n"
        "exit: [{task: show, steps: [{log: 'the total is {n}'}]}]\nstop: [{epochs: 1}]\n"
    )
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "the total is 3" in done.stdout + done.stderr
