"""What numbers depend on besides the spec: versions, BLAS, its threads, the processor.

Also the one place that sets the number of BLAS threads, which must happen before numpy is
first imported; so nothing here imports it at the top.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import platform
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

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
    """Let BLAS use ``count`` threads in this process and the ones it starts.

    The variables count when numpy is first imported; where it has been, OpenBLAS is asked
    directly.
    """
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(count)
    if "numpy" in sys.modules:
        for library in _openblas():
            setter = _symbol(library, "set_num_threads")
            if setter is not None:
                setter.argtypes = [ctypes.c_int]
                setter.restype = None
                setter(count)


def blas_threads() -> int:
    """How many threads BLAS uses now; 0 when it does not say."""
    importlib.import_module("numpy")
    for library in _openblas():
        getter = _symbol(library, "get_num_threads")
        if getter is not None:
            getter.argtypes = []
            getter.restype = ctypes.c_int
            return int(getter())
    return 0


def describe_environment() -> dict[str, Any]:
    """Versions and numerics of this process, as JSON values; imports numpy."""
    return {
        "jobrun": __version__,
        "python": platform.python_version(),
        "numpy": _version("numpy"),
        "h5py": _version("h5py"),
        "blas": _blas_build(),
        "blas_kernel": _blas_kernel(),
        "blas_threads": blas_threads(),
        "processors": len(os.sched_getaffinity(0)),
        "cpu_features": _cpu_features(),
        "machine": platform.machine(),
        "byte_order": sys.byteorder,
        "system": platform.system(),
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
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
    """The OpenBLAS libraries that are loaded in this process already."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    paths = sorted(set(re.findall(r"(/\S*openblas\S*\.so\S*)", maps)))
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
