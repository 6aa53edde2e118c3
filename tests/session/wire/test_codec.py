from __future__ import annotations

import socket
import threading
from typing import NamedTuple

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.types import OutputRef, Scope
from jobrun.session.wire.codec import (
    OUT_OF_BAND_BYTES,
    SocketChannel,
    TypeTable,
    decode,
    decode_frame,
    encode,
    encode_frame,
    frame_size,
)
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.tables import each_case

TABLE = TypeTable({OutputRef, Scope})
CUBE = np.arange(24.0).reshape(2, 3, 4)
ARRAYS = {
    "C order": CUBE,
    "Fortran order": CUBE.T,
    "axes in another order": CUBE.transpose(1, 0, 2),
    "large, axes in another order": np.arange(60_000.0).reshape(30, 40, 50).transpose(2, 0, 1),
    "with steps": CUBE[:, ::2],
    "backwards": CUBE[::-1],
    "the same row again and again": np.broadcast_to(np.arange(3.0), (4, 3)),
    "no items": np.zeros((0, 3)),
    "no axes": np.array(2.5),
    "texts": np.array(["a", "bcd"]),
    "texts of no length": np.array(["", ""]),
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "records": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8", 2)]),
    "the other byte order": np.arange(3, dtype=">i2"),
    "long doubles": np.array([1, 2], np.longdouble) / 3,
}
OTHERS = {
    "none": None, "true": True, "ellipsis": ..., "int": -5, "edge": -(2**63), "huge": 2**200,
    "float": 0.1, "minus zero": -0.0, "complex": 1 - 2j, "text": "a\nä\0", "half a pair": "\ud800",
    "bytes": b"\0\xff", "tuple": (1, ("a", ())), "list": [1.5, [True]], "names": frozenset("ab"),
    "refs": frozenset(OutputRef("t", node, "o") for node in "ab"),
    "mapping": {"a": 1, OutputRef("t", "n", "o"): Scope.NODE},
}  # fmt: skip


def crossed(value):
    message = encode(value, TABLE)
    apart = iter(message.out_of_band)

    def fill(memory):
        memory[:] = next(apart)

    return decode(bytes(message.head), TABLE, fill)


@each_case("case", ARRAYS)
def test_an_array_arrives_as_a_copy_would_be(case):
    value = ARRAYS[case]
    copy = value.copy(order="K")

    arrived = crossed(value)

    assert same_bits(arrived, value)
    assert arrived.strides == copy.strides
    assert arrived.flags.owndata
    assert arrived.flags.writeable


@each_case("case", OTHERS)
def test_plain_value_round_trips(case):
    arrived = crossed(OTHERS[case])

    assert arrived == OTHERS[case]
    assert type(arrived) is type(OTHERS[case])
    assert type(arrived) is frozenset or repr(arrived) == repr(OTHERS[case])


@each_case(
    "value",
    [
        np.float32(0.1), np.bool_(True), np.str_("a"), np.str_(""), np.datetime64("2020", "D"),
        np.longdouble(1) / 3, np.zeros(1, [("a", "f4")])[0], np.float64("nan"), Counter(2**70),
    ],
)  # fmt: skip
def test_a_scalar_keeps_its_kind_and_bits(value):
    assert same_bits(crossed(value), value)


def test_the_payload_of_a_nan_is_kept():
    value = np.array([0x7FF8_0000_0000_BEEF], np.uint64).view(np.float64)

    assert same_bits(crossed(value), value)
    assert same_bits(crossed(float(value[0])), float(value[0]))


def test_large_arrays_are_sent_apart_without_a_copy():
    value = np.zeros(OUT_OF_BAND_BYTES, np.uint8)

    message = encode(["a", value], TABLE)

    assert [memory.obj is not None for memory in message.out_of_band] == [True]
    assert np.shares_memory(np.frombuffer(message.out_of_band[0], np.uint8), value)
    assert len(message.head) < 200


def test_unlisted_type_cannot_be_encoded():
    with pytest.raises(TypeError, match="cannot cross"):
        encode(object(), TABLE)
    with pytest.raises(TypeError, match="cannot cross"):
        encode((1, lambda: 0), TABLE)


def test_dtype_that_cannot_be_encoded_is_a_fault_of_the_task():
    hollow = np.zeros(1, [("a", "f4"), ("b", "U0")])

    with pytest.raises(TaskFailedError) as caught:
        encode(hollow, TABLE)

    assert caught.value.faults[0].code == "E274"


class Pair(NamedTuple):
    """Two of them are not a tuple of two."""

    first: int
    second: str


def test_named_tuple_round_trips():
    table = TypeTable({Pair})
    message = encode((Pair(1, "a"), (1, "a")), table)

    named, plain = decode(bytes(message.head), table, lambda _: None)

    assert (named, type(named), type(plain)) == (Pair(1, "a"), Pair, tuple)


def test_a_list_that_occurs_twice_in_a_blob_stays_one_list():
    inner, row = [1], np.arange(3.0)
    received = crossed({"a": {"x": [inner, inner], "y": (row, row)}, "b": [inner]})

    assert received == {"a": {"x": [[1], [1]], "y": received["a"]["y"]}, "b": [[1]]}
    assert received["a"]["x"][0] is received["a"]["x"][1]
    assert received["a"]["y"][0] is received["a"]["y"][1]
    assert received["b"][0] is not received["a"]["x"][0]


def test_recursive_list_round_trips_or_is_refused():
    loop: list[object] = [1]
    loop.append(loop)
    received = crossed({"a": loop})
    assert received["a"][1] is received["a"]


@pytest.fixture
def channels():
    pair = [SocketChannel(endpoint) for endpoint in socket.socketpair()]
    yield pair
    for channel in pair:
        channel.close()
        channel.release()


def test_messages_arrive_intact_and_in_order(channels):
    first, second = channels
    large = np.arange(3_000_000.0)
    sent = [("a", 1), ("b", large, "behind"), ("c",)]
    sender = threading.Thread(target=lambda: [first.send(*message) for message in sent])
    sender.start()

    arrived = [second.receive() for _ in sent]

    sender.join()
    assert arrived[0] == ("a", 1)
    assert same_bits(arrived[1][1], large)
    assert (arrived[1][0], arrived[1][2], arrived[2]) == ("b", "behind", ("c",))


def test_messages_of_several_threads_do_not_mix(channels):
    first, second = channels
    values = [np.full(100_000, number) for number in range(8)]
    senders = [
        threading.Thread(target=first.send, args=(number, value))
        for number, value in enumerate(values)
    ]
    for sender in senders:
        sender.start()

    arrived = dict(second.receive() for _ in values)

    for sender in senders:
        sender.join()
    assert all(same_bits(arrived[number], value) for number, value in enumerate(values))


def test_end_of_the_other_side_is_received(channels):
    first, second = channels

    first.close()
    first.close()

    assert second.receive() is None
    with pytest.raises(OSError, match="pipe"):
        second.send("anybody?")


def test_truncated_message_ends_the_channel():
    ours, theirs = socket.socketpair()
    channel = SocketChannel(theirs)
    ours.sendall(b"\x10\0\0\0abc")
    ours.close()

    assert channel.receive() is None

    channel.release()


def test_decoded_arrays_own_their_memory():
    large = np.arange(OUT_OF_BAND_BYTES, dtype="f8").reshape(2, -1)
    value = ("a", large, 1.5, large[:, :3])

    frame = encode_frame(value)
    back = decode_frame(frame)

    assert frame_size(frame) >= large.nbytes
    assert (back[0], back[2]) == ("a", 1.5)
    assert np.array_equal(back[1], large)
    assert np.array_equal(back[3], large[:, :3])
    assert back[1].flags.owndata
    assert back[1].flags.writeable
    assert np.shares_memory(frame[1][0], large)


def test_a_copied_frame_does_not_change_with_the_value():
    large = np.zeros(OUT_OF_BAND_BYTES)
    frame = encode_frame(large, copied=True)

    large += 1

    assert decode_frame(frame).sum() == 0
