"""JAX with flax and optax: a classifier of digits with dropout, whose key is state."""

import flax.linen as nn
import jax
import numpy as np
import optax
from flax.core import freeze
from flax.training import train_state
from sklearn.datasets import load_digits

EPOCHS = 6


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.relu(nn.Dense(32)(x))
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.Dropout(0.3, deterministic=not train)(x)
        return nn.Dense(10)(x)


OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))


class Training(train_state.TrainState):
    batch_stats: dict
    key: jax.Array


NETWORK = Network()


def init():
    variables = NETWORK.init(jax.random.key(0), np.zeros((1, 64), np.float32), train=False)
    return {
        "params": freeze(variables["params"]),
        "opt_state": OPTIMIZER.init(freeze(variables["params"])),
        "batch_stats": variables["batch_stats"], "step": 0, "key": jax.random.key(1),
    }  # fmt: skip


@jax.jit
def step(state, x, y):
    key, dropped = jax.random.split(state.key)

    def loss(params):
        scores, changed = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            x, train=True, mutable=["batch_stats"], rngs={"dropout": dropped},
        )  # fmt: skip
        return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean(), changed

    slopes, changed = jax.grad(loss, has_aux=True)(state.params)
    state = state.apply_gradients(grads=slopes)
    return state.replace(batch_stats=changed["batch_stats"], key=key)


def epoch(state):
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    state = Training(apply_fn=NETWORK.apply, tx=OPTIMIZER, **state)
    for first in range(0, 640, 64):
        state = step(state, x[first : first + 64], y[first : first + 64])
    return {
        name: getattr(state, name) for name in ("params", "opt_state", "batch_stats", "step", "key")
    }


def result(state):
    leaves = jax.tree.leaves(state | {"key": jax.random.key_data(state["key"])})
    return {f"leaf{at:02}": np.asarray(leaf) for at, leaf in enumerate(leaves)}
