"""What the compactor's command line and environment may say."""

from __future__ import annotations

import pytest

from compactor.config import parse_config
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableName

TARGET = {"LAKELOG_TARGET": "meta:7450"}


def test_defaults() -> None:
    config = parse_config(["run"], TARGET)
    assert (config.tables, config.once, config.lease_s, config.max_unavailable_s) == ((), False, 30.0, 300.0)
    assert (config.metrics_port, config.metrics_host, config.log_level) == (None, "127.0.0.1", "info")
    assert config.connect.target == "meta:7450"
    assert (config.spark_master, config.spark_conf) == ("", {})


def test_where_tasks_run() -> None:
    # The variable of other services does not have this one start Java.
    assert parse_config(["run"], {**TARGET, "LAKELOG_SPARK_MASTER": "local[2]"}).spark_master == ""
    environment = {**TARGET, "LAKELOG_COMPACTOR_SPARK_MASTER": "local[2]", "LAKELOG_SPARK_CONF": "spark.a=1;spark.b=2"}
    assert parse_config(["run"], environment).spark_master == "local[2]"
    config = parse_config(["run", "--spark-master", "spark://host:7077", "--spark-conf", "spark.b=3"], environment)
    assert (config.spark_master, config.spark_conf) == ("spark://host:7077", {"spark.a": "1", "spark.b": "3"})


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[4, 2]", "local-cluster[1,2,512]", "yarn", "spark://a:7077,b:7077", "k8s://h"]
)
def test_every_master_that_spark_takes(master: str) -> None:
    assert parse_config(["run", "--spark-master", master], TARGET).spark_master == master


def test_an_empty_variable_is_none() -> None:
    assert parse_config(["run"], {**TARGET, "LAKELOG_COMPACTOR_TABLES": ""}).tables == ()


def test_arguments_win_over_variables() -> None:
    environment = {
        "LAKELOG_TARGET": "meta:1",
        "LAKELOG_COMPACTOR_TABLES": "shop.a, shop.b,shop.a",
        "LAKELOG_COMPACTOR_LEASE_SECONDS": "5",
        "LAKELOG_COMPACTOR_METRICS_PORT": "0",
        "LAKELOG_CACHE_DIR": "/copies",
    }
    config = parse_config(["run", "--lease-seconds", "7", "--once", "--log-level", "debug"], environment)
    assert config.connect.target == "meta:1"
    assert config.connect.cache_folder == "/copies"
    assert config.tables == (TableName("shop", "a"), TableName("shop", "b"))
    assert (config.lease_s, config.metrics_port, config.once, config.log_level) == (7.0, 0, True, "debug")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tables", "orders"], "--tables orders: name a table as database.table"),
        (["--tables", "a.b.c"], "--tables a.b.c"),
        (["--tables", ""], "--tables='' names no table"),
        (["--tables", " , "], "--tables=' , ' names no table"),
        (["--spark-master", "foo"], "--spark-master=foo is no master of Spark: write local"),
        (["--spark-master", "host:7077"], "--spark-master=host:7077 is no master"),
        (["--lease-seconds", "0.5"], "--lease-seconds=0.5 must be a number from 1 to 3600"),
        (["--patience-seconds", "nan"], "--patience-seconds=nan"),
        (["--metrics-port", "70000"], "--metrics-port=70000"),
        (["--spark-conf", "memory=1g"], "--spark-conf memory=...: write it as spark.some.setting=value"),
        (["--log-level", "loud"], "--log-level=loud must be one of debug"),
    ],
)
def test_what_is_not_possible_is_said(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parse_config(["run", *arguments], TARGET)


@pytest.mark.parametrize("arguments", [[], ["walk"], ["run", "--nonsense"]])
def test_an_unknown_argument_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse_config(arguments, {})
    assert caught.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
