"""Describe the environment that numbers depend on: versions, BLAS, its threads, the CPU.

Also the one place that sets the number of BLAS threads, which must happen before numpy is
first imported; so nothing here imports it at the top.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import platform
import sys
from typing import Any

from jobrun.core.hash_seed import described_hash_seed
from jobrun.core.system_calls import read_proc, usable_cpus
from jobrun.version import __version__

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("64_", "")


def set_blas_threads(count: int) -> None:
    """Set the number of BLAS threads in the environment of this process and in BLAS itself.

    The variables count when numpy is first imported; where it has been, OpenBLAS is asked
    directly.
    """
    os.environ.update(thread_variables(count))
    if "numpy" in sys.modules:
        for library in _openblas():
            setter = _symbol(library, "set_num_threads")
            if setter is not None:
                setter.argtypes = [ctypes.c_int]
                setter.restype = None
                setter(count)


def thread_variables(count: int) -> dict[str, str]:
    """Return the environment variables that set each BLAS library to ``count`` threads."""
    return dict.fromkeys(_THREAD_VARIABLES, str(count))


def blas_threads() -> int:
    """Return the number of BLAS threads, part of the run's environment; 0 if it is unknown."""
    importlib.import_module("numpy")
    for library in _openblas():
        getter = _symbol(library, "get_num_threads")
        if getter is not None:
            getter.argtypes = []
            getter.restype = ctypes.c_int
            return int(getter())
    return 0


def describe_environment() -> dict[str, Any]:
    """Describe the versions and numerics of this process as JSON values; imports numpy."""
    return {
        "jobrun": __version__,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "h5py": _version("h5py"),
        "blas": _blas_build(),
        "blas_kernel": _blas_kernel(),
        "blas_threads": blas_threads(),
        "processors": usable_cpus(),
        "cpu_features": _cpu_features(),
        "machine": platform.machine(),
        "byte_order": sys.byteorder,
        "system": platform.system(),
        "hash_seed": described_hash_seed(),
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
    for library in _openblas():
        getter = _symbol(library, "get_corename")
        if getter is not None:
            getter.argtypes = []
            getter.restype = ctypes.c_char_p
            return str((getter() or b"").decode("ascii", "replace"))
    return ""


def _cpu_features() -> list[str]:
    numpy = importlib.import_module("numpy")
    with contextlib.suppress(KeyError, TypeError):
        found = numpy.show_config(mode="dicts")["SIMD Extensions"]["found"]
        return sorted(str(name) for name in found)
    return []


def _openblas() -> list[ctypes.CDLL]:
    """Return the OpenBLAS libraries loaded in this process, on which numbers depend."""
    maps = read_proc("self", "maps")
    # A large process has thousands of maps: a plain search costs a tenth of a regular expression.
    lines = (line.partition(b"/") for line in maps.split(b"\n") if b"openblas" in line)
    found = {os.fsdecode(slash + path) for _, slash, path in lines if b".so" in path}
    paths = sorted(path for path in found if "openblas" in path)
    libraries = []
    for path in paths:
        with contextlib.suppress(OSError):
            libraries.append(ctypes.CDLL(path))
    return libraries


def _symbol(library: ctypes.CDLL, name: str) -> Any:
    for prefix in _PREFIXES:
        for suffix in _SUFFIXES:
            with contextlib.suppress(AttributeError):
                return getattr(library, f"{prefix}{name}{suffix}")
    return None
