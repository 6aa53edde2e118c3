from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from jobrun.session.wire.socket_channel import SocketChannel
from jobrun.values.compare import same_bits


@pytest.fixture
def ends():
    pair = [SocketChannel(one) for one in socket.socketpair()]
    yield pair
    for one in pair:
        one.close()
        one.release()


def test_messages_arrive_whole_and_in_order(ends):
    first, second = ends
    large = np.arange(3_000_000.0)
    sent = [("a", 1), ("b", large, "behind"), ("c",)]
    sender = threading.Thread(target=lambda: [first.send(*one) for one in sent])
    sender.start()

    arrived = [second.receive() for _ in sent]

    sender.join()
    assert arrived[0] == ("a", 1)
    assert same_bits(arrived[1][1], large)
    assert (arrived[1][0], arrived[1][2], arrived[2]) == ("b", "behind", ("c",))


def test_messages_of_several_threads_do_not_mix(ends):
    first, second = ends
    values = [np.full(100_000, number) for number in range(8)]
    senders = [
        threading.Thread(target=first.send, args=(number, value))
        for number, value in enumerate(values)
    ]
    for one in senders:
        one.start()

    arrived = dict(second.receive() for _ in values)

    for one in senders:
        one.join()
    assert all(same_bits(arrived[number], value) for number, value in enumerate(values))


def test_the_end_of_the_other_side_is_told(ends):
    first, second = ends

    first.close()
    first.close()

    assert second.receive() is None
    with pytest.raises(OSError, match="pipe"):
        second.send("anybody?")


def test_a_message_that_is_cut_off_is_the_end():
    ours, theirs = socket.socketpair()
    channel = SocketChannel(theirs)
    ours.sendall(b"\x10\0\0\0abc")
    ours.close()

    assert channel.receive() is None

    channel.release()
