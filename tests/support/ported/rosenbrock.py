"""cma: the loop of ask and tell, on a narrow valley."""

import cma
import numpy as np

EPOCHS = 10


OBJECTS = ("search",)


def make(generators=None):
    options = {"seed": 7, "verbose": -9, "maxiter": 1000}
    return cma.CMAEvolutionStrategy(6 * [0.1], 0.5, options)


def epoch(search, generators=None):
    for _ in range(5):
        points = search.ask()
        search.tell(points, [cma.ff.rosen(point) for point in points])


def result(search):
    return {
        "best": search.result.xbest,
        "value": np.array(search.result.fbest),
        "mean": search.mean,
        "sigma": np.array(search.sigma),
    }
