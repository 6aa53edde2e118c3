"""Names of ``adapt`` are checked before a run, by the files of their modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.runner.preflight.checks import preflight
from tests.support.compiling import job_of

SPEC = """\
jobrun: 1
name: job
adapt: {names}
init: [{{task: t, steps: [x = 0]}}]
epoch: [{{task: e, steps: [x += 1]}}]
stop: [{{epochs: 1}}]
"""


def _faults(folder: Path, names: str):
    (folder / "genes").mkdir(exist_ok=True)
    (folder / "genes" / "__init__.py").write_text("raise SystemExit\n")
    (folder / "genes" / "pool.py").write_text("class Pool:\n    class Part: pass\n")
    return preflight(job_of(folder, SPEC.format(names=names)), folder)


@pytest.mark.parametrize(
    "names",
    ["[genes]", "[genes.pool]", "[genes.pool.Pool]", "['genes.pool:Pool.Part', fractions_x]"],
)
def test_packages_modules_and_classes_are_found_and_not_imported(tmp_path, names):
    (tmp_path / "fractions_x.py").write_text("")
    assert _faults(tmp_path, names) == ()


@pytest.mark.parametrize(
    ("names", "code", "message", "mend"),
    [
        ("[gens]", "E250", "no module 'gens'", "did you mean 'genes'?"),
        ("[genes.pol]", "E250", "'genes' has no module or class 'pol'", "'pool'"),
        ("['genes.pol:Pool']", "E250", "no module 'genes.pol'", "'genes.pool'"),
        ("[genes.pool.Pol]", "E250", "no module or class 'Pol'", "'Pool'"),
        ("[numpy.random]", "E251", "values of 'numpy' are kept without", "leave"),
        ("[genes, 'genes.pool:Pool']", "E251", "'genes' admits 'genes.pool:Pool' already", "leave"),
        ("[genes, genes]", "E251", "'genes' admits 'genes' already", "leave"),
    ],
)
def test_a_name_that_is_wrong_is_refused_at_its_place(tmp_path, names, code, message, mend):
    (fault,) = _faults(tmp_path, names)

    assert fault.code == code
    assert message in fault.message
    assert mend in fault.mend
    assert fault.where is not None
    assert fault.where.line == 3
    assert fault.path.startswith("adapt[")
