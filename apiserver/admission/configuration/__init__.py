"""The configuration of admission plugins: what a file of `--admission-control-config-file` says.

    admission_configuration  the file: which plugin is configured by what
    plugin_configurations    what all plugins are configured with
    event_rate_limit, image_policy, pod_node_selector, pod_security, pod_toleration_restriction,
    resource_quota           what is configured of one plugin, as values

All of it is read before anything is built. A file with a mistake (a field that does not exist, a wrong type,
a value out of bounds) prevents the start: a plugin that is there for protection must not run with less than
its administrator has written. Values are as kube-apiserver reads them, from the same files. As there, what is
configured for a plugin that is not enabled is not read.

Objects in files are read by `wire.configuration_fields`, and files in the format of a kubeconfig by
`webhooks.kubeconfig`.

The plugins themselves are elsewhere (`admission.plugins`): nothing here knows what they do with it.
"""
