"""List the spec templates of ``jobrun new``, the YAML files beside this module.

Nothing is filled in: a template is a spec that runs without changes, and is then edited by hand.
"""

from __future__ import annotations

from pathlib import Path

# Name of the file without its ending, and one line about it: those that call a program of one's
# own, then those in the language of specs alone, each in the order of a first lesson.
TEMPLATES: dict[str, str] = {
    "script": "a Python script: two functions, init and epoch, and any values as state",
    "csv": "a function of numpy and the columns of a csv file",
    "sklearn": "an estimator of scikit-learn that learns by partial_fit",
    "torch": "a network in PyTorch: model, optimizer and generators as state",
    "jax": "a network in JAX: weights and the random key as state",
    "shell": "a program with a restart file: its folder is part of the checkpoint",
    "kmeans": "k-means: state, constants, a stop condition",
    "sgd": "a regression in mini-batches: a reader whose position is state",
    "em": "a mixture of Gaussians: two nets, an assertion in every epoch",
    "mcmc": "chains of a sampler, side by side, until they agree",
    "solver": "a linear system by conjugate gradients, until the residual is small",
}
# Files that a template needs beside it. They end in .txt here: they are no part of jobrun.
COMPANIONS: dict[str, tuple[str, ...]] = {
    "script": ("script.py",),
    "csv": ("csv_fit.py", "measurements.csv"),
    "sklearn": ("sklearn_digits.py",),
    "torch": ("torch_spirals.py",),
    "jax": ("jax_sine.py",),
}
# The module without which a template does not run, and what pip installs it with.
REQUIREMENTS: dict[str, tuple[str, str]] = {
    "sklearn": ("sklearn", "scikit-learn"),
    "torch": ("torch", "'jobrun[torch]'"),
    "jax": ("jax", "jax"),
}


def template_text(name: str) -> str:
    """Read the text of a template for new specs."""
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")


def template_files(name: str) -> dict[str, str]:
    """Read all files of a spec template by name, the spec first."""
    here = Path(__file__)
    companions = {
        companion: here.with_name(f"{companion}.txt").read_text(encoding="utf-8")
        for companion in COMPANIONS.get(name, ())
    }
    return {f"{name}.yaml": template_text(name)} | companions
