"""Find the BLAS libraries in this process, set how many threads they use, and describe them.

The one place that sets the number of threads, which must happen before numpy is first imported;
so nothing here imports it at the top.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def set_blas_threads(count: int) -> None:
    """Set the thread count of BLAS libraries (OpenBLAS, MKL) here and in child processes.

    The variables count when numpy is first imported; where it has been, the libraries that are
    loaded are asked directly: OpenBLAS, MKL, BLIS and FlexiBLAS.
    """
    os.environ.update(thread_variables(count))
    if "numpy" in sys.modules:
        for library in _blas_libraries():
            library.set_num_threads(count)
            if library.internal_api == "mkl":
                # The call above is for this thread only, and tasks run in other threads.
                library.dynlib.MKL_Set_Num_Threads(count)


def thread_variables(count: int) -> dict[str, str]:
    """Return the variables that make OpenBLAS, MKL and other BLAS use ``count`` threads."""
    return dict.fromkeys(_THREAD_VARIABLES, str(count))


def describe_blas() -> dict[str, Any]:
    """Describe the loaded BLAS library as JSON values, for a run's recorded environment.

    Returns:
        ``blas``: the name and version with which numpy was built; ``blas_kernel``: the kernel that
        it chose for this CPU; ``blas_threads``: how many threads it uses. Empty text and 0 where
        that is unknown.
    """
    numpy = importlib.import_module("numpy")
    built = ""
    with contextlib.suppress(KeyError, TypeError):
        blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        built = f"{blas['name']} {blas['version']}"
    library = next(iter(_blas_libraries()), None)
    return {
        "blas": built,
        "blas_kernel": "" if library is None else _kernel_of(library),
        "blas_threads": 0 if library is None else int(library.get_num_threads()),
    }


def _kernel_of(library: Any) -> str:
    """Name the kernel that a BLAS library chose for this CPU; for MKL, its version instead."""
    if library.internal_api == "mkl":
        return f"mkl {library.version}"
    return str(getattr(library, "architecture", None) or "")


def _blas_libraries() -> list[Any]:
    """Find the BLAS libraries loaded in this process; return a ``threadpoolctl`` object each.

    Each has ``internal_api`` (``openblas``, ``mkl`` …) and the calls of ``threadpoolctl``.
    """
    # Lazy: the import takes milliseconds that ``validate`` can save.
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    try:
        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    except OSError:
        # On Linux it reads /proc, which a container may not have.
        return []
    return sorted(libraries, key=lambda library: str(library.filepath))
