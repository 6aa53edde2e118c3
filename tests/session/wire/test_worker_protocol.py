from __future__ import annotations

import inspect

from jobrun.session.wire.launch import LocalProcess
from jobrun.session.wire.peer_transfer import PeerConnections
from jobrun.session.wire.socket_channel import SocketChannel
from jobrun.session.wire.worker_protocol import MessageChannel, PeerReader, WorkerProcess


def test_processes_and_sockets_do_what_the_protocols_say():
    for protocol, cls in (
        (WorkerProcess, LocalProcess),
        (MessageChannel, SocketChannel),
        (PeerReader, PeerConnections),
    ):
        for name, member in vars(protocol).items():
            if not name.startswith("_") and inspect.isfunction(member):
                said = list(inspect.signature(member).parameters)
                assert list(inspect.signature(getattr(cls, name)).parameters) == said, name
