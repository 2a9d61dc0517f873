# %% [markdown]
# # Change data capture: from a Debezium topic to a table, and on to Kafka
#
# A shop's database is captured by Debezium, which sends each change of the table `customers` to a Kafka topic. A
# *pipeline* of lakelog applies these changes to a table, each exactly once. The table has a *log*: a topic of its own
# with every committed change, and the row before and after it, so that others can follow without a memory of rows.
#
# ```
# database -> Debezium -> topic -> pipeline -> table -> publisher -> topic -> any consumer
#                                                |
#                                                +-> SQL, Spark, time travel, subscriptions
# ```
#
# We play the database and Debezium: the messages here have the form of those of Debezium's connector for Postgres.

# %%
import atexit
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from lakelog.testing import check, open_sandbox, show

sandbox = open_sandbox("crm", services=["publisher"], kafka=True)
catalog = sandbox.catalog

# %% [markdown]
# ## The source's topic

# %%
run = uuid.uuid4().hex[:8]
source_topic = f"dbserver.public.customers.{run}"
brokers: dict[str, str | int | float | bool] = {
    "bootstrap.servers": sandbox.kafka,
    "log_level": 1,
}  # no word about a broker that stops before we do
admin = AdminClient(brokers)
admin.create_topics([NewTopic(source_topic, 1, 1)])[source_topic].result()
producer = Producer(brokers)

Row = dict[str, object] | None
sent: list[int] = []
FIELDS = [
    {"field": "id", "type": "int64", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "city", "type": "string", "optional": True},
]


def send(op: str, before: Row, after: Row) -> None:
    """Sends a change as Debezium does: keyed by the primary key, with the row before and after it, and a schema."""
    row = after or before
    assert row is not None
    sent.append(len(sent))
    now_ms = time.time_ns() // 1_000_000
    payload = {
        "before": before,
        "after": after,
        "source": {
            "version": "3.3.1.Final",
            "connector": "postgresql",
            "name": "dbserver",
            "ts_ms": now_ms,
            "snapshot": "true" if op == "r" else "false",
            "db": "shop",
            "schema": "public",
            "table": "customers",
            "txId": 500 + len(sent),
            "lsn": 24_000_000 + 56 * len(sent),
            "xmin": None,
        },
        "transaction": None,
        "op": op,
        "ts_ms": now_ms,
    }
    rows = [{"field": name, "type": "struct", "optional": True, "fields": FIELDS} for name in ("before", "after")]
    others = [{"field": "op", "type": "string"}, {"field": "ts_ms", "type": "int64", "optional": True}]
    key, value = {"id": row["id"]}, {"schema": {"type": "struct", "fields": [*rows, *others]}, "payload": payload}
    producer.produce(source_topic, key=json.dumps(key), value=json.dumps(value))


def send_tombstone(number: int) -> None:
    """Sends a record without a value, for Kafka's compaction of the topic."""
    sent.append(len(sent))
    producer.produce(source_topic, key=json.dumps({"id": number}), value=None)


def customer(number: int, name: str, city: str) -> dict[str, object]:
    return {"id": number, "name": name, "city": city}


# %% [markdown]
# Debezium begins with a snapshot of the table (`r`), then sends what changes: `c` created, `u` updated, `d` deleted.
# After a `d` comes a tombstone, a record without a value, for Kafka's compaction. Each value has its schema with it, as
# Kafka Connect's converter sends it unless that is switched off; the pipeline takes messages without it as well.

# %%
send("r", None, customer(1, "Ada", "London"))
send("r", None, customer(2, "Alan", "Wilmslow"))
send("r", None, customer(3, "Grace", "New York"))
send("u", customer(2, "Alan", "Wilmslow"), customer(2, "Alan", "Manchester"))
producer.flush(30)

# %% [markdown]
# ## The table
#
# It has the source's primary key. `changelog-producer` = `lookup` makes its changelog, with old rows; `log.content` =
# `changelog` sends that to Kafka; `log.changelog-mode` = `all` keeps all of it, not only the last record of each key.

# %%
schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("city", pa.string())])
customers = catalog.create_table(
    "crm.customers",
    schema,
    primary_key=["id"],
    options={
        "changelog-producer": "lookup",
        "log.system": "kafka",
        "kafka.bootstrap.servers": sandbox.kafka,
        "log.content": "changelog",
        "log.changelog-mode": "all",
    },
)

# %% [markdown]
# ## The pipeline
#
# A pipeline is a YAML file and a process. The offsets of the source are committed *with* the rows, so a pipeline that
# dies at any moment neither loses nor repeats a change. Its name is its identity, so another run has another one. It
# runs on Spark, which takes some seconds to start.

# %%
PIPELINE = f"""
name: customers-{run}
table: crm.customers
mode: upsert
source:
  type: kafka
  bootstrap_servers: {sandbox.kafka}
  topic: {source_topic}
  format: debezium-json
schema: {{evolution: add-columns}}
trigger: {{interval: 200 ms}}
checkpoint: ./checkpoint
"""
file = sandbox.folder / "customers.yaml"
file.write_text(PIPELINE)
command = [sys.executable, "-m", "lakelog", "pipeline", "run", str(file), "--target", sandbox.target]
output = (sandbox.folder / "pipeline.log").open("w")
pipeline = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
atexit.register(pipeline.terminate)


def wait_for(what: str, is_so: Callable[[], bool], within_s: float = 90.0) -> None:
    """Waits until something is so; fails if it is not in time, or if the pipeline ends."""
    end = time.monotonic() + within_s
    while not is_so():
        if pipeline.poll() is not None or time.monotonic() > end:
            said = (sandbox.folder / "pipeline.log").read_text()[-2000:]
            raise RuntimeError(f"It does not come about that {what}. The pipeline said:\n{said}")
        time.sleep(0.1)


wait_for("the table has the source's three rows", lambda: customers.count() == 3)
show(customers, "The table, after the pipeline's first batch")

check("the update came after the row that it updates", customers.count("name = 'Alan' AND city = 'Manchester'"), 1)

# %% [markdown]
# ## The source changes, and its columns, too
#
# Grace leaves and Ada moves. Then the source gets a column, `visits`, and someone new arrives who has it. The pipeline
# may add columns (`evolution: add-columns`), so the table gets it, with the type that the message's schema says.

# %%
send("d", customer(3, "Grace", "New York"), None)
send_tombstone(3)
send("u", customer(1, "Ada", "London"), customer(1, "Ada", "Paris"))
FIELDS.append({"field": "visits", "type": "int32", "optional": True})
send("c", None, {**customer(4, "Edsger", "Austin"), "visits": 7})
producer.flush(30)

wait_for("the last change arrives", lambda: customers.count("id = 4") == 1)
show(customers, "The table now")
commits = customers.snapshots()
show(commits.select(["id", "writer", "identifier", "added_rows"]), "Its snapshots: a batch of the pipeline each")

check("Grace is gone", customers.count("id = 3"), 0)
check("the table has the new column", catalog.table("crm.customers").schema.field("visits").type, pa.int32())
check("the new customer has a value in it", customers.count("id = 4 AND visits = 7"), 1)
properties = dict(commits["properties"][-1].as_py())
offsets = {each["topic"]: each["offsets"] for each in json.loads(properties["pipeline.offsets"])}
print(f"The last commit has read up to: {offsets}")
check("the commit says that all records of the source are done", offsets[source_topic], [len(sent)])

# %% [markdown]
# ## On to Kafka
#
# Any Kafka consumer follows the table. It sees each change once, and none before its snapshot exists. This one keeps
# the number of customers by city, from `before` and `after` alone.

# %%
topic = customers.system_table("log").to_arrow()["topic"][0].as_py()
consumer = Consumer(
    {
        **brokers,
        "group.id": "by-city",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
    }
)
consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
by_city: dict[str, int] = {}
messages: list[dict[str, str]] = []
# An update is one record with both rows.
changes = customers.changes(after=0).to_arrow()["_row_kind"].to_pylist()
expected = len(changes) - changes.count("-U")
end = time.monotonic() + 30
while len(messages) < expected:
    message = consumer.poll(1.0)
    if message is not None and message.error() is None:
        value = message.value()
        assert value is not None
        change = json.loads(value)
        messages.append({"op": change["op"], **{name: json.dumps(change[name]) for name in ("before", "after")}})
        for row, sign in ((change["before"], -1), (change["after"], 1)):
            if row is not None:
                by_city[row["city"]] = by_city.get(row["city"], 0) + sign
    if time.monotonic() > end:
        raise TimeoutError(f"The log has {len(messages)} records only.")
consumer.close()
show(messages, f"The records of the topic {topic.rpartition('_')[0]}_...")

by_sql = catalog.sql("SELECT city, count(*) AS n FROM crm.customers GROUP BY city").to_arrow().to_pylist()
counted = {city: number for city, number in by_city.items() if number}
print(f"by city: {counted}")
check("the consumer counts what the table has", counted, {each["city"]: each["n"] for each in by_sql})
updates = [message for message in messages if message["op"] == "u"]
check("Ada's update has the row before it", [json.loads(update["before"])["city"] for update in updates], ["London"])

# %% [markdown]
# ## And the table is a lakehouse table
#
# The topic keeps what happened; the table also knows how things were.

# %%
show(customers.scan(snapshot_id=1), "The customers at snapshot 1")

check("Grace is still there", customers.scan(snapshot_id=1, filter="name = 'Grace'").count(), 1)

# %%
pipeline.terminate()
check("the pipeline ends in good order", pipeline.wait(60), 0)
output.close()
admin.delete_topics([source_topic])[source_topic].result()
sandbox.close()
print("Done.")
