"""DEAP: the onemax example, with statistics and a hall of fame."""

import random

import numpy as np
from deap import algorithms, base, creator, tools

EPOCHS = 8
creator.create("FitnessMax", base.Fitness, weights=(1.0,))
creator.create("Individual", list, fitness=creator.FitnessMax)


def toolbox():
    box = base.Toolbox()
    box.register("attr_bool", random.randint, 0, 1)
    box.register("individual", tools.initRepeat, creator.Individual, box.attr_bool, 40)
    box.register("population", tools.initRepeat, list, box.individual)
    box.register("evaluate", lambda individual: (sum(individual),))
    box.register("mate", tools.cxTwoPoint)
    box.register("mutate", tools.mutFlipBit, indpb=0.05)
    box.register("select", tools.selTournament, tournsize=3)
    return box


def init(generators=None):
    random.seed(64)
    box = toolbox()
    population = box.population(n=30)
    for individual in population:
        individual.fitness.values = box.evaluate(individual)
    return {"population": population, "best": tools.HallOfFame(2), "log": tools.Logbook()}


def epoch(state, generators=None):
    box = toolbox()
    children = algorithms.varAnd(box.select(state["population"], 30), box, cxpb=0.5, mutpb=0.2)
    for individual in children:
        if not individual.fitness.valid:
            individual.fitness.values = box.evaluate(individual)
    state["population"] = children
    state["best"].update(children)
    statistics = tools.Statistics(lambda individual: individual.fitness.values)
    statistics.register("max", np.max)
    statistics.register("mean", np.mean)
    state["log"].record(gen=len(state["log"]) + 1, **statistics.compile(children))
    return state


def result(state):
    return {
        "population": np.array(state["population"]),
        "fitness": np.array([individual.fitness.values for individual in state["population"]]),
        "best": np.array([list(individual) for individual in state["best"]]),
        "mean": np.array(state["log"].select("mean")),
    }
