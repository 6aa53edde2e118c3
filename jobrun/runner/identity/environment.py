"""Describe the environment that numbers depend on: versions, BLAS, its threads, the CPU.

Installed distributions are found by their metadata: those that a job's code belongs to, and those
that these require. Nothing here imports numpy at the top.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobrun.core.hash_seed import described_hash_seed
from jobrun.core.system_calls import read_proc, usable_cpus
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.identity.blas_libraries import describe_blas
from jobrun.runtime.context.imported_code import INSTALLED
from jobrun.version import __version__

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

_REQUIREMENT = lazy_pattern(r"Requires-Dist:\s*([A-Za-z0-9][A-Za-z0-9._-]*)(.*)")


def describe_environment() -> dict[str, Any]:
    """Describe this process's environment (versions, BLAS, CPU, GPUs) as JSON values."""
    return {
        "jobrun": __version__,
        "python": platform.python_version(),
        "numpy": _imported_version("numpy"),
        # Of numbers alone, checkpoints are written without it.
        "h5py": find_version("h5py") or _imported_version("h5py"),
        **describe_blas(),
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


def find_versions(files: Iterable[Path]) -> tuple[dict[str, str], dict[str, Path]]:
    """Find the versions of installed packages that own given files, and of those they require.

    Returns:
        The versions, by name; and the files that no package owns, by their path in
        ``site-packages``.
    """
    by_site: dict[Path, set[str]] = {}
    for file in files:
        at = max(number for number, part in enumerate(file.parts) if part in INSTALLED)
        by_site.setdefault(Path(*file.parts[: at + 1]), set()).add(
            Path(*file.parts[at + 1 :]).as_posix()
        )
    if not by_site:
        return {}, {}
    found: dict[str, str] = {}
    unowned: dict[str, Path] = {}
    known = _distributions(by_site)
    waiting: list[str] = []
    for site, names in by_site.items():
        owners, orphans = _owners(known, site, names)
        waiting += owners
        unowned |= {f"{site.name}/{name}": site / name for name in orphans}
    while waiting:
        name = waiting.pop()
        info = known.get(name)
        if info is not None and name not in found:
            found[name] = _recorded_version(info)
            waiting += _list_required(info)
    return found, unowned


def find_version(package: str) -> str:
    """Return the version of an installed package, the first found on ``sys.path``, or ''.

    From the name of its metadata directory: to import a package takes much longer.
    """
    for place in sys.path:
        if INSTALLED.isdisjoint(Path(place).parts):
            continue
        with contextlib.suppress(OSError):
            for name in os.listdir(place):  # noqa: PTH208 - hundreds of names
                if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                    return name.removeprefix(f"{package}-").removesuffix(".dist-info")
    return ""


def _imported_version(package: str) -> str:
    # Not from the metadata of packages, whose readers take longer to import than numpy.
    with contextlib.suppress(ImportError):
        return str(importlib.import_module(package).__version__)
    return ""


def _cpu_features() -> list[str]:
    numpy = importlib.import_module("numpy")
    with contextlib.suppress(KeyError, TypeError):
        found = numpy.show_config(mode="dicts")["SIMD Extensions"]["found"]
        return sorted(str(name) for name in found)
    return []


def _distributions(sites: Iterable[Path]) -> dict[str, Path]:
    """Find the metadata directory of each installed distribution by name, in path order."""
    places = dict.fromkeys([*(Path(one) for one in sys.path if one), *sites])
    known: dict[str, Path] = {}
    for place in places:
        if INSTALLED.isdisjoint(place.parts) or not place.is_dir():
            continue
        for info in sorted((*place.glob("*.dist-info"), *place.glob("*.egg-info"))):
            known.setdefault(_normal(info.name.partition("-")[0].removesuffix(".egg")), info)
    return known


def _owners(known: Mapping[str, Path], site: Path, names: set[str]) -> tuple[set[str], set[str]]:
    """Return the installed packages that own given files, and the files without an owner."""
    owners: set[str] = set()
    left = {name: f"\n{name},".encode() for name in names}
    tops = {_normal(name.partition("/")[0].partition(".")[0]) for name in names}
    # Most distributions have the name of their package.
    likely = sorted(known.items(), key=lambda item: item[0] not in tops)
    for name, info in likely:
        if not left:
            break
        if info.parent != site:
            continue
        try:
            listed = b"\n" + (info / "RECORD").read_bytes()
        except OSError:
            continue
        here = {one for one, line in left.items() if line in listed}
        if here:
            owners.add(name)
            left = {one: line for one, line in left.items() if one not in here}
    if left:
        # Installed without a list of files, as by some systems' package managers.
        from importlib.metadata import packages_distributions  # noqa: PLC0415 - seldom

        by_top = packages_distributions()
        for one in tuple(left):
            if tops_of := by_top.get(one.partition("/")[0].partition(".")[0]):
                owners.update(map(_normal, tops_of))
                del left[one]
    return owners, set(left)


def _recorded_version(info: Path) -> str:
    version = info.name.rpartition(".")[0].partition("-")[2].partition("-py")[0]
    if not version:
        from importlib.metadata import version as installed  # noqa: PLC0415 - seldom

        version = installed(info.name.removesuffix(".egg-info"))
    if (info / "direct_url.json").is_file():
        # Built from a folder or a repository: the same version may be other code.
        version += f" {_code_digest(info)}"
    return version


def _code_digest(info: Path) -> str:
    lines = sorted(
        line
        for line in (info / "RECORD").read_text().splitlines()
        if ",sha256=" in line and not line.startswith(("..", info.name))
    )
    return f"sha256:{hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"


def _list_required(info: Path) -> Iterator[str]:
    """Yield the names of the packages that an installed package requires, except for extras."""
    for name in ("METADATA", "PKG-INFO"):
        try:
            text = (info / name).read_text(errors="replace")
        except OSError:
            continue
        for line in text.partition("\n\n")[0].splitlines():
            found = _REQUIREMENT.match(line)
            if found and "extra" not in found[2].partition(";")[2]:
                yield _normal(found[1])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def list_gpus() -> list[str]:
    """List the NVIDIA GPU models of this environment, from ``/proc``; [] without the driver."""
    folder = "/proc/driver/nvidia/gpus"
    with contextlib.suppress(OSError):
        texts = [
            read_proc("driver/nvidia/gpus", one, "information").decode(errors="replace")
            for one in sorted(os.listdir(folder))  # noqa: PTH208
        ]
        models = (line for text in texts for line in text.splitlines() if line[:6] == "Model:")
        return [line.partition(":")[2].strip() for line in models]
    return []
