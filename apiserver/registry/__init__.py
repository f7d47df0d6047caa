"""The served resources, and the generic registry: what a read or a write does to an object of any of them.

    served_resource   describes one resource of one version; `ResourceTable` holds all that are served now
    subresources      those with a kind of their own: scale, and those that connect to a node
    field_getters     reads the texts that field selectors are about
    strategy          the hooks in which resources differ: defaults, rules, names, deletion
    stored_object     the bytes in which objects are stored, cached and sent
    json_slices       parts of large objects that are found without decoding the rest
    object_keys       the keys of objects in the store
    object_sizes      how many objects a resource has, and how large they are
    own_writes        values that this server has written, until the cache sees them
    store             `Registry`: reads from the watch cache, and the entrance to writes
    selection         the keys and the predicate of a list or a watch
    chunks            the continue tokens of lists
    results           what writes, lists and deletions return
    write_request     a write as it is asked for: who, where, by which rules, and the draft of the object
    write_path        runs creates and updates through their stages, and retries
    write_stages      the stages that need no I/O: place, own, prepare, validate, compare
    declarative_validation  compares what checks find with what the declared rules of a type find
    field_managers    who owns which fields after a write
    owner_conversions  what a webhook has to convert to find the owners of fields in other versions
    delete_path       runs deletions
    deletion          the rules of deletions: finalizers, grace periods, when an object may go
    allocations       values that one object has and no other may have, as cluster IPs
    guard             conditions of a write on other keys
    transactions      the write itself, as one transaction of the store
    clock             the time that a server goes by, which tests can put forward
    version_codec     converts between stored bytes and the version that a client uses
    builtin_codec     the same for built-in types whose rules are about another version
    object_decoder    decodes stored values, and converts those stored in another version
    storage_form      in which version objects are stored, where it is not the hub version

What it guarantees:

- *One way for every write.* POST, PUT, PATCH, apply, scale, status and controllers all become one
  `WriteRequest` and pass the same stages in the same order (`write_path`). They differ in the function that
  makes the new object of the old one.
- *No lost update.* Every write is one transaction with the revision that its stages have seen as a condition.
  If another writer was faster, the stages run again on the newer object.
- *A stale copy never decides alone.* An update begins on the cached object, which saves a read. What fails on
  it, or would change nothing, is tried again on the stored object before a client hears of it.
- *Nothing stays behind.* Allocations, and the conditions on namespaces and definitions, are in the
  transaction of the object. There is no repair loop, and a refused write leaves nothing in memory.
- *Warnings are returned*, by each stage, and travel with a refusal (`ApiError.warnings`).

Why this shape: custom resources and built-in types have to behave alike, so there is one model
(`ServedResource`) and one path, and all that differs is data or a hook in a `Strategy`. As what is served
changes at run time, the table is immutable and is replaced as a whole.

Left out: HTTP (`endpoints`), the rules of single kinds (`catalogue`, `custom_resources`), and the
stores, of which it knows only `storage.interface` and the watch cache.
"""
