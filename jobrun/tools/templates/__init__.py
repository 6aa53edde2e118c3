"""Specs to begin with, each complete: the YAML files beside this module, and what each is.

Nothing is filled in: a template is a spec that runs as it stands, and is changed by hand.
"""

from __future__ import annotations

from pathlib import Path

# Name of the file without its ending, and one line about it; in the order of a first lesson.
TEMPLATES: dict[str, str] = {
    "kmeans": "k-means: state, constants, a stop condition",
    "sgd": "a regression in mini-batches: a reader whose position is state",
    "em": "a mixture of Gaussians: two nets, an assertion in every epoch",
    "mcmc": "chains of a sampler, side by side, until they agree",
    "solver": "a linear system by conjugate gradients, until the residual is small",
    "shell": "a program of your own, whose folder is part of the checkpoint",
    "torch": "a network in PyTorch: model, optimizer and generators as state",
}
# Files that a template needs beside it. They end in .txt here: they are no part of jobrun.
COMPANIONS: dict[str, tuple[str, ...]] = {"torch": ("torch_spirals.py",)}
# The extra of jobrun, and so the package, without which a template does not run.
EXTRAS: dict[str, str] = {"torch": "torch"}


def text_of(name: str) -> str:
    """The text of a template."""
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")


def files_of(name: str) -> dict[str, str]:
    """All files of a template by their names, the spec first."""
    here = Path(__file__)
    beside = {
        one: here.with_name(f"{one}.txt").read_text(encoding="utf-8")
        for one in COMPANIONS.get(name, ())
    }
    return {f"{name}.yaml": text_of(name)} | beside
