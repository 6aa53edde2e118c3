"""Runs whose blobs are of all kinds together: what is resumed is what was there."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import jobrun as package
from jobrun.checkpoint.write import encoder
from jobrun.core.errors import CheckpointError
from jobrun.values.compare import find_difference
from jobrun.values.copies import detach
from tests.support.command import environment, jobrun
from tests.support.forked_commands import ROOT
from tests.support.mixed_blobs import change_in_place, draw_value
from tests.support.thinning import thinned

ENUM = """\
jobrun: 1
name: h5
init: [{task: i, steps: [{load: {a: "d.h5::weight", label: "d.h5::label"}}, s = 0]}]
epoch: [{task: e, steps: ["s = sum(where(label == 1, 1, 0))"]}]
metrics: {s: s}
stop: [{epochs: 4}]
checkpoint: {every: 1ep}
"""
TEXT = """\
jobrun: 1
name: shop
init: [{task: i, steps: ["price = array([1.5, 2.5])", "state = array(['CA', 'NY'])"]}]
epoch: [{task: e, steps: ["price = price * 2", "west = sum(where(state == 'CA', 1, 0))"]}]
stop: [{epochs: 3}]
checkpoint: {every: 1ep}
"""
CSV = """\
jobrun: 1
name: shop
init: [{task: i, steps: [{load: {price: "shop.csv::price", state: "shop.csv::state"}}]}]
epoch: [{task: e, steps: ["price = price * 2"]}]
stop: [{epochs: 3}]
checkpoint: {every: 1ep}
"""
COUNT = 40
EPOCHS = 4
# Names in another order than that in which the values are drawn.
NAMES = random.Random(1).sample([f"b{n}" for n in range(COUNT)], COUNT)
LIBRARY = f"""\
import random
from tests.support.mixed_blobs import change_in_place, draw_value

def make(seed):
    rng = random.Random(seed)
    return tuple(draw_value(rng) for _ in range({COUNT}))

def stir(epoch, {", ".join(NAMES)}):
    change_in_place(random.Random(epoch), [{", ".join(NAMES)}])

def renew(epoch):
    rng = random.Random(-epoch)
    return tuple(draw_value(rng) for _ in range(5))
"""


def run(folder, *words, **more):
    done = jobrun(*words, cwd=folder, env=environment(PYTHONPATH=str(ROOT)), **more)
    assert done.returncode in (0, 75), done.stderr
    return done


def only(folder):
    (stored,) = package.runs(folder)
    return stored


def test_labels_of_an_hdf5_file_are_the_same_after_a_resume(tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["weight"] = np.linspace(0, 1, 50)
        names = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 2}, basetype="i8")
        file.create_dataset("label", data=np.arange(50) % 3, dtype=names)
    (tmp_path / "h5.yaml").write_text(ENUM)

    run(tmp_path, "run", "h5.yaml", "--max-epochs", "2")
    run(tmp_path, "resume", "--strict")

    stored = only(tmp_path / "runs")
    assert stored.metrics()["s"].tolist() == [17, 17, 17, 17]
    label = stored.blobs()["label"]
    assert label.tolist() == (np.arange(50) % 3).tolist()
    assert dict(label.dtype.metadata)["enum"] == {"RED": 0, "GREEN": 1, "BLUE": 2}


@pytest.mark.parametrize("text", [TEXT, CSV], ids=["arrays", "csv"])
def test_text_beside_numbers_of_its_size_is_saved_as_text(tmp_path, text):
    (tmp_path / "shop.csv").write_text("price,state\n1.5,CA\n2.5,NY\n")
    (tmp_path / "shop.yaml").write_text(text)

    run(tmp_path, "run", "shop.yaml", "--max-epochs", "1")
    run(tmp_path, "resume", "--strict")

    blobs = only(tmp_path / "runs").blobs()
    assert blobs["state"].tolist() == ["CA", "NY"]
    assert blobs["price"].tolist() == [12.0, 20.0]


def job(folder: Path, seed: int, **more) -> Path:
    (folder / "library.py").write_text(LIBRARY)
    arguments = {name: name for name in NAMES}
    spec = {
        "jobrun": 1, "name": "mixed",
        "init": [{"task": "i", "steps": [
            {"call": "library:make", "with": {"seed": seed}, "out": NAMES},
        ]}],
        "epoch": [{"task": "e", "steps": [
            {"call": "library:stir", "with": arguments, "inout": NAMES},
            {"call": "library:renew", "out": NAMES[3:8]},
        ]}],
        "stop": [{"epochs": EPOCHS}],
        "checkpoint": {"every": "1ep", "keep": {"last": 9}, **more},
    }  # fmt: skip
    path = folder / "job.yaml"
    path.write_text(json.dumps(spec))
    return path


def expected(seed: int) -> list[dict[str, object]]:
    """What the blobs of the job are after each epoch, computed here."""
    rng = random.Random(seed)
    blobs = {name: detach(draw_value(rng)) for name in NAMES}
    after = [{name: detach(value) for name, value in blobs.items()}]
    for epoch in range(1, EPOCHS + 1):
        change_in_place(random.Random(epoch), list(blobs.values()))
        rng = random.Random(-epoch)
        blobs.update((name, detach(draw_value(rng))) for name in NAMES[3:8])
        after.append({name: detach(value) for name, value in blobs.items()})
    return after


def compare(stored, seed):
    for epoch, blobs in enumerate(expected(seed)):
        loaded = stored.blobs(epoch)
        assert set(loaded) == set(NAMES)
        for name, value in blobs.items():
            assert find_difference(value, loaded[name]) is None, (epoch, name)


@pytest.mark.parametrize("compression", [{}, {"*": "deflate"}], ids=["plain", "deflate"])
@pytest.mark.parametrize(
    ("session", "seed"),
    thinned(
        [
            *(("threads", seed) for seed in range(8)),
            *(("processes", seed) for seed in range(4)),
            *(("ray", seed) for seed in range(2)),
        ],
        14,
    ),
)
def test_mixed_blobs_are_what_they_were_in_each_session(tmp_path, session, seed, compression):
    job(tmp_path, seed, compression=compression)

    run(tmp_path, "run", "job.yaml", "--session", session, "--max-epochs", "2", timeout_s=300)
    run(tmp_path, "resume", "--session", session, timeout_s=300)

    compare(only(tmp_path / "runs"), seed)
    assert run(tmp_path, "ckpt", "verify").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_mixed_blobs_are_what_they_were_in_an_object_store(tmp_path, monkeypatch, seed):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "library", raising=False)
    to = f"memory://{tmp_path.name}/up"
    path = job(tmp_path, seed, upload={"to": to, "when": "committed"})
    options = package.RunOptions(run_dir=tmp_path / "runs", max_epochs=2)
    first = package.run(path, options)

    again = package.resume(
        f"{to}/mixed/{Path(first.run_path).name}",
        options=package.RunOptions(run_dir=tmp_path / "again"),
    )

    assert again.exit_code == 0
    loaded = only(tmp_path / "again").blobs(EPOCHS)
    for name, value in expected(seed)[EPOCHS].items():
        assert find_difference(value, loaded[name]) is None, name


def run_with_wrong_encoder(folder, monkeypatch):
    """Two epochs of the shop, in which texts are written in another order."""
    right = encoder.FileEncoder.arrays

    def wrong(self, values, types=None):
        arrays = right(self, values, types)
        if arrays is not None:
            at = self._names.index("state")
            arrays[at] = arrays[at][::-1].copy()
        return arrays

    (folder / "shop.yaml").write_text(TEXT)
    options = package.RunOptions(run_dir=folder / "runs", max_epochs=2)
    with monkeypatch.context() as patch:
        patch.setattr(encoder.FileEncoder, "arrays", wrong)
        assert package.run(folder / "shop.yaml", options).exit_code == 75


def test_what_a_wrong_encoder_has_written_is_refused_by_each_command(tmp_path, monkeypatch):
    run_with_wrong_encoder(tmp_path, monkeypatch)
    commands = [
        "ckpt verify shop", "resume shop", "fork shop", "ckpt copy shop copy",
        "ckpt export shop -o shop.npz", "inspect-checkpoint shop", "ckpt diff shop@1 shop@2",
        "run shop.yaml --resume auto",
    ]  # fmt: skip

    done = {words: jobrun(*words.split(), cwd=tmp_path) for words in commands}

    assert {words: value.returncode for words, value in done.items()} == {
        words: 8 if words == "ckpt verify shop" else 4 for words in commands
    }
    for words, single in done.items():
        output = single.stdout + single.stderr
        assert "blob 'state' in" in output, words
        assert "local.h5 is not what was in memory" in output, words
    with pytest.raises(CheckpointError, match=r"blob 'state' of epoch 2.*local\.h5") as caught:
        only(tmp_path / "runs").blobs()["state"]
    assert caught.value.faults[0].code == "E455"


def test_a_container_with_a_function_is_verified_where_its_module_cannot_be_imported(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from collections import defaultdict\n"
        "def two():\n    return [0, 0]\n"
        "def make():\n    return {'values': defaultdict(two)}\n"
        "def step(state):\n    state['values'][1][0] += 1\n    return state\n"
    )
    (tmp_path / "job.yaml").write_text(
        'jobrun: 1\nname: job\ninit: [{task: i, steps: [{call: "mine:make", out: state}]}]\n'
        'epoch: [{task: e, steps: [{call: "mine:step", with: {state: state}, inout: [state]}]}]\n'
        "stop: [{epochs: 2}]\n"
    )
    assert jobrun("run", "job.yaml", cwd=tmp_path).returncode == 0
    (tmp_path / "mine.py").unlink()

    verified = jobrun("ckpt", "verify", "job", cwd=tmp_path)

    assert verified.returncode == 0, verified.stdout
