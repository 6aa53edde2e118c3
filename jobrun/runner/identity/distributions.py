"""Find the installed distributions that a job's code belongs to and requires, with versions."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.identity.callable_sources import digest_file

INSTALLED = frozenset({"site-packages", "dist-packages"})
_REQUIREMENT = lazy_pattern(r"Requires-Dist:\s*([A-Za-z0-9][A-Za-z0-9._-]*)(.*)")


def is_installed(path: Path | None) -> bool:
    """Return whether a file belongs to an installed distribution, by its folder."""
    return path is not None and not INSTALLED.isdisjoint(path.parts)


def find_versions(files: Iterable[Path]) -> dict[str, str]:
    """Return versions of the distributions that own these files, and of those they require."""
    by_site: dict[Path, set[str]] = {}
    for file in files:
        at = max(number for number, part in enumerate(file.parts) if part in INSTALLED)
        by_site.setdefault(Path(*file.parts[: at + 1]), set()).add(
            Path(*file.parts[at + 1 :]).as_posix()
        )
    if not by_site:
        return {}
    found: dict[str, str] = {}
    known = _distributions(by_site)
    waiting: list[str] = []
    for site, names in by_site.items():
        owners, orphans = _owners(known, site, names)
        waiting += owners
        found |= {f"{site.name}/{name}": digest_file(site / name) for name in orphans}
    while waiting:
        name = waiting.pop()
        info = known.get(name)
        if info is not None and name not in found:
            found[name] = _version(info)
            waiting += _list_required(info)
    return found


def find_version(package: str) -> str:
    """Return the version of the first installed distribution on ``sys.path`` of that name, or ''.

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
    """Return the installed distributions that own given files, and the files without an owner."""
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


def _version(info: Path) -> str:
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
    """Yield names of distributions that an installed distribution requires, extras left out."""
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
