"""Error codes of the runtime layer: what the data of a reader say."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E230": Code(
        "a position in other data",
        "With restart: never a reader goes on where the last epoch ended. That is refused where"
        " the rows are not those of before: another number of them, or another share.",
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
        "a share without rows",
        "With shard, each node or instance gets a part of the rows. There must be at least as many"
        " rows as parts.",
        "readers: {train: {npz: three-rows.npz, fields: [x], shard: node}}   # on 4 nodes",
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
}
