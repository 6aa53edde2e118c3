from __future__ import annotations

import sys

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.steps import Loop
from jobrun.graph.types import OutputRef
from jobrun.runtime.callables.array_audit import ArrayAudit, find_changed
from jobrun.runtime.callables.call import call_action, read_only_view
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.testing.graphs import call, expr, steps
from jobrun.values.kinds.counter import Counter
from tests.support.step_bench import Bench

LIBRARY = """
import numpy as np
import sys

kept = []

def make(n=3):
    return np.arange(float(n))

def make_kept():
    kept.append(np.zeros(2))
    return kept[-1]

def pair(x):
    return x, x + 1

def as_list():
    return [1.0, 2.0]

def nothing():
    return None

def table():
    return {"a": memoryview(b"")}

def view(x):
    return x[1:]

def read_only_result():
    return np.broadcast_to(np.zeros(1), (3,))

def gaps():
    whole = np.zeros((4, 6))
    return whole[:, ::2], {"parts": [whole[::-1, 0]]}, whole.T, whole[:2]

def leave():
    sys.exit(3)

def inner(x):
    raise KeyError("deep")

def outer(x):
    inner(x)

def state():
    whole = np.empty(1, object)
    whole[0] = [1]
    return {"best": [1.0], "w": np.zeros(2), "all": [[np.zeros(2)]], "set": {1}, "objects": whole}

def change_first(best, state):
    state["best"][0] += 1
    return best[0]

def change_part(best, state):
    best[0] += 1

def change_inner(best, state):
    state["all"][0][0] += 1
    state["set"].add(2)
    return best[0][0][0].sum(), len(best[1])

def change_objects(best, state):
    state["objects"][0].append(5)
    return len(best), len(best[0])

def append(x):
    x[0].append(1)

def change_beside(best, state):
    state["best"][0] += 1

def write_in_c(x):
    import ctypes
    x = x["w"] if type(x) is dict else x
    ctypes.memset(x.ctypes.data, 1, 8)
    return 0

def keep_part(x):
    kept.append(x[1:])
    x += 1

def force(x):
    x.flags.writeable = True

def put_in(c, x):
    c["x"] = x

def boxes():
    return {"a": [1, None], "b": np.zeros(2)}

def ragged():
    return [[1], [1, 2], "a"]

def box(c):
    c["a"].append(2)

def number(t):
    return id(t)

def keep_tree(t):
    kept.append(t)

def keep_branch(t):
    kept.append(t["a"])

def touch(t):
    t["a"][0] += 1

def grow(t):
    t["b"] = {}

def join(t):
    t["x"] = t["y"]

def wrap(t):
    return [t], "new"

def keep_and_renew(t):
    kept.append(t["a"])
    return "new"

def keep_and_fail(t):
    kept.append(t["a"])
    raise KeyError("spoilt")

def spoil(t):
    t["a"][0] += 1
    raise KeyError("spoilt")

class Net:
    state = {}
    def state_dict(self): return self.state
    def load_state_dict(self, state): self.state = state

def model():
    return Net()

def look_at(m):
    m.seen = True

def draws(rng, rest=0):
    return rng.random()

def given(epoch):
    return epoch

def warns():
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.ones(1) / 0
    return len(caught)

def count(n):
    n.up()

class Model:
    @staticmethod
    def fit():
        return 5.0
"""


# Before Python 3.14, they are evaluated at once without this line.
TYPED = """
from __future__ import annotations

def draws(rng: Missing) -> Missing:
    return rng.random()
""".removeprefix("\nfrom __future__ import annotations\n" if sys.version_info >= (3, 14) else "")


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "callables_library.py").write_text(LIBRARY)
    (tmp_path / "callables_with_types.py").write_text(TYPED)
    (tmp_path / "run").mkdir()
    with Bench(str(tmp_path), x=np.arange(3.0), n=Counter(1)) as one:
        yield one


def use(name, **more):
    return call(f"callables_library:{name}", **more)


def library():
    import callables_library  # noqa: PLC0415

    return callables_library


def code_of(caught):
    return caught.value.faults[0].code


def test_results_become_blobs(bench):
    assert bench.do(use("make", n="2", out="a"))["a"].tolist() == [0, 1]
    blobs = bench.do(use("pair", x="x", out="a b"))
    assert (blobs["a"].tolist(), blobs["b"].tolist()) == ([0, 1, 2], [1, 2, 3])
    assert bench.do(use("as_list", out="a"))["a"] == [1.0, 2.0]
    assert bench.do(use("nothing", out="a"))["a"] is None
    assert bench.do(use("Model.fit", out="a"))["a"] == 5.0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("make_kept", {}), ("view", {"x": "x"}), ("read_only_result", {})],
)
def test_a_result_that_others_can_see_is_copied(bench, name, arguments):
    result = bench.do(use(name, out="a", **arguments))["a"]

    assert result.flags.writeable
    assert result.base is None
    assert not np.shares_memory(result, bench.blobs["x"])
    assert not any(result is one for one in library().kept)


def test_a_fresh_result_is_not_copied(bench, monkeypatch):
    def refused(*_):
        raise AssertionError("copied")

    monkeypatch.setattr("jobrun.runtime.callables.call.detach", refused)

    bench.do(use("make", out="a"))


def test_both_of_two_equal_results_are_owned(bench):
    blobs = bench.do(use("pair", x="x", out="a b"), "a[0] = 9")

    assert bench.blobs["x"][0] == 0
    assert blobs["a"][0] == 9


@pytest.mark.parametrize(
    ("step", "code"),
    [
        (use("make", out="a b"), "E208"),
        (use("pair", x="x", out="a b c"), "E208"),
        (use("table", out="a"), "E202"),
        (use("leave"), "E206"),
        (use("make", unknown="1"), "E206"),
        (use("nowhere"), "E207"),
    ],
)
def test_what_does_not_fit_is_refused(bench, step, code):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(step)

    assert code_of(caught) == code
    assert caught.value.faults[0].path == "e/t/call"
    assert "a" not in bench.blobs


def test_an_ignored_result_is_no_error(bench):
    bench.do(use("make"))


def test_an_error_shows_the_users_frames_and_no_others(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use("outer", x="x"))

    assert "KeyError: 'deep', at callables_library.py:" in caught.value.faults[0].message
    note = "\n".join(caught.value.__notes__)
    assert "in outer" in note
    assert "in inner" in note
    assert "jobrun" not in note.replace(str(bench.run.folder), "")


def test_what_is_kept_of_an_inout_array_is_cut_off(bench):
    array = bench.blobs["x"]

    bench.do(use("keep_part", x="x", inout="x"))
    library().kept[-1][...] = -1

    assert bench.blobs["x"].tolist() == [1, 2, 3]
    assert bench.blobs["x"] is not array


def test_an_inout_array_that_is_not_kept_stays_where_it_is(bench):
    array = bench.blobs["x"]

    bench.do(call("callables_library:force", x="x", inout="x"))

    assert bench.blobs["x"] is array


def test_an_inout_view_becomes_an_array_of_its_own_first(bench):
    whole = np.arange(4.0)
    bench.blobs["x"] = whole[:3]

    bench.do(use("keep_part", x="x", inout="x"))
    library().kept[-1][...] = -1

    assert bench.blobs["x"].tolist() == [1, 2, 3]
    assert whole.tolist() == [0, 1, 2, 3]


def test_a_view_with_gaps_is_told_once_since_a_blob_has_none(bench):
    step = call("callables_library:gaps", out="a b c d")

    bench.do(Loop(expr("2"), steps(step), "e/t/loop"))

    texts = [one.text for one in bench.events]
    assert [text.split(" gives ")[1].split()[0] for text in texts] == ["'a'", "'b/parts/0'"]
    assert all("round otherwise" in text and "copy()" in text for text in texts)
    assert bench.blobs["a"].flags.c_contiguous


def test_steps_behind_a_call_see_an_inout_array_that_was_replaced(bench):
    blobs = bench.do(
        use("keep_part", x="x", inout="x"),
        "x[0] = 9; y = reshape(x * 1, (3, 1))",
        use("keep_part", x="y", inout="x"),
        "y[1] = 7",
    )

    assert blobs["x"].tolist() == [9, 2, 3]
    assert blobs["y"].tolist() == [[10], [7], [4]]
    assert [one.tolist() for one in library().kept[-2:]] == [[2, 3], [[3], [4]]]


def test_a_container_is_a_value_of_its_blob(bench):
    change = use("box", c="c", inout="c")
    blobs = bench.do(use("boxes", out="c"), "d = c", change)

    assert blobs["c"]["a"] == [1, None, 2]
    assert blobs["d"]["a"] == [1, None]


def test_what_is_put_into_a_container_is_its_own(bench):
    bench.do(use("boxes", out="c"), use("put_in", c="c", x="x", inout="c"), "x[0] = 9")

    assert bench.blobs["c"]["x"].tolist() == [0, 1, 2]


def test_a_list_of_several_things_stays_one(bench):
    assert bench.do(use("ragged", out="a"))["a"] == [[1], [1, 2], "a"]


def test_an_object_is_handed_over_as_it_is(bench):
    model = bench.do(use("model", out="m"))["m"]

    bench.do(use("look_at", m="m"))

    assert bench.blobs["m"] is model
    assert model.seen


def test_a_constant_may_be_changed_only_if_it_is_an_object(bench):
    step = use("look_at", m="m", inout="m")
    bench.blobs["m"] = library().model()
    names = BlockNames(objects=frozenset({"m"}))
    lent = call_action(step, names, lambda _: lambda frame: frame.t["m"])
    lent(bench.frame)

    bench.blobs["m"] = np.zeros(2)
    with pytest.raises(TaskFailedError) as caught:
        lent(bench.frame)

    assert code_of(caught) == "E244"


def test_extras_are_handed_over_unless_given(bench):
    assert bench.do(use("given", out="a"))["a"] == 3
    assert bench.do(use("given", epoch="8", out="a"))["a"] == 8
    drawn = bench.do(use("draws", out="a"), "b = rng.random()")
    assert drawn["a"] != drawn["b"]


def test_annotations_that_only_type_checkers_can_evaluate_do_no_harm(bench):
    step = call("callables_with_types:draws", out="a")

    assert 0 <= bench.do(step)["a"] < 1


def test_numpy_warns_inside_a_callable_as_it_always_does(bench):
    assert bench.do(use("warns", out="a"))["a"] == 1
    assert bench.events == []


def test_a_counter_is_lent_as_a_copy_unless_inout(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use("count", n="n"))
    assert code_of(caught) == "E246"
    assert bench.blobs["n"].value == 1

    bench.do(use("count", n="n", inout="n"))
    assert bench.blobs["n"].value == 2


@pytest.mark.parametrize(
    ("function", "given", "words"),
    [
        ("force", {"x": "x * 2"}, "change a copy of 'x * 2'"),
        ("count", {"n": "counter(3)"}, "change a copy of 'counter(3)'"),
    ],
)
def test_change_of_an_argument_that_is_no_blob_names_the_expression(bench, function, given, words):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use(function, **given))

    assert words in caught.value.faults[0].mend


def test_a_part_that_an_expression_takes_out_of_an_inout_blob_is_that_part(bench):
    both = {"best": "s['best']", "state": "s"}
    step = call("callables_library:change_first", inout="state", out="v", **both)
    blobs = bench.do(use("state", out="s"), step)
    assert blobs["v"] == 2.0

    bench.do(call("callables_library:change_part", inout="state", **both))
    assert blobs["s"]["best"] == [3.0]

    parts = {"best": "(s['all'], s['set'])", "state": "s"}
    bench.do(call("callables_library:change_inner", inout="state", out="a b", **parts))
    assert (blobs["a"], blobs["b"]) == (2.0, 2)

    items = {"best": "s['objects']", "state": "s"}
    bench.do(call("callables_library:change_objects", inout="state", out="a b", **items))
    assert (blobs["a"], blobs["b"]) == (1, 2)
    items = {"best": "(s['objects'][0], [1])", "state": "s"}
    bench.do(call("callables_library:change_objects", inout="state", out="a b", **items))
    assert (blobs["a"], blobs["b"]) == (2, 3)


def test_a_change_inside_an_array_of_python_objects_is_refused(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use("state", out="s"), use("append", x="s['objects']"))

    assert code_of(caught) == "E246"


def test_a_part_of_an_inout_blob_beside_what_is_lent_as_a_copy_is_refused(bench):
    step = call(
        "callables_library:change_beside", best="[s['best'], t['set']]", state="s", inout="state"
    )
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use("state", out="s"), use("state", out="t"), step)

    assert code_of(caught) == "E258"
    assert "[s['best'], t['set']]" in caught.value.faults[0].message


@pytest.mark.parametrize("given", ["x", "x[1:]", "x[::2]", "s", "s['w']", "s['all'][0][0]"])
def test_what_c_code_writes_to_a_read_only_array_is_refused(bench, given):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use("state", out="s"), use("write_in_c", x=given))

    assert code_of(caught) == "E246"


def test_what_c_code_writes_to_an_inout_array_is_not_refused(bench):
    bench.do(use("write_in_c", x="x", inout="x"))

    assert bench.blobs["x"][0] != 0


def test_large_arrays_are_audited_at_the_calls_1_2_4_8(monkeypatch):
    read = []
    monkeypatch.setattr("jobrun.runtime.callables.array_audit._digest_large", lambda _: len(read))
    audit = ArrayAudit()
    small, large = np.zeros(8), np.zeros(1 << 14)

    for call_number in range(1, 10):
        found = audit.begin([("a", (), small), ("b", (), large)])
        assert small is found[0][0][2]
        read += [call_number] if len(found) == 2 else []

    assert read == [1, 2, 4, 8]


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((300, 300)),
        np.zeros((300, 300), order="F"),
        np.zeros((300, 300))[::2],
        np.zeros(3, "M8[s]"),
        np.zeros((3, 3), "M8[s]").T,
        np.zeros((), "f4"),
        np.zeros(20_000, "i4,M8[s]"),
        np.zeros(10_000_000, "u1"),
    ],
)
def test_audits_see_changes_of_every_form_of_array(array):
    audited = ArrayAudit().begin([("a", (), array)])
    assert find_changed(audited) is None

    array.view(array.dtype)[...] = 1

    assert find_changed(audited)[0] == "a"


def test_outputs_of_instances_are_handed_over_as_a_list(bench):
    bench.run.outputs[OutputRef("u", "local", "o")] = [np.zeros(2), np.ones(2)]

    blobs = bench.do(use("pair", x="out('u', 'o')[1]", out="a b"))

    assert blobs["b"].tolist() == [2, 2]


def test_read_only_values():
    array, numbers = np.zeros(2), [np.zeros(1)]

    with pytest.raises(ValueError, match="read-only"):
        read_only_view(array)[0] = 1
    read_only_view(numbers)[0][0] = 5

    assert array.flags.writeable
    assert numbers[0][0] == 0
    assert read_only_view((2, 3)) == (2, 3)
    assert read_only_view(1.5) == 1.5


def test_names_live_in_the_workspace_of_their_scope(bench):
    from jobrun.graph.types import Scope  # noqa: PLC0415

    bench.node["w"] = np.zeros(2)
    bench.do(use("make", out="w"), scopes={"w": Scope.NODE})

    assert bench.node["w"].tolist() == [0, 1, 2]


def tree():
    return {"a": [1, 2.5], "c": ({"d": "e"},)}


def test_tree_of_plain_values_is_lent_itself(bench):
    bench.blobs["t"] = tree()
    assert bench.do(use("number", t="t", out="n"))["n"] == id(bench.blobs["t"])
    assert bench.blobs["t"] == tree()


@pytest.mark.parametrize(("name", "path"), [("touch", "t/a"), ("grow", "t'")])
def test_tree_that_was_lent_itself_and_changed_is_as_it_was(bench, name, path):
    bench.blobs["t"] = tree()
    with pytest.raises(TaskFailedError, match=f"at '{path}") as caught:
        bench.do(use(name, t="t"))
    assert code_of(caught) == "E246"
    assert bench.blobs["t"] == tree()


@pytest.mark.parametrize("name", ["spoil", "keep_and_fail"])
def test_tree_that_a_failing_callable_changed_or_keeps_is_as_it_was(bench, name):
    bench.blobs["t"] = tree()
    with pytest.raises(TaskFailedError, match="spoilt"):
        bench.do(use(name, t="t"))
    for part in library().kept:
        part.append("changed later")
    assert bench.blobs["t"] == tree()


@pytest.mark.parametrize("name", ["keep_tree", "keep_branch"])
def test_of_a_tree_that_a_callable_keeps_the_blob_gets_a_copy(bench, name):
    bench.blobs["t"] = tree()
    bench.do(use(name, t="t"))
    part = library().kept.pop()
    whole = bench.blobs["t"]
    assert whole == tree()
    assert part is not whole
    assert part is not whole["a"]


def test_tree_that_a_callable_changes_stays_itself_unless_it_is_kept(bench):
    bench.blobs["t"] = tree()
    number = id(bench.blobs["t"])
    bench.do(use("touch", inout="t", t="t"))
    assert id(bench.blobs["t"]) == number
    assert bench.blobs["t"]["a"] == [2, 2.5]
    bench.do(use("keep_branch", inout="t", t="t"))
    part = library().kept.pop()
    assert part is not bench.blobs["t"]["a"]


@pytest.mark.parametrize(("name", "out"), [("wrap", "s t"), ("keep_and_renew", "t")])
def test_blob_whose_old_tree_was_lent_itself_and_kept_has_its_new_value(bench, name, out):
    bench.blobs["t"] = tree()
    bench.do(use(name, t="t", out=out))
    assert bench.blobs["t"] == "new"
    assert bench.blobs.get("s", [tree()]) == [tree()]


def test_tree_of_which_two_equal_parts_became_one_has_changed(bench):
    bench.blobs["t"] = {"x": [1], "y": [1]}
    with pytest.raises(TaskFailedError) as caught:
        bench.do(use("join", t="t"))
    assert code_of(caught) == "E246"
    assert bench.blobs["t"]["x"] is not bench.blobs["t"]["y"]
