"""Describe the environment that numbers depend on: versions, BLAS, its threads, the CPU.

Installed distributions are found by their metadata: those that a job's code belongs to, and those
that these require. Nothing here imports numpy at the top.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobrun.core.files.digest import PREFIX, digest_bytes
from jobrun.core.hash_seed import described_hash_seed
from jobrun.core.system_calls import read_proc, usable_cpus
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.identity.blas_libraries import describe_blas
from jobrun.runtime.context.imported_code import INSTALLED
from jobrun.version import __version__

# Variables that decide how libraries round, in which order they add, and which dtypes they use.
# Settings made by callables are saved with each epoch, see ``runtime/context/library_settings.py``.
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
        # By its files first: checkpoints of numbers only do not import h5py.
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
    versions: dict[str, str] = {}
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
        if info is not None and name not in versions:
            versions[name] = _recorded_version(info)
            waiting += _list_required(info)
    return versions, unowned


def find_version(package: str) -> str:
    """Return the version of an installed package, the first found on ``sys.path``, or ''.

    From the name of its metadata directory: to import a package takes much longer.
    """
    for directory in sys.path:
        if INSTALLED.isdisjoint(Path(directory).parts):
            continue
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):  # noqa: PTH208 - hundreds of names
                if name.startswith(f"{package}-") and name.endswith(".dist-info"):
                    return name.removeprefix(f"{package}-").removesuffix(".dist-info")
    return ""


def _imported_version(package: str) -> str:
    # Not by importlib.metadata, whose import takes longer than numpy's.
    with contextlib.suppress(ImportError):
        return str(importlib.import_module(package).__version__)
    return ""


def _cpu_features() -> list[str]:
    numpy = importlib.import_module("numpy")
    with contextlib.suppress(KeyError, TypeError):
        features = numpy.show_config(mode="dicts")["SIMD Extensions"]["found"]
        return sorted(str(name) for name in features)
    return []


def _distributions(sites: Iterable[Path]) -> dict[str, Path]:
    """Find the metadata directory of each installed distribution by name, in path order."""
    directories = dict.fromkeys([*(Path(entry) for entry in sys.path if entry), *sites])
    known: dict[str, Path] = {}
    for directory in directories:
        if INSTALLED.isdisjoint(directory.parts) or not directory.is_dir():
            continue
        for info in sorted((*directory.glob("*.dist-info"), *directory.glob("*.egg-info"))):
            known.setdefault(_normal(info.name.partition("-")[0].removesuffix(".egg")), info)
    return known


def _owners(known: Mapping[str, Path], site: Path, names: set[str]) -> tuple[set[str], set[str]]:
    """Return the installed packages that own given files, and the files without an owner."""
    owners: set[str] = set()
    unowned = {name: f"\n{name},".encode() for name in names}
    tops = {_normal(name.partition("/")[0].partition(".")[0]) for name in names}
    # Likely owners first: most distributions have the name of their package.
    likely = sorted(known.items(), key=lambda item: item[0] not in tops)
    for name, info in likely:
        if not unowned:
            break
        if info.parent != site:
            continue
        try:
            listed = b"\n" + (info / "RECORD").read_bytes()
        except OSError:
            continue
        here = {file_name for file_name, line in unowned.items() if line in listed}
        if here:
            owners.add(name)
            unowned = {
                file_name: line for file_name, line in unowned.items() if file_name not in here
            }
    if unowned:
        # Packages without a RECORD file, as installed by some systems' package managers.
        from importlib.metadata import packages_distributions  # noqa: PLC0415 - seldom

        by_top = packages_distributions()
        for file_name in tuple(unowned):
            if tops_of := by_top.get(file_name.partition("/")[0].partition(".")[0]):
                owners.update(map(_normal, tops_of))
                del unowned[file_name]
    return owners, set(unowned)


def _recorded_version(info: Path) -> str:
    version = info.name.rpartition(".")[0].partition("-")[2].partition("-py")[0]
    if not version:
        from importlib.metadata import version as installed  # noqa: PLC0415 - seldom

        version = installed(info.name.removesuffix(".egg-info"))
    if (info / "direct_url.json").is_file():
        # Built from a folder or a repository: the same version may have different code.
        version += f" {_code_digest(info)}"
    return version


def _code_digest(info: Path) -> str:
    lines = sorted(
        line
        for line in (info / "RECORD").read_text().splitlines()
        if ",sha256=" in line and not line.startswith(("..", info.name))
    )
    return digest_bytes("\n".join(lines).encode())[: len(PREFIX) + 16]


def _list_required(info: Path) -> Iterator[str]:
    """Yield the names of the packages that an installed package requires, except for extras."""
    for name in ("METADATA", "PKG-INFO"):
        try:
            text = (info / name).read_text(errors="replace")
        except OSError:
            continue
        for line in text.partition("\n\n")[0].splitlines():
            match = _REQUIREMENT.match(line)
            if match and "extra" not in match[2].partition(";")[2]:
                yield _normal(match[1])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def list_gpus() -> list[str]:
    """List the NVIDIA GPU models of this environment, from ``/proc``; [] without the driver."""
    folder = "/proc/driver/nvidia/gpus"
    with contextlib.suppress(OSError):
        texts = [
            read_proc("driver/nvidia/gpus", gpu, "information").decode(errors="replace")
            for gpu in sorted(os.listdir(folder))  # noqa: PTH208
        ]
        models = (line for text in texts for line in text.splitlines() if line[:6] == "Model:")
        return [line.partition(":")[2].strip() for line in models]
    return []
