"""Adapt boosters of XGBoost, by the bytes that XGBoost writes of a booster and its settings.

Where rows or columns are sampled, ``seed_per_iteration: true`` must be set: otherwise the samples
come from a generator of the process whose state XGBoost does not give.
"""

from __future__ import annotations

import json
from typing import Any

from jobrun.values.adapters.registry import Adapter, UnsavableError

_SAMPLING = ("subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode")


def find(kind: type) -> Adapter | None:
    """Find the adapter of a class of XGBoost's: its ``Booster``."""
    return _BOOSTER if kind.__name__ == "Booster" else None


def _booster_tree(booster: Any) -> dict[str, Any]:
    found = dict(_settings(json.loads(booster.save_config())))
    sampled = [name for name in _SAMPLING if float(found.get(name, 1)) < 1]
    if sampled and found.get("seed_per_iteration") not in ("1", "true"):
        raise UnsavableError(
            (),
            f"an xgboost.Booster with {sampled[0]} below 1, whose generator cannot be saved; "
            "set seed_per_iteration to true",
        )
    state = dict(booster.__getstate__())
    return {"bytes": bytes(state.pop("handle")), "attributes": state}


def _settings(config: Any) -> Any:
    """Iterate over all settings in XGBoost's description of a booster, by name."""
    for name, one in config.items():
        if isinstance(one, dict):
            yield from _settings(one)
        elif isinstance(one, list):
            for part in one:
                yield from _settings(part) if isinstance(part, dict) else ()
        else:
            yield name, one


def _make_booster(kind: Any, tree: Any) -> Any:
    booster = kind.__new__(kind)
    booster.__setstate__({**tree["attributes"], "handle": bytearray(tree["bytes"])})
    return booster


_BOOSTER = Adapter(_booster_tree, _make_booster)
