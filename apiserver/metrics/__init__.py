"""What the server measures of itself, under the names that Kubernetes' dashboards know.

Requests, calls to the store, admission and the items of work queues are counted as they happen, in plain
numbers (`requests`, `storage`, `encryption`, `admission`, `match_conditions`, `conversion_webhooks`,
`expressions`, `controllers`, `work_queues`, `histograms`); the store is asked for its size at intervals
(`storage_size`); the state of the watch cache and what the system counts are read when /metrics is requested
(`watch_cache`, `process`), as is what follows from what others have measured (`request_filters`). A timer and
a thread measure the turns of the event loop (`event_loop`, `thread_stacks`); `allocations` tells what
Services are given.

declarations.txt says of each metric once what it is: its type, stability, labels, help text and buckets, and
which release has deprecated it (`declarations`; those of kube-apiserver that are missing are in
not_served.txt, with the reason). `series` makes the lines of a metric by its name and its values. `registry`
decides by the release, and by flags, which are served.

`exposition` writes the text of all of it in slices, between which others have their turn. Whoever may create
definitions could make any number of series: they go with their definition, and have a bound, beyond which all
are one (`resource_series`).

Nothing here knows HTTP: `endpoints` answers the request for /metrics, and `workers.metrics` adds up the texts
of several workers.
"""
