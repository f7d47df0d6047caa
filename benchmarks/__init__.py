"""Benchmarks: what the server does per second, compared with the least that does the same on this machine.

A figure alone says little, because machines differ. So each workload also runs, in the same run, on the least
that could do it with the same libraries (`bare`): an aiohttp low-level server over TLS that sends the same
bytes, or that parses JSON and puts it into the store, or the store's client alone. The targets in `workloads`
are ratios to these limits.

    python -m benchmarks                  everything, about a quarter of an hour
    python -m benchmarks get list         some workloads
    python -m benchmarks --seconds 1      shorter, for a first look
    python -m benchmarks --store etcd     on one of the stores, where there is a choice
    python -m benchmarks --check          exit 1 if a target is missed

`load` makes the requests, `processes` runs servers and reads their CPU time and memory. `workloads` has the
basic workloads, `applies` those of server-side apply, `custom_resources` those of custom resources,
`encodings` those of lists in other encodings and of OpenAPI, `scale` those of many clients and objects,
`collecting` those of what goes with its owner or namespace, `admission` what webhooks and policies cost,
`workers` what a second process adds, `features` what auditing, fairness, authorization and encryption cost,
`forks` what tests wait for that start, fork and reset a server in their process, and what a thousand servers
leave there. `console` has what a visitor of the console waits for.
`report` prints the results, and `bodies` has the objects that are created. `fan_out` has one writer and many
watches, which `watch_clients` reads in a process of its own; `ping` measures how long other requests wait.
"""
