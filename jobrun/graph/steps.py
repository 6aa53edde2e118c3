"""Define the steps of tasks, and the operators of nets: one small frozen class per kind.

Every step carries its ``path`` (``epoch/lloyd/steps[2]``: the place named in errors, log
lines and timings, and the key of nothing that is stored) and its ``origin`` (file, line,
column; never compared). Blocks that ``stop`` can leave are named by their path.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

from jobrun.core.errors import Origin
from jobrun.core.partly_compared import PartlyCompared
from jobrun.core.text.units import size
from jobrun.graph.checkpoint_policy import Rules
from jobrun.graph.effects import NOWHERE, DeclaredEffect, Effect
from jobrun.graph.expression_text import render_expr, render_text
from jobrun.graph.expressions import Expr, Name, Text

# Begins the name of each blob that holds the ``state_dir`` of a program.
STATE_DIRS = "state_dirs/"


class NameTarget(Struct, frozen=True):
    """``name = …``."""

    name: str


class ItemTarget(Struct, frozen=True):
    """``name[index] = …``: changes the array where it lives."""

    name: str
    index: Expr


Target = NameTarget | ItemTarget


class Assign(PartlyCompared, frozen=True):
    """``targets = value``; several targets unpack a sequence of that length."""

    targets: tuple[Target, ...]
    value: Expr
    path: str = ""
    origin: Origin = NOWHERE


class Augment(PartlyCompared, frozen=True):
    """``target op= value``; ``operator`` is written without the equals sign."""

    target: Target
    operator: str
    value: Expr
    path: str = ""
    origin: Origin = NOWHERE


class Perform(PartlyCompared, frozen=True):
    """A call for its side effect alone, such as ``count_up(c)`` or ``add_at(U, i, v)``."""

    value: Expr
    path: str = ""
    origin: Origin = NOWHERE


class Delete(PartlyCompared, frozen=True):
    """``del names``."""

    names: tuple[str, ...]
    path: str = ""
    origin: Origin = NOWHERE


Op = Assign | Augment | Perform | Delete


class Net(PartlyCompared, frozen=True):
    """Operators that run one after the other; the unit that is compiled to one function."""

    ops: tuple[Op, ...]
    path: str = ""
    origin: Origin = NOWHERE


class UseNet(PartlyCompared, frozen=True):
    """A named net used here: its steps, inlined, under their own paths."""

    net: str
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = NOWHERE


# Arguments that a callable gets if its signature names them and its step does not pass them.
CALL_EXTRAS = frozenset({"rng", "epoch", "node", "instance", "run_dir"})


class CallPython(Effect, frozen=True):
    """A Python callable ``module:function``.

    Attributes:
        arguments: Keyword arguments; arrays are passed read-only unless the
            argument's name is in ``writable``.
        writable: Names of arguments that the callable may change in place; each is a
            bare blob in ``arguments``.
        outputs: Blobs that receive the result: none, one, or as many as are returned.
        folder: Where the module is searched for first: the spec's own folder.
    """

    target: str
    arguments: tuple[tuple[str, Expr], ...] = ()
    writable: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    folder: str = ""
    deterministic: bool = True
    path: str = ""
    origin: Origin = NOWHERE

    def expressions(self) -> tuple[Expr, ...]:
        return tuple(value for _, value in self.arguments)

    def binds(self) -> tuple[str, ...]:
        return self.outputs

    def lends(self) -> tuple[str, ...]:
        passed = {name: value.name for name, value in self.arguments if isinstance(value, Name)}
        return tuple(passed[name] for name in self.writable if name in passed)

    def line(self) -> str:
        arguments = ", ".join(
            f"{name}={render_expr(value)}{' (inout)' if name in self.writable else ''}"
            for name, value in self.arguments
        )
        return f"{_results(self.outputs)}call {self.target}({arguments})"


class RunProgram(Effect, frozen=True):
    """A shell command: an argument list, or one line for bash.

    Attributes:
        command: One text per argument; with ``shell`` exactly one, the line.
        env: Environment variables passed in addition to PATH, HOME, LANG, TZ, TMPDIR.
        values: ``with``: passed as ``JOBRUN_<NAME>``.
        results: ``out``: blob, path, member.
        folder: The working directory: the spec's own folder.
        state_dir: The name of the program's state directory, which is state of the node; empty for
            none.
        state_dir_most_bytes: How much that may hold; 0 for no limit.
    """

    command: tuple[Text, ...]
    shell: bool = False
    env: tuple[str, ...] = ()
    values: tuple[tuple[str, Expr], ...] = ()
    results: tuple[tuple[str, Text, str], ...] = ()
    folder: str = ""
    deterministic: bool = True
    path: str = ""
    origin: Origin = NOWHERE
    state_dir: str = ""
    state_dir_most_bytes: int = 0

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the blob that keeps the ``state_dir`` of this ``run`` step; () without one."""
        return (f"{STATE_DIRS}{self.state_dir}",) if self.state_dir else ()

    def expressions(self) -> tuple[Expr, ...]:
        return tuple(value for _, value in self.values)

    def reads(self) -> tuple[str, ...]:
        return self.folders

    def binds(self) -> tuple[str, ...]:
        return (*(blob for blob, _, _ in self.results), *self.folders)

    def line(self) -> str:
        words = " ".join(render_text(text) for text in self.command).strip().split("\n")
        first = words[0] + (" …" if len(words) > 1 else "")
        limit = f", at most {size(self.state_dir_most_bytes)}" if self.state_dir_most_bytes else ""
        state = f" (state_dir {self.state_dir}{limit})" if self.state_dir else ""
        return f"{_results(tuple(blob for blob, _, _ in self.results))}run {first}{state}"


class Loop(PartlyCompared, frozen=True):
    """Repeat ``steps``; ``count`` is evaluated again in each iteration, None: until stopped."""

    count: Expr | None
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = NOWHERE


class While(PartlyCompared, frozen=True):
    """Repeat ``steps`` while ``condition`` (a bool) holds, evaluated before each iteration."""

    condition: Expr
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = NOWHERE


class If(PartlyCompared, frozen=True):
    """Run the first branch whose condition holds; conditions are evaluated lazily.

    Attributes:
        elifs: Where the conditions of all branches but the first are in the spec.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("elifs", "origin")

    branches: tuple[tuple[Expr, tuple[Step, ...]], ...]
    otherwise: tuple[Step, ...] = ()
    path: str = ""
    origin: Origin = NOWHERE
    elifs: tuple[Origin, ...] = ()

    def origin_of(self, branch: int) -> Origin:
        """Return where the condition of a branch of an ``if`` step is in the spec."""
        return self.elifs[branch - 1] if 0 < branch <= len(self.elifs) else self.origin


class Stop(PartlyCompared, frozen=True):
    """Leave the block whose path is ``target``, if ``condition`` (None: always) holds."""

    condition: Expr | None
    target: str
    path: str = ""
    origin: Origin = NOWHERE


class Guard(PartlyCompared, frozen=True):
    """A block; afterwards the bool blob ``flag`` says whether a stop left it."""

    flag: str
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = NOWHERE


class Parallel(PartlyCompared, frozen=True):
    """Branches that run at the same time; the path of branch ``i`` is ``path[i]``."""

    branches: tuple[tuple[Step, ...], ...]
    path: str = ""
    origin: Origin = NOWHERE


class DataFile(Struct, frozen=True):
    """A blob, and the file (and member) that it is read from or written to.

    ``path`` is relative to ``folder`` unless absolute.
    """

    blob: str
    path: Text
    member: str = ""
    folder: str = ""

    def location_text(self) -> str:
        """Return the file of a ``load`` or ``save`` step as text: ``path::member``."""
        member = f"::{self.member}" if self.member else ""
        return f"{render_text(self.path)}{member}"


class Pull(Effect, frozen=True):
    """Copy blobs of other nodes' global workspaces and bind their combination."""

    blobs: tuple[PulledBlob, ...]
    path: str = ""
    origin: Origin = NOWHERE

    def binds(self) -> tuple[str, ...]:
        return tuple(pulled.blob for pulled in self.blobs)

    def line(self) -> str:
        return f"pull {', '.join(pulled.line() for pulled in self.blobs)}"


class Load(Effect, frozen=True):
    """Read data files into blobs."""

    files: tuple[DataFile, ...]
    path: str = ""
    origin: Origin = NOWHERE

    def binds(self) -> tuple[str, ...]:
        return tuple(file.blob for file in self.files)

    def line(self) -> str:
        return f"load {', '.join(f'{file.blob} <- {file.location_text()}' for file in self.files)}"


class Save(Effect, frozen=True):
    """Write blobs to data files, each of which appears whole or not at all."""

    files: tuple[DataFile, ...]
    path: str = ""
    origin: Origin = NOWHERE

    def reads(self) -> tuple[str, ...]:
        return tuple(file.blob for file in self.files)

    def line(self) -> str:
        return f"save {', '.join(f'{file.blob} -> {file.location_text()}' for file in self.files)}"


class SaveState(Effect, frozen=True):
    """Begin to save the node's state blobs ``names``, which will become the file ``file``.

    The runner's checkpoint plan uses it. The task's output ``ticket`` identifies the snapshot (see
    ``checkpoint.plan.Ticket``), which is written later, while other groups may run.

    Attributes:
        compression: Patterns of blob names and codecs; see ``core.compression``.
        origins: Blob → place of the step that first makes it, for some blobs.
        objects: Blobs whose state is saved too if they hold an object.
    """

    file: str
    names: tuple[str, ...]
    run_id: str
    path: str = ""
    origin: Origin = NOWHERE
    compression: Rules = ()
    origins: tuple[tuple[str, str], ...] = ()
    objects: tuple[str, ...] = ()

    def line(self) -> str:
        return f"save state {', '.join(self.names)} -> {self.file}"


class Rows(Struct, frozen=True):
    """A part of a blob in a file: rows from ``first`` to before ``stop``; None: the whole value."""

    name: str
    first: int | None = None
    stop: int | None = None


class FilePart(Struct, frozen=True):
    """The blobs of a checkpoint file, perhaps of another node, that become a node's state.

    Attributes:
        file: The path of the file.
        node: The node whose state it holds.
        digest: The digest in the manifest; it is verified before anything is read.
    """

    file: str
    node: str
    digest: str
    blobs: tuple[Rows, ...]


class LoadState(Effect, frozen=True):
    """Read the node's state blobs ``names`` from the checkpoint file ``file``, all or none.

    The task's output ``file`` describes the file, ``names`` lists what was read.

    Attributes:
        digest: The digest in the manifest; it is verified before anything is read.
        partial: Skip names that do not exist, and put the others into the group run's
            workspace, from which ``AdoptState`` takes them.
        objects: Blobs whose stored state is loaded if they hold an object.
        parts: What else is read, from any files; ``file`` is empty if that is all.
        callables: Targets of the job, each with its folder; they are imported if a value has a
            class that is not loaded yet, or there are ``settings``.
        settings: Those of libraries, by name, that callables had made.
    """

    file: str
    names: tuple[str, ...]
    epoch: int
    run_id: str
    digest: str
    path: str = ""
    origin: Origin = NOWHERE
    partial: bool = False
    objects: tuple[str, ...] = ()
    parts: tuple[FilePart, ...] = ()
    callables: tuple[tuple[str, str], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()

    def line(self) -> str:
        return f"load state {', '.join(self.names)} <- {self.file}"


class AdoptState(Effect, frozen=True):
    """Move blobs of the group run's workspace to the node's; names that it lacks are skipped."""

    names: tuple[str, ...]
    path: str = ""
    origin: Origin = NOWHERE

    def line(self) -> str:
        return f"adopt state {', '.join(self.names)}"


class CopyState(Effect, frozen=True):
    """Copy a node's checkpoint file durably into the directory ``staged``; skip an existing copy.

    The plan of an upload uses this and ``PublishCopy``. The output ``file`` describes the copy.

    Attributes:
        file: The file of a committed epoch.
        node: The node whose state it holds; like the next two, from the manifest.
        size_bytes: The length of the file.
        digest: The digest of the whole file.
    """

    file: str
    staged: str
    node: str
    size_bytes: int
    digest: str
    path: str = ""
    origin: Origin = NOWHERE

    def line(self) -> str:
        return f"copy {self.file} -> {self.staged}"


class PublishCopy(Effect, frozen=True):
    """Make the copy of an epoch appear at ``target`` atomically; never replace a different one.

    Attributes:
        directory: The directory of the committed epoch.
        staged: The directory to which all its files have been copied.
    """

    directory: str
    staged: str
    target: str
    path: str = ""
    origin: Origin = NOWHERE

    def line(self) -> str:
        return f"publish {self.staged} -> {self.target}"


Step = (
    Net
    | UseNet
    | CallPython
    | RunProgram
    | Loop
    | While
    | If
    | Stop
    | Guard
    | Parallel
    | Pull
    | Load
    | Save
    | DeclaredEffect
    | SaveState
    | LoadState
    | AdoptState
    | CopyState
    | PublishCopy
)

Reduction = Literal["mean", "sum", "stack", "concat", "first"]


class PulledBlob(Struct, frozen=True):
    """One blob combined from blobs of nodes' global workspaces.

    Attributes:
        blob: The name that is bound here.
        nodes: The nodes that have it, in the order in which the values are combined.
        name: Its name on those nodes.
    """

    blob: str
    nodes: tuple[str, ...]
    name: str
    reduce: Reduction = "first"

    def line(self) -> str:
        """Render one blob of a ``pull`` step as text: ``w <- sum of w on a … c``."""
        first, last = self.nodes[0], self.nodes[-1]
        nodes = first if len(self.nodes) == 1 else f"{first} … {last}"
        return f"{self.blob} <- {self.reduce} of {self.name} on {nodes}"


def _results(names: tuple[str, ...]) -> str:
    return f"{', '.join(names)} = " if names else ""
