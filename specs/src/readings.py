"""Write a long file of readings, a part at a time. Not a generator for any other purpose."""

from __future__ import annotations

from pathlib import Path

import numpy as np

COLUMNS = 4
PART = 65536


def write(rows: int, run_dir: str, rng: np.random.Generator) -> int:
    """Write ``rows`` x 4 float64 into the run's ``readings.npy``, unless it is there.

    Column j has the mean j / 2 and shares a disturbance with the others. The file appears
    whole: a killed run does not leave half of it under its name.
    """
    path = Path(run_dir, "readings.npy")
    if not path.exists():
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (rows, COLUMNS)}
            np.lib.format.write_array_header_1_0(file, header)
            for start in range(0, rows, PART):
                size = (min(PART, rows - start), COLUMNS)
                shared = rng.standard_normal((size[0], 1))
                own = rng.standard_normal(size)
                file.write((own + shared / 2 + np.arange(COLUMNS) / 2).tobytes())
        unfinished.replace(path)
    return COLUMNS
