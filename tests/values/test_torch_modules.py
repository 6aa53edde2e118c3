"""Modules of PyTorch as objects: modes and gradients are state beside parameters and buffers."""

from __future__ import annotations

import pytest

from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.container_flattening import flatten
from jobrun.values.copies import detach_state
from jobrun.values.object_state import ObjectState, put_state, take_state

# Importing PyTorch takes seconds, in each process that runs one of these.
pytestmark = pytest.mark.long


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="CI installs it")


def _network(torch):
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5), torch.nn.Linear(2, 1))


def _taken(module) -> ObjectState:
    state = take_state(module)
    return ObjectState(state.class_name, detach_state(state.tree))


def test_the_mode_of_each_part_is_state(torch):
    ours, other = _network(torch), _network(torch)
    ours[1].eval()

    put_state(other, _taken(ours))

    assert [module.training for module in other.modules()] == [True, True, False, True]


def test_gradients_are_state_and_of_others_there_are_none(torch):
    ours, other = _network(torch), _network(torch)
    ours[0](torch.ones(1, 3)).sum().backward()
    other[2](torch.ones(1, 2)).sum().backward()

    put_state(other, _taken(ours))

    assert torch.equal(other[0].weight.grad, ours[0].weight.grad)
    assert other[0].weight.grad is not ours[0].weight.grad
    assert other[2].weight.grad is None


def test_a_gradient_is_changed_in_place_where_there_is_one(torch):
    module = _network(torch)
    module[0](torch.ones(1, 3)).sum().backward()
    state, known = _taken(module), module[0].weight.grad
    known.zero_()

    put_state(module, state)

    assert module[0].weight.grad is known
    assert torch.equal(known, torch.ones(2, 3))


def test_a_state_without_modes_leaves_gradients_alone(torch):
    module = _network(torch)
    module[0](torch.ones(1, 3)).sum().backward()

    put_state(module, ObjectState("", dict(module.state_dict())))

    assert module[0].weight.grad is not None


def test_what_a_state_was_taken_from_is_not_changed_by_that(torch):
    module = _network(torch)
    module[0](torch.ones(1, 3)).sum().backward()

    take_state(module)

    assert list(module.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]


@pytest.mark.parametrize(("name", "words"), [("grad", ".grad"), ("mine", "attribute 'mine'")])
def test_a_tensor_with_more_than_its_numbers_is_refused_by_name(torch, name, words):
    tensor = torch.ones(2, requires_grad=True)
    setattr(tensor, name, torch.ones(2))

    with pytest.raises(UnsavableError, match=words):
        flatten({"w": tensor})
