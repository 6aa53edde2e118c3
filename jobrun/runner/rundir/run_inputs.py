"""Identify the runs of a job by their inputs: the values of its params, and its seed.

A value that was given (``--set``, ``--values``, the environment) makes another run of the job. A
default that was edited does not: it is a change of the spec, which a resume refuses by name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from msgspec import Struct

from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.run_json import Param, params_as_json

SEED = "seed"
_PARAMS = "params."
_VARIABLE = lazy_pattern(r"\$\{(?:raw:)?env:([^{},]*)")


class RunInputs(Struct, frozen=True):
    """The inputs by which ``run SPEC --resume`` distinguishes the runs of one job.

    Attributes:
        values: By field (``params.k``, ``seed``), as in ``run.json``; where a value comes from the
            environment, or is secret, with a digest of it.
        explicit: Fields whose values are not written in the spec.
        ignored: Fields that may change between two starts of one run (``drift: safe``).
    """

    values: Mapping[str, Param]
    explicit: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def equal(self, recorded: RunInputs) -> bool:
        """Return whether a recorded run has these values.

        A param that only one of the two has is a change of the spec.
        """
        return not self.find_differing(recorded)

    def match(self, recorded: RunInputs) -> bool:
        """Return whether a recorded run differs from these inputs at most in edited defaults."""
        return self.find_differing(recorded).isdisjoint(self.explicit | recorded.explicit)

    def find_differing(self, recorded: RunInputs) -> frozenset[str]:
        """Find the fields that have another value in a recorded run."""
        shared = (self.values.keys() & recorded.values.keys()) - self.ignored
        return frozenset(field for field in shared if self.values[field] != recorded.values[field])


def read_inputs(text: str) -> RunInputs:
    """Return the inputs of a recorded run, of the text that ``run_index.dump_inputs`` makes."""
    return _build(*json.loads(text))


def build_inputs(
    params: Mapping[str, Param],
    variables: Mapping[str, str],
    seed: int,
    explicit: Collection[str],
    ignored: Collection[str] = (),
) -> RunInputs:
    """Build the inputs of a run that is to be started.

    Args:
        params: As a run records them.
        variables: Digests of the environment variables and secrets that the spec uses.
        seed: Of the job.
        explicit: See ``RunInputs``.
        ignored: Names of params; see ``RunInputs``.
    """
    inputs = _build(params, variables, seed, explicit)
    return RunInputs(inputs.values, inputs.explicit, frozenset(_PARAMS + name for name in ignored))


def _build(
    params: Mapping[str, Param], variables: Mapping[str, str], seed: int, explicit: Collection[str]
) -> RunInputs:
    values: dict[str, Param] = {SEED: seed}
    foreign = set()
    # As JSON, because NaN equals itself only as text.
    for name, value in params_as_json(params).items():
        field = _PARAMS + name
        values[field], is_foreign = _identify(field, value, variables)
        foreign |= {field} if is_foreign else set()
    return RunInputs(values, frozenset(explicit) | foreign)


def _identify(field: str, value: Param, variables: Mapping[str, str]) -> tuple[Param, bool]:
    """Return the value of a param or its digest, and whether it is not in the spec."""
    if field in variables:
        return variables[field], True
    names = _VARIABLE.findall(value) if isinstance(value, str) else []
    if not names:
        return value, False
    digests = ", ".join(variables.get(name, "") for name in names)
    return f"{value} ({digests})", True
