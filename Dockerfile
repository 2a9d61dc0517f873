# The images of lakelog, a target each: docker build --target metastore --tag lakelog/metastore:0.1.0 .
# Targets: metastore, publisher, compactor, reader, console, writer, spark (streams, compactions on Spark, executors), cli; and
# `sbom`, whose files list what is in each of them: docker build --target sbom --output type=local,dest=sbom .
#
# Packages are those of requirements.lock, with its hashes; each image has only what k8s/images/<target>.txt names and what
# that needs.

FROM python:3.11.15-slim-bookworm AS python
# A user with a name: Hadoop, which Spark brings, asks for it.
RUN groupadd --gid 10001 lakelog && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp lakelog
ENV HOME=/tmp \
    PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/lakelog \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/lakelog

# ---- packages
FROM python AS packages
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /build
COPY requirements.lock ./
# uv is in the lock too, so it is checked like everything else.
RUN awk '/^[^ #]/ { wanted = /^uv==/ } wanted' requirements.lock >uv.lock \
 && pip install --no-cache-dir --no-deps --require-hashes --target /build/uv -r uv.lock \
 && python -m venv --without-pip /opt/venv
ENV UV=/build/uv/bin/uv UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_NO_CACHE=1 VIRTUAL_ENV=/opt/venv
COPY k8s/images/ ./images/

FROM packages AS metastore-packages
RUN "$UV" pip install --constraints requirements.lock -r images/metastore.txt \
 && python images/sbom.py lakelog/metastore 0.1.0 /opt/venv/sbom.json

FROM packages AS publisher-packages
RUN "$UV" pip install --constraints requirements.lock -r images/publisher.txt \
 && python images/sbom.py lakelog/publisher 0.1.0 /opt/venv/sbom.json

FROM packages AS compactor-packages
RUN "$UV" pip install --constraints requirements.lock -r images/compactor.txt \
 && python images/sbom.py lakelog/compactor 0.1.0 /opt/venv/sbom.json

FROM packages AS reader-packages
RUN "$UV" pip install --constraints requirements.lock -r images/reader.txt \
 && python images/sbom.py lakelog/reader 0.1.0 /opt/venv/sbom.json

FROM packages AS console-packages
RUN "$UV" pip install --constraints requirements.lock -r images/console.txt \
 && python images/sbom.py lakelog/console 0.1.0 /opt/venv/sbom.json

FROM packages AS spark-packages
# PySpark is a source distribution: what builds it comes from the lock too.
RUN "$UV" pip install --constraints requirements.lock --build-constraints requirements.lock -r images/spark.txt \
 && python images/sbom.py lakelog/spark 0.1.0 /opt/venv/sbom.json

FROM packages AS cli-packages
RUN "$UV" pip install --constraints requirements.lock -r images/cli.txt \
 && python images/sbom.py lakelog/cli 0.1.0 /opt/venv/sbom.json

FROM scratch AS sbom
COPY --from=metastore-packages /opt/venv/sbom.json /metastore.json
COPY --from=publisher-packages /opt/venv/sbom.json /publisher.json
COPY --from=compactor-packages /opt/venv/sbom.json /compactor.json
COPY --from=reader-packages /opt/venv/sbom.json /reader.json
COPY --from=console-packages /opt/venv/sbom.json /console.json
COPY --from=spark-packages /opt/venv/sbom.json /spark.json
COPY --from=cli-packages /opt/venv/sbom.json /cli.json

# ---- code, compiled, because pods cannot write it
FROM python AS code
COPY lakelog/ lakelog/
COPY metastore/ metastore/
COPY writer/ writer/
COPY compactor/ compactor/
COPY reader/ reader/
COPY console/ console/
# Folders of a checkout may be closed to other users.
RUN python -m compileall -q --invalidation-mode unchecked-hash . \
 && chmod -R a+rX .

# ---- images
FROM python AS metastore
COPY --from=metastore-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
COPY --from=code /opt/lakelog/metastore metastore
USER 10001:10001
CMD ["python", "-m", "metastore", "serve"]

FROM python AS publisher
COPY --from=publisher-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
COPY --from=code /opt/lakelog/writer writer
USER 10001:10001
CMD ["python", "-m", "writer", "publish"]

FROM python AS compactor
COPY --from=compactor-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
COPY --from=code /opt/lakelog/compactor compactor
USER 10001:10001
CMD ["python", "-m", "compactor", "run"]

FROM python AS reader
COPY --from=reader-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
COPY --from=code /opt/lakelog/reader reader
USER 10001:10001
CMD ["python", "-m", "reader", "serve"]

FROM python AS console
COPY --from=console-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
COPY --from=code /opt/lakelog/console console
USER 10001:10001
CMD ["python", "-m", "console", "serve"]

FROM python AS with-spark
COPY --from=spark-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
# Java comes with the packages. What it reads at each start of Spark is stored here once: half of the start's CPU. It fits
# Java and jars of the same times only, and layers of an image keep no fractions of seconds.
ENV XDG_CACHE_HOME=/opt/cache
RUN python -c 'import os; from lakelog.embedded.java import java_home; print(java_home(os.environ))' \
 && find /opt/cache /opt/venv/lib/python3.11/site-packages/pyspark/jars -exec touch --no-dereference --date=@0 {} + \
 && python -m lakelog.spark.class_archive \
 && chmod -R a+rX /opt/cache

FROM with-spark AS writer
COPY --from=code /opt/lakelog/writer writer
USER 10001:10001
CMD ["python", "-m", "writer", "--help"]

FROM with-spark AS spark
COPY --from=code /opt/lakelog/writer writer
COPY --from=code /opt/lakelog/compactor compactor
COPY --from=code /opt/lakelog/reader reader
COPY --chmod=755 k8s/images/executor.sh /opt/executor.sh
USER 10001:10001
ENTRYPOINT ["/opt/executor.sh"]
CMD ["python", "-m", "reader", "--help"]

FROM python AS cli
COPY --from=cli-packages /opt/venv /opt/venv
COPY --from=code /opt/lakelog/lakelog lakelog
RUN printf '#!/bin/sh\nexec python -m lakelog "$@"\n' >/usr/local/bin/lakelog && chmod 755 /usr/local/bin/lakelog
USER 10001:10001
CMD ["lakelog", "--help"]
