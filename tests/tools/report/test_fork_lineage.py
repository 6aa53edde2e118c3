"""Where a run comes from, and what was forked from it."""

from __future__ import annotations

import shutil

from jobrun.cli.process.run_command import invoke
from jobrun.runner.rundir.run_directories import runs
from jobrun.tools.report.fork_lineage import Link, ancestors, children
from tests.support.reports import make_report


def _forked(folder, *words):
    where = ["--run-dir", str(folder / "runs"), "--quiet"]
    invoke(["fork", *words, *where, "--set", "stop=[{epochs: 5}]"])
    return runs(folder / "runs", "pages")[-1]


def test_a_fork_knows_its_ancestors_and_each_its_forks(tmp_path):
    first = make_report(tmp_path).run
    second = _forked(tmp_path, f"{first.path}@2")
    third = _forked(tmp_path, f"{second.path}@3", "--blobs", "x")

    assert ancestors(third) == (Link(second.name, 3, ("x",)), Link(first.name, 2))
    assert children(first) == (Link(second.name, 2),)


def test_where_the_parent_is_gone_its_name_is_left(tmp_path):
    first = make_report(tmp_path).run
    second = _forked(tmp_path, f"{first.path}@2")
    shutil.rmtree(first.path)

    assert ancestors(second) == (Link(first.name, 2),)
