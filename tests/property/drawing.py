"""Programs drawn at random: functions that make, read, change, share and return values.

A program is a dict of JSON values: the text of its functions, and which blobs they are called
with. ``render`` makes files of it that plain Python (``plain_python``) and jobrun can run.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Program = dict[str, Any]
Step = dict[str, Any]
_HERE = Path(__file__).parent


class _Pick:
    """Choices of a generator of random numbers."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def choose(self, options: Sequence[Any]) -> Any:
        return self._source.choice(options)

    def upto(self, most: int, least: int = 0) -> int:
        return self._source.randint(least, most)

    def chance(self, percent: int) -> bool:
        return self._source.randrange(100) < percent


_NUMBERS = ("0", "1", "-7", "True", "0.5", "-0.0", "1e-310", "2.0", "'text'", "''", "None")
_ODD = (
    "2**63", "-2**63", "-(2**64)", "10**40 + 1", "10**5000", "float('nan')", "float('-inf')",
    "3 - 0.0j", "complex(-0.0, float('nan'))", "b''", "b'\\x00ab\\x00'", "'a\\x00b'", "'\\x00'",
    "'\\ud800'", "'\\u00fc\\u20ac\\U0001f600'", "'a' * 300", "np.float32(0.1)", "np.int8(-3)",
    "np.uint64(2**64 - 1)", "np.longdouble(1) / 3", "np.clongdouble(1) / 3", "np.bool_(True)",
    "np.float64(-0.0)", "np.datetime64('2020-01-01T03', 'h')", "np.timedelta64(5, 'ms')",
    "np.datetime64('NaT')", "np.str_('w')", "np.bytes_(b'w')", "np.complex64(1j)", "np.float16(3)",
    "array('plain', (2,))[1]", "array('record', (2,))[1]", "array('>f8', (2,))[1]",
    "np.void(b'ab')",
    "[]", "()", "{}", "[[]]", "((),)", "[1, 2]", "[1.0, 2]", "(1, 2.0)", "[True, 1]", "[0.0]",
    "[2**70, 1]", "['a', 'bc']", "[None]", "(None, None)", "[float('nan'), -0.0]",
)  # fmt: skip
# What is refused, or kept where somebody has taught jobrun how.
_STRANGE = (
    "Tagged([1])", "Color.RED", "Decimal('0.1')", "Fraction(1, 3)", "deque([1, 2], maxlen=4)",
    "np.rec.array([(1, 2.0)], dtype=[('a', 'i4'), ('b', 'f8')])",
    "np.ma.array([1, 2], mask=[0, 1])",
    "{1, 2}", "frozenset('ab')", "range(3)", "slice(1)", "len", "np.matrix([[1, 2]])", "object()",
    "np.array([1, None], object)", "bytearray(b'ab')", "np.dtype('f8')", "...", "Point",
    "np.zeros(2, [('x', object)])", "{(1, 2): 3}", "{1.5: 3}", "{None: 3}", "{True: 3}",
    "{b'k': 3}",
    "{np.int64(3): 1}", "{np.str_('k'): 1}",
)  # fmt: skip
_DTYPES = (
    "f8", "f8", "f8", "f4", "i8", "?", "i1", "u2", ">i4", "u8", "f2", ">f8", "g", ">g", "c8", "c16",
    ">c16", "G", "M8[D]", "m8[ns]", ">M8[s]", "M8[25s]", "U3", ">U2", "S4", "V5", "S0", "U0", "V0",
    "aligned", "gaps", "overlap", "titles", "nested", "plain", "record", "metadata", "member",
)  # fmt: skip
_OF_8_BYTES = ("i8", ">f8", "c8", "M8[D]", "m8[ns]", "U2", "S8", "V8", "metadata")
_SHAPES = ("(3, 4)", "(5,)", "(2, 3, 4)", "(7, 3)", "()", "(0,)", "(3, 0)", "(1, 4)", "(1,)",
           "(2, 1, 3)", "(2, 3, 2, 2)", "(40, 9)")  # fmt: skip
_ORDERS = ("C", "F", "turned", "swapped", "gaps", "backwards", "columns", "spread", "repeated",
           "unaligned", "fixed")  # fmt: skip
_OBJECTS = ("random.Random(5)", "np.random.default_rng(5)", "np.random.RandomState(5)",
            "np.random.Generator(np.random.MT19937(3))",
            "np.random.Generator(np.random.SFC64(3))")  # fmt: skip

_TENSORS = ("contiguous", "contiguous", "channels_last", "turned", "transposed", "gaps", "spread",
            "trained")  # fmt: skip
_TENSOR_DTYPES = ("float32", "float32", "float64", "int64", "bfloat16", "float16", "bool")
# Over arrays of one shape, which are float32 or float64.
_EXPRESSIONS = (
    "{x} += 1", "{x}[0] += 0.5", "{x}[1:] *= 0.75", "{x} = {y} * 0.5 + {x}", "{x} = {x}.T",
    "{x} = {y}", "{x} = {x}[::-1]", "{x} = {x} @ {y} / 9", "{x} = where({x} > 0, {x}, -{y})",
    "{x}[0] = {y}[1]", "{x}[:, 1] = sum({y}, axis=1) / 3", "{x} /= 1 + max(abs({x}))",
    "{x}[[0, 0]] += 1", "{x} = maximum({x}, {y}[0])", "{x} -= {x}[0]", "{x}[1:] = {x}[:-1]",
    "{x} = sqrt(abs({x} + {y}))", "{x} = sort({x}, axis=0)", "{x}[{x} > 1] = 0.25",
    "{x}[...] = {y}.T", "{x} *= {y}.T", "{x} = {x} - sum({y}) / 9", "{x}[2] += sum({x}, axis=0)",
    "{x} = {x} + epoch",
)  # fmt: skip


@dataclass
class _Body:
    """The text of one function, line by line.

    Attributes:
        writable: The parameters that may be changed.
        objects: The parameters that are objects, of which there are no copies.
        apart: The parameters that are returned, or put into something, as copies only.
        roots: By name, the values of which it may have a part: parameters, and numbers.
    """

    params: list[str]
    writable: list[str]
    objects: set[str] = field(default_factory=set)
    apart: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    roots: dict[str, set[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.roots |= {name: {name} for name in self.params}

    def add(self, expression: str, *inside: str) -> str:
        """A further name for an expression, which has parts of some others."""
        name = f"v{len(self.names)}"
        self.roots[name] = {len(self.names)}.union(*(self.roots[part] for part in inside))
        self.names.append(name)
        self.lines.append(f"{name} = {expression}")
        return name

    @property
    def known(self) -> list[str]:
        return [*self.names, *self.params]


class Drawing:
    """Draws programs.

    Args:
        source: Where choices come from.
        plain: Only what has to be accepted: values of the usual kinds, nothing that is shared
            between blobs, and no change that is not listed.
        rich: Also several tasks on several nodes, outputs, loops, expressions, and what depends on
            the hash of texts.
        tensors: Also tensors of PyTorch.
    """

    def __init__(
        self,
        source: random.Random,
        *,
        plain: bool = False,
        rich: bool = False,
        tensors: bool = False,
    ) -> None:
        self._pick = _Pick(source)
        self._plain = plain
        self._rich = rich
        self._tensors = tensors
        self._numeric: set[str] = set()
        self._functions: dict[str, Any] = {}
        self._objects: set[str] = set()

    def program(self) -> Program:
        """One program, as JSON values."""
        if self._rich:
            return self._rich_program()
        pick = self._pick
        values = [f"a{n}" for n in range(pick.upto(4, 1))]
        init = [{"task": "start", "steps": self._made(values)}]
        if pick.chance(35):
            self._objects = {f"o{n}" for n in range(pick.upto(3, 1))}
            step = self._init_step(sorted(self._objects), objects=True)
            init.append({"task": "objects", "rebuild": True, "steps": [step]})
        state = [*values, *sorted(self._objects)]
        steps = self._epoch(state)
        mixed, mixed_init, changes = self._mixed_set()
        init[0]["steps"] += mixed_init
        steps += changes
        state += mixed
        first, last = self._look("start", state), self._look("end", state)
        return {
            "functions": self._functions, "init": init, "epoch": [first, *steps, last],
            "exit": [self._look("exit", state)], "epochs": pick.upto(3, 2),
        }  # fmt: skip

    def _rich_program(self) -> Program:
        """One of several tasks, on one node or two."""
        pick = self._pick
        nodes = pick.choose((["a"], ["a", "b"]))
        init, state = [], {}
        for node in nodes:
            values = [f"{node}{n}" for n in range(pick.upto(3, 1))]
            numeric = [f"{node}x{n}" for n in range(pick.upto(2))]
            self._numeric.update(numeric)
            steps = [*self._made(values), *map(self._numeric_step, numeric)]
            init.append({"task": f"start_{node}", "node": node, "steps": steps})
            state[node] = [*values, *numeric]
        mixed, mixed_init, changes = self._mixed_set()
        init[0]["steps"] += mixed_init
        if pick.chance(25):
            self._objects = {f"o{n}" for n in range(pick.upto(2, 1))}
            objects_step = self._init_step(sorted(self._objects), objects=True)
            init.append({"task": "objects", "node": "a", "rebuild": True, "steps": [objects_step]})
            state["a"] += sorted(self._objects)
        tasks: list[dict[str, Any]] = []
        epoch: list[Step] = []
        outputs: list[str] = []
        for number in range(pick.upto(3, 1)):
            node = pick.choose(nodes)
            known = [*state[node]]
            steps = self._rich_steps(known, outputs, depth=0)
            name = f"work{number}"
            # What is not state may have been made in a branch, and what is no value is no output.
            task_outputs = [
                blob for blob in state[node] if blob not in self._objects and pick.chance(30)
            ]
            tasks.append({"task": name, "node": node, "outputs": task_outputs})
            outputs += [f"{name}.{output}" for output in task_outputs]
            epoch += [step | {"task": number} for step in steps]
        first = next((n for n, task in enumerate(tasks) if task["node"] == nodes[0]), None)
        epoch += [] if first is None else [step | {"task": first} for step in changes]
        state[nodes[0]] += mixed
        self._mark(tasks, epoch, state)
        last = [self._look(f"exit_{node}", state[node]) | {"node": node} for node in nodes]
        return {
            "functions": self._functions, "init": init, "epoch": epoch, "tasks": tasks,
            "nodes": nodes, "exit": last, "epochs": pick.upto(3, 2),
        }  # fmt: skip

    def _mark(self, tasks: list[Any], epoch: list[Step], state: dict[str, list[str]]) -> None:
        """Let the first and the last task look at their nodes, and some between at theirs."""
        for number, task in enumerate(tasks):
            places = {len(tasks) - 1: "end"}.get(number, f"after_{number}")
            look = self._look(places, state[task["node"]]) | {"task": number}
            at = max((n for n, step in enumerate(epoch) if step["task"] <= number), default=-1)
            epoch.insert(at + 1, look)
        epoch.insert(0, self._look("start", state[tasks[0]["node"]]) | {"task": 0})

    def _mixed_set(self) -> tuple[list[str], list[Step], list[Step]]:
        """A set of small blobs of mixed kinds, in any order: names, what makes it, what changes it.

        Many are of one size, some of which are gathered in a file. Some get another kind, length or
        shape from epoch to epoch.
        """
        pick = self._pick
        if not pick.chance(40):
            return [], [], []
        names = [f"m{pick.upto(9)}{n}" for n in range(pick.upto(pick.choose((4, 12, 60)), 1))]
        shape = pick.choose(("(2,)", "(2,)", "(4,)", "(8,)", "(2, 2)"))
        init_step = self._mixed_step(names, shape)
        again = [[name for name in names if pick.chance(25)] for _ in range(2)]
        branches = [[self._mixed_step(out, shape)] if out else [] for out in again]
        changed = [name for name in names if pick.chance(20)]
        body = _Body([f"p{n}" for n in range(len(changed))], [])
        body.lines += [f"change({param}, {pick.upto(40)})" for param in body.params]
        arguments = dict(zip(body.params, changed, strict=True))
        changes = [self._call(body, [], [], arguments, changed)] if changed else []
        if all(branches):
            changes.append({"if": "epoch % 2 == 0", "steps": branches[0], "else": branches[1]})
        return names, [init_step], changes

    def _mixed_step(self, names: list[str], shape: str) -> Step:
        returns = [self._mixed_value(shape) for _ in names]
        return self._call(_Body([], []), returns, names, {}, [])

    def _mixed_value(self, shape: str) -> str:
        """A value that no program refuses: often an array like others, of 8 bytes an item."""
        pick = self._pick
        if pick.chance(60):
            dtype = pick.choose(("f8", "f8", "i8") if self._plain else ("f8", "f8", *_OF_8_BYTES))
            return f"array({dtype!r}, {shape}, 'C', {pick.upto(9)})"
        if pick.chance(40):
            dtype = pick.choose(("f8", "f4", "i8", "?") if self._plain else _DTYPES)
            order = pick.choose(("C", "F", "turned"))
            return f"array({dtype!r}, {pick.choose(_SHAPES)}, {order!r}, {pick.upto(9)})"
        return str(pick.choose(_NUMBERS if self._plain or pick.chance(40) else _ODD))

    def _numeric_step(self, name: str) -> Step:
        dtype, order = (
            self._pick.choose(("f8", "f8", "f4")),
            self._pick.choose(("C", "F", "turned")),
        )
        returned = f"array({dtype!r}, (3, 3), {order!r}, {self._pick.upto(9)})"
        return self._call(_Body([], []), [returned], [name], {}, [])

    def _rich_steps(self, known: list[str], outputs: list[str], *, depth: int) -> list[Step]:
        """Steps of a task or of a block in it; in a block, they make nothing new."""
        pick = self._pick
        steps: list[Step] = []
        for _ in range(pick.upto(4 - depth, 1)):
            numeric = [blob for blob in known if blob in self._numeric]
            choice = pick.upto(99)
            if choice < 35 and numeric:
                text = pick.choose(_EXPRESSIONS).format(
                    x=pick.choose(numeric), y=pick.choose(numeric)
                )
                steps.append({"expr": text})
            elif choice < 55 and depth < 2:
                steps += self._block(known, outputs, depth)
            else:
                values = [blob for blob in known if blob not in self._objects | self._numeric]
                here = known if depth == 0 else [*known]
                step = self._step([*known, *outputs], values, fresh=depth == 0)
                steps.append(step)
                here += [blob for blob in step["out"] if blob not in here]
        return steps

    def _block(self, known: list[str], outputs: list[str], depth: int) -> list[Step]:
        pick = self._pick
        inner = self._rich_steps([*known], outputs, depth=depth + 1)
        choice = pick.upto(2)
        if choice == 0:
            return [{"loop": pick.upto(3), "steps": inner}]
        if choice == 1:
            other = self._rich_steps([*known], outputs, depth=depth + 1)
            tests = ("epoch % 2 == 0", "epoch == 1", "epoch > 1")
            return [{"if": pick.choose(tests), "steps": inner, "else": other}]
        name = f"k{depth}"
        inner.append({"expr": f"{name} = {name} + 1"})
        return [
            {"expr": f"{name} = 0"}, {"while": f"{name} < {pick.upto(3)}", "steps": inner},
        ]  # fmt: skip

    def _made(self, names: list[str]) -> list[Step]:
        cut = self._pick.upto(len(names))
        parts = [names[:cut], names[cut:]]
        return [self._init_step(part) for part in parts if part]

    def _init_step(self, out: list[str], *, objects: bool = False) -> Step:
        body = _Body([], [])
        returns = []
        for _ in range(self._pick.upto(2)):
            self._line(body)
        for _ in out:
            if objects:
                returns.append(self._object(body))
            else:
                returns.append(self._returned(body, returns))
        return self._call(body, returns, out, {}, [])

    def _object(self, body: _Body) -> str:
        pick = self._pick
        generators = [
            generator
            for generator in body.names
            if f"{generator} = np.random" in "\n".join(body.lines)
            or f"{generator} = random" in "\n".join(body.lines)
        ]
        choice = pick.upto(5)
        if choice <= 2:
            return body.add(pick.choose(_OBJECTS))
        if choice == 3 and generators and not self._plain:
            return body.add(f"Sampler({pick.choose(generators)})")
        if choice == 4 and body.names and not self._plain:
            return body.add(f"Holder({pick.choose(body.names)})")
        if choice == 5 and generators and not self._plain:
            return pick.choose(generators)
        return body.add(f"Holder({self._value()})")

    def _epoch(self, state: list[str]) -> list[Step]:
        known = list(state)
        steps = []
        for _ in range(self._pick.upto(4, 1)):
            values = [blob for blob in known if blob not in self._objects]
            if self._pick.chance(12):
                target = self._target(values, known)
                steps.append({"copy": [target, self._pick.choose(values)]})
                known += [] if target in known else [target]
                continue
            step = self._step(known, values)
            steps.append(step)
            known += [blob for blob in step["out"] if blob not in known]
        return steps

    def _target(self, values: list[str], known: list[str], *, may_be_fresh: bool = True) -> str:
        fresh = self._pick.chance(30) and may_be_fresh
        return f"s{len(known)}" if fresh else self._pick.choose(values)

    def _step(self, known: list[str], values: list[str], *, fresh: bool = True) -> Step:
        pick = self._pick
        passed = [blob for blob in known if pick.chance(55)] or [known[0]]
        inout = [blob for blob in passed if pick.chance(60) and "." not in blob]
        arguments = {f"p{n}": blob for n, blob in enumerate(passed)}
        if not self._plain and pick.chance(5):
            arguments[f"p{len(passed)}"] = passed[0]
        # Else an expression may change an array that some other blob shares, too.
        apart = self._plain or (self._rich and pick.chance(70))
        body = _Body(
            list(arguments),
            [p for p, blob in arguments.items() if blob in inout],
            {p for p, blob in arguments.items() if blob in self._objects},
            {p for p, blob in arguments.items() if blob in self._numeric and apart},
        )
        for _ in range(pick.upto(4, 1)):
            self._line(body)
        out: list[str] = []
        for _ in range(pick.choose([0, 1, 1, 2, 3])):
            target = self._target(values, [*known, *out], may_be_fresh=fresh)
            out += [] if target in out else [target]
        returns: list[str] = []
        for _ in out:
            returns.append(self._returned(body, returns))
        return self._call(body, returns, out, arguments, inout)

    def _returned(self, body: _Body, before: list[str]) -> str:
        """What is returned: mostly something of its own, else shared with something else."""
        pick = self._pick
        if not body.known or pick.chance(25):
            return body.add(self._value())
        name = pick.choose(body.known)
        if not self._plain and pick.chance(20) and not body.roots[name] & body.apart:
            return name
        taken = set(body.params).union(*(body.roots.get(value, ()) for value in before))
        if not body.roots[name] & taken:
            return name
        return f"sums({name})" if body.roots[name] & body.objects else f"clone({name})"

    def _line(self, body: _Body) -> None:
        pick = self._pick
        if not body.known:
            body.add(self._value())
            return
        action = pick.choose([
            "value", "value", "container", "container", "use", "sums", "change", "change",
            "change", "change", "put", "part", "view", "clone",
        ])  # fmt: skip
        name = pick.choose(body.known)
        at = pick.upto(40)
        mine = [*body.writable, *body.names]
        target = pick.choose(body.known if not self._plain and pick.chance(8) else mine or [name])
        if action in ("change", "put") and self._plain and target not in mine:
            return
        if action == "value":
            body.add(self._value())
        elif action == "container":
            inside = (name, pick.choose(body.known))
            body.add(self._container([self._held(body, part) for part in inside]), *inside)
        elif action == "change":
            body.lines.append(f"change({target}, {at})")
        elif action == "put":
            body.lines.append(f"put({target}, {self._held(body, name)}, {at})")
            body.roots[target] |= body.roots[name]
        elif action in ("use", "sums"):
            body.add(f"{action}({name})")
        elif action == "clone" or self._plain:
            body.add(f"clone({self._held(body, name)})")
        else:
            body.add(f"{action}({name}, {at})", name)

    def _held(self, body: _Body, name: str) -> str:
        """What of a name is put into something else: mostly a copy."""
        apart = body.roots[name] & body.apart
        if not self._plain and self._pick.chance(40) and not apart:
            return name
        return f"sums({name})" if body.roots[name] & body.objects else f"clone({name})"

    def _container(self, inside: list[str]) -> str:
        first, second = inside
        forms = [
            f"[{first}, {second}]", f"({first}, {second})", f"{{'x': {first}, 'y': {second}}}",
            f"{{1: {first}, 'k': {second}}}", f"Point({first}, {second})", f"Pair({first})",
            f"Cell({first}, {second})", f"Fixed({first})", f"[{first}]", f"({first},)",
            f"Slim({first})", f"OrderedDict(b={first}, a={second})", f"[{first}, [{second}, None]]",
            f"{{'1': {first}, 1: {second}}}",
        ]  # fmt: skip
        return str(self._pick.choose(forms))

    def _value(self, depth: int = 0) -> str:
        pick = self._pick
        choice = pick.upto(99)
        if self._tensors and pick.chance(20):
            return self._tensor()
        if self._rich and pick.chance(8):
            return f"words({pick.upto(60)})"
        if choice < 40:
            return self._array()
        if choice < 60 and depth < 3:
            return self._container([self._value(depth + 1), self._value(depth + 1)])
        if self._plain or choice < 80:
            return str(pick.choose(_NUMBERS))
        if choice < 97:
            return str(pick.choose(_ODD))
        return str(pick.choose(_STRANGE))

    def _tensor(self) -> str:
        pick = self._pick
        usual = self._plain or pick.chance(70)
        layout = pick.choose(
            [
                tensor_layout
                for tensor_layout in _TENSORS
                if not usual or tensor_layout not in ("gaps", "spread")
            ]
        )
        dtype = pick.choose(_TENSOR_DTYPES[:4] if usual else _TENSOR_DTYPES)
        return f"tensor({dtype!r}, {pick.choose(_SHAPES)}, {layout!r}, {pick.upto(9)})"

    def _array(self) -> str:
        pick = self._pick
        odd = not self._plain and pick.chance(50)
        dtype = pick.choose(_DTYPES if odd else ("f8", "f8", "f4", "i8"))
        shape = pick.choose(_SHAPES)
        usual = self._plain or not (odd or pick.chance(30))
        order = pick.choose(("C", "F", "turned") if usual else _ORDERS)
        return f"array({dtype!r}, {shape}, {order!r}, {pick.upto(9)})"

    def _call(
        self,
        body: _Body,
        returns: list[str],
        out: list[str],
        arguments: dict[str, str],
        inout: list[str],
    ) -> Step:
        name = f"f{len(self._functions)}"
        self._functions[name] = {"params": body.params, "lines": body.lines, "returns": returns}
        return {"call": name, "with": arguments, "inout": inout, "out": out}

    def _look(self, moment: str, names: list[str]) -> Step:
        name = f"look_{moment}"
        arguments = {f"p{n}": blob for n, blob in enumerate(names)}
        values = ", ".join(f"{blob!r}: {param}" for param, blob in arguments.items())
        line = f"look({moment!r}, epoch, run_dir, {{{values}}})"
        params = [*arguments, "epoch", "run_dir"]
        self._functions[name] = {"params": params, "lines": [line], "returns": []}
        return {"call": name, "with": arguments, "inout": [], "out": [], "looks": True}


def drawn(seed: int, *, plain: bool = False, rich: bool = False, tensors: bool = False) -> Program:
    """The program of a seed."""
    return Drawing(random.Random(seed), plain=plain, rich=rich, tensors=tensors).program()


def blocks_of(program: Program) -> list[list[Step]]:
    """The lists of steps of an epoch, outer ones first."""
    blocks = [program["epoch"]]
    for block in blocks:
        blocks += [step[key] for step in block for key in ("steps", "else") if key in step]
    return blocks


def steps_of(program: Program) -> list[Step]:
    """All steps of a program, those that hold others too."""
    blocks = [task["steps"] for task in program["init"]]
    return [step for block in (*blocks, *blocks_of(program), program["exit"]) for step in block]


def source_of(program: Program) -> str:
    """The module of a program's functions."""
    parts = ["from program_functions import *\n"]
    for name, function in program["functions"].items():
        returns = ", ".join(function["returns"])
        lines = [*function["lines"], f"return {returns}"]
        body = "".join(f"    {line}\n" for line in lines)
        parts.append(f"\n\ndef {name}({', '.join(function['params'])}):\n{body}")
    return "".join(parts)


def spec_of(program: Program) -> dict[str, Any]:
    """The job that does what the program does."""

    def written(step: Step) -> Any:
        if "copy" in step:
            return "{} = {}".format(*step["copy"])
        if "expr" in step:
            return step["expr"]
        if "if" in step:
            branches = {"if": step["if"], "then": steps(step["steps"])}
            return branches | {"else": steps(step["else"])}
        for key in ("loop", "while"):
            if key in step:
                return {key: step[key], "steps": steps(step["steps"])}
        call = {"call": f"steps:{step['call']}"}
        return call | {key: step[key] for key in ("with", "inout", "out") if step[key]}

    def steps(drawn: list[Step]) -> list[Any]:
        return [written(step) for step in drawn]

    nodes = program.get("nodes")
    tasks = program.get("tasks")
    epoch: list[Any] = [{"task": "work", "steps": steps(program["epoch"])}]
    last: list[Any] = [{"task": "last", "steps": steps(program["exit"])}]
    if tasks:
        epoch, last = [], []
        for number, task in enumerate(tasks):
            task_steps = [step for step in program["epoch"] if step["task"] == number]
            after = {"needs": [tasks[number - 1]["task"]]} if number else {}
            settings = {key: value for key, value in task.items() if value}
            epoch.append({**settings, **after, "steps": steps(task_steps)})
        for number, step in enumerate(program["exit"]):
            after = {"needs": [f"last{number - 1}"]} if number else {}
            last.append(
                {"task": f"last{number}", "node": step["node"], **after, "steps": steps([step])}
            )
    return {
        "jobrun": 1, "name": "drawn", "seed": 7,
        **({"nodes": {node: {} for node in nodes}} if nodes else {}),
        "init": [task | {"steps": steps(task["steps"])} for task in program["init"]],
        "epoch": epoch,
        "exit": last,
        "stop": [{"epochs": program["epochs"]}],
        "checkpoint": {"every": "1ep", "keep": {"last": 9}},
    }  # fmt: skip


def render(program: Program, folder: Path) -> None:
    """Write all that is needed to run a program, plainly and by jobrun."""
    for name in ("program_functions.py", "plain_python.py"):
        shutil.copyfile(_HERE / name, folder / name)
    (folder / "steps.py").write_text(source_of(program), errors="surrogatepass")
    (folder / "program.json").write_text(json.dumps(program))
    (folder / "job.yaml").write_text(json.dumps(spec_of(program), indent=1))
