"""The cable of a machine is pulled while a job runs on it: a Ray cluster over network namespaces.

Run as root: ``python -m tests.durability.network_cuts``. It makes a namespace and a pair of virtual
interfaces, starts one raylet here and one there, runs a job whose second node is there, and takes
the link down. The run has to go on here, and end with the bits of a run that nothing happened to.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.ray_jobs import LIBRARY, SPEC, pids, started, token
from tests.support.session_runs import run, same
from tests.support.stored_runs import only_run

SPACE, HERE, THERE = "jobrun-cut", "10.213.7.1", "10.213.7.2"
LINK = "jobrun-cut0"
PORT = 26379
# Heartbeats are missed after seconds, not a minute; these are Ray's own flags.
FASTER = {
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}
UP = f"""
ip netns add {SPACE}
ip link add {LINK} type veth peer name {LINK}p
ip link set {LINK}p netns {SPACE}
ip addr add {HERE}/24 dev {LINK}
ip link set {LINK} up
ip netns exec {SPACE} ip addr add {THERE}/24 dev {LINK}p
ip netns exec {SPACE} ip link set {LINK}p up
ip netns exec {SPACE} ip link set lo up
"""
RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats",
       "--num-cpus", "1", "--object-store-memory", str(128 << 20))  # fmt: skip


def sh(lines: str) -> None:
    """Run lines of bash; the first that fails ends it."""
    subprocess.run(["bash", "-e", "-c", lines], check=True)


def raylets(folder: Path) -> list[subprocess.Popen[bytes]]:
    """One here, and one in the namespace, each with a temporary folder of its own."""
    processes = []
    for number, words in enumerate(
        (
            [
                *RAY,
                "--head",
                "--port",
                str(PORT),
                "--node-ip-address",
                HERE,
                "--include-dashboard",
                "false",
                "--resources",
                '{"place": 2}',
                "--temp-dir",
                str(folder / "a"),
            ],
            [
                "ip",
                "netns",
                "exec",
                SPACE,
                *RAY,
                "--address",
                f"{HERE}:{PORT}",
                "--node-ip-address",
                THERE,
                "--resources",
                '{"place": 1, "far": 1}',
                "--temp-dir",
                str(folder / "b"),
            ],
        )
    ):
        log = (folder / f"{number}.log").open("wb")
        processes.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))
        # Two that start at the same moment get in each other's way.
        time.sleep(12)
    return processes


def main() -> int:
    """Pull the cable once."""
    os.environ.update(FASTER, **token(), RAY_USAGE_STATS_ENABLED="0")
    with tempfile.TemporaryDirectory(prefix="cut-", dir="/tmp") as name:
        folder = Path(name)
        spec = folder / "job.yaml"
        (folder / "losses_library.py").write_text(LIBRARY)
        spec.write_text(SPEC.replace("epochs: 12", "epochs: 60"))
        whole = run(spec, folder / "whole")
        sh(UP)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            processes = raylets(folder)
            with started(spec, f"ray:{HERE}:{PORT}") as process:
                print("nodes run as", pids(spec), flush=True)
                begun = time.monotonic()
                sh(f"ip link set {LINK} down")
                _, output = process.communicate(timeout=240)
            print(output, f"ended {time.monotonic() - begun:.1f} s after the cut", sep="\n")
            same(whole, only_run(folder / "hit"))
        finally:
            for raylet in processes:
                raylet.kill()
            sh(f"ip netns pids {SPACE} | xargs -r kill -9")
            sh(f"ip link del {LINK}; ip netns del {SPACE}")
    print("the bits are those of a run that nothing happened to")
    return 0


if __name__ == "__main__":
    sys.exit(main())
