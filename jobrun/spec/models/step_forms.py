"""Define a step of a spec: a statement, or a mapping whose form is decided by one of its keys."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import TYPE_CHECKING, Annotated, Any, Union

from pydantic import Discriminator, Tag, WithJsonSchema
from pydantic.types import StringConstraints
from typing_extensions import TypeAliasType

from jobrun.graph.effects import DECLARED
from jobrun.spec.models.base_types import Deferred, Model

# The module and the name of the model of each form, by the key that identifies it. In the order
# of search: 'stop_if' may be used with 'stop'.
MODELS = {
    "op": ("steps", "OpStep"),
    "call": ("steps", "CallStep"),
    "run": ("steps", "RunStep"),
    "net": ("steps", "NetStep"),
    "loop": ("control_flow", "LoopStep"),
    "while": ("control_flow", "WhileStep"),
    "if": ("control_flow", "IfStep"),
    "stop_if": ("control_flow", "StopIfStep"),
    "stop": ("control_flow", "StopStep"),
    "guard": ("control_flow", "GuardStep"),
    "parallel": ("control_flow", "ParallelStep"),
    "pull": ("steps", "PullStep"),
    "load": ("steps", "LoadStep"),
    "save": ("steps", "SaveStep"),
    **{key: ("steps", f"{kind.__name__}Step") for key, kind in DECLARED.items()},
}
FORMS = tuple(MODELS)


def step_form(value: Any) -> str | None:
    """Return a step's form: its defining key, such as ``call``, or ``text`` for a plain string."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return next((key for key in FORMS if key in value), None)
    if isinstance(value, Model):
        keys = {field.alias or name for name, field in type(value).model_fields.items()}
        return next((key for key in FORMS if key in keys), None)
    return None


Statement = Annotated[
    str,
    StringConstraints(strict=True, min_length=1),
    WithJsonSchema({"type": "string", "description": "a statement, such as 'w -= lr * g'"}),
]

# Type checkers see the definitions in steps.
if not TYPE_CHECKING:
    # pydantic builds an alias once, but a bare type for each key that has steps.
    Step = TypeAliasType(
        "Step",
        Annotated[
            Union[
                (
                    Annotated[Statement, Tag("text")],
                    *(
                        Annotated[Deferred(module, name), Tag(key)]
                        for key, (module, name) in MODELS.items()
                    ),
                )
            ],
            Discriminator(step_form),
        ],
    )
    Steps = tuple[Step, ...]
