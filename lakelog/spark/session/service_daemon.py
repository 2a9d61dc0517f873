"""What Spark forks the Python workers of services from that run no functions of users: they know no pandas.

pyarrow imports pandas with its first array, which is 0.4 s of CPU in each worker. Where it has looked for pandas in
vain it takes a Series for a sequence like any other, so that users' functions may give other values: they have
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
