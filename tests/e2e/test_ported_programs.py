"""Programs of other libraries compute as jobs, killed or not, what they compute in plain Python.

Long: each is proved, and started many times. Of every library with an adapter there is one.
"""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.support.command import jobrun
from tests.support.ported import write_port

# The libraries that a program needs, and the global generators that it draws from.
PROGRAMS = {
    "shop": ((), ""),
    "importance": (("pandas", "scipy"), ""),
    "out_of_core": (("sklearn",), ""),
    "dictionary": (("sklearn",), ""),
    "boosted": (("xgboost", "lightgbm"), ""),
    "dropout": (("flax", "optax"), ""),
    "nnx_net": (("flax", "optax"), ""),
    "digits_net": (("torch",), "torch"),
    "line_fit": (("emcee",), ""),
    "rosenbrock": (("cma",), "numpy"),
    "onemax": (("deap",), "numpy"),
    "blackjack": (("gymnasium",), ""),
}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_ported_program_is_proved_against_the_original(name, tmp_path):
    libraries, draws = PROGRAMS[name]
    for library in libraries:
        pytest.importorskip(library, reason="CI installs it")
    program = import_module(f"tests.support.ported.{name}")
    objects = list(getattr(program, "OBJECTS", ()))
    write_port(
        tmp_path, name, objects=objects, state=hasattr(program, "init"), epochs=program.EPOCHS,
        draws=draws,
    )  # fmt: skip
    words = ("prove", "job.yaml", "--kills", "2", "--artifact", "result.npz")

    done = jobrun(
        *words, "--against", "python original.py", cwd=tmp_path, started=True, timeout_s=280
    )

    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "proven: 2 of 2 copies were killed" in output
    assert "it writes what the original program writes" in output
