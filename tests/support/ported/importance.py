"""pandas and scipy.sparse: the power method on a growing web, with a table of its course."""

import numpy as np
import pandas as pd
import scipy.sparse

EPOCHS = 10


def init():
    random = np.random.default_rng(4)
    links = scipy.sparse.random_array((60, 60), density=0.05, rng=random, format="lil")
    history = pd.DataFrame({"pages": pd.Series(dtype="int64"), "change": pd.Series(dtype=float)})
    return {"links": links, "rank": np.full(60, 1 / 60), "random": random, "history": history}


def epoch(state):
    links, rank = state["links"], state["rank"]
    for source, target in state["random"].integers(0, 60, (5, 2)):
        links[source, target] += 1.0
    columns = links.tocsc()
    weights = columns.multiply(1 / np.maximum(columns.sum(axis=0), 1e-12))
    after = 0.85 * (weights @ rank) + 0.15 / 60
    after /= after.sum()
    day = pd.Timestamp("2026-01-01") + pd.Timedelta(days=len(state["history"]))
    row = pd.DataFrame({"pages": [links.nnz], "change": [abs(after - rank).sum()]}, index=[day])
    state["history"] = row if state["history"].empty else pd.concat([state["history"], row])
    state["rank"] = after
    return state


def result(state):
    return {
        "rank": state["rank"],
        "links": state["links"].toarray(),
        "change": state["history"]["change"].to_numpy(),
        "when": state["history"].index.to_numpy().astype("datetime64[s]").astype(np.int64),
    }
