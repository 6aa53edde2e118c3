"""emcee: a line fitted to data, as in its tutorial."""

import emcee
import numpy as np

EPOCHS = 8


def data():
    random = np.random.default_rng(123)
    x = np.sort(10 * random.random(50))
    error = 0.1 + 0.5 * random.random(50)
    y = -0.9594 * x + 4.294 + error * random.standard_normal(50)
    return x, y, error


def log_probability(theta, x, y, error):
    slope, intercept, log_f = theta
    if not (-5 < slope < 0.5 and 0 < intercept < 10 and -10 < log_f < 1):
        return -np.inf
    model = slope * x + intercept
    variance = error**2 + model**2 * np.exp(2 * log_f)
    return -0.5 * np.sum((y - model) ** 2 / variance + np.log(variance))


OBJECTS = ("sampler",)


def make():
    moves = [(emcee.moves.DEMove(), 0.8), (emcee.moves.StretchMove(), 0.2)]
    sampler = emcee.EnsembleSampler(16, 3, log_probability, args=data(), moves=moves)
    sampler.random_state = np.random.RandomState(42).get_state()
    return sampler


def epoch(sampler):
    start = None
    if sampler.iteration == 0:
        start = [-0.95, 4.3, -1.0] + 1e-4 * np.random.RandomState(1).randn(16, 3)
    sampler.run_mcmc(start, 20)


def result(sampler):
    return {
        "chain": sampler.get_chain(),
        "log_prob": sampler.get_log_prob(),
        "accepted": sampler.acceptance_fraction,
    }
