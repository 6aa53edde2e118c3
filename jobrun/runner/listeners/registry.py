"""Find listeners by name: those that are shipped, and those of installed packages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jobrun.core.errors import EnvironmentFaultError, Fault
from jobrun.core.text.names import did_you_mean
from jobrun.runner.listeners.listener import RunListener

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "jobrun.listeners"
# As text: a listener's own imports are made only in its process. Its class, and its package.
SHIPPED: dict[str, tuple[str, str]] = {
    "tensorboard": (
        "jobrun.runner.listeners.tensorboard_listener:TensorBoardListener",
        "tensorboardX",
    ),
    "mlflow": ("jobrun.runner.listeners.mlflow:MlflowListener", "mlflow"),
    "wandb": ("jobrun.runner.listeners.wandb:WandbListener", "wandb"),
}


def check_listeners(names: Iterable[str]) -> tuple[Fault, ...]:
    """Collect a fault for each listener that is not registered or whose package is missing."""
    return tuple(_faults(dict.fromkeys(names)))


def _faults(names: Iterable[str]) -> Iterator[Fault]:
    for name in names:
        if name in SHIPPED:
            package = SHIPPED[name][1]
            if find_spec(package) is None:
                message = f"the listener '{name}' needs the package '{package}'"
                yield Fault("E224", message, f"install it: pip install 'jobrun[{name}]'")
        elif not _entry_points().select(name=name):
            known = {*SHIPPED, *_entry_points().names}
            yield Fault("E224", f"there is no listener '{name}'", did_you_mean(name, known))


def open_listener(name: str) -> RunListener:
    """Create the listener registered under a name, which may import large packages.

    Raises:
        EnvironmentFaultError: E224, it is not known, or cannot be imported.
    """
    faults = check_listeners([name])
    if faults:
        raise EnvironmentFaultError(*faults)
    try:
        if name in SHIPPED:
            module, _, attribute = SHIPPED[name][0].partition(":")
            shipped: RunListener = getattr(import_module(module), attribute)()
            return shipped
        (found, *_) = _entry_points().select(name=name)
        other: RunListener = found.load()()
    except (ImportError, AttributeError) as error:
        raise EnvironmentFaultError.of(
            "E224", f"the listener '{name}' cannot be imported: {error}", "mend its package"
        ) from error
    return other


def _entry_points() -> EntryPoints:
    # It imports e-mail, archives and sockets, for listeners that hardly anyone has.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)
