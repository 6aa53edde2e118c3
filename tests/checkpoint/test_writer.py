from __future__ import annotations

import numpy as np

from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.writer import NodeWriter
from tests.checkpoint.test_codec import assert_same
from tests.support.checkpoints import RUN_ID


def test_each_epoch_has_its_own_values(tmp_path):
    writer = NodeWriter("n")
    writer.prepare({"w": np.zeros(4)})

    for epoch in (0, 1):
        path = str(tmp_path / f"{epoch}.h5")
        stored = writer.write(
            path, epoch=epoch, run_id=RUN_ID, values={"w": np.arange(4.0) + epoch}
        )
        back = read_state(
            path, node="n", epoch=epoch, run_id=RUN_ID, digest=stored.digest, names=("w",)
        )
        assert_same(back["w"], np.arange(4.0) + epoch)
    writer.close()
