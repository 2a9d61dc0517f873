# %% [markdown]
# # Exactly once, or within milliseconds: what a Kafka consumer sees of a writer that dies
#
# A table with a *log* sends its changes to a Kafka topic. `log.consistency` says when:
#
# - `transactional` (the default): a record appears after the commit of its row, and exactly once.
# - `eventual`: a record appears milliseconds after its row was written, before the commit, which may never come.
#
# Two tables that differ in this option alone get the same rows. Their writer is a process of its own, and we kill it
# before its commit. A plain Kafka consumer, which knows nothing of lakelog, watches both topics.

# %%
import atexit
import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from lakelog.testing import check, open_sandbox, show

sandbox = open_sandbox("delivery", services=["publisher"], kafka=True)
catalog = sandbox.catalog

# %% [markdown]
# ## Two tables
#
# lakelog makes the topic with the table. The system table `$log` says its name.

# %%
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("parcel", pa.string())])
WAYS = ["transactional", "eventual"]

tables, topics = {}, {}
for way in WAYS:
    options = {"log.system": "kafka", "kafka.bootstrap.servers": sandbox.kafka, "log.consistency": way}
    tables[way] = catalog.create_table(f"delivery.{way}", SCHEMA, primary_key=["id"], options=options)
    topics[way] = tables[way].system_table("log").to_arrow()["topic"][0].as_py()
print(topics)

# %% [markdown]
# ## A plain consumer
#
# `read_committed` is all that it has to set: it leaves out records of Kafka transactions that are not committed.
# It notes of each record the parcel, when it came, and the header `attempt`, which records have that were sent before
# their commit: all rows that one writer tries to commit together have the same.

# %%
consumer = Consumer(
    {
        "bootstrap.servers": sandbox.kafka,
        "group.id": "watching",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "log_level": 1,  # no word about a broker that stops before we do
    }
)
consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics.values()])
records: dict[str, list[dict[str, str]]] = {way: [] for way in WAYS}
came_at: dict[tuple[str, str], float] = {}


def watch(until: Callable[[], bool], within_s: float = 30.0) -> bool:
    """Reads both topics until something is so; False: it was not within that time."""
    end = time.monotonic() + within_s
    while not until():
        if time.monotonic() > end:
            return False
        message = consumer.poll(0.05)
        if message is None:
            continue
        if message.error() is not None:
            raise RuntimeError(message.error())
        way = next(way for way, topic in topics.items() if topic == message.topic())
        value = message.value()
        assert value is not None
        parcel = json.loads(value)["after"]["parcel"]
        headers = {each[0]: each[1].decode() for each in message.headers() or () if isinstance(each[1], bytes)}
        records[way].append({"parcel": parcel, "attempt": headers.get("attempt", "")})
        came_at.setdefault((way, parcel), time.monotonic())
    return True


def parcels(way: str) -> list[str]:
    return [record["parcel"] for record in records[way]]


moments: list[dict[str, object]] = []


def note(what: str) -> None:
    """Remembers what each one sees at a moment."""
    seen = {f"{way} topic": len(parcels(way)) for way in WAYS}
    inside = {f"{way} table": tables[way].count() for way in WAYS}
    moments.append({"moment": what, **seen, **inside})


# %% [markdown]
# ## A writer that dies
#
# It writes three parcels to each table, in a transaction that it keeps open. Then we kill it, as the kernel does when
# memory is short: it can do nothing about it.

# %%
WRITER = """
import sys, time, lakelog

catalog = lakelog.connect(sys.argv[1])
catalog.register_writer("courier")
with catalog.transaction(writer="courier", identifier=1) as tx:
    for number in (1, 2, 3):
        for table in ("delivery.transactional", "delivery.eventual"):
            tx.table(table).upsert([{"id": number, "parcel": f"parcel {number}"}])
    print("written", flush=True)
    time.sleep(600)
"""

follower = tables["eventual"].subscribe("latest")
follower.read(timeout=0.5)
process = subprocess.Popen([sys.executable, "-c", WRITER, sandbox.target], stdout=subprocess.PIPE, text=True)
atexit.register(process.kill)  # if we are stopped before we kill it
assert process.stdout is not None
check("the writer has written its rows", process.stdout.readline(), "written\n")

# %% [markdown]
# It lives, and has not committed. The consumer of the eventual topic has all three parcels. That of the transactional
# topic has none, and the tables have none either.

# %%
watch(lambda: len(parcels("eventual")) >= 3)
watch(lambda: bool(parcels("transactional")), within_s=1.0)
note("written, not committed")
show(moments, "Parcels, as each one sees them")

written = ["parcel 1", "parcel 2", "parcel 3"]
check("the eventual topic has the parcels before their commit", sorted(parcels("eventual")), written)
check("the transactional topic has none", parcels("transactional"), [])
check("no table has one", [tables[way].count() for way in WAYS], [0, 0])

# %% [markdown]
# Now it dies.

# %%
process.send_signal(signal.SIGKILL)
check("the writer was killed", process.wait(), -signal.SIGKILL)
process.stdout.close()
watch(lambda: bool(parcels("transactional")), within_s=1.0)
note("killed")

check("the transactional topic still has nothing of it", parcels("transactional"), [])
check("the eventual topic has parcels that were never sent off", len(parcels("eventual")), 3)

# %% [markdown]
# ## Its successor
#
# A new courier takes the name over: from now on a commit of the old one would be refused, should it only have been
# frozen. It asks what is committed under its name, and does what is not.

# %%
catalog.register_writer("courier")
check("nothing of it is committed", catalog.last_identifier("courier", "delivery.eventual"), None)
with catalog.transaction(writer="courier", identifier=1) as tx:
    for number in (1, 2):  # the third parcel was cancelled meanwhile
        for way in WAYS:
            tx.table(f"delivery.{way}").upsert([{"id": number, "parcel": f"parcel {number}"}])
watch(lambda: len(parcels("transactional")) >= 2 and len(parcels("eventual")) >= 5)
watch(lambda: False, within_s=1.0)  # whatever else may come
note("committed by its successor")
show(moments, "Parcels, as each one sees them")

show(records["eventual"], "The records of the eventual topic: two attempts, of which one was committed")

check("both tables have two parcels", [tables[way].count() for way in WAYS], [2, 2])
check(
    "the transactional topic has each of them once", Counter(parcels("transactional")), {"parcel 1": 1, "parcel 2": 1}
)
counted = {"parcel 1": 2, "parcel 2": 2, "parcel 3": 1}
check("the eventual topic has them twice, and one that no table has", Counter(parcels("eventual")), counted)

# %% [markdown]
# A repeated commit changes nothing: the metastore knows that it has this number of this writer already.

# %%
with catalog.transaction(writer="courier", identifier=1) as tx:
    tx.table("delivery.transactional").upsert([{"id": 1, "parcel": "parcel 1"}])
watch(lambda: len(parcels("transactional")) > 2, within_s=1.0)
check("the repetition is not in the topic", len(parcels("transactional")), 2)

# %% [markdown]
# ## The third way: a subscription
#
# lakelog's own subscription to the eventual table has rows as early as the Kafka consumer, *and* takes back what was
# never committed: at once when a successor takes the name over, else ten seconds after the writer died.

# %%
changes = []
parcels_there: dict[int, str] = {}
while (batch := follower.read(timeout=2)) is not None:
    for row in batch.data.to_pylist():
        changes.append({"change": row["_row_kind"], "parcel": row["parcel"], "before its commit": batch.is_early})
        if row["_row_kind"] in ("+I", "+U"):
            parcels_there[row["id"]] = row["parcel"]
        else:
            parcels_there.pop(row["id"], None)
follower.close()
show(changes, "What the subscription to the eventual table showed")

check("it showed rows before their commit", any(change["before its commit"] for change in changes))
check("in the end it has what the table has", parcels_there, {1: "parcel 1", 2: "parcel 2"})

# %% [markdown]
# ## How soon?
#
# Ten more parcels, one commit each: the time from the write until a consumer has it.


# %%
def send_and_wait(way: str, number: int) -> float:
    """Milliseconds from a write until the plain consumer has its record."""
    parcel = f"parcel {number}"
    began = time.monotonic()
    tables[way].upsert([{"id": number, "parcel": parcel}])
    if not watch(lambda: (way, parcel) in came_at):
        raise TimeoutError(f"{parcel} did not come")
    return (came_at[way, parcel] - began) * 1000


delays = {way: [send_and_wait(way, number) for number in range(10, 20)] for way in WAYS}
medians = [{"log.consistency": way, "median, ms": round(statistics.median(delays[way]), 1)} for way in WAYS]
show(medians, "From the write until a plain consumer has it")

# %% [markdown]
# **Which one?** `transactional`, unless milliseconds count more than a wrong row now and then. If both count, use
# `eventual` with a subscription, which takes rows back. A consumer that counts an eventual topic by itself needs the
# headers `attempt` and `replaces`, as the page on the log says.

# %%
consumer.close()
sandbox.close()
print("Done.")
