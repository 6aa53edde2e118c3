"""XGBoost and LightGBM: trees added round by round, LightGBM's without bagging."""

import lightgbm
import numpy as np
import xgboost
from sklearn.datasets import load_diabetes

EPOCHS = 8


SAMPLED = {"max_depth": 3, "eta": 0.3, "nthread": 1, "subsample": 0.7, "colsample_bytree": 0.5,
           "seed": 5, "seed_per_iteration": True}  # fmt: skip


def init():
    x, y = load_diabetes(return_X_y=True)
    first = xgboost.train({**SAMPLED, "tree_method": "exact"}, xgboost.DMatrix(x, y), 1)
    return {"x": x, "y": y, "in place": first, "xgb": None, "lgb": None}


def epoch(state):
    x, y = state["x"], state["y"]
    data = xgboost.DMatrix(x, y)
    for _ in range(3):
        state["in place"].update(data, state["in place"].num_boosted_rounds())
    state["xgb"] = xgboost.train(SAMPLED, data, 3, xgb_model=state["xgb"])
    settings = {"verbosity": -1, "num_threads": 1, "deterministic": True, "num_leaves": 7}
    state["lgb"] = lightgbm.train(settings, lightgbm.Dataset(x, y), 3, init_model=state["lgb"])
    return state


def result(state):
    return {
        "in_place": state["in place"].predict(xgboost.DMatrix(state["x"])),
        "xgb": state["xgb"].predict(xgboost.DMatrix(state["x"])),
        "lgb": state["lgb"].predict(state["x"]),
        "trees": np.array(state["lgb"].num_trees()),
    }
