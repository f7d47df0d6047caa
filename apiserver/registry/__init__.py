"""The served resources, and the generic registry, which reads and writes objects of any of them.

    served_resource   describes one resource of one version; `ResourceTable` holds all that are served now
    subresources      subresources with their own kind, as scale, and those that connect to a node
    field_getters     reads the fields that field selectors compare
    strategy          the hooks in which resources differ: defaults, rules, names, deletion
    stored_object     the bytes in which objects are stored, cached and sent
    json_slices       parts of large objects that are found without decoding the rest
    object_keys       the keys of objects in the store
    object_sizes      how many objects a resource has, and how large they are
    store             `Registry`: reads from the watch cache, and the entrance to writes
    object_access     what handlers of single objects use of it, and what others can put in its place
    selection         the keys and the predicate of a list or a watch
    continue_tokens   the continue tokens of lists
    results           what writes, lists and deletions return
    write_request     the parameters of a write: its user, its target, its rules, and the proposed object
    write_path        runs creates and updates through their stages, and retries
    write_stages      the stages that need no I/O: place, own, prepare, validate, compare
    declarative_validation  compares the errors of checks with those of a type's declared rules
    patch             the formats of patches, and server-side apply
    field_managers    tracks the owners of fields after a write
    server_apply      server-side apply by the server itself
    field_manager_conversions  the webhook conversions that ownership of fields in other versions needs
    delete_path       runs deletions
    deletion          the rules of deletions: finalizers, grace periods, when an object may go
    allocations       values that one object has and no other may have, as cluster IPs
    invalidating_changes  finds the changes of admission that have made an object invalid
    guard             conditions of a write on other keys
    transactions      the write itself, as one transaction of the store, and the values last written
    clock             the clock of a server, which tests can advance
    history           the versions of objects and their authors: recorded, and read as they were
    version_codec     converts between the hub version and the version that a client uses
    builtin_version_codec  converts built-in types whose rules apply to another version
    stored_version_decoder  decodes stored values, and converts those stored in another version to the hub
    storage_form      in which version objects are stored, where it is not the hub version

What it guarantees:

- *One way for every write.* POST, PUT, PATCH, apply, scale, status and controllers all become one
  `WriteRequest` and pass the same stages in the same order (`write_path`). They differ in the function that
  makes the new object from the old one.
- *No lost update.* Every write is one transaction with the revision that its stages have seen as a condition.
  If another writer was faster, the stages run again on the newer object.
- *A stale copy never decides alone.* An update begins on the cached object, which saves a read. If the update
  fails on it, or would change nothing, it is tried again on the stored object before the client gets a
  response.
- *Nothing is left behind.* Allocations, and the conditions on namespaces and definitions, are in the
  transaction of the object. There is no repair loop, and a refused write leaves nothing in memory.
- *Warnings are returned*, by each stage, and travel with a refusal (`ApiError.warnings`).

Why this shape: custom resources and built-in types have to behave alike, so there is one model
(`ServedResource`) and one path, and all that differs is data or a hook in a `Strategy`. As what is served
changes at run time, the table is immutable and is replaced as a whole.

`patch` is pure, and imports nothing of the rest. Left out: HTTP (`endpoints`), the rules of single kinds
(`catalogue`, `custom_resources`), and the stores, of which it knows only `storage.interface` and the watch
cache.
"""
