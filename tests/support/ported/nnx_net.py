"""flax.nnx: a classifier whose modules, optimizer and generators change in place."""

import jax
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

EPOCHS = 6


class Network(nnx.Module):
    def __init__(self, rngs):
        self.into = nnx.Linear(64, 32, rngs=rngs)
        self.norm = nnx.BatchNorm(32, rngs=rngs)
        self.dropout = nnx.Dropout(0.3, rngs=rngs)
        self.out = nnx.Linear(32, 10, rngs=rngs)
        self.epochs = 0

    def __call__(self, x):
        return self.out(self.dropout(nnx.relu(self.norm(self.into(x)))))


OBJECTS = ("model", "optimizer", "rngs")


def make():
    model = Network(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param), nnx.Rngs(data=1)


@nnx.jit
def step(model, optimizer, x, y):
    def loss(model):
        return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()

    optimizer.update(model, nnx.grad(loss)(model))


def epoch(model, optimizer, rngs):
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    order = np.asarray(jax.random.permutation(rngs.data(), 640))
    for some in order.reshape(10, 64):
        step(model, optimizer, x[some], y[some])
    model.epochs += 1
    if model.epochs == 4:
        # What plain attributes say is state, too.
        model.eval()


def result(model, optimizer, rngs):
    held = [
        nnx.to_pure_dict(nnx.state(module, nnx.Not(nnx.RngKey))) for module in (model, optimizer)
    ]
    leaves = jax.tree.leaves([*held, nnx.to_pure_dict(nnx.state(rngs, nnx.RngCount))])
    return {f"leaf{at:02}": np.asarray(leaf) for at, leaf in enumerate(leaves)}
