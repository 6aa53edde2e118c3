"""Error codes of the runtime layer: what the data of a reader say."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E230": Code(
        "a position in other data",
        "With restart: never a reader goes on where the last epoch ended. That is refused where"
        " the rows are not those of before. Other nodes or instances divide what is left of a pass"
        " anew, which is refused where the places of some shares are not known, and for readers"
        " that are zipped, whose records must stay side by side.",
        "jobrun resume   # after rows were added to data.npy",
    ),
    "E231": Code(
        "a reader's class gives something else than rows",
        "A class named by 'call' gives one value for each field: as a tuple in the fields' order,"
        " as a mapping by their names, or, with one field, the value itself. Its read(n) gives"
        " arrays of up to n rows, and none or None at the end.",
        "readers: {train: {call: 'lib:Rows', fields: [x, y]}}   # and it yields x alone",
    ),
    "E232": Code(
        "no rows, or a share without rows",
        "With shard, each node or instance gets a part of the rows. There must be at least as many"
        " rows as parts. A data file must have rows at all.",
        "readers: {train: {npz: three-rows.npz, fields: [x], shard: node}}   # on 4 nodes",
    ),
    "E265": Code(
        "data that are not the pinned ones",
        "'jobrun lock SPEC' writes size and sha256 of every data file that the spec reads into a"
        " lock file beside it. A run refuses files with other bytes: put the pinned ones back, or"
        " pin what is there now.",
        "jobrun run ratings.yaml   # after ratings.csv was exported anew",
    ),
    "E266": Code(
        "a lock file that cannot be read",
        "The lock file beside the spec is not what 'jobrun lock' writes. Without it nobody knows"
        " which data are meant, so it is not passed over.",
        "jobrun run ratings.yaml   # ratings.lock.json has the marks of a merge conflict",
    ),
    "E267": Code(
        "data that are not pinned",
        "'jobrun lock --check' compares the data files that the spec reads with the lock file"
        " beside it, and one of them is not in it.",
        "jobrun lock ratings.yaml --check   # after the spec was given a second reader",
    ),
    "E288": Code(
        "no rows to read",
        "The fields of a reader are arrays of one length, whose first axis is the rows. Members of"
        " different lengths, single values and columns without a plain dtype have no such rows.",
        "readers: {train: {npz: data.npz, fields: [x, y]}}   # 100 rows of x, 99 of y",
    ),
    "E289": Code(
        "a member that does not fit into memory",
        "A compressed member of an npz file can only be read as a whole, which is refused above"
        " 1 GiB. Members that are stored are read piece by piece, whatever their size.",
        "readers: {train: {npz: made-by-savez_compressed.npz, fields: [x]}}",
    ),
    "E293": Code(
        "a format that needs another package",
        "Parquet files are read with pyarrow, which is not installed by default.",
        "readers: {train: {parquet: data.parquet, fields: [x]}}",
    ),
    "W142": Code(
        "a data file that is not pinned",
        "The spec has a lock file, and reads a data file that is not in it: nobody would notice if"
        " that were another one.",
        "jobrun run ratings.yaml   # after the spec was given a second reader",
    ),
    "W143": Code(
        "saves within an epoch that are not uploaded",
        "With checkpoint.every: N records the run is also saved within epochs, each such save in"
        " place of the one before. Only whole epochs are brought to checkpoint.upload: a run that"
        " goes on from the copy begins with the epoch after that.",
        "checkpoint: {every: 50 records, upload: {to: /mnt/copies}}",
    ),
}
