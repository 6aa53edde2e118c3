"""gymnasium: Q-learning of Blackjack, as in its tutorial; the environment draws the cards."""

from collections import defaultdict

import gymnasium
import numpy as np

EPOCHS = 8


OBJECTS = ("env",)


def make():
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Blackjack-v1", sab=False))
    env.reset(seed=11)
    env.action_space.seed(12)
    return env


def init():
    return {"values": defaultdict(two), "choice": np.random.default_rng(13)}


def two():
    return np.zeros(2)


def epoch(state, env):
    values = state["values"]
    for _ in range(60):
        seen, _ = env.reset()
        ended = False
        while not ended:
            explores = state["choice"].random() < 0.3
            action = env.action_space.sample() if explores else int(np.argmax(values[seen]))
            after, reward, ended, cut, _ = env.step(action)
            future = 0.0 if ended else np.max(values[after])
            values[seen][action] += 0.05 * (reward + 0.95 * future - values[seen][action])
            seen = after
            ended = ended or cut
    return state


def result(state, env):
    return {
        "seen": np.array(list(state["values"])),
        "values": np.array(list(state["values"].values())),
        "returns": np.array(env.return_queue),
        "lengths": np.array(env.length_queue),
    }
