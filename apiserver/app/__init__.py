"""Builds every part of a server once, and connects the parts. Only this package sees all of them.

`serving` has sockets, TLS and logs, and `workers` the processes that share a port; neither knows the rest of
this package.

`server` runs one server from its start to its end. What it runs is in `parts`, which builds it part by part:
`stores` opens the store and its watch cache, `encryption` puts encryption between the two, `metrics` counts,
`secure_serving` has the port, and `core` holds what most parts are made with. `access` and `authentication`
identify the caller, and `authorization` decides what the caller may do, `handlers` has the handler of each
verb and the admission plugins before a write, `custom_resources` serves what definitions define,
`http_server` has the routes and the chain of middleware before them, `flow_control` queues requests, `audit`
records them, and `exposition` makes the text of /metrics. `outbound` has the clients of other servers,
`connectors` connects requests to them, and `aggregation` knows the versions that they serve.
`certificate_expiry` tracks certificates in files that no other part watches. `controllers` has the
controllers, `cluster` what the server publishes about itself, `release_sharing` adapts to servers of
older releases on the store, and `background` starts the tasks that run beside requests. `startup_probes`
answers probes while the store is unreachable at the start. `host_process` tells whether the process is the
server's alone, and what servers in it share; if it is, `load.memory_keeper` watches over its memory.
`process` runs one that is. `hooks` is the seam through which tests of clients add to a server what it does
not have. `doctor` is the command that finds the problems of a server, its configuration and its environment.
"""
