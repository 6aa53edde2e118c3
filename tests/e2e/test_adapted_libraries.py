"""Programs of other libraries whose state is a tree of objects: one line of the spec admits them.

Long: each start of one of these libraries takes seconds.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import jobrun
from tests.support.stored_runs import blobs, epochs, only_run

pytestmark = pytest.mark.long

NEAT = """\
import neat

INPUTS, WANTED = [(0, 0), (0, 1), (1, 0), (1, 1)], [0, 1, 1, 0]


def start(generators):
    kinds = neat.DefaultGenome, neat.DefaultReproduction, neat.DefaultSpeciesSet
    population = neat.Population(neat.Config(*kinds, neat.DefaultStagnation, "xor.cfg"))
    population.add_reporter(neat.StatisticsReporter())
    return population


def judge(genomes, config):
    for _, genome in genomes:
        network = neat.nn.FeedForwardNetwork.create(genome, config)
        pairs = zip(INPUTS, WANTED)
        genome.fitness = 4 - sum((network.activate(x)[0] - y) ** 2 for x, y in pairs)


def step(state, epoch, generators):
    return state.run(judge, 1).fitness
"""
NEAT_SETTINGS = """\
[NEAT]
fitness_criterion = max
fitness_threshold = 3.9
pop_size = 30
reset_on_extinction = False
no_fitness_termination = False

[DefaultGenome]
activation_default = sigmoid
activation_mutate_rate = 0.0
activation_options = sigmoid
aggregation_default = sum
aggregation_mutate_rate = 0.0
aggregation_options = sum
bias_init_mean = 0.0
bias_init_stdev = 1.0
bias_init_type = gaussian
bias_max_value = 30.0
bias_min_value = -30.0
bias_mutate_power = 0.5
bias_mutate_rate = 0.7
bias_replace_rate = 0.1
compatibility_disjoint_coefficient = 1.0
compatibility_weight_coefficient = 0.5
compatibility_enable_penalty = 1.0
conn_add_prob = 0.5
conn_delete_prob = 0.5
enabled_default = True
enabled_mutate_rate = 0.01
enabled_rate_to_true_add = 0.0
enabled_rate_to_false_add = 0.0
feed_forward = True
initial_connection = full_direct
node_add_prob = 0.2
node_delete_prob = 0.2
num_hidden = 0
num_inputs = 2
num_outputs = 1
response_init_mean = 1.0
response_init_stdev = 0.0
response_init_type = gaussian
response_max_value = 30.0
response_min_value = -30.0
response_mutate_power = 0.0
response_mutate_rate = 0.0
response_replace_rate = 0.0
single_structural_mutation = false
structural_mutation_surer = default
time_constant_init_mean = 1.0
time_constant_init_stdev = 0.0
time_constant_init_type = gaussian
time_constant_max_value = 30.0
time_constant_min_value = 0.1
time_constant_mutate_power = 0.0
time_constant_mutate_rate = 0.0
time_constant_replace_rate = 0.0
weight_init_mean = 0.0
weight_init_stdev = 1.0
weight_init_type = gaussian
weight_max_value = 30
weight_min_value = -30
weight_mutate_power = 0.5
weight_mutate_rate = 0.8
weight_replace_rate = 0.1
[DefaultSpeciesSet]
compatibility_threshold = 3.0
[DefaultStagnation]
species_fitness_func = max
max_stagnation = 20
species_elitism = 2
[DefaultReproduction]
elitism = 2
survival_threshold = 0.2
min_species_size = 2
"""
OPTUNA = """\
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)


def start(generators):
    return optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, n_startup_trials=3))


def loss(trial):
    x = trial.suggest_float("x", -3, 3)
    trial.set_user_attr("x2", x * x)
    chosen = trial.suggest_categorical("c", ["a", "b"])
    return (x - 1) ** 2 + trial.suggest_int("n", 0, 4) + (chosen == "a")


def step(state, epoch, generators):
    state.optimize(loss, n_trials=3)
    return state.best_value
"""
ASE = """\
import numpy as np
from ase import units
from ase.build import bulk
from ase.calculators.emt import EMT
from ase.md.langevin import Langevin
MORE

def start(generators):
    atoms = bulk("Cu", cubic=True) * (2, 2, 2)
    atoms.calc = EMT()
    return atoms


def step(state, epoch, generators):
    rng = np.random.default_rng(int(epoch))
    Langevin(state, 5 * units.fs, temperature_K=1500, friction=0.02, rng=rng).run(10)
    return float(state.get_potential_energy())
"""
ASE_ADAPTER = """
import jobrun
from ase import Atoms


def taken(atoms):
    return atoms.numbers, atoms.positions, atoms.get_momenta(), atoms.cell.array


def made(tree):
    atoms = Atoms(numbers=tree[0], positions=tree[1], momenta=tree[2], cell=tree[3], pbc=True)
    atoms.calc = EMT()
    return atoms


jobrun.adapt(Atoms, get=taken, make=made)
"""
SPEC = """\
jobrun: 1
name: job
init:
  - {task: g, rebuild: true, steps: [{call: "jobrun.generators:seeded", out: generators}]}
  - task: start
    needs: [g]
    steps:
      - best = 0.0
      - {call: "program:start", inout: [generators], out: state}
epoch:
  - {task: go, steps: [{call: "program:step", inout: [state, generators], out: best}]}
metrics: {best: best}
stop: [{epochs: 5}]
checkpoint: {every: 1ep}
"""


def _write(folder: Path, program: str, adapt: str = "") -> None:
    (folder / "program.py").write_text(program)
    (folder / "xor.cfg").write_text(NEAT_SETTINGS)
    (folder / "job.yaml").write_text(SPEC.replace("name: job", f"name: job{adapt}"))


def _metrics(run: Path) -> list[float]:
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["value"] for line in lines if line.get("event") == "Measured"]


@pytest.mark.parametrize(("name", "program"), [("neat", NEAT), ("optuna", OPTUNA)])
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_one_line_admits_all_classes_of_a_study_or_a_population(tmp_path, name, program, session):
    pytest.importorskip(name, reason="CI installs it")
    _write(tmp_path, program)
    refused = jobrun("run", "job.yaml", cwd=tmp_path)
    assert refused.returncode == 1
    assert "E202" in refused.stderr
    (line,) = re.findall(r"write (adapt: \[.*?\]) in the spec", refused.stderr)

    _write(tmp_path, program, f"\n{line}")
    options = ("--session", session)
    whole = jobrun("run", "job.yaml", "--run-dir", "whole", *options, cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    part = jobrun(
        "run", "job.yaml", "--max-epochs", "2", "--run-dir", "parts", *options, cwd=tmp_path
    )
    assert part.returncode == 75, part.stderr
    resumed = jobrun("resume", "--run-dir", "parts", *options, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr

    runs = [only_run(tmp_path / folder) for folder in ("whole", "parts")]
    assert _metrics(runs[0]) == _metrics(runs[1])
    if name == "neat":
        # The trials of a study have times.
        ours, theirs = (blobs(list(epochs(run).values())[-1]) for run in runs)
        assert ours == theirs


def test_a_class_that_comes_later_is_admitted_and_the_run_continues(tmp_path):
    (tmp_path / "things.py").write_text("class One: pass\nclass Two: pass\n")
    program = (
        "import things\ndef start(generators): return [0]\n"
        "def step(state, epoch, generators):\n"
        "    if epoch == 3: state += [things.One(), things.Two()]\n"
        "    return float(len(state) * epoch)\n"
    )
    _write(tmp_path, program)
    refused = jobrun("run", "job.yaml", cwd=tmp_path)
    assert refused.returncode == 1
    assert "these 2 classes: things.One, at 'state/1'; things.Two" in refused.stderr
    assert "epoch 2 is saved" in refused.stderr

    _write(tmp_path, program, "\nadapt: [things]")
    resumed = jobrun("run", "job.yaml", "--resume", "auto", "--strict", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert _metrics(only_run(tmp_path / "runs")) == [1.0, 2.0, 9.0, 12.0, 15.0]


def test_an_object_lives_on_and_what_its_adapter_leaves_out_is_named(tmp_path):
    pytest.importorskip("ase", reason="CI installs it")
    _write(tmp_path, ASE.replace("MORE", ASE_ADAPTER))
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "'state': the adapter of ase.atoms.Atoms does not keep '_calc'" in done.stderr
    (tmp_path / "plain.py").write_text(
        "import program\nstate = program.start(None)\n"
        "for epoch in range(1, 6): print(repr(program.step(state, epoch, None)))\n"
    )
    plain = subprocess.run(
        [sys.executable, "-W", "ignore", "plain.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(map(float, plain.stdout.split())) == _metrics(only_run(tmp_path / "runs"))


def test_a_function_without_a_name_in_a_calculator_is_the_reason_of_a_refusal(tmp_path):
    pytest.importorskip("ase", reason="CI installs it")
    _write(tmp_path, ASE.replace("MORE", ""), "\nadapt: [ase]")
    done = jobrun("run", "job.yaml", cwd=tmp_path)

    assert done.returncode == 1
    output = " ".join(done.stderr.split())
    assert "E202" in output
    assert "the function EMT.initialize.<locals>.<lambda>, which is not found by its name" in output
    assert "get=…, make=…" in output
