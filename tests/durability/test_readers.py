"""Whatever a file holds, its reader answers with what is in it or with words; never otherwise."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.checkpoint.checkpoint_file import inspect_state
from jobrun.checkpoint.stores import manifest as manifests
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, Fault, SpecError
from jobrun.runner.identity.recorded_job import compile_authored
from jobrun.runner.rundir.journal import parse_journal
from jobrun.runner.rundir.run_json import RunRecord, read_record, write_record
from jobrun.spec.load import load_spec
from tests.durability.damage import EPOCH, checkpoint
from tests.support.checkpoints import resealed, write
from tests.support.command import ROOT
from tests.support.specs import KMEANS
from tests.support.thinning import examples

SPECS = [KMEANS, *(path.read_text() for path in sorted((ROOT / "specs").glob("*.yaml")))]
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
QUICK, LONG = settings(SETTINGS, max_examples=20), settings(SETTINGS, max_examples=examples(500))
# What a slip of the hand, or malice, puts into a spec.
_PIECES = (
    ":", "-", "- ", "{", "}", "[", "]", ",", "&a ", "*a", "<<: ", "!!", "#", "|", ">", "\t", "\n",
    "\n  ", "'", '"', "%", "\0", "\ufeff", "\u202e", "1e999", "010", "1:30", ".nan", "~", "no",
    "steps:", "${k}", "${env:HOME}", "{x", "\n---\n", "?", "@", "`", "\\", "é", "\x85",
)  # fmt: skip


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Specs with a few pieces taken out, put in, or moved."""
    text = draw(st.sampled_from(SPECS))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.integers(0, 30)))
        piece = draw(st.sampled_from((*_PIECES, text[begin:end] * 2, "")))
        text = text[:begin] + piece + text[end:]
    return text


# Where in a file, relative to its length, and what comes there.
CHANGES = st.lists(st.tuples(st.floats(0, 0.9999), st.binary(min_size=1, max_size=9)), max_size=5)


def changed(data: bytes, changes: list[tuple[float, bytes]]) -> bytes:
    """Bytes, some of them replaced."""
    result = bytearray(data)
    for fraction, piece in changes:
        at = int(fraction * len(data))
        result[at : at + len(piece)] = piece
    return bytes(result)


def _spec_is_read_or_refused(text: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="jobrun-text-"))
    path = folder / "spec.yaml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    refused: tuple[Fault, ...] | None = None
    try:
        compile_authored(load_spec(str(path), environment={}))
    except SpecError as error:
        refused = error.faults
    finally:
        shutil.rmtree(folder)
    if refused is not None:
        assert refused
        assert [fault for fault in refused if not (fault.message and fault.mend)] == []


def _is_refused_or_read(read: Callable[[], object], wanted: type[Exception]) -> None:
    with contextlib.suppress(wanted):
        read()


def _sealed_file_is_read_or_refused(change: Callable[[bytearray, dict], None]) -> None:
    """A file whose digests are right, whatever it holds: someone made them so."""
    folder = Path(tempfile.mkdtemp(prefix="jobrun-sealed-"))
    try:
        path = folder / write(folder).name
        try:
            resealed(path, change)
        except (OverflowError, ValueError, MemoryError):
            # It cannot even be forged so.
            return
        _is_refused_or_read(lambda: inspect_state(str(path)), CheckpointError)
    finally:
        shutil.rmtree(folder)


@st.composite
def forgeries(draw: st.DrawFn) -> Callable[[bytearray, dict], None]:
    """Changes of a file's bytes, and of one field of its header."""
    changes = draw(CHANGES)
    name = draw(
        st.sampled_from(
            ("", "length", "epoch", "index", "layout_bytes", "names_bytes", "blobs", "chunks")
        )
    )
    value = draw(st.sampled_from((0, 1, 8, 4095, 4096, 1 << 20, 1 << 40, (1 << 63) - 1)))

    def change(data: bytearray, fields: dict) -> None:
        # The user block is made anew from the fields.
        data[4096:] = changed(bytes(data[4096:]), changes)
        if name in fields:
            fields[name] = value
        elif name:
            fields["parts"][name] = value

    return change


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, bytes]:
    """A manifest, and a run.json."""
    folder = tmp_path_factory.mktemp("files")
    write_record(folder, RunRecord("id", "job", "2026-11-21T00:00:00+00:00"))
    epoch = checkpoint(folder / "checkpoints")
    names = (folder / "run.json", epoch / "manifest.json")
    return {path.name: path.read_bytes() for path in names}


def _manifest_is_read_or_refused(data: bytes) -> None:
    _is_refused_or_read(lambda: manifests.decode(data, "manifest.json"), CheckpointError)
    body, mark, _ = data.rpartition(b',\n  "sha256": "')
    digest = hashlib.sha256(body + b"\n}").hexdigest().encode()
    sealed = body + mark + digest + b'"\n}\n'
    _is_refused_or_read(lambda: manifests.decode(sealed, "manifest.json"), CheckpointError)


def _record_is_read_or_refused(data: bytes) -> None:
    folder = Path(tempfile.mkdtemp(prefix="jobrun-record-"))
    (folder / "run.json").write_bytes(data)
    try:
        _is_refused_or_read(lambda: read_record(folder), CheckpointError)
    finally:
        shutil.rmtree(folder)


@QUICK
@given(texts())
def test_some_texts_are_specs_or_refused(text):
    _spec_is_read_or_refused(text)


@pytest.mark.long
@pytest.mark.timeout(900)
@LONG
@given(texts())
def test_many_texts_are_specs_or_refused(text):
    _spec_is_read_or_refused(text)


@QUICK
@given(forgeries())
def test_some_sealed_files_are_read_or_refused(change):
    _sealed_file_is_read_or_refused(change)


@pytest.mark.long
@pytest.mark.timeout(900)
@LONG
@given(forgeries())
def test_many_sealed_files_are_read_or_refused(change):
    _sealed_file_is_read_or_refused(change)


@QUICK
@given(changes=CHANGES)
def test_some_manifests_and_records_are_read_or_refused(files, changes):
    _manifest_is_read_or_refused(changed(files["manifest.json"], changes))
    _record_is_read_or_refused(changed(files["run.json"], changes))


@pytest.mark.long
@pytest.mark.timeout(900)
@LONG
@given(changes=CHANGES)
def test_many_manifests_and_records_are_read_or_refused(files, changes):
    _manifest_is_read_or_refused(changed(files["manifest.json"], changes))
    _record_is_read_or_refused(changed(files["run.json"], changes))


@settings(SETTINGS, max_examples=60)
@given(st.lists(st.binary(max_size=40) | st.sampled_from((b"{}", b"\n", b"[1]", b"null"))))
def test_any_bytes_are_a_journal_or_refused(lines):
    _is_refused_or_read(
        lambda: parse_journal(b"\n".join(lines), "id"), (CheckpointError, EnvironmentFaultError)
    )


def test_the_files_that_are_changed_are_good_ones(files):
    assert manifests.decode(files["manifest.json"], "").epoch == EPOCH
