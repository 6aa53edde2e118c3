"""Check whether checkpoints can be uploaded to the object store that a spec names.

What is there already is not looked at, and a directory is a matter of the upload itself.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import replace

from jobrun.core.errors import EnvironmentFaultError, Fault
from jobrun.core.object_url import is_object_url, parse_object_url
from jobrun.graph.types import Job

_PROBE = ".probe-"


def check_upload(job: Job) -> tuple[Fault, ...]:
    """Check the upload to an object store by creating and deleting a small object.

    A store that does not answer now may do so later: unless the upload is required that is a
    warning. That there is no bucket, or no permission, is an error.
    """
    policy = job.checkpoint.upload
    if policy is None or not (job.checkpoint.enabled and is_object_url(policy.to)):
        return ()
    # Only who uploads there needs this.
    from jobrun.checkpoint.stores.bucket import Bucket  # noqa: PLC0415

    name = f"{_PROBE}{uuid.uuid4().hex}"
    try:
        bucket = Bucket(parse_object_url(policy.to))
        if not bucket.put_new(name, b"jobrun"):
            raise EnvironmentFaultError.of(
                "E336",
                f"cannot write {policy.to}: the store says that a new random name is taken",
                "see whether anything else answers in place of the store",
            )
        with contextlib.suppress(EnvironmentFaultError):
            # Who may write but not delete may upload.
            bucket.delete([name])
    except EnvironmentFaultError as error:
        # The name of the probe object is of no use to the user.
        fault = replace(error.faults[0], message=error.faults[0].message.replace(f"/{name}", ""))
        bears = fault.code == "E331" and not policy.required
        where = job.checkpoint.upload_at
        path = "checkpoint.collect" if job.checkpoint.collect_to else "checkpoint.upload.to"
        if bears:
            message = f"{fault.message}; it is tried again when an epoch is saved"
            return (Fault("W184", message, fault.mend, where, path, "warning"),)
        return (Fault(fault.code, fault.message, fault.mend, where, path),)
    return ()
