"""All checks, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from lakelog.cli.doctor import machine, services, surroundings
from lakelog.cli.doctor.check import Check

_STORE: Final = (
    "Check that the folder or bucket exists, and is reached: LAKELOG_S3_ENDPOINT, LAKELOG_S3_REGION, keys and network."
)
_NETWORK: Final = "Check the network and the load of both sides, then try again."

CHECKS: Final = (
    Check("python", "the version of Python", machine.check_python, "Install Python 3.11 or newer."),
    Check("packages", "the packages that lakelog needs", machine.check_packages, 'pip install "lakelog[embedded]"'),
    Check("java", "the Java for Spark", machine.check_java, "Install Java 17 or newer, and set JAVA_HOME."),
    Check("disk", "room on the disks", machine.check_disk, "Check the disk with df -h."),
    Check("folders", "the permissions of folders and files with secrets", machine.check_folders, "Check with ls -ld."),
    Check("ports", "what listens at the metastore's port", machine.check_ports, _NETWORK),
    Check("metastore", "whether the metastore serves, and how fast", services.check_metastore, _NETWORK),
    Check("token", "who this caller is, and what it may do", services.check_token, _NETWORK),
    Check("clock", "this clock against that of the metastore's database", services.check_clock, _NETWORK),
    Check("versions", "client, metastore and services", services.check_versions, _NETWORK),
    Check("services", "whether all services report and answer", services.check_services, _NETWORK),
    Check("metrics", "whether metrics can be read, and look right", services.check_metrics, _NETWORK),
    Check("postgres", "the database", surroundings.check_postgres, "Check that Postgres runs, and its load."),
    Check("kafka", "brokers, and whether transactions are possible", surroundings.check_kafka, "Start the brokers."),
    Check("warehouse", "whether files can be made, read, listed, deleted", surroundings.check_warehouse, _STORE),
    Check("problems", "what is wrong with tables, jobs, logs and consumers", services.check_problems, "lakelog status"),
)
