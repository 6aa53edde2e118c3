from __future__ import annotations

import threading
from itertools import chain

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.graph.expressions import Const, Name, Text
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.records.reader_position import Position
from jobrun.runtime.records.task_reader import OpenSource
from tests.support.reader_tasks import Desk, blob_reader, plain
from tests.support.step_bench import Bench
from tests.support.tables import each_case


def _counter(name, stop, **keys):
    return Reader(name, CounterSource(0, stop), (Field(name, ""),), **keys)


def _zip(*readers, **keys):
    fields = tuple(Field(field.name, field.name) for reader in readers for field in reader.fields)
    return Reader("r", ZipSource(readers), fields, restart=readers[0].restart, **keys)


def test_each_run_is_a_pass_over_all_rows():
    with Desk(blob_reader()) as desk:
        assert plain(desk.run()) == list(range(10))
        assert plain(desk.run()) == list(range(10))
        assert desk.position() == {
            "passes": 2,
            "records": 10,
            "rows": 10,
            "finished": 1,
            "part": 0,
            "parts": 1,
            "length": 10,
        }


def test_rows_come_in_batches_and_the_last_may_be_short():
    with Desk(blob_reader(batch=4)) as desk:
        assert plain(desk.run()) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_a_last_batch_that_is_short_may_be_left_out():
    with Desk(blob_reader(batch=4, drop_last=True)) as desk:
        assert plain(desk.run()) == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert desk.position()["finished"] == 1


def test_without_restart_reading_continues_where_the_last_run_ended():
    with Desk(blob_reader(restart="never", limit=4)) as desk:
        runs = [plain(desk.run()) for _ in range(4)]

        assert runs == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]


def test_a_limit_that_is_reached_is_not_the_end_while_records_are_left():
    with Desk(blob_reader(restart="never", limit=5)) as desk:
        desk.run()
        assert desk.position()["finished"] == 0
        assert plain(desk.run()) == [5, 6, 7, 8, 9]
        assert desk.position()["finished"] == 1


@pytest.mark.parametrize("keys", [{"batch": 5}, {"batch": 4, "drop_last": True}])
def test_a_limit_behind_which_no_record_is_left_is_the_end(keys):
    with Desk(blob_reader(restart="never", limit=2, **keys)) as desk:
        desk.run()
        assert desk.position()["finished"] == 1


def test_a_limit_of_nothing_reads_nothing():
    with Desk(blob_reader(limit=0)) as desk:
        assert desk.run() == []
        assert desk.position()["finished"] == 0


@pytest.mark.parametrize("batch", [0, 3])
def test_shuffled_rows_are_another_order_of_the_same_in_each_pass(batch):
    with Desk(blob_reader(shuffle=True, batch=batch), rows=50) as desk:
        first, second = (np.hstack(desk.run()).tolist() for _ in range(2))

    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert first != list(range(50))


def test_the_order_is_that_of_the_position_not_of_the_run():
    with Desk(blob_reader(shuffle=True)) as desk:
        desk.run()
        retained = desk.node["readers/r"].copy()
        second = plain(desk.run())
        desk.node["readers/r"] = retained

        assert plain(desk.run()) == second


@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_of_the_nodes_are_all_rows_once(shuffle):
    reader = blob_reader(shard="node", shuffle=shuffle)
    collected = []
    for part in range(3):
        with Desk(reader, part=part, parts=3) as desk:
            collected.append(plain(desk.run()))

    assert [len(share) for share in collected] == [3, 3, 4]
    assert sorted(chain(*collected)) == list(range(10))


def test_instances_have_shares_of_their_own_if_they_are_to():
    with Desk(blob_reader(shard="instance", restart="never"), instances=2) as desk:
        assert plain(desk.run(instance=0)) == [0, 1, 2, 3, 4]
        assert plain(desk.run(instance=1)) == [5, 6, 7, 8, 9]
        assert desk.node["readers/r"].shape == (2, 7)


def test_a_limit_is_divided_among_shares():
    with Desk(blob_reader(shard="instance", limit=3), instances=2) as desk:
        assert [len(desk.run(instance=at)) for at in range(2)] == [2, 1]


def test_instances_that_share_a_source_get_each_record_once():
    with Desk(blob_reader(limit=90), instances=4, rows=100) as desk:
        source = desk.plan.source(desk.bench.frame)
        source.begin(desk.bench.frame)
        actual = [[] for _ in range(4)]

        def work(at):
            frame = desk.frame(at)
            for number, values in source.connect(frame):
                actual[at].append((number, int(values[0])))

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        source.close()

    assert sorted(chain(*actual)) == [(row, row) for row in range(90)]


def test_a_share_without_rows_is_an_error():
    with (
        Desk(blob_reader(shard="node"), part=0, parts=11) as desk,
        pytest.raises(JobrunError, match="10 rows for 11 shares") as caught,
    ):
        desk.run()
    assert caught.value.faults[0].code == "E232"


def test_a_position_in_the_middle_of_other_rows_is_refused():
    reader = blob_reader(restart="never", limit=3)
    with Desk(reader) as desk:
        desk.run()
        desk.bench.blobs["X"] = np.arange(11)
        with pytest.raises(JobrunError, match="middle of 10 rows, and now there are 11"):
            desk.run()
    with Desk(reader) as desk:
        desk.run()
        desk.node["readers/r"][0, 5] = 4
        with pytest.raises(JobrunError, match="share 1 of 4"):
            desk.run()


def test_a_new_pass_may_be_over_other_rows():
    with Desk(blob_reader()) as desk:
        desk.run()
        desk.bench.blobs["X"] = np.arange(3)

        assert plain(desk.run()) == [0, 1, 2]


def test_prefetched_records_are_not_counted_as_read():
    with Desk(blob_reader(restart="never", batch=2, delay_s=0.001)) as desk:
        assert plain(desk.run(most=2)) == [[0, 1], [2, 3]]
        assert desk.position()["rows"] == 4
        assert plain(desk.run(most=1)) == [[4, 5]]


def test_a_run_that_was_undone_is_run_again():
    with Desk(blob_reader(restart="never", limit=3)) as desk:
        desk.run()
        retained = desk.node["readers/r"].copy()
        second = plain(desk.run())
        desk.node["readers/r"] = retained

        assert plain(desk.run()) == second


def test_rows_that_change_meanwhile_are_read_as_they_were():
    with Desk(blob_reader(), changed="X") as desk:

        def spoil():
            desk.bench.blobs["X"][:] = -1

        assert plain(desk.run(between=spoil)) == list(range(10))


def test_the_receiver_may_change_what_it_gets():
    with Desk(blob_reader(batch=5)) as desk:
        for record in desk.run():
            record[:] = 0

        assert desk.bench.blobs["X"].tolist() == list(range(10))


def test_records_side_by_side_end_with_the_shortest_and_none_is_lost():
    sizes = {"a": 5, "b": 3, "c": 4}
    readers = [_counter(name, size, restart="never") for name, size in sizes.items()]
    with Desk(_zip(*readers)) as desk:
        assert desk.run() == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]
        assert [desk.position(name)["rows"] for name in sizes] == [3, 3, 3]
        assert desk.position()["finished"] == 1
    for reader in readers:
        with Desk(reader) as desk:
            desk.node[reader.position] = np.array([[1, 3, 3, 0, 0, 1, sizes[reader.name]]])
            remaining = desk.run()
            assert remaining == list(range(3, sizes[reader.name]))


def test_a_limit_of_records_side_by_side_counts_whole_ones():
    with Desk(
        _zip(_counter("a", None, restart="never"), _counter("b", 9, restart="never"), limit=4)
    ) as desk:
        assert [len(desk.run()) for _ in range(4)] == [4, 4, 1, 0]
        assert desk.position()["finished"] == 1


def test_fields_of_records_side_by_side_can_be_chosen():
    a, b = _counter("a", 3), _counter("b", 3)
    reader = Reader("r", ZipSource((a, b)), (Field("z", "b"),))
    with Desk(reader) as desk:
        assert desk.run() == [0, 1, 2]


def test_a_cancel_is_seen_between_records_and_while_waiting():
    with Desk(blob_reader(delay_s=30.0)) as desk:
        threading.Timer(0.05, desk.bench.run.body.cancel).start()
        with pytest.raises(CancelledError):
            desk.run()


def test_a_file_stays_open_and_is_reopened_when_it_changes(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    reader = Reader("r", FileSource("npy", Text(("a.npy",))), (Field("x", ""),))
    with Desk(reader, folder=str(tmp_path)) as desk:
        assert plain(desk.run()) == [0, 1, 2]
        np.save(tmp_path / "a.npy", np.arange(5))
        assert plain(desk.run()) == [0, 1, 2, 3, 4]


def test_faults_of_a_file_are_reported_at_the_reader(tmp_path):
    reader = Reader("r", FileSource("npy", Text(("a.npy",))), (Field("x", ""),), path="readers.r")
    with Desk(reader, folder=str(tmp_path)) as desk, pytest.raises(JobrunError) as caught:
        desk.run()

    assert [(fault.code, fault.path) for fault in caught.value.faults] == [("E280", "readers.r")]


def test_a_class_is_made_for_each_pass_and_gives_rows(tmp_path, monkeypatch):
    (tmp_path / "rows_of_mine.py").write_text(
        "class Rows:\n"
        "    made = 0\n"
        "    def __init__(self, epoch):\n"
        "        Rows.made += 1\n"
        "        self.epoch = epoch\n"
        "    def __iter__(self):\n"
        "        return iter([(self.epoch, Rows.made), (self.epoch, Rows.made)])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    reader = Reader("r", CallSource("rows_of_mine:Rows"), (Field("a", "a"), Field("b", "b")))
    with Desk(reader, folder=str(tmp_path)) as desk:
        assert [desk.run(), desk.run()] == [[(3, 1), (3, 1)], [(3, 2), (3, 2)]]


def test_an_instance_that_failed_is_created_again(tmp_path, monkeypatch):
    (tmp_path / "rows_that_fail.py").write_text(
        "tries = []\n"
        "def rows():\n"
        "    tries.append(1)\n"
        "    if len(tries) == 1:\n"
        "        raise OSError('not yet')\n"
        "    yield from range(3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    reader = Reader("r", CallSource("rows_that_fail:rows"), (Field("x", "x"),), restart="never")
    with Desk(reader, folder=str(tmp_path)) as desk:
        with pytest.raises(JobrunError, match="not yet"):
            desk.run()
        desk.node.pop("readers/r")

        assert desk.run() == [0, 1, 2]


_LENGTHS = [2, 0, 1, 4, 0, 3, 5, 1, 2, 2]
_WORDS = [list(range(sum(_LENGTHS[:at]), sum(_LENGTHS[: at + 1]))) for at in range(10)]


class _RaggedDesk(Desk):
    """A desk of records that differ in length."""

    def __init__(self, *, part=0, parts=1, **keys):
        source = BlobSource((("v", Name("V")), ("n", Name("N"))))
        reader = Reader("r", source, (Field("x", "v", "n"), Field("n", "n")), **keys)
        super().__init__(reader, part=part, parts=parts)
        self.bench.blobs["V"] = np.arange(sum(_LENGTHS))
        self.bench.blobs["N"] = np.array(_LENGTHS)


def _lists(records):
    return [(x.tolist(), n.tolist()) for x, n in records]


def test_a_ragged_record_is_as_long_as_its_length_says():
    with _RaggedDesk() as desk:
        assert _lists(desk.run()) == list(zip(_WORDS, _LENGTHS, strict=True))
        assert desk.position()["length"] == 10


@each_case("batch", [1, 3, 4, 10, 12])
@each_case("drop_last", [False, True])
def test_a_batch_of_a_ragged_field_is_its_rows_one_behind_the_other(batch, drop_last):
    groups = [_WORDS[at : at + batch] for at in range(0, 10, batch)]
    if drop_last:
        groups = [group for group in groups if len(group) == batch]
    with _RaggedDesk(batch=batch, drop_last=drop_last) as desk:
        actual = _lists(desk.run())

    assert [x for x, _ in actual] == [list(chain(*group)) for group in groups]
    assert [n for _, n in actual] == [[len(word) for word in group] for group in groups]


@pytest.mark.parametrize("batch", [0, 3])
def test_a_shuffled_ragged_field_continues_from_any_position(batch):
    keys = {"batch": batch, "shuffle": True, "restart": "never"}
    with _RaggedDesk(**keys) as desk:
        whole = _lists(desk.run())
    assert sorted(chain(*(x for x, _ in whole))) == list(range(sum(_LENGTHS)))

    for most in range(len(whole)):
        with _RaggedDesk(**keys) as desk:
            first = _lists(desk.run(most))
            retained = desk.node["readers/r"]
        with _RaggedDesk(**keys) as desk:
            desk.node["readers/r"] = retained
            assert first + _lists(desk.run()) == whole


@pytest.mark.parametrize("shuffle", [False, True])
def test_shares_of_a_ragged_field_are_all_records_once(shuffle):
    collected = []
    for part in range(3):
        with _RaggedDesk(shard="node", shuffle=shuffle, part=part, parts=3) as desk:
            collected += _lists(desk.run())

    assert sorted(collected) == sorted(zip(_WORDS, _LENGTHS, strict=True))


def test_a_ragged_record_may_be_changed_without_changing_the_others():
    with _RaggedDesk() as desk:
        records = desk.run()
        for x, _ in records[::2]:
            x[:] = -1
        assert [x.tolist() for x, _ in records[1::2]] == _WORDS[1::2]
        assert desk.bench.blobs["V"].tolist() == list(range(sum(_LENGTHS)))


def _data(source, *fields, changed="", **keys):
    reader = Reader("r", source, fields or (Field("x", "x"),), **keys)
    return OpenSource(reader, BlockNames(changed=frozenset(changed.split())))


def _records(data, frame, share=(0, 1)):
    feed = data.iterator_factory(frame, share)(Position(1), 1 << 62)
    collected = []
    while (record := feed.next()) is not None:
        collected.append(record.values[0])
    return collected


def test_a_file_is_looked_for_in_the_folder_of_its_spec(tmp_path):
    (tmp_path / "inner").mkdir()
    np.save(tmp_path / "inner/a.npy", np.arange(4))
    data = _data(FileSource("npy", Text(("a.npy",)), "inner"), Field("x", ""))
    with Bench(str(tmp_path)) as bench:
        assert data.open(bench.frame)
        assert not data.open(bench.frame)
        assert data.length == 4
        assert _records(data, bench.frame, (1, 2)) == [2, 3]


def test_blobs_are_taken_as_they_are_when_a_run_begins():
    source = BlobSource((("x", Name("X")), ("y", Const(3))))
    with Bench(X=np.arange(3)) as bench:
        data = _data(source)
        data.open(bench.frame)
        assert _records(data, bench.frame) == [0, 1, 2]
        bench.blobs["X"] = np.arange(5)
        assert data.open(bench.frame)
        assert data.length == 5


def test_blobs_of_different_lengths_are_reported():
    source = BlobSource((("x", Name("X")), ("y", Name("Y"))))
    with Bench(X=np.arange(3), Y=np.arange(4)) as bench, pytest.raises(JobrunError) as caught:
        _data(source, Field("x", "x"), Field("y", "y")).open(bench.frame)
    assert caught.value.faults[0].code == "E288"


def test_the_length_of_a_finite_counter_is_known():
    with Bench() as bench:
        end_states, endless = _data(CounterSource(0, 5)), _data(CounterSource())
        end_states.open(bench.frame)
        endless.open(bench.frame)

    assert (end_states.length, endless.length) == (5, -1)


def test_a_class_gets_its_arguments_and_what_its_signature_names(tmp_path):
    (tmp_path / "rows_for_sources.py").write_text(
        "def rows(n, node):\n    return iter([(n, node)] * 2)\n"
    )
    source = CallSource("rows_for_sources:rows", (("n", Const(5)),))
    data = _data(source, Field("a", "a"), Field("b", "b"))
    with Bench(str(tmp_path)) as bench:
        assert not data.open(bench.frame)
        feed = data.iterator_factory(bench.frame, (0, 1))(Position(1), 9)
        assert feed.next().values == (5, "local")


def test_each_share_must_have_a_row():
    with Bench() as bench:
        data = _data(CounterSource(0, 2))
        data.open(bench.frame)
        with pytest.raises(JobrunError, match="2 rows for 3 shares"):
            data.iterator_factory(bench.frame, (0, 3))


def test_readers_side_by_side_have_no_data_of_their_own():
    with Bench() as bench, pytest.raises(TypeError):
        _data(ZipSource(())).open(bench.frame)
