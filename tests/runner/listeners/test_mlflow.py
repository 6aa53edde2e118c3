from __future__ import annotations

import pytest

from jobrun.testing.listeners import ListenerContract, listened_run, start

pytestmark = pytest.mark.long


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Return a client of the store in files that the tested processes write to."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    # A second of imports: not where other tests are collected.
    from mlflow.tracking import MlflowClient  # noqa: PLC0415

    return MlflowClient()


def _run_of(server, run):
    experiment = server.get_experiment_by_name("walk").experiment_id
    (listed_run,) = server.search_runs([experiment], f"tags.`jobrun.run_id` = '{run.run_id}'")
    return listed_run


class TestMlflow(ListenerContract):
    @pytest.fixture
    def name(self):
        return "mlflow"

    @pytest.fixture
    def read(self, server):
        def points(run):
            listed_run = _run_of(server, run)
            return {
                name: sorted(
                    (point.step, point.value)
                    for point in server.get_metric_history(listed_run.info.run_id, name)
                )
                for name in listed_run.data.metrics
            }

        return points


def test_a_run_has_its_params_texts_and_status_and_is_continued_when_nothing_was_lost(
    server, tmp_path
):
    run = listened_run(tmp_path)
    start("mlflow", run, {}, {1: {"loss": 0.5, "word": "good"}})
    first = _run_of(server, run)

    start("mlflow", run, {1: {"loss": 0.5}}, {2: {"loss": 0.25}})

    assert first.data.params == {"rate": "0.5", "kind": "a"}
    assert first.data.tags["word"] == "good"
    assert (first.info.status, first.info.run_name) == ("FINISHED", "brisk-heron")
    assert _run_of(server, run).info.run_id == first.info.run_id
