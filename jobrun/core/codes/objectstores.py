"""Error codes of checkpoints in object stores."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E330": Code(
        "the package for object stores is not installed",
        "URLs such as s3://bucket/runs are reached with the package obstore, which comes with "
        "jobrun's extra of that name. It is looked for before anything runs.",
        "checkpoint: {upload: {to: 's3://bucket/runs'}}   # without jobrun[obstore]",
    ),
    "E331": Code(
        "an object store does not do what it is asked",
        "It does not answer, or says that it cannot now; it was asked several times, for about a "
        "minute. The checkpoints of the run itself are untouched; what was sent so far is used "
        "again by the next try.",
        "AWS_ENDPOINT_URL=https://127.0.0.1:1 jobrun run spec.yaml",
    ),
    "E332": Code(
        "another checkpoint is in the object store",
        "An upload never replaces a checkpoint that differs from the one to be brought there: "
        "of two runners with one place, the first that has made an epoch's manifest has it. Where "
        "nodes bring their files there ('checkpoint.collect'), one directory of a run goes on with "
        "it, and copies of it are refused.",
        "aws s3 cp --recursive s3://b/runs/walk/old s3://b/runs/walk/20261121-0942-brisk-heron",
    ),
    "E333": Code(
        "a checkpoint in an object store is damaged",
        "What was fetched is not what the manifest tells of. None of it is used. Another epoch "
        "may be whole, and what was saved on the run's own disk can be uploaded again.",
        "aws s3 rm s3://b/runs/walk/20261121-0942-brisk-heron/epoch-000003/a.1f5e….h5",
    ),
    "E334": Code(
        "an object is not what was sent",
        "Each file is read back from the store before the epoch gets its manifest, and one has "
        "other bytes: something else writes there, or the way there is damaged. The epoch does "
        "not exist in the store.",
        "checkpoint: {upload: {to: 's3://bucket/runs'}}   # through a proxy that changes bytes",
    ),
    "E335": Code(
        "no run can be made of what is at the URL",
        "An upload brings the run's record and its spec beside the epochs, so that the run can go "
        "on on another machine. They are not there, are damaged, or there is no epoch.",
        "jobrun resume s3://bucket/runs   # say s3://bucket/runs/JOB/RUN",
    ),
    "E336": Code(
        "an object store lets nobody in there",
        "There is no such bucket, or the credentials in the environment are missing, wrong, or do "
        "not allow it. They are taken as the store's own tools take them (AWS_ACCESS_KEY_ID, "
        "GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, …), and written nowhere.",
        "checkpoint: {upload: {to: 's3://no-such-bucket/runs'}}",
    ),
    "W184": Code(
        "the object store for uploads does not answer yet",
        "Before a run begins, a small object is made where its checkpoints will go. That failed, "
        "perhaps for now only. With 'required: true' this is an error.",
        "checkpoint: {upload: {to: 's3://bucket/runs'}}   # while the network is down",
    ),
}
