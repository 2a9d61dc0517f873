"""Compiles Java sources in the driver program, by Spark's own compiler of generated code (Janino): no jar is needed."""

from __future__ import annotations

import functools
import logging
import tempfile
import threading
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

SOURCES: Final = resources.files("lakelog.spark.java")
_JAVA: Final = 8
"""The newest language that Janino knows; the compiled classes run in every newer Java."""

_NAMED: Final = ("Driver.java", "Query.java", "DefaultSource.java", "Catalog.java")
"""Classes that Spark finds by their names, each after those that it uses."""

_compiling = threading.Lock()


def stream_replacer(spark: SparkSession) -> Any:
    """The Java object that replaces streams; None: this Spark has other classes than the source uses."""
    return _once(_make_replacer, spark)


def source_installer(spark: SparkSession) -> Any:
    """The Java object that installs `DefaultSource.java`; None: this Spark has other classes than the sources use."""
    return _once(_make_installer, spark)


def _once(make: Callable[[Any], Any], spark: SparkSession) -> Any:
    with _compiling:
        return make(spark.sparkContext._gateway)


@functools.lru_cache(maxsize=1)
def _make_replacer(gateway: Any) -> Any:
    try:
        return (
            _compile(gateway, "TableStream.java", _context_loader(gateway))
            .getClassLoader()
            .loadClass("lakelog.TableStream$Replacer")
            .newInstance()
        )
    except (Py4JError, TypeError) as error:
        _log.warning(
            "Python reads the rows of streams, which is slower: Spark's own reader cannot (%.300s).", _said(error)
        )
        return None


@functools.lru_cache(maxsize=1)
def _make_installer(gateway: Any) -> Any:
    try:
        parent = loader = _context_loader(gateway)
        compiled = []
        for name in _NAMED:
            compiler = _compile(gateway, name, parent)
            parent = compiler.getClassLoader()
            compiled.append(compiler.getBytecodes())
        # Only once all are there: Spark would find a part of them by its name, and refuse the source in Python.
        for code_by_name in compiled:
            _add_classes(gateway, loader, code_by_name)
        return loader.loadClass("lakelog.DefaultSource$Installer").newInstance()
    except (Py4JError, TypeError) as error:
        _log.warning(
            "format('lakelog') reads by Python, which is slower, and spark.sql knows no tables of lakelog: %.300s.",
            _said(error),
        )
        return None


def _compile(gateway: Any, name: str, parent: Any) -> Any:
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setSourceVersion(_JAVA)
    compiler.setTargetVersion(_JAVA)
    compiler.setParentClassLoader(parent)
    compiler.cook(SOURCES.joinpath(name).read_text())
    return compiler


def _context_loader(gateway: Any) -> Any:
    return gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _add_classes(gateway: Any, loader: Any, code_by_name: Any) -> None:
    """Adds classes to the loader in which Spark looks for classes of users, which reads them from a folder."""
    with tempfile.TemporaryDirectory(prefix="lakelog-classes-") as folder:
        names: Sequence[str] = list(code_by_name)
        for name in names:
            place = Path(folder, *name.split(".")).with_suffix(".class")
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(code_by_name[name])
        loader.addURL(gateway.jvm.java.io.File(folder).toURI().toURL())
        for name in names:
            loader.loadClass(name)


def _said(error: Exception) -> str:
    # A class that is not there is a package for Py4J, which cannot be called.
    return str(error.java_exception if isinstance(error, Py4JJavaError) else error)
