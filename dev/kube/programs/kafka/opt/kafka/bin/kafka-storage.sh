#!/bin/sh
# The image's script of this name, with the jars that tests use.
exec "$JAVA_HOME/bin/java" ${KAFKA_HEAP_OPTS:-} -XX:TieredStopAtLevel=1 -cp "$KAFKA_CLASSPATH" kafka.tools.StorageTool "$@"
