"""Save, remove and set aside epochs in a process to be killed: ``python -m … ROOT``.

Prints ``saved N`` when epoch N is durable, ``removed N`` and ``aside N`` when that is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.testing.stores import write_epoch


def main() -> None:
    run = Path(sys.argv[1])
    store = DirectoryStore(str(run / "checkpoints"))
    for epoch in range(5):
        write_epoch(store, epoch, nodes=("a", "b"))
        print("saved", epoch, flush=True)
    store.remove((1, 2))
    print("removed 1\nremoved 2", flush=True)
    store.set_aside((3, 4), str(run / "superseded" / "g0"))
    print("aside 3\naside 4", flush=True)


if __name__ == "__main__":
    main()
