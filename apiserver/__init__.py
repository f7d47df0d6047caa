"""A Kubernetes-compatible API server: it serves the resources of Kubernetes over HTTP.

A request passes these packages from top to bottom, and its response returns the same way:

    endpoints   HTTP: connections, middleware, routes, negotiation, encoders; the verbs in `handlers`,
                the APIs of other API servers in `aggregation`, and priority and fairness in `flowcontrol`
    auth        authentication and authorization
    admission   admission plugins
    registry    the served resources, and what all of them share: reads, the write path, patches, conversion
                from the stored version (`stored_version_decoder`) to the client's (`version_codec`)
    storage     keys, bytes and revisions; a link to the folder beside this one

`types` makes definitions of custom resources from Python classes; users import it without the rest.
`extensions` runs the Python functions of users, in worker processes, for the parts that call them.

What is served comes from `catalogue`, which declares the built-in types, a package per API group and a module
per kind, and from `custom_resources`, which has CustomResourceDefinitions and serves what they define.

These do no I/O and read no clock: `schema` validates, prunes and sets defaults; `cel` evaluates expressions;
`wire` has protobuf, YAML and CBOR; `golang` has the rules of Go's standard library that clients can see;
`meta` has the words that all else is written in: errors, metadata, selectors, and the `releases` of
Kubernetes, with their APIs and feature gates. `load` keeps heavy work from the event loop and from the
memory, by threads and budgets; long lists take turns on the event loop, which `storage.event_loop_turns`
gives.

`console` serves web pages on which people see and change what the server has, with the rights that they have
anyway. `audit` records requests. `controllers` run in the background, on the informers and work queues of
`controller_runtime`. `webhooks` has the code that all calls of webhooks share. `cli` reads the flags, and
`app` builds every part once, connects them and runs the process; `metrics` measures, and `tracing` records
where the time of each request goes. `testing` and `pytest_plugin` are for users: servers inside of their
tests; `testkit` has the parts that only such servers use.

Names such as "row K31" in docstrings are rows of docs/requirements.md.

import-linter checks the direction of imports; see pyproject.toml. docs/explanation/architecture.md is the
map, and follows requests through the packages.

The first rule is *bytes first*: objects are stored as clients receive them. A get, a list or a watch in JSON
copies bytes from the watch cache to the socket without parsing them (`registry.stored_object`).
"""

__version__ = "0.1.0"
