"""Describe the environment that numbers depend on: versions, BLAS, its threads, the CPU.

Also the one place that sets the number of BLAS threads, which must happen before numpy is
first imported; so nothing here imports it at the top.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
from typing import Any

from jobrun.core.hash_seed import described_hash_seed
from jobrun.core.system_calls import list_gpus, usable_cpus
from jobrun.runner.identity.distributions import find_version
from jobrun.version import __version__

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

# What decides how libraries round, in which order they add, and of which dtype their numbers are.
# What callables set is saved with each epoch, see ``runtime/context/library_settings.py``.
_LIBRARY_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "DNNL_MAX_CPU_ISA",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_DEFAULT_PRNG_IMPL",
    "JAX_ENABLE_X64",
    "JAX_NUMPY_DTYPE_PROMOTION",
    "JAX_PLATFORMS",
    "JAX_THREEFRY_PARTITIONABLE",
    "MKL_CBWR",
    "NVIDIA_TF32_OVERRIDE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "XLA_FLAGS",
)


def set_blas_threads(count: int) -> None:
    """Set the number of BLAS threads: in environment variables and the libraries loaded.

    The variables count when numpy is first imported; where it has been, the libraries that are
    loaded are asked directly: OpenBLAS, MKL, BLIS and FlexiBLAS.
    """
    os.environ.update(thread_variables(count))
    if "numpy" in sys.modules:
        for library in _blas_libraries():
            library.set_num_threads(count)
            if library.internal_api == "mkl":
                # The call above holds for this thread only, and tasks have threads of their own.
                library.dynlib.MKL_Set_Num_Threads(count)


def thread_variables(count: int) -> dict[str, str]:
    """Return environment variables that give each BLAS library ``count`` threads."""
    return dict.fromkeys(_THREAD_VARIABLES, str(count))


def blas_threads() -> int:
    """Return the number of BLAS threads, part of the run's environment; 0 if it is unknown."""
    importlib.import_module("numpy")
    return next((int(library.get_num_threads()) for library in _blas_libraries()), 0)


def describe_environment() -> dict[str, Any]:
    """Describe the environment of this process, versions and numerics, as JSON values."""
    return {
        "jobrun": __version__,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        # Of numbers alone, checkpoints are written without it.
        "h5py": find_version("h5py") or _version("h5py"),
        "blas": _blas_build(),
        "blas_kernel": _blas_kernel(),
        "blas_threads": blas_threads(),
        "processors": usable_cpus(),
        "cpu_features": _cpu_features(),
        "machine": platform.machine(),
        "byte_order": sys.byteorder,
        "system": platform.system(),
        "hash_seed": described_hash_seed(),
        "gpus": list_gpus(),
        "variables": {
            name: os.environ[name] for name in _LIBRARY_VARIABLES if os.environ.get(name)
        },
    }


def _version(package: str) -> str:
    # Not from the metadata of packages, whose readers take longer to import than numpy.
    with contextlib.suppress(ImportError):
        return str(importlib.import_module(package).__version__)
    return ""


def _blas_build() -> str:
    numpy = importlib.import_module("numpy")
    with contextlib.suppress(KeyError, TypeError):
        blas = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    return ""


def _blas_kernel() -> str:
    return next(map(_kernel_of, _blas_libraries()), "")


def _kernel_of(library: Any) -> str:
    """Name the kernel that a BLAS library chose in this environment; for MKL, only the version."""
    if library.internal_api == "mkl":
        return f"mkl {library.version}"
    return str(getattr(library, "architecture", None) or "")


def _cpu_features() -> list[str]:
    numpy = importlib.import_module("numpy")
    with contextlib.suppress(KeyError, TypeError):
        found = numpy.show_config(mode="dicts")["SIMD Extensions"]["found"]
        return sorted(str(name) for name in found)
    return []


def _blas_libraries() -> list[Any]:
    """Return ``threadpoolctl``'s controllers of the BLAS libraries, part of the environment.

    Each has ``internal_api`` (``openblas``, ``mkl`` …) and the calls of ``threadpoolctl``.
    """
    # Milliseconds, which ``validate`` need not spend.
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    try:
        found = ThreadpoolController().select(user_api="blas").lib_controllers
    except OSError:
        # On Linux it reads /proc, which a container may not have.
        return []
    return sorted(found, key=lambda library: str(library.filepath))
