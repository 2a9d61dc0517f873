"""What the two dashboards show. Each metastore shows the waiting work of all, so its figures take `max` over them."""

from __future__ import annotations

from typing import Final

from dev.dashboards import Dashboard, Panel, Section, quantiles

_M: Final = "lakelog_metastore_"
_DB: Final = "lakelog_metastore_database_"
_RATE: Final = "[$__rate_interval]"
_NAMED: Final = "{{table}} {{consumer}}"


def _by_process(expression: str) -> dict[str, str]:
    """A figure of the Prometheus client, by the service of its process."""
    return {"{{service}} {{instance}}": f"{expression} * on (instance) group_left (service) lakelog_service_info"}


def _largest(level: str) -> dict[str, str]:
    """The tables with the most of a level, each by the metastore that did its last commit: others show earlier ones."""
    newest = f"{_M}last_commit_timestamp_seconds"
    is_newest = f"{newest} == on (table) group_left () max by (table) ({newest})"
    return {"{{table}}": f"topk(10, max by (table) ({_M}{level} and on (table, instance) ({is_newest})))"}


OPERATORS: Final = Dashboard(
    "lakelog-operations",
    "lakelog: services",
    (
        Section(
            "Services",
            (
                Panel(
                    "Processes",
                    "short",
                    {"{{service}} {{version}}": "sum by (service, version) (lakelog_service_info)"},
                    "Running processes by service and version",
                ),
                Panel("Metastores that serve", "short", {"serving": f"sum({_M}rpc_serving)"}),
                Panel(
                    "Memory",
                    "bytes",
                    _by_process("process_resident_memory_bytes"),
                ),
                Panel(
                    "Processors",
                    "percentunit",
                    _by_process(f"rate(process_cpu_seconds_total{_RATE})"),
                    "1 is a whole core; Python takes about one",
                ),
                Panel(
                    "Certificates",
                    "s",
                    {"until the first expires": "min(lakelog_server_certificate_remaining_seconds)"},
                ),
                Panel(
                    "Files and keys that cannot be used",
                    "short",
                    {
                        "{{setting}} refused": "max by (setting) (lakelog_server_rotation_refused)",
                        "{{setting}} empty": "max by (setting) (lakelog_server_rotation_empty)",
                    },
                    "1: the newest content is refused, or lets no one in",
                ),
            ),
        ),
        Section(
            "Calls of the metastore",
            (
                Panel(
                    "Calls by outcome",
                    "ops",
                    {"{{outcome}}": f"sum by (outcome) (rate({_M}rpc_calls_total{_RATE}))"},
                ),
                Panel(
                    "Slowest methods",
                    "s",
                    {
                        "{{method}} p99": "topk(10, histogram_quantile(0.99, "
                        f"sum by (le, method) (rate({_M}rpc_seconds_bucket{_RATE}))))"
                    },
                    "Streams count to their end",
                ),
                Panel(
                    "Open calls and watches",
                    "short",
                    {"calls and streams": f"sum({_M}rpc_open_calls)", "watches": f"sum({_M}watchers)"},
                ),
                Panel("Plans", "s", quantiles(f"{_M}plan_latency_seconds"), "From the request of a plan to its header"),
                Panel("Commits that wait", "short", {"at the gate": f"sum({_M}waiting_commits)"}),
                Panel(
                    "Failed transactions of commits",
                    "ops",
                    {"{{reason}}": f"sum by (reason) (rate({_M}group_failures_total{_RATE}))"},
                ),
            ),
        ),
        Section(
            "Postgres",
            (
                Panel(
                    "Transactions of commits",
                    "s",
                    quantiles(f"{_M}commit_transaction_seconds"),
                    "In the database, with repetitions",
                ),
                Panel("Commits in a transaction", "short", quantiles(f"{_M}group_size_commits")),
                Panel(
                    "Connections",
                    "short",
                    {
                        "{{state}}": f"sum by (state) ({_DB}connections)",
                        "transactions that wait for one": f"sum({_DB}waiting_transactions)",
                    },
                ),
                Panel("Lost connections", "ops", {"lost": f"sum(rate({_DB}lost_connections_total{_RATE}))"}),
                Panel(
                    "Age of the figures of waiting work",
                    "s",
                    {"youngest": f"min({_M}waiting_work_age_seconds)"},
                    "Above 300 s autoscalers act on old figures",
                ),
            ),
        ),
        Section(
            "Jobs",
            (
                Panel("Jobs", "short", {"{{kind}} {{state}}": f"max by (kind, state) ({_M}jobs)"}),
                Panel("Oldest job that is due", "s", {"{{kind}}": f"max by (kind) ({_M}oldest_due_seconds)"}),
                Panel(
                    "Jobs that ended",
                    "ops",
                    {"{{kind}} {{outcome}}": f"sum by (kind, outcome) (rate(lakelog_compactor_jobs_total{_RATE}))"},
                ),
                Panel("How long jobs take", "s", quantiles("lakelog_compactor_job_seconds", "kind")),
                Panel("Compactors at work", "short", {"working": "sum(lakelog_compactor_working)"}),
                Panel(
                    "Jobs taken over, files left",
                    "ops",
                    {
                        "{{kind}} taken over": f"sum by (kind) (rate(lakelog_compactor_takeovers_total{_RATE}))",
                        "{{kind}} files left": f"sum by (kind) (rate(lakelog_compactor_left_files_total{_RATE}))",
                    },
                ),
            ),
        ),
        Section(
            "Publishers and readers",
            (
                Panel(
                    "Failed steps of publishers",
                    "ops",
                    {"{{table}} {{reason}}": f"sum by (table, reason) (rate(lakelog_publisher_failures_total{_RATE}))"},
                ),
                Panel(
                    "Publishers",
                    "short",
                    {
                        "tables": "sum(lakelog_publisher_tables)",
                        "replicas": "max(lakelog_publisher_replicas)",
                        "calls of brokers that hang": "max(lakelog_publisher_hanging_calls)",
                    },
                ),
                Panel(
                    "New producers",
                    "ops",
                    {"{{table}}": f"sum by (table) (rate(lakelog_publisher_producer_reinits_total{_RATE}))"},
                ),
                Panel("Subscriptions", "short", {"open": "sum(lakelog_reader_subscriptions)"}),
                Panel(
                    "Ends of subscriptions",
                    "ops",
                    {
                        "{{outcome}}": f"sum by (outcome) (rate(lakelog_reader_subscriptions_ended_total{_RATE}))",
                        "refused": f"sum(rate(lakelog_reader_subscriptions_refused_total{_RATE}))",
                    },
                ),
                Panel("Bytes that clients have not taken", "bytes", {"untaken": "sum(lakelog_reader_untaken_bytes)"}),
            ),
        ),
    ),
)

TABLES: Final = Dashboard(
    "lakelog-tables",
    "lakelog: tables and data",
    (
        Section(
            "Commits",
            (
                Panel("Commits a second", "ops", {"{{outcome}}": f"sum by (outcome) (rate({_M}commits_total{_RATE}))"}),
                Panel(
                    "Commit latency",
                    "s",
                    quantiles(f"{_M}commit_latency_seconds"),
                    "From the arrival of a commit at the gate to its result",
                ),
                Panel("Refused commits", "ops", {"{{reason}}": f"sum by (reason) (rate({_M}conflicts_total{_RATE}))"}),
                Panel("Snapshots a second", "ops", {"{{kind}}": f"sum by (kind) (rate({_M}snapshots_total{_RATE}))"}),
                Panel("Added rows a second", "ops", {"{{kind}}": f"sum by (kind) (rate({_M}added_rows_total{_RATE}))"}),
            ),
        ),
        Section(
            "Freshness and lag",
            (
                Panel(
                    "Time since the last commit",
                    "s",
                    {"{{table}}": f"topk(10, time() - max by (table) ({_M}last_commit_timestamp_seconds))"},
                    "The ten tables that wait longest",
                ),
                Panel(
                    "From commit to log",
                    "s",
                    quantiles("lakelog_publisher_visibility_delay_seconds"),
                    "Until all records of a snapshot are visible in Kafka",
                ),
                Panel(
                    "From commit to changelog",
                    "s",
                    quantiles("lakelog_compactor_changelog_delay_seconds"),
                    "For changelogs that compactors make",
                ),
                Panel("Lag of logs", "s", {"{{table}}": f"topk(10, max by (table) ({_M}log_lag_seconds))"}),
                Panel(
                    "Snapshots that wait for publishers",
                    "short",
                    {
                        "{{table}}": f"topk(10, max by (table) ({_M}log_lag_snapshots))",
                        "of all logs": f"max({_M}publish_lag_snapshots)",
                        "logs that lag": f"max({_M}lagging_logs)",
                    },
                ),
                Panel("Logs with problems", "short", {"{{table}}": f"max by (table) ({_M}log_problems) > 0"}),
            ),
        ),
        Section(
            "Tables",
            (
                Panel("Live files", "short", _largest("live_files")),
                Panel("Live bytes", "bytes", _largest("live_bytes")),
                Panel("Live rows", "short", _largest("live_rows"), "Before merging"),
                Panel(
                    "Write amplification",
                    "short",
                    {
                        "of a day": "1 + "
                        'sum(increase(lakelog_compactor_compacted_bytes_total{direction="written"}[1d]))'
                        " / sum(increase(lakelog_compactor_new_bytes_total[1d]))"
                    },
                    "How often bytes were written that compactions took: once by writers, the rest by compactions",
                ),
                Panel(
                    "Bytes of compactions",
                    "Bps",
                    {
                        "{{direction}}": f"sum by (direction) (rate(lakelog_compactor_compacted_bytes_total{_RATE}))",
                        "new": f"sum(rate(lakelog_compactor_new_bytes_total{_RATE}))",
                    },
                ),
                Panel("Sorted runs when a compaction is planned", "short", quantiles("lakelog_compactor_sorted_runs")),
                Panel(
                    "Snapshots that nothing lets expire",
                    "short",
                    {"{{table}} {{kind}}": f"max by (table, kind) ({_M}overdue_snapshots)"},
                ),
                Panel(
                    "Expired snapshots, deleted files",
                    "ops",
                    {
                        "snapshots": f"sum(rate(lakelog_compactor_expired_snapshots_total{_RATE}))",
                        "{{kind}} files": f"sum by (kind) (rate(lakelog_compactor_deleted_files_total{_RATE}))",
                    },
                ),
            ),
        ),
        Section(
            "Pipelines and streams to sinks",
            (
                Panel(
                    "Rows of pipelines",
                    "ops",
                    {"{{pipeline}}": f"sum by (pipeline) (rate(lakelog_writer_rows_total{_RATE}))"},
                ),
                Panel(
                    "What waits in sources",
                    "short",
                    {
                        "{{pipeline}} files": "max by (pipeline) (lakelog_writer_lag_files)",
                        "{{pipeline}} records": "max by (pipeline) (lakelog_writer_lag_records)",
                    },
                ),
                Panel("Batches of pipelines", "s", quantiles("lakelog_writer_batch_seconds", "pipeline")),
                Panel(
                    "Time since the last batch",
                    "s",
                    {
                        "{{pipeline}}": "time() - max by (pipeline) (lakelog_writer_last_batch_timestamp_seconds)",
                        "{{stream}}": "time() - max by (stream) (lakelog_reader_stream_last_batch_timestamp_seconds)",
                    },
                ),
                Panel(
                    "Failures, dead letters",
                    "ops",
                    {
                        "{{pipeline}} failures": f"sum by (pipeline) (rate(lakelog_writer_failures_total{_RATE}))",
                        "{{pipeline}} dead": f"sum by (pipeline) (rate(lakelog_writer_dead_letters_total{_RATE}))",
                        "{{stream}} failures": f"sum by (stream) (rate(lakelog_reader_stream_failures_total{_RATE}))",
                    },
                ),
                Panel(
                    "Lag of streams to sinks",
                    "short",
                    {"{{stream}}": "max by (stream) (lakelog_reader_stream_lag_snapshots)"},
                ),
            ),
        ),
        Section(
            "Consumers",
            (
                Panel("Consumers", "short", {"{{state}}": f"max by (state) ({_M}consumers)"}),
                Panel("Lag of the slowest", "s", {"{{state}}": f"max by (state) ({_M}consumer_lag_seconds)"}),
                Panel(
                    "Slowest consumers",
                    "s",
                    {"{{table}} {{consumer}}": f"topk(10, max by (table, consumer) ({_M}slow_consumer_seconds))"},
                ),
                Panel(
                    "Snapshots and rows they have not done",
                    "short",
                    {
                        f"{_NAMED} snapshots": f"topk(10, max by (table, consumer) ({_M}slow_consumer_snapshots))",
                        f"{_NAMED} rows": f"topk(10, max by (table, consumer) ({_M}slow_consumer_rows))",
                    },
                ),
                Panel("Rows sent to subscriptions", "ops", {"rows": f"sum(rate(lakelog_reader_rows_total{_RATE}))"}),
                Panel("Lag of subscriptions", "short", {"snapshots": "max(lakelog_reader_lag_snapshots)"}),
            ),
        ),
    ),
)
