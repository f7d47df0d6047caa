"""Where the time of a request goes: for the log of slow requests, and for OpenTelemetry.

    request_trace   the timed parts of the request that is being handled
    open_telemetry  sends a sample of requests as spans to a collector (`--tracing-config-file`)

Each request has a trace, which costs a list and a few tuples. Code that measures a duration for a metric also
records it as a part. At the end `endpoints.request_handler` logs a request that took too long,
with its parts. If the request is sampled, its parts become spans; only calls to other servers need a span
earlier, since they send its identity in their headers.

The trace is a context variable, so that storage and webhooks need no parameter for it. Work in the lanes of
`load.offload` runs in other threads, without one: it is timed from outside.

Sources: KEP-647 (API server tracing); W3C Trace Context; k8s.io/utils, trace.
"""
