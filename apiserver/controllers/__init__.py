"""Controllers: loops beside requests that bring stored objects to their desired state.

    controller_manager         runs the controllers of a server, some only while it is the leader
    leader_election            elects the leader among the servers on a store, by a Lease
    namespaces                 deletes the contents of namespaces that are being deleted
    namespace_conditions       reports their remaining objects as conditions
    garbage_collector          deletes, or releases, the dependents of deleted objects
    namespace_default_objects  the service account and the root CA that each namespace has
    service_account_tokens     the Secrets that contain tokens of service accounts
    legacy_token_uses          records uses of such tokens
    resource_quotas            the usage in the status of ResourceQuotas
    disruption                 the status of PodDisruptionBudgets
    ttl_after_finished         deletes finished Jobs
    cluster_trust_bundles      publishes the certificates by which pods verify this server
    certificate_requests       signs, approves and deletes CertificateSigningRequests
    policy_type_checking       reports type errors of expressions in the status of policies
    storage_version_migrator   rewrites objects that are not stored in their storage version
    migrated_definitions       reports in the status of definitions that their objects are migrated
    storage_protection         releases claims and volumes once they are not in use
    cluster_role_aggregation   the rules of aggregated ClusterRoles
    rbac_policy                keeps the RBAC authorizer up to date
    node_graph                 keeps the Node authorizer up to date, from the first request of a node
    replicas                   the servers that share a store: checks that they have the same keys, and their
    releases
    event_recorder             the Events by which controllers report
    api_service_registration   the APIServices of the group versions served here
    kubernetes_service         the Service `kubernetes` and its endpoints
    service_allocations        repairs allocations of Services: cluster IPs, node ports, IPAddresses
    service_cidrs              the networks that Services get their addresses from
    flow_control_objects       the FlowSchemas and priority levels that every server has
    authentication_info        the ConfigMap with clients' CAs for extension API servers
    kept_objects               the common parts of objects that the server itself keeps
    extension_definitions      applies the definitions of extensions before the server is ready
    extension_events           reports ended workers of extensions by Events
    extension_reconcilers      calls the functions of extensions that reconcile objects
    bootstrap, rbac_bootstrap  create the objects that must exist before the server is ready

What they guarantee: each step may be repeated, or done by two servers at once, because it is an update or a
deletion of a specific version of an object. So no step is lost or corrupted when a server dies, and a leader
may notice a moment too late that it no longer is one.

Who runs them: of the servers on one etcd, workers included, each runs those that do little work, and whose
results are needed soon: the accounts of a namespace, the rules of an aggregated role, the use of a claim.
Work that would be expensive to do twice (emptying namespaces, counting quota usage, collecting garbage) runs
on the leader only, by `ControllerSpec.leader_only`. A leader that stops hands over at once. When it dies, its
Lease has to expire first: for 15 s namespaces stay Terminating, and quotas do not shrink. The Lease is
renewed every 2 s, which is the only write on an idle etcd. The embedded store is open in one process only, so
that server is the leader, and there is no Lease.

Their building blocks are in `controller_runtime`: informers, work queues and the loop. They write through
`Registry`, without HTTP, admission and a user.

To add one: write a class with a `queue` and `run` (`controller_runtime.controller.Runnable`), add a row to
the table in `app.controllers`, and name it in `cli.flag_values.CONTROLLERS`. See above for `leader_only`.
`run` may be cancelled at any await; when the server leads again, a new object is built.

Left out: controllers of workloads, since nothing runs them here. The controllers of CustomResourceDefinitions
are in `custom_resources.serving`: they decide what is served. The controller that applies FlowSchemas is
beside what it configures, in `endpoints.flow_control_configuration`.
"""
