"""Admission: plugins that may change a write, or refuse it, beside the rules of the resource itself.

    chain                what a plugin is, and the chain that calls those that handle a write
    plugins              all plugins, and in `plugins.builtin_plugins` the order in which they are called
    configuration        what `--admission-control-config-file` says of them
    plugin_names         the names that `--enable-admission-plugins` takes, implemented or not
    webhooks             other servers that are asked
    policies             expressions that decide, or make patches
    reviewed_write       a write as both see it: in which version, with which labels
    rules                which writes their rules and selectors match
    match_conditions     evaluates the expressions by which they match
    plugin_context       what plugins need of the server
    patched_documents    what webhooks and policies have changed, made a document of its kind again
    compiled_objects     the objects that configure both
    listers              how plugins get other objects
    namespace_lifecycle  objects are created only in namespaces that exist; cannot be disabled

The chain is asked twice by the registry's write path (`registry.write_path`): `mutate` first, on what the
client wants; `validate` after the resource's own rules, on the object exactly as it will be stored. Both
return warnings and raise ApiError to refuse. An update that is retried on a newer object asks them again.

Why this shape: which plugins handle a write is known from its resource, subresource and operation, so the
chain looks that up in a table, and a write that none handles pays nothing. Plugins read other objects from
the watch cache (`listers`), as Kubernetes' read from informers.

`namespace_lifecycle` is not a plugin of the chain: what it has seen of the namespace becomes a condition of
the transaction (`registry.guard`), so that no object is left behind in a namespace that is being emptied.

Webhooks are two plugins more (`webhooks`), and so are policies (`policies`): which writes they handle changes
with their configurations, as a plugin's `stamp` tells. Where one has changed the object, all plugins have a
second turn (`chain.Rounds`).
"""
