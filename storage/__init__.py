"""Keys, bytes and revisions: what the API server stands on, and nothing of HTTP or kinds.

One contract, `interface.Storage`, is kept by three implementations, and one conformance suite
(`tests/storage/contract`) holds all of them to it:

- `embedded`: SQLite in this process. One command and no other program; survives power loss.
- `etcd`: a cluster, any number of server replicas.
- `watch_cache`: a `Storage` in front of either, which answers reads and watches from memory.

Revisions are etcd's: one counter for the whole store, raised by every write; an object's
resourceVersion is the revision of its last write. Nothing here knows what a value means. What a layer
needs from above (how to decode a value, which values a watcher cares for) comes in as an argument, and
this package never imports `apiserver`.
"""
