"""Metrics of the server, under the names that Kubernetes' dashboards expect.

`client_usage` counts requests by client, for /debug/clients.

Requests, calls to the store, admission and items of work queues are counted as they happen, in plain numbers
(`requests`, `storage`, `encryption`, `admission`, `match_conditions`, `conversion_webhooks`, `expressions`,
`controllers`, `work_queues`, `histograms`); the state of the store is read, and the lag of the watch cache
measured, at intervals (`storage_state`, `watch_cache`); the state of the watch cache and the counters of the
system are read when /metrics is requested (`watch_cache`, `process`), as are values that are derived from
other measurements (`request_filters`). A timer and a thread measure the turns of the event loop
(`event_loop`, `thread_stacks`); `allocations` counts cluster IPs and node ports of Services.

`profiles` makes profiles of the process on request: CPU time by stack, objects, tasks and long turns.

declarations.txt declares each metric: its type, stability, labels, help text and buckets, and the release
that deprecated it (`declarations`; those of kube-apiserver that are missing are in not_served.txt, with the
reason). `series` makes the lines of a metric by its name and its values. `registry` decides by the release,
and by flags, which are served.

`exposition` writes the text of all metrics in slices, between which the event loop serves other tasks. Users
who may create definitions could make any number of series: series are dropped with their definition, and are
bounded; beyond the bound all share one (`resource_series`).

This package does not depend on HTTP: `endpoints` serves /metrics, and `workers.metrics` adds up the texts of
several workers.
"""
