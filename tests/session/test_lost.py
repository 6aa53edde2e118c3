from __future__ import annotations

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.base import NodeLostError


def test_the_loss_of_a_node_is_a_fault_of_the_machine_that_names_it():
    error = NodeLostError.of_node("trainer_1", "was ended by SIGKILL")

    assert isinstance(error, EnvironmentFaultError)
    assert (error.node, error.exit_code) == ("trainer_1", 7)
    assert "node 'trainer_1' is lost: its process was ended by SIGKILL" in str(error)
