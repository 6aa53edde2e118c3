"""What a step gives a callable is checked against its parameters, before anything runs."""

from __future__ import annotations

import inspect
import sys
from itertools import chain, combinations

import pytest

from jobrun.core.errors import Origin
from jobrun.graph.expressions import Const
from jobrun.graph.steps import CALL_EXTRAS, CallPython
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from jobrun.runner.preflight.callable_signatures import check_callables, find_definition
from jobrun.runtime.callables.invocation import EXTRAS

WHERE = Origin("j.yaml", 3, 7)


def faults(tmp_path, text, names, function="f"):
    (tmp_path / "m.py").write_text(text)
    arguments = tuple((name, Const(1)) for name in names)
    step = CallPython(f"m:{function}", arguments, path="init/t/steps[0]", origin=WHERE)
    groups = {name: TaskGroup(name) for name in ("epoch", "download", "exit")}
    init = TaskGroup("init", (Task("t", "n", (step,)),))
    job = Job("j", Cluster((Node("n"),)), init, **groups)
    return [fault for fault in check_callables(job, tmp_path) if fault.code == "E393"]


def messages(*arguments, **more):
    return [(fault.message, fault.mend) for fault in faults(*arguments, **more)]


def test_a_missing_argument_is_named_at_the_step(tmp_path):
    [fault] = faults(tmp_path, "def f(x, rate): ...", ["x"])

    assert (fault.where, fault.path) == (WHERE, "init/t/steps[0]")
    assert fault.message == "m:f needs 'rate', which 'with' does not give"
    assert fault.mend == "write with: {rate: …}, or give the parameter a default"


def test_misspelt_argument_is_one_fault_with_the_nearest_name(tmp_path):
    assert messages(tmp_path, "def f(x, rate): ...", ["x", "rat"]) == [
        ("m:f has no parameter 'rat'", "did you mean 'rate'?")
    ]


def test_an_argument_too_many_is_named(tmp_path):
    assert messages(tmp_path, "def f(): ...", ["x"]) == [
        ("m:f has no parameter 'x'", "take it out of 'with'")
    ]


def test_a_parameter_that_no_name_reaches_is_named(tmp_path):
    [(message, _)] = messages(tmp_path, "def f(x, /): ...", ["x"])

    assert message == "'x' of m:f can be given by position only, and 'with' gives names"


SIGNATURES = [
    "", "x", "x, y", "x, y=1", "x=1, y=1", "*, x", "*, x=1, y", "x, *rest", "*rest, y", "**more",
    "x, **more", "x, /", "x=1, /", "x, /, y", "x, /, **more", "x=1, /, y=2, *, z", "epoch, x",
    "rng", "*, node=1, run_dir",
]  # fmt: skip


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("def f({}): ...", "f"),
        ("class C:\n    def __init__(self{comma}{}): ...", "C"),
        ("class C(object):\n    def f({}): ...", "C.f"),
    ],
    ids=["function", "class", "function of a class"],
)
def test_exactly_what_python_refuses_is_a_fault(signature, text, function, tmp_path):
    comma = ", " if signature else ""
    if comma and signature.startswith(("x, /", "x=1, /")):
        text = text.replace("self{comma}{}", "self, {}")
    source = text.replace("{comma}", comma).format(signature)
    space: dict = {}
    exec(source, space)
    definition = space[function.partition(".")[0]]
    definition = definition.f if "." in function else definition
    parameters = inspect.signature(definition).parameters
    names = ("x", "y", "z", "rest")
    for chosen in chain.from_iterable(combinations(names, size) for size in range(4)):
        values = dict.fromkeys(chosen, 1) | {
            extra: 1 for extra in parameters if extra in CALL_EXTRAS
        }
        try:
            inspect.signature(definition).bind(**values)
            refused = False
        except TypeError:
            refused = True
        assert bool(faults(tmp_path, source, chosen, function)) == refused, chosen


@pytest.mark.parametrize(
    "text",
    [
        "@wrap\ndef f(x): ...",
        "def f(x): ...\nf = wrap(f)",
        "def f(x): ...\ndef f(): ...",
        "if late:\n    def f(x): ...",
        "def f(x): ...\nif late:\n    from other import f",
        "def f(x): ...\nfrom other import *",
        "def f(x): ...\nglobals()['f'] = 1",
        "def f(x): ...\ndef g():\n    global f\n    f = 1",
        "def f(x): ...\nfor f in (1, 2): pass",
        "f = lambda x: x",
        "class f(Base):\n    def __init__(self, x): ...",
        "class f(metaclass=M):\n    def __init__(self, x): ...",
        "@dataclass\nclass f:\n    x: int",
        "class f:\n    def __new__(cls): ...\n    def __init__(self, x): ...",
        "class f:\n    @wrap\n    def __init__(self, x): ...",
        "class f:\n    def __init__(self, x): ...\nf.__init__ = other",
        "def f(x: ...",
        "import sys\ndef f(x): ...\nsys.modules[__name__] = other",
    ],
)
def test_unclear_source_is_no_fault(text, tmp_path):
    assert faults(tmp_path, text, []) == []


@pytest.mark.parametrize(
    "text",
    [
        "def g():\n    f = 1\n    return f\ndef f(x): ...",
        "import os\ndef f(x):\n    return [f for f in x]",
        "class C:\n    f = 1\ndef f(x): ...",
    ],
)
def test_names_of_other_scopes_do_not_matter(text, tmp_path):
    assert len(faults(tmp_path, text, [])) == 1


def test_installed_modules_are_checked_and_not_imported(tmp_path):
    sys.modules.pop("colorsys", None)
    groups = {name: TaskGroup(name) for name in ("epoch", "download", "exit")}
    step = CallPython("colorsys:rgb_to_hsv", (("r", Const(1)), ("g", Const(1))))
    init = TaskGroup("init", (Task("t", "n", (step,)),))
    job = Job("j", Cluster((Node("n"),)), init, **groups)

    [fault] = check_callables(job, tmp_path)

    assert "needs 'b'" in fault.message
    assert "colorsys" not in sys.modules


def test_implicit_call_arguments_match_the_runtime():
    assert set(EXTRAS) == CALL_EXTRAS


@pytest.mark.parametrize(
    ("text", "is_defined"),
    [
        ("def f(): pass", True),
        ("class f: pass", True),
        ("f = g = 1", True),
        ("from x import f", True),
        ("from x import g as f", True),
        ("from x import *", True),
        ("def __getattr__(name): pass", True),
        ("if 1:\n    def f(): pass", True),
        ("def g(): pass", False),
        ("def (", True),
    ],
)
def test_definition_in_a_module_is_found(tmp_path, text, is_defined):
    (tmp_path / "m.py").write_text(text)

    assert find_definition(tmp_path / "m.py", "f")[0] is is_defined
