"""An encoder that writes another value makes a file that neither a load nor a check accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5 import file_layout, value_codec
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.write import chunk_compression, encoder
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.testing.stores import RUN_ID
from jobrun.values import container_flattening as trees
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter

ENUM = np.dtype("i8", metadata={"enum": {"RED": 0, "GREEN": 1}})
VALUES: dict[str, Any] = {
    "big": np.linspace(0, 1, 100_000),
    "counter": Counter(3),
    "dates": np.array(["2026-01-02", "1970-01-01"], "M8[D]"),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "label": np.arange(5).astype(ENUM),
    "long": np.array([1, 2, 3], np.longdouble) / 3,
    "other_big": np.linspace(1, 2, 100_000),
    "packed": np.arange(100_000) // 50,
    "price": np.array([1.5, 2.5]),
    "price_kind": np.array([1, 0]).astype(ENUM),
    "rate": 0.1,
    "record": np.array([(1, 2.5), (3, 4.5)], [("n", "<i2"), ("x", "<f8")]),
    "small_a": np.arange(4, dtype=np.float32),
    "small_b": np.arange(4, 8, dtype=np.float32),
    "state": np.array(["CA", "NY"]),
    "swapped": np.arange(4, dtype=">f8"),
    "text": "naïve",
    "tree": {"b": np.arange(3), "a": [1.5, 2.5], "c": ["x", np.arange(3) + 1]},
}
RULES = (("packed", "deflate"),)


@dataclass(frozen=True)
class Wrong:
    """An encoder that is wrong in one way.

    Attributes:
        blob: Whose value it changes.
        where: The object that is changed, and the name of what is replaced.
        make: Makes the replacement of the original.
    """

    blob: str
    where: tuple[Any, str]
    make: Callable[[Any], Any]


def _arrays(change: Callable[[dict[str, Any]], None]) -> Callable[[Any], Any]:
    """Let ``change`` alter what is to be written, by name."""

    def make(arrays: Any) -> Any:
        def changed(self: Any, values: Any, types: Any = None) -> Any:
            encoded = dict(zip(self._names, arrays(self, values, types), strict=True))
            change(encoded)
            return list(encoded.values())

        return changed

    return make


def _exchange(first: str, second: str) -> Callable[[Any], Any]:
    def change(arrays: dict[str, Any]) -> None:
        arrays[first], arrays[second] = arrays[second], arrays[first]

    return _arrays(change)


def _alter(name: str, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return _arrays(lambda arrays: arrays.update({name: act(arrays[name])}))


def _without_last(array: Any) -> Any:
    copy = array.copy()
    copy.reshape(-1)[-1:] = np.zeros(1, copy.dtype)
    return copy


def _gathered_by_equality(_: Any) -> Any:
    """Gather blobs of equal dtypes, where numpy takes None for float64."""

    def plan(self: Any, plain: Any) -> Any:
        steps: list[Any] = []
        for at, index in enumerate(self.layout.order):
            entry = self.layout.entries[index]
            if not entry.size_bytes or entry.packing:
                continue
            last, dtype = steps[-1] if steps else None, plain.get(entry.name)
            if (
                isinstance(last, encoder._Gathered)
                and last.first + last.count == at
                and (last.size_bytes, last.shape) == (entry.size_bytes, entry.shape)
                and last.dtype == dtype
            ):
                last.count += 1
                last.names.append(entry.name)
            elif dtype is None or not encoder._can_be_gathered(entry):
                steps.append(at)
            else:
                steps.append(encoder._gather_from(at, entry, dtype))
        return steps

    return plan


def _dtype_as(instead: dict[str, str]) -> Callable[[Any], Any]:
    def make(dtype_text: Any) -> Any:
        return lambda dtype: instead.get(dtype_text(dtype), dtype_text(dtype))

    return make


def _renamed(first: str, second: str) -> Callable[[Any], Any]:
    def make(of: Any) -> Any:
        def swapped(cls: Any, entries: Any) -> Any:
            layout = of(entries)
            names = list(layout.quoted_names)
            a, b = names.index(first.encode()), names.index(second.encode())
            names[a], names[b] = names[b], names[a]
            return cls(layout.entries, tuple(names))

        return classmethod(swapped)

    return make


def _moved(places: Any) -> Any:
    def swapped(self: Any, start: int) -> Any:
        offsets, last = places(self, start)
        names = [entry.name for entry in self.entries]
        a, b = names.index("small_a"), names.index("small_b")
        offsets[[a, b]] = offsets[[b, a]]
        return offsets, last

    return swapped


def _leaves_exchanged(flatten: Any) -> Any:
    def changed(value: Any, *more: Any, **named: Any) -> Any:
        parts = flatten(value, *more, **named)
        dicts = parts.structure["dict"] if "dict" in (parts.structure or ()) else []
        if len(dicts) > 1:
            dicts[0][0], dicts[1][0] = dicts[1][0], dicts[0][0]
        return parts

    return changed


def _chunk_without_end(encode: Any) -> Any:
    def changed(codec: Any, array: Any, chunk: Any, start: Any) -> Any:
        return encode(codec, _without_last(array), chunk, start)

    return changed


ENCODED, CODEC = (encoder.FileEncoder, "arrays"), value_codec
WRONG = {
    "gathered by equal dtypes": Wrong(
        "price_kind", (encoder.FileEncoder, "_plan"), _gathered_by_equality
    ),
    "two small blobs exchanged": Wrong("small_a", ENCODED, _exchange("small_a", "small_b")),
    "two large blobs exchanged": Wrong("big", ENCODED, _exchange("big", "other_big")),
    "two names exchanged": Wrong("big", (file_layout.Layout, "of"), _renamed("big", "other_big")),
    "cast": Wrong("price", ENCODED, _alter("price", lambda a: a.astype("f4").astype("f8") + 1e-9)),
    "last item lost": Wrong("small_b", ENCODED, _alter("small_b", _without_last)),
    "last item of a large one lost": Wrong("big", ENCODED, _alter("big", _without_last)),
    "last item of an encoded one lost": Wrong("label", ENCODED, _alter("label", _without_last)),
    "byte order of the items": Wrong("swapped", ENCODED, _alter("swapped", np.ndarray.byteswap)),
    "byte order of the dtype": Wrong(
        "swapped", (encoder, "dtype_text"), _dtype_as({">f8": "<f8"})
    ),
    "unit of time": Wrong("dates", (CODEC, "dtype_text"), _dtype_as({"<M8[D]": "<M8[s]"})),
    "order of axes forgotten": Wrong("fortran", (encoder, "axis_order"), lambda _: lambda _: ()),
    "axes in another order": Wrong(
        "fortran",
        ENCODED,
        _alter("fortran", lambda a: np.asfortranarray(a.T.reshape(a.shape))),
    ),
    "text cut": Wrong("text", ENCODED, _alter("text", lambda a: np.array(a.item()[:-1], a.dtype))),
    "text in another encoding": Wrong(
        "text",
        (CODEC, "_encode_bytes"),
        lambda encode: lambda data, kind: encode(data.decode().encode("utf-16-le"), kind),
    ),
    "text of an array": Wrong("state", ENCODED, _alter("state", lambda a: a[::-1].copy())),
    "enum": Wrong("label", (CODEC, "dtype_text"), lambda _: lambda dtype: dtype.str),
    "long double": Wrong("long", ENCODED, _alter("long", lambda a: a.astype("f8").astype(a.dtype))),
    "record": Wrong("record", ENCODED, _alter("record", _without_last)),
    "number": Wrong("rate", ENCODED, _alter("rate", lambda a: a + 1e-16)),
    "counter": Wrong("counter", ENCODED, _alter("counter", lambda a: a + 1)),
    "compressed": Wrong("packed", (chunk_compression, "_encode_chunk"), _chunk_without_end),
    "keys of a dict": Wrong("tree", (trees, "flatten"), _leaves_exchanged),
    "order of leaves": Wrong("tree", ENCODED, _exchange("tree\0/b", "tree\0/c\0/1")),
    "gathering in another order": Wrong(
        "small_a",
        (encoder, "_gather"),
        lambda gather: lambda filling, step, arrays: gather(filling, step, arrays[::-1]),
    ),
    "a piece of another place": Wrong(
        "big",
        (encoder, "flat_bytes"),
        lambda flat: lambda array: np.roll(flat(array), 8),
    ),
    "two places exchanged": Wrong("small_a", (file_layout.Layout, "places"), _moved),
}  # fmt: skip


def write(path, **more):
    return NodeWriter("n", RULES).write(
        str(path / "n.h5"), epoch=1, run_id=RUN_ID, values=VALUES, **more
    )


def read(path, names):
    return read_state(str(path / "n.h5"), node="n", epoch=1, run_id=RUN_ID, digest="", names=names)


def test_right_encoder_is_accepted(tmp_path):
    stored = write(tmp_path)

    assert find_damage(str(tmp_path), stored, whole=True) == ""
    loaded = read(tmp_path, VALUES)
    assert all(same_bits(loaded[name], VALUES[name]) for name in VALUES)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_encoder_is_refused_by_name(tmp_path, monkeypatch, name):
    wrong = WRONG[name]
    holder, attribute = wrong.where
    with monkeypatch.context() as patch:
        original = getattr(holder, attribute)
        patch.setattr(holder, attribute, wrong.make(original))
        stored = write(tmp_path)

    for names in (VALUES, [wrong.blob]):
        with pytest.raises(CheckpointError, match=f"'{wrong.blob}[/']") as caught:
            read(tmp_path, names)
        assert "n.h5" in str(caught.value)
        assert caught.value.faults[0].code in {"E303", "E306", "E455"}
    assert f"'{wrong.blob}" in find_damage(str(tmp_path), stored, whole=True)


def test_blobs_of_a_small_file_are_named_though_the_index_is_in_the_same_block(
    tmp_path, monkeypatch
):
    values = {"flat": np.zeros(3), "deep": np.ones(3), "label": "x"}
    exchanged = _exchange("flat", "deep")(encoder.FileEncoder.arrays)
    with monkeypatch.context() as patch:
        patch.setattr(encoder.FileEncoder, "arrays", exchanged)
        NodeWriter("n").write(str(tmp_path / "n.h5"), epoch=1, run_id=RUN_ID, values=values)

    with pytest.raises(CheckpointError, match=r"E303.*n\.h5.*which hold .*'deep'.*'flat'"):
        read(tmp_path, ["label"])


def test_wrong_piece_for_adjacent_arrays_is_refused_by_name(tmp_path):
    values = {"a": np.arange(4.0), "b": np.arange(4.0) + 1}
    path = str(tmp_path / "n.h5")
    NodeWriter("n").write(
        path,
        epoch=1,
        run_id=RUN_ID,
        values=values,
        adjacent=lambda names, size: np.ones(len(names) * size, np.uint8),
    )

    with pytest.raises(CheckpointError, match=r"E303.*which hold 'a', 'b'"):
        read(tmp_path, ["a"])


def test_array_that_changes_while_it_is_written_is_refused(tmp_path, monkeypatch):
    values = {"a": np.arange(4.0), "b": np.arange(4.0) + 1}
    gather = encoder._gather

    def late(filling, step, arrays):
        arrays[1][0] = 7
        gather(filling, step, arrays)
        arrays[1][0] = 8

    monkeypatch.setattr(encoder, "_gather", late)
    NodeWriter("n").write(str(tmp_path / "n.h5"), epoch=1, run_id=RUN_ID, values=values)

    with pytest.raises(CheckpointError, match=r"E303.*which hold 'a', 'b'"):
        read(tmp_path, ["b"])


def test_array_that_no_load_could_make_is_refused_before_it_is_written(tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("invalid shape in fixed-type tuple")

    turned = np.zeros((2, 3, 4), [("x", "<f8")]).transpose(1, 2, 0)
    value_codec._require_decodable.cache_clear()
    monkeypatch.setattr(value_codec, "empty_in_order", fail)

    with pytest.raises(TaskFailedError, match="blob 'a' cannot be stored in a checkpoint: invalid"):
        NodeWriter("n").write(str(tmp_path / "n.h5"), epoch=0, run_id=RUN_ID, values={"a": turned})
    assert list(tmp_path.iterdir()) == []
