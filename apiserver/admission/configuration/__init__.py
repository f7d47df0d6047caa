"""The configuration of admission plugins, from the file of `--admission-control-config-file`.

    admission_configuration  the file itself, with the configuration of each plugin
    plugin_configurations    the configurations of all plugins
    event_rate_limit, image_policy, pod_node_selector, pod_security, pod_toleration_restriction,
    resource_quota           the configuration of one plugin, as values

All of it is read before anything is built. The server refuses to start on an invalid file (an unknown field,
a wrong type, a value out of bounds): a protecting plugin must not run with less than its administrator has
configured. Files and values are those of kube-apiserver. As there, the configuration of a plugin that is not
enabled is not read.

Objects in files are read by `wire.configuration_fields`, and files in the format of a kubeconfig by
`webhooks.kubeconfig`.

The plugins themselves are elsewhere (`admission.plugins`): this package does not depend on them.
"""
