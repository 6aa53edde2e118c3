"""Slow: torch takes seconds to import. What is on a GPU cannot be tried where there is none."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.blob_kinds import describe
from jobrun.values.compare import same_bits
from jobrun.values.container_flattening import flatten, unflatten
from jobrun.values.copies import boundary_form, detach
from jobrun.values.kinds import tensor as tensors


def test_nothing_is_a_tensor_while_torch_is_not_there(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)

    assert not tensors.is_tensor(np.zeros(2))


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="CI installs it")


_TYPES = [
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool", "complex64", "complex128", "float8_e4m3fn",
    "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_every_type_keeps_its_bits(torch, name, shape):
    raw = torch.arange(1, 200, dtype=torch.uint8)
    width = torch.empty((), dtype=getattr(torch, name)).element_size()
    count = int(np.prod(shape))
    bits = raw[: count * width] % (2 if name == "bool" else 255)
    tensor = bits.view(getattr(torch, name)).reshape(shape)

    (array,) = tensors.to_arrays([tensor])
    again = tensors.from_array(array.copy(), {})

    assert again.dtype == tensor.dtype
    assert again.shape == tensor.shape
    if count:
        assert again.reshape(-1).view(torch.uint8).tolist() == bits.tolist()
    assert (array.dtype.isbuiltin == 2) == (name in tensors._FOREIGN)


@pytest.mark.long
def test_a_tensor_and_its_array_are_the_same_memory(torch):
    tensor = torch.zeros(4, dtype=torch.bfloat16)

    (array,) = tensors.to_arrays([tensor])
    tensor[1] = 3
    again = tensors.from_array(array, {})

    assert float(array[1]) == 3
    assert again.data_ptr() == tensor.data_ptr()


@pytest.mark.long
def test_two_looks_at_one_tensor_are_one_afterwards(torch):
    tied = torch.nn.Linear(2, 2)
    both = torch.nn.Sequential(tied, tied)

    parts = flatten(both.state_dict())
    again = unflatten(parts.structure, parts.leaves)

    assert len(parts.leaves) == 2
    assert again["0.weight"] is again["1.weight"]
    assert list(again) == list(both.state_dict())
    assert again._metadata == both.state_dict()._metadata


@pytest.mark.long
def test_parameters_and_who_learns_are_kept(torch):
    value = {"p": torch.nn.Parameter(torch.ones(2)), "t": torch.ones(2, requires_grad=True)}

    again = detach(value)

    assert type(again["p"]) is torch.nn.Parameter
    assert again["p"].requires_grad
    assert again["t"].requires_grad
    assert same_bits(again, value)
    assert again["t"].data_ptr() != value["t"].data_ptr()


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda torch: torch.ones(2, requires_grad=True) * 2, "detach()"),
        (lambda torch: torch.ones(2, 2).to_sparse(), "dense"),
        (lambda torch: torch.empty(2, device="meta"), "meta"),
        (lambda torch: torch.ones(2).to(torch.complex32), "complex32"),
    ],
)
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_what_has_no_array_is_refused_in_words(torch, make, part):
    with pytest.raises(UnsavableError, match=part.replace("(", r"\(").replace(")", r"\)")):
        flatten({"x": make(torch)})


@pytest.mark.long
def test_a_tensor_alone_is_a_blob_too(torch):
    tensor = torch.arange(6).reshape(2, 3).T

    settled = boundary_form(tensor, "x")

    assert describe(settled) == "int64 tensor of shape (3, 2)"
    assert settled.tolist() == tensor.tolist()
    assert settled.T.is_contiguous()
    assert settled.data_ptr() != tensor.data_ptr()


@pytest.mark.long
def test_a_device_that_is_not_here_is_reported(torch):
    with pytest.raises(ValueError, match="cuda:7"):
        tensors.from_array(np.zeros(2), {"device": "cuda:7"})
    assert tensors.from_array(np.zeros(2), {"device": "cuda:7"}, place=False).device.type == "cpu"


def test_nothing_of_jobrun_imports_torch_by_itself():
    package = Path(tensors.__file__).parent.parent
    importing = re.compile(r"^\s*(import|from) torch\b", re.MULTILINE)

    assert [path for path in package.rglob("*.py") if importing.search(path.read_text())] == []
