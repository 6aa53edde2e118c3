"""Do what KubeRay does with the manifest of a RayJob, on this host: run as ``kuberay.py FILE``.

It starts a cluster, runs the entrypoint until it ends with 0, at most as often as the manifest
says, and ends the cluster. The first attempt is stopped early.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml


def main(manifest: str) -> int:
    """Run the job of a manifest; return how its last attempt ended."""
    spec = yaml.safe_load(Path(manifest).read_text())["spec"]
    # The claim of the pods is a folder here, with what a user has put there.
    claim = Path("claim").resolve()
    claim.mkdir()
    shutil.copy("walk.yaml", claim)
    command = spec["entrypoint"].replace("/data/", f"{claim}/")
    subprocess.run(["ray", "start", "--head", "--disable-usage-stats"], check=True)
    codes = []
    while len(codes) <= spec["backoffLimit"] and codes[-1:] != [0]:
        first = {} if codes else {"JOBRUN_MAX_EPOCHS": "3"}
        done = subprocess.run(["bash", "-c", command], env={**os.environ, **first}, check=False)
        codes.append(done.returncode)
    subprocess.run(["ray", "stop"], check=True)
    assert codes == [75, 0], codes
    return codes[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
