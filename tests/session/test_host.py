from __future__ import annotations

import inspect

from jobrun.session.channel import Channel
from jobrun.session.host import NodeHost, Ways, Wire
from jobrun.session.launch import Process
from jobrun.session.peers import Peers


def test_processes_and_sockets_do_what_the_protocols_say():
    for protocol, cls in ((NodeHost, Process), (Wire, Channel), (Ways, Peers)):
        for name, member in vars(protocol).items():
            if not name.startswith("_") and inspect.isfunction(member):
                said = list(inspect.signature(member).parameters)
                assert list(inspect.signature(getattr(cls, name)).parameters) == said, name
