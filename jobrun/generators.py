"""Seed and save the global random generators of Python, numpy and PyTorch as one blob.

Code that draws from ``random``, ``np.random`` or ``torch`` without being handed a generator uses
one of the whole process. A task of init makes them part of the state::

    - task: generators
      rebuild: true
      steps:
        - {call: "jobrun.generators:seeded", with: {torch: true}, out: generators}

and every step that draws from them says so: ``with: {generators: generators}`` and
``inout: [generators]``. Not the ``rng`` of a step, which needs none of this.
"""

from __future__ import annotations

import random
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

_LARGEST_SEED = 1 << 62


class Generators:
    """The state of all generators of the process; there is one set, so one such object is enough.

    Several nodes in one process would share them: let them draw from generators of their own
    (``numpy.random.default_rng``, ``torch.Generator``), or run with ``--session processes``.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return what ``jobrun.generators`` saves: the states of Python, numpy and PyTorch."""
        state: dict[str, Any] = {
            "python": random.getstate(),
            "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - it is this state that is kept
        }
        torch = sys.modules.get("torch")
        if torch is not None:
            state["torch"] = torch.get_rng_state()
            if torch.cuda.is_available() and torch.cuda.is_initialized():
                state["cuda"] = list(torch.cuda.get_rng_state_all())
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``jobrun.generators`` saved: the states of Python, numpy and PyTorch.

        Raises:
            RuntimeError: There are other devices than those that were saved.
        """
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])  # noqa: NPY002 - it is this state that is kept
        if "torch" in state:
            import_module("torch").set_rng_state(state["torch"])
        if "cuda" in state:
            import_module("torch").cuda.set_rng_state_all(state["cuda"])


def seeded(rng: np.random.Generator, *, torch: bool = False) -> Generators:
    """Seed the random generators of Python, numpy and PyTorch.

    Args:
        rng: Where the seeds come from; a step has one, from the seed of the job.
        torch: Also those of PyTorch, which is imported for it if it was not yet.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    # Importing it draws from Python's generator, and both jobrun and scikit-learn import it late.
    import_module("rich.style")
    random.seed(int(rng.integers(_LARGEST_SEED)))
    np.random.seed(rng.integers(1 << 32, size=4, dtype=np.uint32))  # noqa: NPY002 - it is this state that is kept
    drawn = int(rng.integers(_LARGEST_SEED))
    module = _torch() if torch else sys.modules.get("torch")
    if module is not None:
        module.manual_seed(drawn)
    return Generators()


def _torch() -> ModuleType:
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        message = "PyTorch is not installed: pip install 'jobrun[torch]'"
        raise ModuleNotFoundError(message, name="torch") from error
