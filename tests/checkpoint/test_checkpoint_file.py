from __future__ import annotations

import errno
import os
import random
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_file import inspect_state, read_state
from jobrun.checkpoint.hdf5 import user_block as userblock
from jobrun.checkpoint.hdf5.index_parser import index_span
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.write.writer import NodeWriter, write_state
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, TaskFailedError
from jobrun.core.files.digest import digest_bytes
from jobrun.testing.stores import RUN_ID
from tests.checkpoint.hdf5.test_value_codec import assert_same
from tests.support.checkpoints import RECORD, VALUES, resealed, write


def read(folder: Path, names=("w", "k"), *, digest="", **identity):
    expected = {"node": "n", "epoch": 3, "run_id": RUN_ID} | identity
    return read_state(str(folder / "n.h5"), digest=digest, names=names, **expected)


def code_of(action, *args, **kwargs) -> str:
    with pytest.raises(CheckpointError) as caught:
        action(*args, **kwargs)
    (fault,) = caught.value.faults
    assert ".h5" in fault.message
    assert fault.mend
    return fault.code


def test_everything_a_blob_can_hold_round_trips_exactly(tmp_path):
    stored = write(tmp_path, VALUES)

    back = read(tmp_path, tuple(VALUES), digest=stored.digest)

    assert list(back) == list(VALUES)
    for name, value in VALUES.items():
        assert_same(value, back[name])


def test_loaded_arrays_have_boundary_form(tmp_path):
    turned = np.asfortranarray(np.arange(12.0).reshape(3, 4))[:, ::2]
    stored = write(tmp_path, VALUES | {"turned": turned})

    for value in read(tmp_path, (*VALUES, "turned"), digest=stored.digest).values():
        if isinstance(value, np.ndarray):
            flags = value.flags
            assert flags.owndata
            assert flags.forc
            assert flags.aligned
            assert flags.writeable


CUBE = np.arange(24_000.0).reshape(20, 30, 40)
ORDERED = {
    "c": CUBE,
    "dates": np.asfortranarray(CUBE.astype("M8[s]")),
    "fortran": np.asfortranarray(CUBE),
    "last": np.moveaxis(np.ascontiguousarray(np.moveaxis(CUBE, 0, -1)), -1, 0),
    "record": np.asfortranarray(np.zeros((3, 4), RECORD)),
    "reversed": CUBE.T[::-1, ::2],
    "small": np.arange(6.0).reshape(2, 3).T,
    "text": np.asfortranarray(np.array([["a", "b", "ü"], ["d", "e", "f"]])),
}


@pytest.mark.parametrize("rules", [(), (("*", "deflate"),)], ids=["plain", "compressed"])
@pytest.mark.parametrize("partial", [False, True])
def test_axis_orders_come_back_and_any_reader_sees_the_logical_arrays(tmp_path, rules, partial):
    path = str(tmp_path / "n.h5")
    NodeWriter("n", rules).write(path, epoch=3, run_id=RUN_ID, values=ORDERED)

    names = ("last", "small") if partial else tuple(ORDERED)
    back = read(tmp_path, names)

    for name in names:
        assert_same(ORDERED[name], back[name])
        assert back[name].strides == ORDERED[name].copy(order="K").strides
        assert back[name].flags.owndata
    with h5py.File(path) as file:
        assert np.array_equal(file["blobs/fortran"], CUBE)
        assert np.array_equal(file["blobs/last"], CUBE)
        assert file["blobs/last"].attrs["order"] == b"1,2,0"
        assert "order" not in file["blobs/c"].attrs


def test_a_changed_axis_order_is_a_changed_layout(tmp_path):
    writer, orders = NodeWriter("n"), []
    for epoch, value in enumerate((CUBE, np.asfortranarray(CUBE), CUBE)):
        path = str(tmp_path / f"{epoch}.h5")
        writer.write(path, epoch=epoch, run_id=RUN_ID, values={"w": value})
        values = read_state(path, node="n", epoch=epoch, run_id=RUN_ID, digest="", names=["w"])
        assert np.array_equal(values["w"], CUBE)
        orders.append(values["w"].flags.f_contiguous)

    assert orders == [False, True, False]


def test_the_facts_are_those_of_the_file(tmp_path):
    stored = write(tmp_path)
    data = (tmp_path / "n.h5").read_bytes()

    assert (stored.node, stored.name, stored.size_bytes) == ("n", "n.h5", len(data))
    assert stored.digest == digest_bytes(data[: userblock.SIZE])


def test_equal_values_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    garbage = [np.full(size, 3.5) for size in range(1, 500)]
    first = write(tmp_path / "a", VALUES)
    del garbage

    second = write(tmp_path / "b", dict(reversed(list(VALUES.items()))))

    assert first == second
    assert (tmp_path / "a" / "n.h5").read_bytes() == (tmp_path / "b" / "n.h5").read_bytes()


@pytest.mark.long
def test_equal_values_give_equal_bytes_in_another_process(tmp_path):
    program = (
        "import sys, pathlib; from tests.support.checkpoints import VALUES, write;"
        "print(write(pathlib.Path(sys.argv[1]), VALUES).digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent.parent,
        env=os.environ | {"PYTHONHASHSEED": "7"},
    )
    (tmp_path / "n.h5").unlink()

    assert write(tmp_path, VALUES).digest == done.stdout.strip()


def test_plain_h5py_reads_it_without_jobrun(tmp_path):
    write(tmp_path, {"C": np.arange(6.0).reshape(2, 3), "größe": 4, "name": "añb"})
    program = (
        "import h5py, sys; sys.modules['jobrun'] = None\n"
        "with h5py.File(sys.argv[1]) as file:\n"
        "    print(file['blobs/C'][()].tolist(), file['blobs/größe'][()],"
        " file['blobs/name'][()].decode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "n.h5")],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )

    assert done.stdout.decode().strip() == "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] 4 añb"


def test_h5dump_reads_it(tmp_path):
    if shutil.which("h5dump") is None:
        pytest.skip("h5dump is not installed")
    write(tmp_path, VALUES)

    done = subprocess.run(
        ["h5dump", "-d", "/blobs/durations", str(tmp_path / "n.h5")],
        capture_output=True,
        text=True,
        check=True,
    )
    whole = subprocess.run(
        ["h5dump", str(tmp_path / "n.h5")], capture_output=True, text=True, check=False
    )

    assert "(0): 1, -5" in done.stdout
    assert (whole.returncode, whole.stderr) == (0, "")
    assert whole.stdout.count("DATASET") == len(VALUES) + 6


def test_an_existing_file_is_never_overwritten(tmp_path):
    (tmp_path / "n.h5").symlink_to("elsewhere")

    with pytest.raises(EnvironmentFaultError, match="exists"):
        write(tmp_path)

    assert not (tmp_path / "elsewhere").exists()


def test_a_value_that_cannot_be_stored_leaves_no_file(tmp_path):
    with pytest.raises(TaskFailedError):
        write(tmp_path, {"w": np.zeros(3), "bad": object()})

    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_continued(tmp_path, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: whole(file, data[:777], at))

    stored = write(tmp_path)

    monkeypatch.undo()
    assert read(tmp_path, digest=stored.digest)["k"] == 4


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG])
@pytest.mark.parametrize("call", ["open", "pwrite", "ftruncate", "fsync", "close"])
def test_disk_errors_are_raised_and_fsync_is_not_retried(tmp_path, monkeypatch, call, code):
    calls = []

    def refuse(*args, **_):
        calls.append(args)
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(EnvironmentFaultError) as caught:
            write(tmp_path)

    (fault,) = caught.value.faults
    assert os.strerror(code) in fault.message
    assert str(tmp_path / "n.h5") in fault.message
    assert fault.mend
    assert call != "fsync" or len(calls) == 1


def test_full_disk_reports_needed_and_free_bytes(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)

    with pytest.raises(EnvironmentFaultError, match=r"needs \d+ bytes, \d+ are free"):
        write(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", os.urandom(9000), b"PK\x03\x04"])
def test_row_51_other_files_are_no_checkpoints(tmp_path, content):
    (tmp_path / "n.h5").write_bytes(content)

    assert code_of(read, tmp_path) == "E301"
    assert code_of(inspect_state, str(tmp_path / "n.h5")) == "E301"


def test_row_51_a_plain_hdf5_file_is_no_checkpoint(tmp_path):
    with h5py.File(tmp_path / "n.h5", "w") as file:
        file["blobs/w"] = np.arange(3)

    assert code_of(read, tmp_path) == "E301"


def test_row_52_truncation_and_padding_are_detected(tmp_path):
    stored = write(tmp_path)
    path = tmp_path / "n.h5"
    data = path.read_bytes()

    for length in [18, 4095, 4096, 4097, *range(5000, len(data), 1237), len(data) - 1]:
        path.write_bytes(data[:length])
        assert code_of(read, tmp_path) == "E302"
        assert code_of(read, tmp_path, digest=stored.digest) == "E302"
    for more in (b"\0", bytes(4096), data):
        path.write_bytes(data + more)
        assert code_of(read, tmp_path, digest=stored.digest) == "E302"


@pytest.mark.long
def test_row_53_any_changed_byte_is_found_by_header_or_manifest(tmp_path, monkeypatch):
    stored = write(tmp_path)
    path = tmp_path / "n.h5"
    data = path.read_bytes()
    # libhdf5 must never see a byte that was not verified.
    monkeypatch.setattr(h5py, "File", None)
    sampled = random.Random(7).sample(range(len(data)), 400)

    for offset in [*range(400), *range(4060, 4200), *sampled]:
        changed = bytearray(data)
        changed[offset] ^= 1 << (offset % 8)
        path.write_bytes(changed)
        assert code_of(read, tmp_path) in {"E301", "E303"}
        assert code_of(read, tmp_path, digest=stored.digest) in {"E301", "E303"}
        assert code_of(inspect_state, str(path)) in {"E301", "E303"}


def test_row_53_file_unknown_to_the_manifest_is_refused(tmp_path):
    stored = write(tmp_path)
    (tmp_path / "n.h5").unlink()
    write(tmp_path, {"w": np.zeros(6), "k": 5})

    assert code_of(read, tmp_path, digest=stored.digest) == "E303"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node": "m"}, "belongs to node n, epoch 3, run run-1; wanted was node m"),
        ({"epoch": 4}, "epoch 4"),
        ({"run_id": "run-2"}, "run-2"),
    ],
)
def test_row_54_a_file_of_another_node_epoch_or_run_is_named(tmp_path, change, words):
    stored = write(tmp_path)

    assert code_of(read, tmp_path, digest=stored.digest, **change) == "E304"
    with pytest.raises(CheckpointError, match=words):
        read(tmp_path, digest=stored.digest, **change)


def test_rows_55_and_56_structures_of_hdf5_are_never_followed(tmp_path):
    write(tmp_path)
    path = tmp_path / "n.h5"

    def overwrite(data, fields):
        index = fields["parts"]["index"]
        data[userblock.SIZE : index] = os.urandom(index - userblock.SIZE)
        with open_state(str(path)) as file:
            end = index_span(file.parts)[1]
            first = min(file.index.span(row)[0] for row in range(2))
        assert first > end
        data[end:first] = os.urandom(first - end)

    resealed(path, overwrite)

    with pytest.raises(OSError, match=r"signature|superblock"):
        h5py.File(path)
    assert read(tmp_path)["w"].tolist() == list(range(6))


def test_row_58_a_blob_that_is_missing_is_named_with_the_nearest(tmp_path):
    stored = write(tmp_path)

    with pytest.raises(CheckpointError, match=r"'ww'.*did you mean 'w'"):
        read(tmp_path, ("k", "ww"), digest=stored.digest)


def test_row_59_what_is_not_a_number_is_kept(tmp_path):
    values = {"w": np.array([np.nan, -np.inf, -0.0])}
    stored = write(tmp_path, values)

    assert_same(values["w"], read(tmp_path, ("w",), digest=stored.digest)["w"])


@pytest.mark.parametrize(("version", "writer"), [(1, "an older jobrun"), (9, "a newer jobrun")])
def test_row_62_another_format_is_refused_with_both_versions(tmp_path, version, writer):
    write(tmp_path)
    data = (tmp_path / "n.h5").read_bytes()
    header = replace(userblock.decode(data, "x"), format=version)
    (tmp_path / "n.h5").write_bytes(userblock.encode(header) + data[4096:])

    assert code_of(read, tmp_path) == code_of(inspect_state, str(tmp_path / "n.h5")) == "E308"
    with pytest.raises(
        CheckpointError, match=f"{writer}: it has format {version}, .* reads 2 to 3"
    ):
        read(tmp_path)


def test_row_40_links_and_pipes_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "n.h5")
    assert code_of(read, tmp_path) == "E305"

    (tmp_path / "n.h5").unlink()
    (tmp_path / "real").mkdir()
    write(tmp_path / "real")
    (tmp_path / "n.h5").symlink_to("real/n.h5")
    assert code_of(read, tmp_path) == "E305"


def test_file_with_a_second_name_is_read(tmp_path):
    (tmp_path / "real").mkdir()
    write(tmp_path / "real")
    (tmp_path / "n.h5").hardlink_to(tmp_path / "real" / "n.h5")

    assert read(tmp_path)


def test_the_file_can_be_read_by_others_but_not_written(tmp_path):
    old = os.umask(0)
    try:
        write(tmp_path)
    finally:
        os.umask(old)

    assert stat.S_IMODE((tmp_path / "n.h5").stat().st_mode) == 0o644


def test_inspection_returns_names_kinds_shapes_and_statistics(tmp_path):
    values = {"w": np.array([[1.0, np.nan], [4.0, -2.0]]), "k": 4, "t": "ab", "z": 1j}
    stored = write(tmp_path, values)

    facts = inspect_state(str(tmp_path / "n.h5"))

    blobs = {blob.name: blob for blob in facts.blobs}
    assert (facts.header.node, facts.header.epoch, facts.size_bytes) == ("n", 3, stored.size_bytes)
    w = blobs["w"]
    assert (w.kind, w.dtype, w.shape, w.size_bytes, w.nans) == ("array", "<f8", (2, 2), 32, 1)
    assert (w.minimum, w.mean, w.maximum) == (-2.0, 1.0, 4.0)
    assert (blobs["k"].kind, blobs["k"].value, blobs["k"].maximum) == ("int", 4, 4)
    assert (blobs["t"].kind, blobs["t"].value, blobs["t"].shape) == ("text", "ab", ())
    assert blobs["z"].mean is None


def test_inspection_has_an_answer_for_every_kind(tmp_path):
    write(tmp_path, VALUES)

    facts = inspect_state(str(tmp_path / "n.h5"))

    assert {blob.name for blob in facts.blobs} == set(VALUES)


def test_the_layout_changes_with_names_kinds_dtypes_and_shapes_only(tmp_path):
    layouts = []
    for number, values in enumerate(
        [{"w": np.zeros(3)}, {"w": np.ones(3)}, {"w": np.zeros(4)}, {"w": 0.0}, {"v": np.zeros(3)}]
    ):
        (tmp_path / str(number)).mkdir()
        path = str(tmp_path / str(number) / "n.h5")
        write_state(path, node="n", epoch=number, run_id=RUN_ID, values=values)
        layouts.append(inspect_state(path).header.layout)

    assert layouts[0] == layouts[1]
    assert len(set(layouts)) == 4


def test_several_nodes_of_one_process_save_and_load_at_the_same_time(tmp_path):
    def round_trip(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        values = VALUES | {"number": np.full(50_000, number)}
        stored = write(folder, values)
        return read(folder, tuple(values), digest=stored.digest)["number"]

    with ThreadPoolExecutor(4) as pool:
        back = list(pool.map(round_trip, range(8)))

    assert [set(values.tolist()) for values in back] == [{number} for number in range(8)]


def test_a_partial_read_leaves_out_what_the_file_does_not_hold(tmp_path):
    stored = write(tmp_path)

    values = read_state(
        str(tmp_path / "n.h5"),
        node="n",
        epoch=3,
        run_id=RUN_ID,
        digest=stored.digest,
        names=("no", "k"),
        partial=True,
    )

    assert values == {"k": 4}
