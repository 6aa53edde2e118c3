"""What must hold of any job: each way of running it gives the bits that the reference gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.compile.pipeline import compile_job
from jobrun.graph.types import Job
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.runtime.codegen.step_meter import Meter
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.spec.dump import dump_tree
from jobrun.spec.load import LoadedSpec, load_spec
from jobrun.values.blob_kinds import describe
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.expression_models import rendered
from tests.support.reference import Count, Outcome, run_reference

ARTIFACTS = "${run.dir}/artifacts/"


def written(spec: dict[str, Any], folder: Path) -> LoadedSpec:
    """The spec as a file: YAML, or JSON for every other seed; groups in their short form."""
    tree = rendered(spec)
    for group in ("init", "epoch", "download", "exit"):
        if set(tree.get(group, ())) == {"tasks"}:
            tree[group] = tree[group]["tasks"]
    path = folder / "made.yaml"
    path.write_text(json.dumps(tree) if spec["seed"] % 2 else dump_tree(tree))
    return load_spec(str(path), environment={})


def compiled(loaded: LoadedSpec) -> Job:
    """The job, which is the same however often it is compiled."""
    job = compile_job(loaded).job
    assert compile_job(loaded).job == job
    return job


def check_threads(spec: dict[str, Any], folder: Path) -> None:
    """Without a runner: the groups one after the other in a session."""
    expected = run_reference(spec)
    loaded = written(spec, folder)
    states = _run_in_session(compiled(loaded), str(folder), len(expected.epochs) - 1)
    _compare(expected, dict(enumerate(states)), "in a session")


def check_metered(spec: dict[str, Any], folder: Path) -> None:
    """As ``check_threads``, with a meter: it must not change what the code does."""
    expected = run_reference(spec)
    job = compiled(written(spec, folder))
    meter = Meter()
    states = _run_in_session(job, str(folder), len(expected.epochs) - 1, meter)
    _compare(expected, dict(enumerate(states)), "under a meter")
    for block in meter.times():
        assert sum(step.seconds for step in block.steps) <= block.seconds * 1.01 + 1e-3, block.path


def check_runner(spec: dict[str, Any], folder: Path) -> None:
    """A run with checkpoints, and its resumption from every epoch."""
    expected = run_reference(spec)
    # By default, how fast the disk is decides which epochs are saved.
    loaded = written({**spec, "checkpoint": {"every": "1ep"}}, folder)
    job = compiled(loaded)
    result = start_run(loaded, job, RunOptions(run_dir=folder / "runs"))
    run = Path(result.run_path)
    assert result.exit_code == 0
    assert job.exactness.exact, job.exactness.reasons
    _compare(expected, _stored(run, job), "in a run")
    _compare_artifacts(expected, run)
    last = len(expected.epochs) - 1
    for epoch in range(last - 1, -1, -1):
        options = RunOptions(run_dir=folder / "runs", epoch=epoch)
        assert resume_run(open_run(run), options).exit_code == 0
        _compare(expected, _stored(run, job), f"resumed from epoch {epoch}")
        _compare_artifacts(expected, run)


def _run_in_session(
    job: Job, folder: str, epochs: int, meter: Meter | None = None
) -> list[dict[str, Any]]:
    session = ThreadsSession()
    state, constants = dict(job.state), dict(job.constants)
    keep = {
        node.name: (*state.get(node.name, ()), *constants.get(node.name, ()))
        for node in job.cluster
    }
    outputs: dict[Any, Any] = {}
    states = []
    try:
        session.open(job.cluster, RunContext(job.seed, f"{folder}/run", folder, meter=meter))
        for epoch in range(epochs + 1):
            group = job.epoch if epoch else job.init
            outputs |= session.run(group, epoch, outputs)
            session.settle(keep)
            states.append({node: session.read(node, names) for node, names in job.state})
    finally:
        session.close()
    return states


def _stored(run: Path, job: Job) -> dict[int, dict[str, Any]]:
    """The state of every epoch, from the checkpoints."""
    store = DirectoryStore(str(run / "checkpoints"))
    state = dict(job.state)
    states: dict[int, dict[str, Any]] = {}
    for epoch in store.epochs():
        manifest = store.manifest(epoch)
        states[epoch] = {
            file.node: read_state(
                str(Path(store.path(epoch), file.name)),
                node=file.node,
                epoch=epoch,
                run_id=manifest.run_id,
                digest=file.digest,
                # Positions of readers are jobrun's own.
                names=[name for name in state[file.node] if "/" not in name],
            )
            for file in manifest.files
        }
    return states


def _compare(expected: Outcome, states: dict[int, dict[str, Any]], description: str) -> None:
    assert sorted(states) == list(range(len(expected.epochs))), description
    for epoch, nodes in enumerate(expected.epochs):
        assert set(states[epoch]) == {node for node, names in nodes.items() if names}, description
        for node, names in nodes.items():
            assert set(states[epoch].get(node, ())) == set(names), (description, epoch, node)
            for name, value in names.items():
                compare_values(
                    value, states[epoch][node][name], f"{node}.{name}, epoch {epoch} {description}"
                )


def compare_values(expected: Any, actual: Any, where: str) -> None:
    """Assert that two values have the same kind, dtype, shape and bits."""
    if isinstance(expected, Count):
        expected = Counter(expected.value)
    assert same_bits(expected, actual), (
        f"{where}: {describe(expected)} {expected!r} expected, {describe(actual)} {actual!r} found"
    )


def _compare_artifacts(expected: Outcome, run: Path) -> None:
    for file, value in expected.saved.items():
        actual = np.load(run / "artifacts" / file.removeprefix(ARTIFACTS))
        compare_values(np.asarray(value), actual, file)
