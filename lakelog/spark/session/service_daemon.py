"""The process from which Spark forks the Python workers of services without user functions: workers without pandas.

pyarrow imports pandas with its first array, which takes 0.4 s of CPU in each worker. If pandas is not found, pyarrow
treats a Series like any other sequence, so user functions could return other values; services with such functions use
`lakelog.spark.session.daemon`.
"""

from __future__ import annotations

from lakelog.spark.session.daemon import main


def _begin_worker() -> None:
    # Here and not above: importing pyarrow starts a thread, and all workers are forked from this process.
    from lakelog.without_pandas import leave_pandas_out

    leave_pandas_out()


if __name__ == "__main__":
    main(_begin_worker)
