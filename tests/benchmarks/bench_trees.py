"""What an epoch costs whose state is a tree of small Python objects: unsaved, saved, loaded.

Run as ``python -m tests.benchmarks.bench_trees [most leaves]``. Ratios are to ``pickle.dumps`` and
``pickle.loads`` of the same tree; those of a graph of networkx to its plain program.
"""

from __future__ import annotations

import itertools
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import util
from pathlib import Path
from typing import Any

import jobrun
from jobrun.checkpoint.blob_parts import flatten_value, unflatten
from jobrun.checkpoint.hdf5.dataset_names import dataset_path
from jobrun.core.events import EpochEnded
from tests.benchmarks import tree_job
from tests.benchmarks.ratios import verdict

KINDS = ("dicts", "lists", "dataclasses", "adapted")
MOST_LEAVES = 10_000
_UNSAVED, _SAVED, _LOADED = 1, 5, 5
_SPEC = """\
jobrun: 1
name: tree
{adapt}
init: [{{task: i, steps: [{{call: "{module}:{make}", with: {with_}, out: tree}}]}}]
epoch: [{{task: e, steps: [{steps}]}}]
stop: [{{epochs: {epochs}}}]
checkpoint: {{every: {every}}}
"""
_CHANGE = '{{call: "tests.benchmarks.tree_job:{}", inout: [tree], with: {{{}: tree}}}}'
_READ = '{call: "tests.benchmarks.tree_job:read", with: {tree: tree}, out: count}'


def spec(make: str, with_: str, steps: str, epochs: int, every: str, adapt: str = "") -> str:
    """Write a job over one tree."""
    return _SPEC.format(
        module=tree_job.__name__, make=make, with_=with_, steps=steps, epochs=epochs, every=every,
        adapt=adapt,
    )  # fmt: skip


def epoch_s(text: str) -> float:
    """Return the processor time of an epoch of a job, which other load disturbs less."""
    ends: list[float] = []

    def note(event: object) -> None:
        if isinstance(event, EpochEnded):
            ends.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.yaml")
        path.write_text(text)
        options = jobrun.RunOptions(run_dir=Path(folder, "runs"))
        jobrun.run(path, options, resume="never", listener=note)
    spans = [after - before for before, after in itertools.pairwise(ends)]
    # The last epoch is always saved.
    return statistics.median(spans[:-1])


def bench(kind: str, leaves: int) -> None:
    """Print the ratios of one tree."""
    tree = tree_job.make(kind, leaves)
    dumps_s = _median(lambda: pickle.dumps(tree, 5))
    pickled = pickle.dumps(tree, 5)
    loads_s = _median(lambda: pickle.loads(pickled))
    epochs = 6 if leaves < 100_000 else 4
    with_ = f"{{kind: \"'{kind}'\", leaves: {leaves}}}"
    change = _CHANGE.format("change", "tree")
    print(
        f"\n{kind}, {leaves:,} leaves: dumps {dumps_s * 1e3:.2f} ms, loads {loads_s * 1e3:.2f} ms"
    )
    for title, steps, every, most in (
        ("unsaved, changed", change, "1000ep", _UNSAVED),
        ("unsaved, only read", _READ, "1000ep", _UNSAVED),
        ("saved", change, "1ep", _SAVED),
    ):
        # Less what an epoch costs whose tree has one leaf.
        seconds = epoch_s(spec("make", with_, steps, epochs, every)) - epoch_s(
            spec("make", f"{{kind: \"'{kind}'\", leaves: 4}}", steps, 8, every)
        )
        _row(title, seconds, seconds / dumps_s, most)
    seconds = load_s(tree)
    _row("loaded", seconds, seconds / loads_s, _LOADED)


def load_s(tree: Any) -> float:
    """Seconds of putting a tree together again from its parts in memory, checked."""
    parts = {dataset_path(name): leaf for name, leaf in flatten_value("tree", tree).items()}
    return _median(lambda: unflatten("tree", parts), 3)


def bench_graph() -> None:
    """Print the ratio of a job of networkx to its plain program."""
    graph = tree_job.make_graph(1_500)
    plain_s = _median(lambda: tree_job.spread(graph), 9)
    print(f"\na graph of 1,500 nodes: plain epoch {plain_s * 1e3:.2f} ms")
    steps = _CHANGE.format("spread", "graph")
    for title, every, most in (("unsaved", "1000ep", 2), ("every: auto", "auto", 2)):
        text = spec("make_graph", "{nodes: 1500}", steps, 8, every, "adapt: [networkx]")
        seconds = epoch_s(text)
        _row(title, seconds, seconds / plain_s, most)


def _median(act: Callable[[], object], rounds: int = 7) -> float:
    spans = []
    for _ in range(rounds):
        begun = time.process_time()
        act()
        spans.append(time.process_time() - begun)
    return statistics.median(spans)


def _row(title: str, seconds: float, ratio: float, most: float) -> None:
    print(f"  {title:24} {seconds * 1e3:10.2f} ms {ratio:8.2f} x{verdict(ratio, most)}", flush=True)


def main(most_leaves: int) -> None:
    """Print all rows."""
    for kind in KINDS:
        for leaves in (1_000, 10_000, 100_000):
            if leaves <= most_leaves:
                bench(kind, leaves)
    if util.find_spec("networkx"):
        bench_graph()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MOST_LEAVES)
