"""Fixtures of the conformance cases. The table of their outcomes is made a folder above."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.conformance import SESSION, Stage, Trial


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[None]:
    """What the session needs that is shared by all cases."""
    if SESSION != "ray":
        yield
        return
    from tests.support import ray_cluster  # noqa: PLC0415 - only these need it

    with ray_cluster.shared():
        yield


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[[str], Stage]]:
    """Opens a session for a spec; closed at the end of the test."""
    opened: list[Stage] = []

    def open_stage(text: str) -> Stage:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        opened.append(Stage(folder, text))
        return opened[-1]

    yield open_stage
    for opened_stage in opened:
        opened_stage.session.close()


@pytest.fixture
def trial(tmp_path: Path) -> Callable[[str], Trial]:
    """Puts a spec where it can be run, each in a folder of its own."""

    def make_trial(text: str) -> Trial:
        folder = tmp_path / f"trial-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        return Trial(folder, text)

    return make_trial
