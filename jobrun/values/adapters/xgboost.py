"""Adapt boosters of XGBoost, by the bytes that XGBoost writes of a booster and its settings.

Where rows, columns or trees are sampled, ``seed_per_iteration: true`` must be set: otherwise the
samples come from a generator of the process whose state XGBoost does not give. Even then the tree
methods ``hist`` and ``approx`` draw once more in the first round of a booster that has been loaded
or copied. ``train(…, xgb_model=booster)`` makes such a booster in plain Python too, so it has the
same samples; ``booster.update`` in place would not, and is refused.
"""

from __future__ import annotations

import json
from typing import Any
from weakref import WeakKeyDictionary

from jobrun.values.adapters.registry import Adapter, UnsavableError

# Samples are drawn where one of these is below, or above, this number.
_SAMPLED_BELOW = {
    "subsample": 1, "colsample_bytree": 1, "colsample_bylevel": 1, "colsample_bynode": 1,
}  # fmt: skip
_SAMPLED_ABOVE = {"rate_drop": 0}
# Of each booster that has been taken apart or made here, the rounds that it had then.
_rounds: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves an XGBoost ``Booster``; None for any other class."""
    return _BOOSTER if kind.__name__ == "Booster" else None


def _booster_tree(booster: Any) -> dict[str, Any]:
    try:
        config = json.loads(booster.save_config())
    except Exception as error:
        if "feature" not in str(error):
            raise
        raise UnsavableError(
            (),
            "an xgboost.Booster that has seen no data yet; update it once before, or keep the "
            "DMatrix that it was made with",
        ) from error
    _require_repeatable(booster, dict(_settings(config)))
    state = dict(booster.__getstate__())
    _rounds[booster] = booster.num_boosted_rounds()
    return {"bytes": bytes(state.pop("handle")), "attributes": state}


def _require_repeatable(booster: Any, config: dict[str, Any]) -> None:
    """Refuse an ``xgboost.Booster`` whose random sampling would differ after a resume.

    Args:
        booster: Which.
        config: Its settings by name.
    """
    sampled = [name for name, bound in _SAMPLED_BELOW.items() if float(config.get(name, 1)) < bound]
    dropped = [name for name, bound in _SAMPLED_ABOVE.items() if float(config.get(name, 0)) > bound]
    if not sampled and not dropped:
        return
    name, *_ = (*sampled, *dropped)
    if config.get("seed_per_iteration") not in ("1", "true"):
        raise UnsavableError(
            (),
            f"an xgboost.Booster with {name}, whose generator cannot be saved; set "
            "seed_per_iteration to true",
        )
    columns = [setting for setting in sampled if setting != "subsample"]
    if columns and config.get("tree_method") == "approx":
        raise UnsavableError(
            (),
            f"an xgboost.Booster with {columns[0]} and tree_method approx, whose generator cannot "
            "be saved; set tree_method to hist or exact",
        )
    before = _rounds.get(booster, booster.num_boosted_rounds())
    if sampled and config.get("tree_method") != "exact" and booster.num_boosted_rounds() != before:
        raise UnsavableError(
            (),
            f"an xgboost.Booster with {name} that was updated in place, whose samples would be "
            "others after a resume; continue with xgboost.train(…, xgb_model=booster), or set "
            "tree_method to exact",
        )


def _settings(config: Any) -> Any:
    """Iterate over the name and value of each setting that XGBoost reports of a booster."""
    for name, setting in config.items():
        if isinstance(setting, dict):
            yield from _settings(setting)
        elif isinstance(setting, list):
            for part in setting:
                yield from _settings(part) if isinstance(part, dict) else ()
        else:
            yield name, setting


def _make_booster(kind: Any, tree: Any) -> Any:
    booster = kind.__new__(kind)
    booster.__setstate__({**tree["attributes"], "handle": bytearray(tree["bytes"])})
    _rounds[booster] = booster.num_boosted_rounds()
    return booster


_BOOSTER = Adapter(_booster_tree, _make_booster)
