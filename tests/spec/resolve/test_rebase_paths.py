import pytest

from jobrun.spec.resolve.include import rebased
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document

PATHS = """\
readers: {r: {npz: x.npz, fields: {a: b}}, u: {csv: "s3://bucket/x.csv"}, h: {hdf5: "~/x.h5"}}
checkpoint: {dir: ck, upload: {to: up}}
init:
  - {task: t, steps: [{load: {X: "x.npz::data", Y: /abs.npy}}, {if: a, then: [{save: {Z: z.npy}}]}]}
epoch: {tasks: [{task: u, steps: [{save: {W: "${run.dir}/w.npy"}}, {log: load}]}]}
nets: {n: [{load: {V: ../v.npy}}]}
description: x.npz
"""


def _tree(text, file="job.yaml"):
    return read_document(text, file).root


def test_relative_paths_are_moved_and_nothing_else():
    assert plain(rebased(_tree(PATHS), "../sub")) == {
        "readers": {
            "r": {"npz": "../sub/x.npz", "fields": {"a": "b"}},
            "u": {"csv": "s3://bucket/x.csv"},
            "h": {"hdf5": "~/x.h5"},
        },
        "checkpoint": {"dir": "../sub/ck", "upload": {"to": "../sub/up"}},
        "init": [
            {
                "task": "t",
                "steps": [
                    {"load": {"X": "../sub/x.npz::data", "Y": "/abs.npy"}},
                    {"if": "a", "then": [{"save": {"Z": "../sub/z.npy"}}]},
                ],
            }
        ],
        "epoch": {
            "tasks": [
                {"task": "u", "steps": [{"save": {"W": "${run.dir}/w.npy"}}, {"log": "load"}]}
            ]
        },
        "nets": {"n": [{"load": {"V": "../v.npy"}}]},
        "description": "x.npz",
    }


@pytest.mark.parametrize("prefix", ["", "."])
def test_paths_of_the_same_folder_stay(prefix):
    tree = _tree(PATHS)

    assert rebased(tree, prefix) is tree


@pytest.mark.parametrize(
    "text",
    ["readers: 3", "readers: {r: 3}", "checkpoint: none", "checkpoint: {upload: 3, dir: [1]}",
     "init: 3", "init: [{steps: [{load: 3}, {save: [a]}]}]", "readers: {r: {npz: }}"],
)  # fmt: skip
def test_what_is_wrong_is_left_for_later(text):
    assert plain(rebased(_tree(text), "sub")) == plain(_tree(text))
