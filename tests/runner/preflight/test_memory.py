from pathlib import Path

import numpy as np

from jobrun.compile.pipeline import compile_job
from jobrun.graph.types import Job
from jobrun.runner.preflight.blob_types import (
    check_memory,
    estimate_state_bytes,
    infer_header_types,
    read_member_header,
)
from jobrun.spec.load import load_spec

SPEC = """\
jobrun: 1
name: large
nodes: {{n: {{count: 2}}}}
init: [{{task: a, node: n, steps: [{steps}]}}]
epoch: [{{task: b, node: n, steps: ["t = 1"]}}]
stop: [{{epochs: 1}}]
"""


def compiled(folder: Path, *steps: str) -> Job:
    path = folder / "large.yaml"
    path.write_text(SPEC.format(steps=", ".join(f'"{step}"' for step in steps)))
    return compile_job(load_spec(str(path))).job


def test_row_23_state_larger_than_memory_is_a_fault_with_its_size(tmp_path):
    job = compiled(tmp_path, "w = zeros((1000000, 1000000, 8))", "v = zeros(3)")

    (fault,) = check_memory(infer_header_types(job, tmp_path), available_bytes=8 << 30)

    assert fault.code == "E377"
    assert "needs 116.4 TiB, and this machine has 8.0 GiB" in fault.message
    assert "'w' on n_0 alone needs 58.2 TiB" in fault.message


def test_the_nodes_share_the_machine(tmp_path):
    job = compiled(tmp_path, "w = zeros(1000)")

    assert check_memory(infer_header_types(job, tmp_path), available_bytes=15_999)
    assert not check_memory(infer_header_types(job, tmp_path), available_bytes=16_000)


def test_unknown_sizes_are_no_fault(tmp_path):
    job = compiled(tmp_path, "w = unique(rng.random(5))")

    assert not check_memory(infer_header_types(job, tmp_path), available_bytes=0)


def test_data_file_header_gives_a_size_and_a_broken_file_none(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 5)))
    (tmp_path / "y.npy").write_bytes(b"no")

    assert read_member_header(tmp_path / "x.npy", "") == ("<f8", (4, 5))
    assert read_member_header(tmp_path / "y.npy", "") is None
    assert read_member_header(tmp_path / "z.npy", "") is None


def test_the_known_bytes_of_the_state_are_a_checkpoints_least(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "jobrun: 1\nname: s\ninit:\n  - {task: r, rebuild: true, steps: [X = zeros(1000)]}\n"
        "  - {task: i, steps: [w = zeros(100)]}\n"
        "epoch: [{task: e, steps: [w += 1]}]\nstop: [{epochs: 1}]\n"
    )
    job = compile_job(load_spec(str(tmp_path / "s.yaml"))).job

    assert estimate_state_bytes(job, tmp_path) == 800
