"""What ``jobrun explain`` says of the language itself, made from the tables that decide it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

from jobrun.cli.keys import key_tables
from jobrun.compile import limits, scalar
from jobrun.core.names import did_you_mean
from jobrun.graph.expr import ATTRIBUTES, BUILTINS, DTYPES
from jobrun.ops.table import DRAWS, OPERATORS
from jobrun.tools.manual.keys import words

_EXPRESSIONS = """\
Expressions: a subset of Python over blobs

A string where a value is wanted is an expression; text inside one is quoted again. It is read
before anything runs, and each fault has its file, line and column. What is not named here cannot
be written: there is no import, lambda, comprehension, f-string, method, 'in', 'is' or ':='.

Statements   x = e · a, b = e · U[i] = e · x += e, and so with every operator · U[i] += e
             del a, b · a call for its effect alone, such as count_up(c)
Operators    + - * / // % ** @   & | ^ ~ << >>   < <= > >= == != (chains too)   and or not
             e if condition else e
Values       1  2.5  1e-3  2j  'text'  True False None   (1, 2)  [1, 2]
Indices      x[0]  x[1:3]  x[::2]  x[..., 0]  x[:, None]  x[mask]  x[[0, 2]]  x[i, j]
Calls        f(x, axis=0) of the {functions} functions that 'jobrun ops' lists
Draws        rng.normal(size=3), of the {draws} that 'jobrun ops' lists behind the functions
Attributes   {attributes}; no others
Words        {words}
             iter (pass number of the innermost loop), rng; task.output; node.blob in conditions
Dtypes       {dtypes}

Bounds
  {characters} characters and {parts} parts in one expression, {depth} levels deep
  {items} items in a list, {text_kib} KiB of text; a list is repeated to at most as many items
  whole numbers of 64 bits, also where constants are computed: 2 ** 65 and 1 << 65 are refused
  text is joined with + and compared; not multiplied, and not filled in with %
  at run time a power or shift of Python ints has at most a million bits

What is known of dtypes and shapes before the run is followed through every statement; what cannot
be computed is an error with its place (E290, E291, E292), in validate, plan and run alike.
"""
_OPERATORS = """\
Operators: one definition each, for expressions and for {op: …} alike

  x = add(a, b)   is   {op: add, in: [a, b], out: x}

'jobrun ops' lists them, 'jobrun ops NAME' shows one with what its parameters take, an example,
and whether it is atomic. Of numpy's functions those that run code, reach files or memory, or write
into their arguments are left out: 'jobrun ops --left-out' gives the reason for each.

A package adds operators by entry points of the group jobrun.operators, each naming an OpDef; its
tests subclass jobrun.tools.contract.OperatorContract.

Everyday operators of Caffe2, and what is written here

"""
ANCESTORS: tuple[tuple[str, str, str], ...] = (
    ("Const, Fill, ConstantFill, GivenTensorFill", "full((2, 3), 0.5), array([1, 2])", "full"),
    ("XavierFill, GaussianFill, UniformFill", "rng.normal(0.0, s, (n, m))", "rng"),
    ("Add, Sub, Mul, Div, Negative", "a + b, a - b, a * b, a / b, -a", "add subtract multiply"),
    ("Sqr, Sqrt, Exp, Log, Tanh, Sigmoid, Relu", "square(x), sqrt(x), …", "square sqrt sigmoid"),
    ("EQ, NE, LT, LE, GT, GE", "a == b, a != b, a < b, …", "equal less greater_equal"),
    ("And, Or, Xor, Not", "a & b, a | b, a ^ b, ~a", "logical_and logical_or logical_not"),
    ("MatMul, FC", "x @ w, x @ w.T + b", "matmul"),
    ("Sum, ReduceSum, ReduceMean, Max, ArgMax", "a + b + c, sum(x, axis=0), …", "sum mean argmax"),
    ("Softmax, LogSoftmax", "softmax(x, axis=-1)", "softmax log_softmax"),
    ("Reshape, Transpose, Concat, Split, Tile", "reshape(x, (2, -1)), x.T, …", "concatenate split"),
    ("Cast", "astype(x, float32)", "astype"),
    ("Where, Conditional", "where(c, x, y)", "where select"),
    ("Gather, Slice", "x[i], x[1:3]", "take"),
    ("ScatterAssign, ScatterWeightedSum", "U[i] = v, add_at(U, i, v)", "index_set index_add"),
    ("SortedSegmentSum, UnsortedSegmentSum", "segment_sum(x, label, n)", "segment_sum bincount"),
    ("TopK, Unique", "argpartition(x, k), unique(x)", "argpartition unique"),
    ("Counter, CreateCounter, ResetCounter", "c = counter(3), count_reset(c)", "counter"),
    ("CountUp, CountDown, RetrieveCount", "count_up(c), count_down(c), …", "count_up count_value"),
    ("AtomicFetchAdd", "atomic_add(c, 5)", "atomic_add"),
    ("Copy, EnsureCPUOutput, Alias", "b = a: a blob is a value", "copy"),
    ("Python, PythonGradient", "{call: 'module:function', with: {…}, out: …}", ""),
    ("Print, Summarize", "{log: 'loss {loss:.3g}'}", ""),
    ("Load, Save, DBExists", "{load: …}, {save: …}", ""),
    ("If, While, Do, AsyncNetWait", "{if: …}, {while: …}, {loop: …}, {parallel: …}", ""),
    ("BlobsQueue, DequeueBlobs, EnqueueBlobs", "queues:, read:, write:", ""),
    ("FillGradient, StopGradient, Iter", "none: there are no gradients; epoch, iter", ""),
)  # fmt: skip


def _expressions() -> str:
    return _EXPRESSIONS.format(
        functions=len(OPERATORS), draws=len(DRAWS), attributes=" ".join(ATTRIBUTES),
        words=" ".join(BUILTINS), dtypes=_wrapped(DTYPES), characters=scalar.LONGEST_TEXT,
        parts=limits.MOST_NODES, depth=scalar.DEEPEST, items=limits.MOST_ITEMS,
        text_kib=limits.MOST_TEXT_BYTES // 1024,
    ).rstrip()  # fmt: skip


def _wrapped(words: tuple[str, ...]) -> str:
    """Words over several lines, below the first one's column."""
    return textwrap.fill(" ".join(words), 84).replace("\n", "\n" + " " * 13)


def _operators() -> str:
    width = max(len(theirs) for theirs, _, _ in ANCESTORS)
    return _OPERATORS + "\n".join(f"{theirs:<{width}}  {ours}" for theirs, ours, _ in ANCESTORS)


def _checkpoint_format() -> str:
    # With numpy and h5py: not for those who ask about something else.
    from jobrun.checkpoint.formattext import format_text  # noqa: PLC0415

    return format_text()


_SUBMIT = """\
Batch systems, several machines, clusters

A run that is told to end saves what is whole and ends with exit code 75; the same command goes on
where it was. That is all that a batch system has to know.

Slurm          jobrun submit train.yaml --time 4h --partition long
               shows its script with --print. It has Slurm send USR1 two minutes before the end
               (--warn), sets 'deadline: auto', and puts the job back (scontrol requeue) as long as
               it ends with 75 and has saved something. scancel ends it for good.
               With --hosts 4 it starts a Ray cluster on four hosts (ray symmetric-run) and runs
               with --session ray:auto on the first.
PBS, LSF, …    put into the script, behind their own options:
                 jobrun run train.yaml --resume auto --set deadline=auto
                 test $? -eq 75 && qsub "$0"
               'deadline: auto' knows the end of a job of Slurm, PBS, OAR, Cobalt, Flux, LSF and
               Grid Engine; for others set JOBRUN_DEADLINE to it.
One host       no batch system: jobrun run train.yaml --session processes gives each node of the
               job a process; --session threads has all in one.

Several hosts, by ssh (the same Python, jobrun and Ray on each, and a directory that all see, or
'node_dir': see 'jobrun explain checkpoint')
  head$    export RAY_AUTH_MODE=token            # the same ~/.ray/auth_token on all hosts
  head$    ray start --head --port 6379 --disable-usage-stats --resources '{"hostA": 1}'
  other$   ray start --address head:6379 --disable-usage-stats --resources '{"hostB": 1}'
  head$    jobrun run train.yaml --resume auto --session ray:head:6379
  all$     ray stop                              # ends every Ray of that host
A node goes to a host by 'nodes: {trainer: {count: 4, resources: {hostB: 0.25}}}'.

Kubernetes, with KubeRay: a RayJob whose claim holds the spec and the runs
  apiVersion: ray.io/v1
  kind: RayJob
  metadata: {name: train}
  spec:
    entrypoint: jobrun run /data/train.yaml --run-dir /data/runs --resume auto --session ray:auto
    backoffLimit: 100          # 75 counts as a failure, and the next try goes on
    shutdownAfterJobFinishes: true
    rayClusterSpec:
      authOptions: {mode: token}
      headGroupSpec:
        rayStartParams: {}
        template: {spec: {containers: [{name: head, image: IMAGE, volumeMounts: [MOUNT]}],
                          volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]}}
      workerGroupSpecs:
        - {groupName: workers, replicas: 4, rayStartParams: {}, template: …the same…}
IMAGE has the same jobrun and Ray as the head; MOUNT is {name: data, mountPath: /data}.

Another number of nodes at a resume needs a declaration: see 'jobrun explain state'.
"""


def _submit() -> str:
    return _SUBMIT.rstrip()


_OBJECTS = """\
Objects: models, optimizers, generators, classes of your own

What can be a blob   what has state_dict() and load_state_dict(): modules, optimizers, schedulers of
                     PyTorch, samplers, your own classes; random.Random, numpy's Generator and
                     RandomState, torch.Generator; estimators in the manner of scikit-learn, if
                     all their attributes are arrays, numbers, text and containers of these
Where it is made     by a callable in a task of init with 'rebuild: true', which runs at every start
Who changes it       a callable that gets it with 'with' and names it in 'inout'; any number of
                     them, but not two at the same time. There is one of it: it is not copied, sent
                     to another node, or part of an expression
What is saved        what state_dict() gives, after init and every epoch: dicts, lists and tuples
                     of arrays, tensors, numbers, text, bytes and None, with all types and what is
                     shared inside. Not what it leaves out: gradients in .grad, eval() or train(), …
What a load does     it hands that to load_state_dict() of the object just made, takes the state out
                     again, and compares the bits. What does not fit is told by name; nothing runs
In the file          a group, /blobs/model/0.weight: see 'jobrun explain checkpoint-format'

Tensors on the CPU are written from where they are; those on a GPU come by way of pinned memory.
bfloat16 and the kinds of float8 keep their bits (pip install 'jobrun[torch]').

Generators that are nobody's own (random, np.random, torch) are state, if a task of init says so:
  - {call: "jobrun.generators:seeded", with: {torch: true}, out: generators}
and every step that draws from them has them in 'inout'. They belong to the process: with several
nodes, use --session processes. 'rng' of a step needs none of this.

Dicts, lists and tuples of arrays, numbers, text, bytes and None are values as others are: any task
can make one, they are state if init makes them, and callables get copies of them unless 'inout'.
A list that a callable returns becomes an array where its items are numbers, or arrays of one shape.
"""


def _objects() -> str:
    return _OBJECTS.rstrip()


TOPICS: Mapping[str, Callable[[], str]] = {
    "expressions": _expressions,
    "operators": _operators,
    "objects": _objects,
    "checkpoint-format": _checkpoint_format,
    "submit": _submit,
}


def counterpart(given: str) -> str:
    """What is written here for an everyday operator of Caffe2; empty for any other word."""
    for theirs, ours, _ in ANCESTORS:
        for name in theirs.split(", "):
            if name.casefold() == given.casefold():
                return f"{name} of Caffe2 is here: {ours} (see 'jobrun explain operators')"
    return ""


def nearest_topic(given: str) -> str:
    """What was probably meant by a word that nothing is known of."""
    if found := counterpart(given):
        return found
    draws = (f"rng.{name}" for name in DRAWS)
    return did_you_mean(given, (*TOPICS, *OPERATORS, *draws, *words(key_tables())))
