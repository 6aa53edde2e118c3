from __future__ import annotations

import importlib
import multiprocessing
import sys

import pytest

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.runtime.callables.user_modules import FolderOnPath, load_callable
from tests.support.command import jobrun


def folder(path, **modules):
    path.mkdir(exist_ok=True)
    for name, source in modules.items():
        (path / f"{name}.py").write_text(source)
    return str(path)


def test_a_module_is_found_in_the_folder_and_sys_path_is_left_alone(tmp_path):
    before = list(sys.path)
    where = folder(tmp_path, imports_one="def f(): return 1")

    assert load_callable("imports_one:f", where)() == 1
    assert sys.path == before


def test_a_module_may_import_its_neighbours(tmp_path):
    where = folder(
        tmp_path,
        imports_two="import imports_three as t\nf = t.f",
        imports_three="def f(): return 3",
    )

    assert load_callable("imports_two:f", where)() == 3


def test_a_module_of_that_name_from_another_folder_is_not_taken_for_it(tmp_path):
    first = folder(tmp_path / "one", imports_same="def f(): return 1")
    second = folder(tmp_path / "two", imports_same="def f(): return 2")

    assert [load_callable("imports_same:f", where)() for where in (first, second, first)] == [
        1,
        2,
        1,
    ]


def test_the_same_module_is_loaded_once(tmp_path):
    where = folder(tmp_path, imports_once="def f(): pass")

    assert load_callable("imports_once:f", where) is load_callable("imports_once:f", where)


def test_installed_modules_and_attributes_of_classes_are_found(tmp_path):
    assert load_callable("json:dumps", str(tmp_path))(1) == "1"
    assert load_callable("json:JSONDecoder.decode", str(tmp_path))


def test_a_file_with_the_name_of_a_loaded_module_of_python_is_refused(tmp_path):
    where = folder(tmp_path, json="def dumps(x): return 'mine'")
    before = sys.modules["json"]

    for target in ("json:dumps", "json.decoder:JSONDecoder"):
        with pytest.raises(TaskFailedError, match=r"json\.py") as caught:
            load_callable(target, where)
        assert caught.value.faults[0].code == "E207"

    assert sys.modules["json"] is before


def test_such_a_file_is_refused_before_anything_runs(tmp_path):
    folder(tmp_path, json="def dumps(x): return 'mine'")
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: n\n"
        "init: [{task: t, steps: [{call: 'json:dumps', with: {x: 1}, out: y}]}]\n"
        "epoch: [{task: e, steps: [z = 1]}]\nstop: [{epochs: 1}]\n"
    )
    done = jobrun("validate", "job.yaml", cwd=tmp_path)

    assert done.returncode != 0
    assert "error[E392] job.yaml:3:" in done.stderr
    assert "give the file another name" in " ".join(done.stderr.split())


@pytest.mark.parametrize("source", [None, "import no_such_module_at_all"])
def test_a_module_that_cannot_be_imported_is_a_fault_of_the_environment(tmp_path, source):
    where = folder(tmp_path, **({"imports_bad": source} if source else {}))

    with pytest.raises(EnvironmentFaultError) as caught:
        load_callable("imports_bad:f", where)

    assert caught.value.faults[0].code == "E207"
    assert where in caught.value.faults[0].mend


@pytest.mark.parametrize("source", ["1 / 0", "def f(:"])
def test_a_module_that_fails_while_loading_is_a_fault_of_the_task(tmp_path, source):
    where = folder(tmp_path, imports_broken=source)

    with pytest.raises(TaskFailedError, match="failed while loading"):
        load_callable("imports_broken:f", where)


def test_a_misspelt_function_gets_a_suggestion(tmp_path):
    where = folder(tmp_path, imports_fit="def fit(): pass\nx = 1")

    with pytest.raises(TaskFailedError, match="did you mean 'fit'"):
        load_callable("imports_fit:fti", where)
    with pytest.raises(TaskFailedError, match="not callable"):
        load_callable("imports_fit:x", where)


def test_the_folder_serves_imports_until_it_is_removed(tmp_path):
    before = list(sys.path)
    late = FolderOnPath(folder(tmp_path, imports_late="x = 5"))
    late.add()
    try:
        assert importlib.import_module("imports_late").x == 5
    finally:
        late.remove()
        late.remove()
        del sys.modules["imports_late"]
    assert sys.path == before

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("imports_late")


def test_a_folder_that_users_have_on_their_path_stays_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = list(sys.path)
    late = FolderOnPath(str(tmp_path))

    late.add()
    late.remove()

    assert sys.path == before


POOL = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

def double(x):
    return 2 * x

def total(x):
    with ProcessPoolExecutor(1, multiprocessing.get_context("METHOD")) as pool:
        return sum(pool.map(double, x.tolist()))
"""


@pytest.mark.parametrize(
    "method",
    # With "spawn" the functions are found by their module alone.
    [
        pytest.param(method, marks=() if method == "spawn" else pytest.mark.long)
        for method in multiprocessing.get_all_start_methods()
    ],
)
def test_processes_that_a_callable_starts_find_its_functions(tmp_path, method):
    job = tmp_path / "job"
    folder(job, pool_library=POOL.replace("METHOD", method))
    (job / "pool.yaml").write_text(
        "jobrun: 1\nname: pool\ninit: [{task: t, steps: [x = arange(4.0), s = 0.0]}]\nepoch:\n"
        "  - {task: e, steps: [{call: 'pool_library:total', with: {x: x}, out: s}]}\n"
        "stop: [{epochs: 1}]\nexpect: [s == 12]\n"
    )

    done = jobrun("run", "job/pool.yaml", cwd=tmp_path, started=True)

    assert done.returncode == 0, done.stderr
