"""The job executor that removes expired partitions.

      partitions and their times, by the database's clock -> those that are old -> one overwrite, fenced by the job

No files are written, so a crash leaves none. An earlier holder is fenced. If the answer to a commit was lost, the next
holder finds it done, since its partitions are gone.
"""

from __future__ import annotations

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import Fence
from lakelog.format.jobs.job import Job
from lakelog.options.declared.partitions import PARTITION_EXPIRATION_TIME
from lakelog.options.values import TableOptions
from lakelog.sdk.maintenance.partition_expiry import expire_partitions
from lakelog.serving.logging_setup import Logger

from ..executor import Control
from ..job_commits import first_identifier
from ..metrics import Metrics


class PartitionExpiryJobExecutor:
    """Implements `JobExecutor` for jobs of the kind `expire-partitions`, each of one table."""

    def __init__(self, metastore: Metastore, metrics: Metrics, log: Logger) -> None:
        self._metastore = metastore
        self._metrics = metrics
        self._log = log

    def do(self, job: Job, control: Control) -> str:
        """Removes expired partitions; if there are too many for one commit, the rest is left for the next time."""
        control.check()
        info = self._metastore.get_table_by_uuid(job.table_uuid)
        if TableOptions(info.options).get(PARTITION_EXPIRATION_TIME) is None:
            # It was altered since the job became due.
            return ""
        result = expire_partitions(
            self._metastore,
            info,
            writer=job.lease,
            first_identifier=first_identifier(job),
            fence=Fence(job.lease, job.epoch),
        )
        reported = []
        if result.expired:
            self._metrics.expired_partitions.inc(len(result.expired))
            oldest = min(result.expired, key=lambda each: each.time_ms).partition
            reported.append(f"removed {len(result.expired)} expired partitions, the oldest {_show(oldest)}")
        if result.unknown_count:
            self._log.warning("partitions without a time", table=result.table, count=result.unknown_count)
            reported.append(
                f"left {result.unknown_count} whose time cannot be read, for instance {_show(result.unknown[0])}"
            )
        return ", ".join(reported)


def _show(partition: dict[str, object]) -> str:
    return ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in partition.items())[:500]
