"""The standard library: customers of a shop in a queue, with accounts in exact numbers."""

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np

EPOCHS = 12


class Mood(Enum):
    calm = "calm"
    hasty = "hasty"


@dataclass
class Customer:
    name: str
    mood: Mood
    basket: frozenset


def init():
    return {
        "random": Random(9), "queue": deque(maxlen=40), "met": set(), "orders": OrderedDict(),
        "spent": defaultdict(Decimal), "sold": Counter(), "share": Fraction(0), "log": Path("day"),
        "now": datetime(2026, 3, 1, 8, 0, tzinfo=UTC), "waited": timedelta(0),
    }  # fmt: skip


def epoch(state):
    random = state["random"]
    goods = ["tea", "salt", "oil", "rice", "figs"]
    for _ in range(30):
        state["now"] += timedelta(seconds=random.randint(10, 200))
        mood = random.choice(list(Mood))
        basket = frozenset(random.sample(goods, random.randint(1, 4)))
        state["queue"].append(Customer(f"c{random.randint(0, 99)}", mood, basket))
        if random.random() < 0.8:
            served = state["queue"].popleft()
            state["met"].add(served.name)
            # The order of a set decides what is sold first.
            for product in served.basket:
                price = Decimal(random.randint(50, 900)) / 100
                state["spent"][served.name] += price
                state["sold"][product] += 1
                state["orders"][product, served.mood] = state["spent"][served.name]
                state["orders"].move_to_end((product, served.mood), last=served.mood is Mood.calm)
            state["waited"] += timedelta(seconds=len(state["queue"]))
    if len(state["met"]) > 50:
        state["met"].pop()
    state["share"] += Fraction(state["sold"]["tea"], sum(state["sold"].values()))
    state["log"] = Path("days") / f"{state['now']:%d}.log"
    return state


def result(state):
    shown = state | {"random": state["random"].getstate()}
    text = repr(list(shown.items())).encode()
    return {"state": np.frombuffer(text, np.uint8)}
