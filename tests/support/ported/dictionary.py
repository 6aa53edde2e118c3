"""scikit-learn: a dictionary of patches learned online, and a forest that grows by warm starts."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.ensemble import RandomForestClassifier

EPOCHS = 6


def init():
    # One generator, which both have.
    random = np.random.RandomState(3)
    forest = RandomForestClassifier(
        n_estimators=0, warm_start=True, oob_score=True, max_features="sqrt", random_state=random
    )
    learner = MiniBatchDictionaryLearning(8, alpha=0.5, batch_size=20, random_state=random)
    return {"forest": forest, "learner": learner, "random": random, "errors": []}


def epoch(state):
    x, y = load_digits(return_X_y=True)
    rows = state["random"].choice(len(x), 60, replace=False)
    state["learner"].partial_fit(x[rows])
    forest = state["forest"]
    forest.set_params(n_estimators=forest.n_estimators + 20)
    forest.fit(x[:400], y[:400])
    state["errors"].append(1 - forest.oob_score_)
    return state


def result(state):
    x, _ = load_digits(return_X_y=True)
    return {
        "atoms": state["learner"].components_,
        "errors": np.array(state["errors"]),
        "likely": state["forest"].predict_proba(x[400:500]),
    }
