"""Values and objects of other libraries, each through the contract of adapters.

Long: some of these libraries take seconds to load. What is drawn comes from a generator of the
object, or from the number of the step.
"""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint.blob_parts import capture_object, flatten_values
from jobrun.core.errors import TaskFailedError
from jobrun.runtime.snapshots.node_objects import copy_object_state
from jobrun.testing.adapters import Adapted, AdapterContract
from jobrun.values.blob_kinds import check_storable
from jobrun.values.container_flattening import flatten, unflatten
from jobrun.values.copies import detach

# The libraries' own warnings are no matter of these tests.
pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

ROWS = np.random.RandomState(0).rand(60, 4)
LABELS = (ROWS[:, 0] > 0.5).astype(int)


def need(name):
    return pytest.importorskip(name, reason="CI installs it")


def log_density(x):
    return -x @ x


def fitted(make, result, *, rows=ROWS, labels=LABELS, classes=False):
    """An estimator that is fitted in parts, and what shows its state."""

    def advance(estimator, step):
        more = {"classes": [0, 1]} if classes else {}
        estimator.partial_fit(rows + step, labels, **more)
        return estimator, result(estimator)

    return Adapted(make, advance)


def grown(make, result):
    """A warm-started ensemble, to which each step adds trees."""

    def advance(forest, step):
        forest.set_params(n_estimators=2 * step + 2)
        forest.fit(ROWS, np.array(["no", "yes"], dtype=object)[LABELS])
        return forest, result(forest)

    return Adapted(make, advance)


def sgd():
    linear = need("sklearn.linear_model")
    return fitted(
        lambda: linear.SGDClassifier(random_state=3), lambda value: value.coef_, classes=True
    )


def perceptron():
    linear = need("sklearn.linear_model")
    return fitted(linear.Perceptron, lambda value: value.coef_, classes=True)


def dictionary():
    factory = need("sklearn.decomposition").MiniBatchDictionaryLearning
    return fitted(
        lambda: factory(3, random_state=np.random.RandomState(3)), lambda value: value.components_
    )


def birch():
    # Its leaves refer to one another.
    return fitted(need("sklearn.cluster").Birch, lambda value: value.subcluster_centers_)


def neural_network():
    factory = need("sklearn.neural_network").MLPClassifier
    return fitted(lambda: factory(5, random_state=3), lambda value: value.coefs_[0], classes=True)


def forest():
    factory = need("sklearn.ensemble").RandomForestClassifier
    return grown(
        lambda: factory(1, warm_start=True, random_state=3), lambda value: value.predict_proba(ROWS)
    )


def boosting():
    factory = need("sklearn.ensemble").GradientBoostingClassifier

    def make():
        # One generator, which the trees have too.
        random = np.random.RandomState(3)
        return factory(n_estimators=1, warm_start=True, subsample=0.5, random_state=random)

    return grown(make, lambda value: value.predict_proba(ROWS))


def pipeline():
    scale, linear = need("sklearn.preprocessing"), need("sklearn.linear_model")
    steps = need("sklearn.pipeline").make_pipeline

    def advance(pipe, step):
        rows = pipe[0].partial_fit(ROWS + step).transform(ROWS)
        pipe[1].partial_fit(rows, LABELS, classes=[0, 1])
        return pipe, pipe.predict(ROWS)

    return Adapted(
        lambda: steps(scale.StandardScaler(), linear.SGDClassifier(random_state=3)), advance
    )


def columns():
    scale, compose = need("sklearn.preprocessing"), need("sklearn.compose")

    def advance(transformer, step):
        return transformer, transformer.fit(ROWS * (step + 1)).transform(ROWS)

    parts = [
        ("a", scale.StandardScaler(), [0, 1]),
        ("b", scale.FunctionTransformer(np.log1p), [2]),
    ]
    return Adapted(lambda: compose.ColumnTransformer(parts, remainder="passthrough"), advance)


def frame():
    pandas = need("pandas")

    def make():
        index = pandas.date_range("2026-01-01", periods=3, tz="UTC", name="day")
        columns = {
            "x": [1.5, 2, None], "n": [1, 2, 3], "text": ["a", None, "ä"],
            "kind": pandas.Categorical(["b", "a", "b"]), "any": np.array([1, "x", None], object),
            "whole": pandas.array([1, None, 3], dtype="Int64"),
        }  # fmt: skip
        table = pandas.DataFrame(columns, index=index)
        levels = pandas.MultiIndex.from_product([["a", "b"], [1, 2]])
        return {"table": table, "y": pandas.Series(range(4), index=levels), "index": index}

    def advance(held, step):
        held["table"][f"x{step}"] = held["table"]["x"] / 3 + step
        held["table"] = held["table"].sort_index(ascending=step % 2 == 0)
        return held, [held["table"].to_csv(), held["table"].select_dtypes("number").sum(axis=1)]

    return Adapted(make, advance)


def sparse():
    scipy_sparse = need("scipy.sparse")
    kinds = ("csr_matrix", "csc_array", "coo_array", "lil_matrix", "dok_array", "dia_matrix")

    def advance(held, step):
        held = [value * (step + 2) for value in held]
        return held, [value.toarray() for value in held]

    return Adapted(lambda: [getattr(scipy_sparse, kind)(np.eye(3)) for kind in kinds], advance)


def sampler():
    emcee = need("emcee")

    def make():
        ensemble_sampler = emcee.EnsembleSampler(8, 2, log_density, moves=emcee.moves.DEMove())
        ensemble_sampler.random_state = np.random.RandomState(3).get_state()
        return ensemble_sampler

    def advance(walkers, step):
        walkers.run_mcmc(np.random.RandomState(1).rand(8, 2) if step == 0 else None, 2)
        return walkers, walkers.get_chain()

    return Adapted(make, advance)


def strategy():
    cma = need("cma")

    def advance(search, step):
        np.random.seed(step + 1)  # noqa: NPY002 - what cma draws from
        points = search.ask()
        search.tell(points, [float(sum(point**2)) for point in points])
        return search, [points, search.sigma]

    return Adapted(
        lambda: cma.CMAEvolutionStrategy([1.0, 2.0], 0.5, {"seed": 3, "verbose": -9}), advance
    )


def population():
    creator = need("deap.creator")
    base, tools = need("deap.base"), need("deap.tools")
    if not hasattr(creator, "FitnessSum"):
        creator.create("FitnessSum", base.Fitness, weights=(1.0,))
        creator.create("Bits", list, fitness=creator.FitnessSum)
        creator.create("Numbers", np.ndarray, fitness=creator.FitnessSum)

    def make():
        bits = creator.Bits([1, 0, 1])
        return {
            "population": [bits, creator.Bits([0, 1, 1]), bits, creator.Numbers([1.0, 2.0])],
            "best": tools.HallOfFame(2, similar=np.array_equal), "log": tools.Logbook(),
        }  # fmt: skip

    def advance(held, step):
        for single in held["population"]:
            single[0] = step
            single.fitness.values = (float(sum(single)),)
        held["best"].update(held["population"][:2])
        held["log"].record(gen=step, fitness={"max": held["best"][0].fitness.values[0]})
        shown = [list(value) for value in held["population"]]
        return held, [shown, str(held["log"]), [list(value) for value in held["best"]]]

    return Adapted(make, advance)


def environment(name, *, vector=False):
    def factory():
        gym = need("gymnasium")

        def make():
            if vector:
                return gym.make_vec(name, num_envs=2, vectorization_mode="sync")
            return gym.wrappers.RecordEpisodeStatistics(gym.make(name))

        def advance(env, step):
            if step == 0:
                env.reset(seed=2)
                env.action_space.seed(3)
            shown = []
            for _ in range(30):
                seen, reward, ended, cut, _ = env.step(env.action_space.sample())
                shown.append([seen, reward])
                if not vector and (ended or cut):
                    env.reset()
            return env, shown

        return Adapted(make, advance)

    return factory


def xgboost(**more):
    def factory():
        library = need("xgboost")
        data = library.DMatrix(ROWS, ROWS[:, 0] * ROWS[:, 1])
        settings = {"max_depth": 3, "nthread": 1, **more}

        def advance(booster, step):
            booster.update(data, step)
            return booster, booster.predict(data)

        return Adapted(lambda: library.Booster(settings, [data]), advance)

    return factory


SAMPLED = {"subsample": 0.7, "colsample_bytree": 0.5, "seed_per_iteration": True}


def xgboost_train():
    library = need("xgboost")
    data = library.DMatrix(ROWS, ROWS[:, 0] * ROWS[:, 1])
    settings = {"max_depth": 3, "nthread": 1, **SAMPLED}

    def advance(booster, step):
        booster = library.train(settings, data, 2, xgb_model=booster)
        return booster, booster.predict(data)

    return Adapted(lambda: library.train(settings, data, 2), advance)


def lightgbm():
    library = need("lightgbm")
    settings = {"verbosity": -1, "num_threads": 1, "deterministic": True, "bagging_freq": 1,
                "bagging_fraction": 0.7}  # fmt: skip

    def train(before):
        data = library.Dataset(ROWS, ROWS[:, 0] * ROWS[:, 1])
        return library.train(settings, data, 2, init_model=before)

    def advance(booster, step):
        booster = train(booster)
        return booster, [booster.predict(ROWS), booster.num_trees()]

    return Adapted(lambda: train(None), advance)


def optax():
    jax, optimizers = need("jax"), need("optax")
    numpy = need("jax.numpy")
    optimizer = optimizers.MultiSteps(
        optimizers.chain(
            optimizers.clip_by_global_norm(1.0),
            optimizers.adamw(optimizers.cosine_decay_schedule(0.1, 10)),
        ),
        2,
    )

    def make():
        weights = {"w": numpy.ones((4, 2)), "b": numpy.zeros(2, numpy.bfloat16)}
        scale = numpy.asarray(2.0)
        return {"weights": weights, "rest": (optimizer.init(weights), jax.random.key(3), scale)}

    def loss(weights, scale, rows):
        return ((rows @ weights["w"] + weights["b"]) ** 2).mean() * scale

    def advance(held, step):
        weights, (state, key, scale) = held["weights"], held["rest"]
        key, drawn = jax.random.split(key)
        value, slopes = jax.value_and_grad(loss)(weights, scale, jax.random.normal(drawn, (5, 4)))
        changes, state = optimizer.update(slopes, state, weights)
        weights = optimizers.apply_updates(weights, changes)
        return {"weights": weights, "rest": (state, key, scale)}, [value, weights]

    return Adapted(make, advance)


def frozen():
    core = need("flax.core")
    numpy = need("jax.numpy")

    def advance(tree, step):
        tree, (bias,) = tree.copy({"w": tree["w"] * (step + 2)}), tree["b"]
        return tree, [tree["w"], bias]

    return Adapted(lambda: core.freeze({"w": numpy.ones((2, 3)), "b": (numpy.zeros(2),)}), advance)


def nnx_module():
    nnx = need("flax.nnx")

    def make():
        rngs = nnx.Rngs(3)
        layers = (
            nnx.Linear(4, 3, rngs=rngs),
            nnx.BatchNorm(3, rngs=rngs),
            nnx.Dropout(0.5, rngs=rngs),
        )
        model = nnx.Sequential(*layers)
        model.epochs = 0
        return model

    def advance(model, step):
        model.epochs += 1
        if model.epochs == 2:
            model.eval()
        shown = model(ROWS.astype(np.float32))
        slopes = nnx.grad(lambda value: (value(ROWS.astype(np.float32)) ** 2).mean())(model)
        model.layers[0].kernel[...] = model.layers[0].kernel - 0.1 * slopes.layers[0].kernel
        return model, [np.asarray(shown), model.epochs, model.layers[2].deterministic]

    return Adapted(make, advance)


def compiled():
    torch = need("torch")

    def make():
        torch.manual_seed(3)
        layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        module = torch.nn.Sequential(*layers).to(memory_format=torch.channels_last)
        return torch.compile(module, backend="eager")

    def advance(module, step):
        generator = torch.Generator().manual_seed(step)
        images = torch.randn(2, 3, 6, 6, generator=generator)
        with torch.autocast("cpu", torch.bfloat16):
            loss = module(images.to(memory_format=torch.channels_last)).float().pow(2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.sub_(0.1 * parameter.grad)
        return module, [loss.detach(), *[parameter.detach() for parameter in module.parameters()]]

    return Adapted(make, advance)


def scaler():
    torch = need("torch")

    def advance(scaling, step):
        weight = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaling.scale(weight.sum() * (float("inf") if step % 2 else 1.0)).backward()
        scaling.step(optimizer)
        scaling.update()
        return scaling, [scaling.get_scale(), weight.detach()]

    return Adapted(lambda: torch.amp.GradScaler("cpu", init_scale=8.0), advance)


CASES = {
    "SGDClassifier": sgd, "Perceptron": perceptron, "MiniBatchDictionaryLearning": dictionary,
    "Birch": birch, "MLPClassifier": neural_network, "RandomForest": forest,
    "GradientBoosting": boosting, "Pipeline": pipeline, "ColumnTransformer": columns,
    "pandas": frame, "scipy.sparse": sparse, "emcee": sampler, "cma": strategy, "DEAP": population,
    "CartPole": environment("CartPole-v1"), "FrozenLake": environment("FrozenLake-v1"),
    "vector": environment("CartPole-v1", vector=True),
    "XGBoost": xgboost(), "XGBoost exact": xgboost(tree_method="exact", **SAMPLED),
    "XGBoost train": xgboost_train, "LightGBM": lightgbm,
    "JAX and optax": optax, "frozen dicts": frozen, "flax.nnx": nnx_module,
    "torch.compile": compiled, "GradScaler": scaler,
}  # fmt: skip


class TestLibraries(AdapterContract):
    @pytest.fixture(params=CASES)
    def adapted(self, request):
        return CASES[request.param]()


def test_a_frame_keeps_the_order_in_which_sums_add():
    pandas = need("pandas")
    table = pandas.DataFrame(np.random.default_rng(0).normal(size=(5, 400)).T.copy() * 1e8)
    table = table[[3, 1, 4]].assign(more=table[0])

    assert detach(table).sum(axis=1).to_numpy().tobytes() == table.sum(axis=1).to_numpy().tobytes()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"subsample": 0.5}, "set seed_per_iteration to true"),
        ({"booster": "dart", "rate_drop": 0.5}, "set seed_per_iteration to true"),
        ({**SAMPLED, "tree_method": "approx"}, "set tree_method to hist"),
    ],
)
def test_a_booster_whose_generator_cannot_be_saved_is_refused_by_name(settings, words):
    library = need("xgboost")
    booster = library.train(settings, library.DMatrix(ROWS, LABELS), 1)

    with pytest.raises(TaskFailedError, match=words):
        detach(booster)


def test_a_sampled_booster_that_is_updated_after_it_was_copied_is_refused_by_name():
    library = need("xgboost")
    data = library.DMatrix(ROWS, LABELS)
    copied = detach(library.train({"subsample": 0.5, "seed_per_iteration": True}, data, 1))
    copied.update(data, 1)

    with pytest.raises(TaskFailedError, match="xgb_model=booster"):
        detach(copied)


def test_a_booster_without_data_is_refused_in_words():
    library = need("xgboost")

    with pytest.raises(TaskFailedError, match="has seen no data yet") as caught:
        detach(library.Booster({"max_depth": 3}))
    assert "bt" not in str(caught.value)


def test_an_array_of_64_bits_without_those_of_jax_is_refused():
    jax = need("jax")
    parts = flatten([jax.numpy.arange(3.0)])
    leaves = {path: leaf.astype(np.float64) for path, leaf in parts.leaves.items()}

    with pytest.raises(ValueError, match="jax_enable_x64"):
        unflatten(parts.structure, leaves)


def test_an_environment_with_an_attribute_that_cannot_be_kept_is_refused_by_name():
    gym = need("gymnasium")
    env = gym.make("CartPole-v1")
    env.unwrapped.simulation = memoryview(b"")

    with pytest.raises(TaskFailedError, match="simulation"):
        flatten_values({"env": capture_object("env", env)})
    del env.unwrapped.simulation
    assert copy_object_state("env", env)


def test_an_object_inside_a_container_is_refused_with_the_way_to_keep_it():
    gym = need("gymnasium")

    fault = check_storable({"env": gym.make("CartPole-v1"), "episodes": 0}, "state")

    assert "'state/env'" in fault.message
    assert "in a task of init with rebuild: true" in fault.mend


def test_a_module_of_linen_is_refused_as_code_and_the_mend_names_what_to_keep():
    linen = need("flax.linen")

    with pytest.raises(TaskFailedError, match=r"flax\.linen, which is code.*params, opt_state"):
        detach({"apply": linen.Dense(3).apply})


def test_what_pandas_has_looked_up_before_is_no_part_of_an_array():
    pandas = need("pandas")
    values = pandas.array([1, None], dtype="Int64")
    before = flatten([values]).structure

    assert values.dtype.kind == "i"
    assert flatten([values]).structure == before
