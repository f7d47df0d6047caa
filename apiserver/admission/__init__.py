"""Admission: plugins that may change or refuse a write, beside the rules of the resource itself.

    chain                the interface of plugins, and the chain that calls those that handle a write
    plugins              all plugins, and in `plugins.builtin_plugins` the order in which they are called
    configuration        the configuration in `--admission-control-config-file`
    plugin_names         the names that `--enable-admission-plugins` takes, implemented or not
    webhooks             calls other servers
    extensions           calls functions of extensions
    policies             evaluates expressions that decide, or make patches
    reviewed_write       a write as all three see it: its version and labels
    selection            selects webhooks and functions by conditions and namespaces
    dispatchers          calls them, one by one or concurrently
    responses            checks what they answer
    rules                matches writes with their rules and selectors
    match_conditions     evaluates their match conditions
    plugin_context       the parts of the server that plugins need
    patched_documents    completes documents that webhooks and policies have patched
    compiled_objects     the objects that configure both
    listers              gets other objects for plugins
    namespace_lifecycle  objects are created only in namespaces that exist; cannot be disabled

The registry's write path (`registry.write_path`) calls the chain twice: `mutate` first, on the client's
object; `validate` after the resource's own rules, on the object exactly as it will be stored. Both return
warnings and raise ApiError to refuse. An update that is retried on a newer object calls them again.

Why this shape: the plugins that handle a write depend on its resource, subresource and operation, so the
chain looks them up in a table, and a write without plugins costs nothing. Plugins read other objects from the
watch cache (`listers`), as Kubernetes' read from informers.

`namespace_lifecycle` is not a plugin of the chain: the state of the namespace becomes a condition of the
transaction (`registry.guard`), so that no object is left behind in a namespace that is being emptied.

Webhooks are two further plugins (`webhooks`), and so are policies (`policies`): the writes that they handle
change with their configurations, as a plugin's `stamp` shows. The functions of extensions are two more
(`extensions`). If one of all these has changed the object, all plugins run again
(`chain.ReinvocationContext`).
"""
