"""The number of BLAS threads, and what is recorded of the library."""

from __future__ import annotations

import os
import subprocess
import sys

from jobrun.runner.identity.blas_libraries import describe_blas, set_blas_threads
from tests.support.c_library import compile_library


def test_without_proc_the_threads_of_blas_are_unknown(monkeypatch):
    def refuse():
        raise FileNotFoundError("/proc/self/maps")

    monkeypatch.setattr("threadpoolctl.ThreadpoolController", refuse)

    assert (describe_blas()["blas_kernel"], describe_blas()["blas_threads"]) == ("", 0)


def run(program):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()


def test_threads_are_set_before_numpy_is_loaded():
    program = (
        "from jobrun.runner.identity.blas_libraries import *; import sys; set_blas_threads(2);"
        "print('numpy' in sys.modules, describe_blas()['blas_threads'])"
    )

    assert run(program) == ["False", "2"]


def test_threads_are_set_when_numpy_is_there_already():
    before = describe_blas()["blas_threads"]
    program = (
        "import numpy; from jobrun.runner.identity.blas_libraries import *; set_blas_threads(1);"
        "print(describe_blas()['blas_threads']); set_blas_threads(2);"
        "print(describe_blas()['blas_threads'])"
    )

    assert run(program) == ["1", "2"]
    assert describe_blas()["blas_threads"] == before


MKL = """\
#include <stdio.h>
static int threads = 7;
int MKL_Get_Max_Threads(void) { return threads; }
void MKL_Set_Num_Threads(int count) { threads = count; }
int MKL_Set_Num_Threads_Local(int count) { return count; }
int MKL_Set_Threading_Layer(int layer) { return 1; }
void MKL_Get_Version_String(char *text, int size) {
    snprintf(text, size, "Intel(R) Math Kernel Library Version 2031.2 Product Build");
}
"""


def test_threads_of_mkl_are_set_for_all_threads_and_its_version_is_recorded(tmp_path):
    (tmp_path / "mkl.c").write_text(MKL)
    library = tmp_path / "libmkl_rt.so"
    compile_library(tmp_path / "mkl.c", library)
    program = (
        f"import ctypes, numpy; mkl = ctypes.CDLL({str(library)!r});"
        "from jobrun.runner.identity import blas_libraries as blas; blas.set_blas_threads(3);"
        "kernels = map(blas._kernel_of, blas._blas_libraries());"
        "print(mkl.MKL_Get_Max_Threads(), blas.describe_blas()['blas_threads']);"
        "print('mkl 2031.2' in kernels)"
    )

    assert run(program) == ["3", "3", "True"]


def test_setting_is_seen_by_programs_started_later(monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))

    set_blas_threads(describe_blas()["blas_threads"] or 1)

    assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"]
