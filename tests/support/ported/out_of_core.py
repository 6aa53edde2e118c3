"""scikit-learn: classifiers that learn from blocks of a stream, behind preprocessing."""

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits
from sklearn.linear_model import Perceptron, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

EPOCHS = 8


def init():
    random = np.random.RandomState(0)
    x, y = load_digits(return_X_y=True)
    order = random.permutation(len(x))
    x, y = x[order], y[order]
    columns = ColumnTransformer(
        [("top", StandardScaler(), slice(0, 32)), ("rest", MinMaxScaler(), slice(32, 64))]
    )
    columns.fit(x[:200])
    return {
        "pipeline": make_pipeline(columns, SGDClassifier(random_state=random, loss="log_loss")),
        "perceptron": Perceptron(random_state=random, penalty="l2"),
        "clusters": MiniBatchKMeans(10, random_state=random, n_init=1),
        "x": x,
        "y": y,
        "scores": [],
    }


def epoch(state):
    number = len(state["scores"])
    some = slice(150 * number, 150 * (number + 1))
    x, y = state["x"][some], state["y"][some]
    columns, linear = state["pipeline"].named_steps.values()
    linear.partial_fit(columns.transform(x), y, classes=np.arange(10))
    state["perceptron"].partial_fit(x, y, classes=np.arange(10))
    state["clusters"].partial_fit(x)
    test = state["x"][1500:], state["y"][1500:]
    state["scores"].append((state["pipeline"].score(*test), state["perceptron"].score(*test)))
    return state


def result(state):
    return {
        "linear": state["pipeline"][1].coef_,
        "perceptron": state["perceptron"].coef_,
        "clusters": state["clusters"].cluster_centers_,
        "scores": np.array(state["scores"]),
    }
