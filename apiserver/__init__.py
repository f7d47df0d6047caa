"""A resource API server that speaks the Kubernetes API.

A request goes down this list, and its answer comes back up:

    endpoints   connection, request record, middleware, negotiation, bytes
    authn       who asks
    authz       whether they may
    handlers    one verb each: its story, top to bottom
    admission   what else has a say about a write
    registry    what is served, and the rules for each resource
    storage     (a package of its own) keys, bytes and revisions

Beside the way of a request stand pure modules, which do no I/O and know no clock: `meta` (names,
selectors, object metadata, tables), `schema` (checks, prunes, sets defaults), `patch`, `wire` (protobuf,
YAML, CBOR), `catalogue` (the built-in types as data, and in `catalogue.rules` what is set and checked of
them). `controllers` go on without being asked. `app` builds every part once and wires them. import-linter
holds the directions; see pyproject.toml.

The rule above the others is *bytes first*: what is stored is what clients get. A get, a list or a watch
in JSON copies bytes from the watch cache to the socket without parsing them (`registry.stored_object`).
"""

__version__ = "0.1.0"

# The release of the Kubernetes API that is served.
EMULATED_VERSION = (1, 34)
