"""Python runs this when it starts with this folder on `PYTHONPATH`, as the Python processes of Spark in tests do.

Workers of tasks are forked from a daemon of lakelog, which leaves PySpark's archive of sources out
(`lakelog.spark.session.daemon`) and is left alone here. Spark starts Python sources of streams, and what plans reads
and commits writes, in its own way. They compile a part of PySpark from that archive again: 0.6 s of CPU each.
"""

import sys

if sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("pyspark."):
    # Not in other processes: they may have to find another lakelog first.
    from lakelog.spark.session.daemon import leave_archives_out

    sys.path[:] = leave_archives_out(sys.path)
