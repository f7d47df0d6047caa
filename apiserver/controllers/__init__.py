"""Controllers: loops beside requests that bring stored objects to the state that they should have.

    informer                   delivers the objects of a resource from the watch cache, and their changes
    work_queue                 the keys to look at: each once, rate-limited, with back-off
    controller                 the loop: take a key, reconcile it, retry it if that failed
    namespaces                 deletes the contents of namespaces that are being deleted
    namespace_conditions       tells what is left of them, as conditions
    namespace_default_objects  the service account and the root CA that each namespace has
    resource_quotas            the usage in the status of ResourceQuotas
    storage_protection         releases claims and volumes once they are not in use
    cluster_role_aggregation   the rules of aggregated ClusterRoles
    rbac_policy                keeps the RBAC authorizer up to date
    replicas                   the servers that share a store, and whether they have the same keys
    undone_writes              slows down writes that somebody undoes again and again
    api_service_registration   the APIServices of what is served here
    kubernetes_service         the Service `kubernetes` and its endpoints
    authentication_info        the ConfigMap by which extension API servers know clients' CAs
    kept_objects               what the two have in common
    bootstrap, rbac_bootstrap  create what has to be there before the server is ready

What they guarantee: every server on one store runs all of them, without a leader, so each step does no harm
when it is repeated, or done by two at once. An object that cannot be reconciled stops neither the others nor
the server.

Why this shape: it is client-go's and controller-runtime's, because everybody who writes controllers knows it.
Informers keep no copy of the objects: the watch cache has them already. Controllers write through `Registry`,
past HTTP and admission; no user is behind them.

To add one: write a class with a `queue` and `run` (`controller.Runnable`), yield it in
`app.controllers.build_controllers`, and name it in `cli.flag_values.CONTROLLERS`.

Left out: what kube-controller-manager does with workloads, since nothing runs them here. The controllers of
CustomResourceDefinitions are in `custom_resources`: they decide what is served.
"""
