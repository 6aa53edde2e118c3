from jobrun.core import errors
from jobrun.core.errors import Fault, JobrunError, Origin, SpecError, UsageError, errors_only
from tests.support.tables import each_case

EXIT_CODES = {
    "TaskFailedError": 1,
    "UsageError": 2,
    "SpecError": 3,
    "CheckpointError": 4,
    "DriftError": 5,
    "LockedError": 6,
    "EnvironmentFaultError": 7,
    "ProofError": 8,
    "ExpectationError": 9,
    "JobrunError": 70,
    "StoppedEarlyError": 75,
    "InterruptedRunError": 130,
}


@each_case("name", EXIT_CODES)
def test_each_class_is_an_exit_code(name):
    assert getattr(errors, name).exit_code == EXIT_CODES[name]


def test_an_error_keeps_all_its_faults():
    first, second = Fault("E001", "one"), Fault("E002", "two")

    assert SpecError(first, second).faults == (first, second)


def test_of_makes_an_error_of_one_fault():
    where = Origin("job.yaml", 1, 2)

    error = UsageError.of("E040", "no value", "give one", where=where, path="params.k")

    assert error.faults == (Fault("E040", "no value", "give one", where, "params.k"),)


def test_the_text_says_what_where_and_how_to_mend():
    error = SpecError.of(
        "E021", "unknown key", "write when", where=Origin("a.yaml", 3, 5), path="stop[0].wen"
    )

    assert str(error) == "error[E021] a.yaml:3:5  stop[0].wen: unknown key (write when)"


def test_the_text_leaves_out_what_is_not_known():
    assert str(JobrunError.of("E200", "it broke")) == "error[E200] it broke"


def test_warnings_do_not_fail_a_command():
    error, warning = Fault("E001", "one"), Fault("W100", "two", severity="warning")

    assert errors_only([warning, error]) == (error,)
