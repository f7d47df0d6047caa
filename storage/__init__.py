"""Stores of keys, bytes and revisions, which know nothing of HTTP, kinds or the API.

One contract, `interface.Storage`, has three implementations, and one conformance suite
(`tests/storage/test_contract.py`) runs on all of them:

- `embedded`: SQLite in this process. It needs no other program, and syncs each write to disk.
- `etcd`: a cluster, any number of server replicas.
- `watch_cache`: a cache in front of either, which answers reads and watches from memory.

`encryption` is a store in front of either store, beneath the cache, that keeps values encrypted. `history`
keeps what every key was, and who changed it, for longer than a store does.

What they share: `keys` (the key of an object), `resource_version` and `continue_token` (the forms in which
clients see revisions), `errors`, `lease_manager` (leases for objects that expire), `auto_compaction`,
`snapshot_file`, `store_copy` (to another store), `prefix_owner` (which program uses a prefix),
`private_directories`, `grpc_library` (gRPC's, with our settings), and `event_loop_turns` (long work takes
turns on the event loop, also in `apiserver`).

What the contract promises:

- *One order of writes.* Revisions are etcd's: one counter for the whole store, raised by every write; an
  object's resourceVersion is the revision of its last write. No revision is ever used twice.
- *Writes are transactions.* Each is done whole, if all its conditions hold, or not at all. One whose outcome
  cannot be known raises `errors.OutcomeUnknown`; it is never silently repeated.
- *Watches have no gaps.* A watch delivers every event after its start, once and in order, or ends with an
  error that says that the client has to list again.
- *Everything is bounded*: queues, histories, batches. A watcher that does not keep up is dropped; the store
  never waits for it.

Why this shape: three stores behind one contract let everything above be tested on the one that needs nothing,
and run on the one that scales. Nothing here knows what a value means: how to decode one, and which values a
watcher selects, are arguments. This package is installed as `apiserver.storage` and imports nothing else of
`apiserver`.

Left out: any knowledge of resources beyond the prefix of their keys.
"""
