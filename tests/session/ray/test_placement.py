from __future__ import annotations

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.types import Node
from jobrun.session.ray.placement import Machine, ResourceRequest, resource_request

SMALL = Machine("k1", frozenset({"small", "10.0.0.1"}), {"CPU": 2.0, "memory": 1e9})
LARGE = Machine("k2", frozenset({"large", "10.0.0.2"}), {"CPU": 8.0, "GPU": 2.0, "hostB": 1.0})


def asking(host="", **resources):
    return Node("n", host=host, resources=tuple(resources.items()))


def test_node_without_needs_does_not_wait():
    assert resource_request(asking(), [SMALL]) == ResourceRequest({})


def test_resources_have_the_names_of_the_cluster():
    request = resource_request(asking(cpu=1.0, gpus=0.5, hostB=1.0, memory=0.0), [SMALL, LARGE])

    assert request == ResourceRequest({"CPU": 1.0, "GPU": 0.5, "hostB": 1.0})


@pytest.mark.parametrize("host", ["large", "10.0.0.2"])
def test_a_host_is_a_machine(host):
    assert resource_request(asking(host), [SMALL, LARGE]) == ResourceRequest({}, "k2")


def test_a_host_may_be_a_resource_that_a_machine_was_given():
    (amount,) = resource_request(asking("hostB"), [SMALL, LARGE]).asks.values()

    assert 0 < amount < 0.01


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (asking("nowhere"), "host nowhere"),
        (asking(gpu=3.0), "gpu 3"),
        (asking("small", gpu=1.0), "gpu 1, host small"),
        (asking(gpu=1.5), "whole numbers"),
    ],
)
def test_resources_that_no_machine_has_are_refused(node, message):
    with pytest.raises(EnvironmentFaultError) as caught:
        resource_request(node, [SMALL, LARGE])

    assert caught.value.faults[0].code == "E398"
    assert message in caught.value.faults[0].message
