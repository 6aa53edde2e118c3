"""Adapt boosters of LightGBM, by the text that LightGBM writes of its trees.

A booster keeps its trees and parameters, not the data it was trained on: go on with
``lightgbm.train(…, init_model=booster)``. LightGBM then seeds its generators again and rounds the
scores of the trees again, so a training in several calls differs from one in a single call. It does
so in the run itself as after a resume.
"""

from __future__ import annotations

from typing import Any

from jobrun.values.adapters.registry import Adapter


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves a LightGBM ``Booster``; None for any other class."""
    return _BOOSTER if kind.__name__ == "Booster" else None


def _booster_tree(booster: Any) -> dict[str, Any]:
    return {
        "model": booster.model_to_string(num_iteration=-1),
        "best_iteration": booster.best_iteration,
        "best_score": {name: dict(scores) for name, scores in booster.best_score.items()},
        "params": dict(booster.params),
    }


def _make_booster(kind: Any, tree: Any) -> Any:
    booster = kind(model_str=tree["model"])
    booster.best_iteration = tree["best_iteration"]
    booster.best_score = tree["best_score"]
    booster.params = tree["params"]
    return booster


_BOOSTER = Adapter(_booster_tree, _make_booster)
