#!/bin/sh
# What an executor's container runs: Spark passes the word `executor`, and everything else in variables.
set -eu
[ "${1:-}" = executor ] || exec "$@"
jars=$(python -c 'import pyspark, os; print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')
java=$(python -c 'import os; from lakelog.embedded.java import java_home; print(java_home(os.environ) / "bin" / "java")')
options=/tmp/java-options
# Options of Java come as SPARK_JAVA_OPT_0, _1 and so on; a file of arguments keeps what is in them as it is.
env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=/\1 /p' | sort -n | cut -d ' ' -f 2- | sed 's/["\\]/\\&/g; s/.*/"&"/' >"$options"
exec "$java" "@$options" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
