"""Make several hosts on one machine: namespaces of processes, mounts, names and networks.

What is below them ends with the process that holds them, and with this one; nothing is left.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_NETWORK = "10.213.9"
# What is said where no namespaces can be made; the tests that need them cannot be left out.
_NEEDS = (
    "these tests make namespaces of networks, mounts and processes: run them as root, with "
    "unshare, nsenter (util-linux) and ip (iproute2)"
)


class Host:
    """One host of its own namespaces.

    Attributes:
        name: Its name, which all of them resolve.
        address: Its address in the network they share.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        # What is written in memory, as sockets and what Ray keeps, is each host's own.
        script = (
            f"hostname {name} && mount -t tmpfs none /dev/shm && mkdir -p /tmp/ray && "
            "mount -t tmpfs none /tmp/ray && ip link set lo up && echo ready && "
            # Unlike sleep, bash reaps orphans, as the first process of a namespace has to.
            "while :; do sleep 1000 & wait; done"
        )
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--uts", "--fork", "--kill-child",
             "--mount-proc", "bash", "-c", script],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert self._holder.stdout is not None
        line = self._holder.stdout.readline()
        assert line == "ready\n", f"{_NEEDS}; {line}{self._holder.stdout.read()}"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children")
        self._init = int(children.read_text().split()[0])

    @property
    def init(self) -> int:
        """Return the number of the host's first process, in this process's namespace."""
        return self._init

    def words(self, *command: str) -> list[str]:
        """Return the command line that runs a command on it."""
        return ["nsenter", "-t", str(self._init), "-n", "-m", "-p", "-u", "--", *command]

    def sh(self, lines: str) -> None:
        """Run lines of shell on it; the first that fails ends it."""
        subprocess.run(self.words("bash", "-e", "-c", lines), check=True)

    def end(self) -> None:
        """Kill all its processes."""
        self._holder.kill()
        self._holder.communicate()


@contextmanager
def hosts(names: Sequence[str], folder: Path) -> Iterator[Mapping[str, Host]]:
    """Make hosts that reach one another over the first one's switch, and nothing else.

    Args:
        names: Theirs.
        folder: Where their table of names is written.
    """
    table = folder / "hosts"
    addresses = {name: f"{_NETWORK}.{number}" for number, name in enumerate(names, 1)}
    # As Debian writes it: the first that a host finds for its own name is an address of loopback.
    common = "".join(f"{address} {name}\n" for name, address in addresses.items())
    hosts_by_name: dict[str, Host] = {}
    try:
        for name, address in addresses.items():
            hosts_by_name[name] = host = Host(name, address)
            own_table = table.with_suffix(f".{name}")
            own_table.write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n{common}")
            host.sh(f"mount --bind {shlex.quote(str(own_table))} /etc/hosts")
        first = hosts_by_name[names[0]]
        first.sh(
            f"ip link add switch type bridge; ip addr add {first.address}/24 dev switch; "
            "ip link set switch up"
        )
        for name in names[1:]:
            host = hosts_by_name[name]
            first.sh(f"ip link add to-{name} type veth peer name wire")
            _move(first, "wire", host)
            first.sh(f"ip link set to-{name} master switch up")
            host.sh(f"ip addr add {host.address}/24 dev wire; ip link set wire up")
        yield hosts_by_name
    finally:
        for host in hosts_by_name.values():
            host.end()


def _move(first: Host, device: str, host: Host) -> None:
    """Move an interface of one host to another, whose processes the first one does not see."""
    words = ["nsenter", "-t", str(first.init), "-n", "--"]
    subprocess.run([*words, "ip", "link", "set", device, "netns", str(host.init)], check=True)
