# ruff: noqa: NPY002 - it is the generator of all of numpy that is meant here
from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from jobrun.generators import seeded


@pytest.fixture(autouse=True)
def as_they_were():
    before = random.getstate(), np.random.get_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])


def drawn():
    return [random.random(), float(np.random.random()), random.gauss(0, 1), np.random.normal()]


def test_seeds_come_from_the_generator_that_is_given():
    seeded(np.random.default_rng(1))
    first = drawn()
    seeded(np.random.default_rng(1))

    assert drawn() == first


def test_the_state_continues_where_it_was_taken():
    generators = seeded(np.random.default_rng(1))
    drawn()
    state = generators.state_dict()
    first = drawn()

    generators.load_state_dict(state)

    assert drawn() == first


def test_without_torch_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(ModuleNotFoundError, match=r"pip install 'jobrun\[torch\]'"):
        seeded(np.random.default_rng(1), torch=True)


@pytest.mark.long
def test_those_of_torch_too():
    torch = pytest.importorskip("torch", reason="CI installs it")
    generators = seeded(np.random.default_rng(1), torch=True)
    state = generators.state_dict()
    first = torch.rand(3).tolist()

    generators.load_state_dict(state)

    assert torch.rand(3).tolist() == first
