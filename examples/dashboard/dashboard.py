# %% [markdown]
# # A live dashboard, fed by a subscription
#
# A shop takes orders, corrects some and cancels others. A dashboard shows revenue by item: in this terminal, and as a
# web page that this program serves by itself. It never reads the table again after its start: a subscription brings
# each change milliseconds after its commit, with the row before it, so the numbers are adjusted and not recounted.
#
# In the end we compare the numbers with SQL.
#
# `--seconds 600` lets the shop run longer (in a notebook: change `SECONDS`), `--port 8000` says where the page is.

# %%
import argparse
import itertools
import json
import random
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa

from lakelog.testing import check, open_sandbox, show

parser = argparse.ArgumentParser(description="A live dashboard, fed by a subscription.")
parser.add_argument("--seconds", type=float, default=4.0, help="how long the shop is open")
parser.add_argument("--port", type=int, default=0, help="the page's port; 0: a free one")
sandbox = open_sandbox("dashboard", parser=parser)
catalog = sandbox.catalog
SECONDS, PORT = sandbox.arguments.seconds, sandbox.arguments.port

# %% [markdown]
# ## The shop
#
# A thread that writes, ten times a second: new orders, a correction, a cancellation. It could be another program, or
# fifty of them.

# %%
ITEMS = ["cup", "jar", "pot", "tea"]
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string()), ("cents", pa.int64())])
orders = catalog.create_table("dashboard.orders", SCHEMA, primary_key=["id"], options={"bucket": 2})
is_closed = threading.Event()


def run_shop(seed: int = 7) -> None:
    """Writes until the shop is closed; each step is one commit."""
    chance = random.Random(seed)
    ids = itertools.count(1)
    there: list[int] = []
    while not is_closed.wait(0.1):
        there += (new := list(itertools.islice(ids, 3)))
        changed = [*new, chance.choice(there)]
        orders.upsert([{"id": each, "item": chance.choice(ITEMS), "cents": chance.randrange(2000)} for each in changed])
        if chance.random() < 0.3:
            orders.delete([{"id": there.pop(chance.randrange(len(there)))}])


# %% [markdown]
# ## The numbers
#
# `+I` and `+U` add a row, `-U` and `-D` take one away. That is all: no state by order is needed. `snapshots()` yields
# whole commits, so the numbers are always those of one snapshot, never of half a commit.

# %%
SIGNS = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}


class Numbers:
    """Revenue by item, and what waits for it to change."""

    def __init__(self) -> None:
        self.cents: defaultdict[str, int] = defaultdict(int)
        self.orders = 0
        self.snapshot_id = 0
        self._changed = threading.Condition()

    def add(self, changes: pa.Table, snapshot_id: int) -> None:
        """Applies the changes of one snapshot."""
        with self._changed:
            for row in changes.to_pylist():
                sign = SIGNS[row["_row_kind"]]
                self.cents[row["item"]] += sign * row["cents"]
                self.orders += sign
            self.snapshot_id = snapshot_id
            self._changed.notify_all()

    def to_json(self) -> str:
        """What the page gets."""
        with self._changed:
            return json.dumps(
                {"snapshot": self.snapshot_id, "orders": self.orders, "cents": dict(sorted(self.cents.items()))}
            )

    def wait_for_change(self, since: int, timeout_s: float) -> bool:
        """Blocks until a snapshot after `since` is in the numbers; False: there was none in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.snapshot_id > since, timeout_s)


numbers = Numbers()
stream = orders.subscribe(consumer_id="dashboard")


def follow() -> None:
    """Applies what the subscription brings, until it is closed."""
    for snapshot in stream.snapshots():
        numbers.add(snapshot.data, snapshot.snapshot_id)


# %% [markdown]
# ## The page
#
# Plain HTML and ten lines of script, nothing from elsewhere. Server-sent events bring the numbers: the server writes a
# line of text whenever a snapshot has changed them.

# %%
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Revenue by item</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; font: 1.1rem/1.5 system-ui, sans-serif; }
  body { max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }
  li { list-style: none; display: grid; grid-template-columns: 4rem 1fr 7rem; gap: 1rem; align-items: center; }
  ul { padding: 0; }
  meter { width: 100%; height: 1.5rem; }
  b { text-align: right; font-variant-numeric: tabular-nums; }
</style>
<h1>Revenue by item</h1>
<ul id="items"></ul>
<p id="state">waiting for the first snapshot ...</p>
<script>
  const items = document.getElementById("items"), state = document.getElementById("state");
  const events = new EventSource("/events");
  events.onmessage = (event) => {
    const numbers = JSON.parse(event.data), most = Math.max(1, ...Object.values(numbers.cents));
    items.replaceChildren(...Object.entries(numbers.cents).map(([name, cents]) => {
      const line = document.createElement("li"), label = document.createElement("span");
      const bar = document.createElement("meter"), amount = document.createElement("b");
      label.textContent = name;
      bar.max = most, bar.value = cents, bar.setAttribute("aria-label", name);
      amount.textContent = (cents / 100).toFixed(2);
      line.append(label, bar, amount);
      return line;
    }));
    state.textContent = `${numbers.orders} orders at snapshot ${numbers.snapshot}`;
  };
  events.onerror = () => { state.textContent = "the dashboard does not answer; trying again ..."; };
</script>
</html>
"""


def to_events() -> Iterator[bytes]:
    """The numbers whenever they have changed, and a comment every second, by which a page that is gone is noticed."""
    seen = -1
    while not is_closed.is_set():
        if numbers.wait_for_change(seen, 1.0):
            seen = numbers.snapshot_id
            yield f"data: {numbers.to_json()}\n\n".encode()
        else:
            yield b": still here\n\n"


class Dashboard(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/":
            self._begin("text/html; charset=utf-8")
            self.wfile.write(PAGE.encode())
        elif self.path == "/events":
            self._begin("text/event-stream")
            try:
                for event in to_events():
                    self.wfile.write(event)
                    self.wfile.flush()
            except ConnectionError:
                pass  # the page was closed
        else:
            self.send_error(404)

    def _begin(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet: the terminal has the numbers."""


server = ThreadingHTTPServer(("127.0.0.1", PORT), Dashboard)
server.daemon_threads = True
address = f"http://127.0.0.1:{server.server_port}/"

# %% [markdown]
# ## Open

# %%
threads = [threading.Thread(target=work, daemon=True) for work in (follow, run_shop, server.serve_forever)]
for thread in threads:
    thread.start()
print(f"The dashboard is at {address} for {SECONDS:g} seconds.")

# %% [markdown]
# This is the terminal's dashboard. In a notebook, open the page beside it.

# %%
closing = time.monotonic() + SECONDS
while time.monotonic() < closing:
    time.sleep(min(1.0, SECONDS))
    known = json.loads(numbers.to_json())
    most = max([1, *known["cents"].values()])
    print(f"\nsnapshot {known['snapshot']}, {known['orders']} orders")
    for item, cents in known["cents"].items():
        print(f"  {item}  {'█' * (30 * cents // most):30} {cents / 100:9.2f}", flush=True)

# %% [markdown]
# Our own visit to the page:

# %%
with urllib.request.urlopen(address, timeout=10) as page:
    check("the page is there", b"Revenue by item" in page.read())
with urllib.request.urlopen(address + "events", timeout=10) as events:
    first_event = json.loads(events.readline().removeprefix(b"data: "))
check("its events have numbers of all items", sorted(first_event["cents"]), ITEMS)

# %% [markdown]
# ## Closed
#
# When the shop has written its last order, the subscription brings it, and the numbers must be what SQL counts.
# (Snapshots that change no row, such as compactions, are not shown. So we wait for an order that we know.)

# %%
is_closed.set()
threads[1].join()
last = orders.upsert([{"id": 0, "item": "tea", "cents": 350}]).snapshot_id
assert last is not None
check("the subscription brings the last commit", numbers.wait_for_change(last - 1, 20.0))

by_sql = catalog.sql("SELECT item, sum(cents) AS cents, count(*) AS orders FROM dashboard.orders GROUP BY 1 ORDER BY 1")
show(by_sql, "What SQL counts")
rows = by_sql.to_arrow().to_pylist()
check("the dashboard's revenue is the same", dict(numbers.cents), {row["item"]: row["cents"] for row in rows})
check("so is its number of orders", numbers.orders, sum(row["orders"] for row in rows))
print(f"Snapshot {last}; the dashboard read the table once, at its start, when it was empty.")

# %%
stream.close()
server.shutdown()
server.server_close()
sandbox.close()
print("Done.")
