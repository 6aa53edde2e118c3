"""Hold a user's module for sessions whose nodes are processes, and call its functions."""

from __future__ import annotations

from jobrun.testing.graphs import call, group, ref, task

LIBRARY = '''
"""What only processes can be asked."""

import ctypes
import os
import signal
import time

import numpy as np


def pid():
    return os.getpid()


def threads_of_blas():
    from jobrun.runner.identity.blas_libraries import describe_blas

    return describe_blas()["blas_threads"]


def end_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def fork_and_stay():
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    return np.array([os.getpid(), child])


def hollow():
    return np.zeros(1, [("a", "f4"), ("b", "U0")])


def leave():
    os._exit(3)


def hold_the_interpreter():
    ctypes.PyDLL(None).sleep(1000)
'''


def asked(harness, name, *nodes):
    """Return what a function of the module returns on each of the nodes."""
    step = call(f"process_library:{name}", out="x")
    tasks = [task("t", step, node=node, outputs={"x": "x"}) for node in nodes]
    outputs = harness.run(group(*tasks))
    return [outputs[ref("t", "x", node)] for node in nodes]
