"""Compile C code of the tests to a library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def compile_library(source: Path, target: Path) -> None:
    """Compile a C file to a shared library; a test is skipped where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("a C compiler is not installed")
    options = ("-O1", "-shared", "-fPIC", "-ldl", "-lpthread")
    command = [compiler, str(source), *options, "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True)
