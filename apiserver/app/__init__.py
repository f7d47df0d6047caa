"""Builds every part of a server once, and wires the parts. Only this package sees all of them.

`server` runs one server from its start to its end. What it runs is built part by part: `stores` opens the
store and its watch cache, `core` holds what most parts are made with, `access` decides who asks and who may,
`handlers` has what answers each verb and the admission plugins before a write, `http_server` the routes and
the chain of middleware before them, `controllers` the loops that run beside requests, `connectors` what
leads to other servers, and `cluster` what the server tells about itself. `waiting_room` answers probes while
a store that is needed first does not answer. `memory_keeper` watches over the memory of the process.
"""

from apiserver.app.server import App

__all__ = ["App"]
