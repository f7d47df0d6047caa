"""Controllers: loops beside requests that bring stored objects to the state that they should have.

    controller_manager         runs the controllers of a server, some only while it is the leader
    leader_election            which of the servers on a store that is, by a Lease
    namespaces                 deletes the contents of namespaces that are being deleted
    namespace_conditions       tells what is left of them, as conditions
    garbage_collector          deletes, or releases, what deleted objects owned
    namespace_default_objects  the service account and the root CA that each namespace has
    service_account_tokens     the Secrets in which tokens of service accounts stand
    legacy_token_uses          notes that such tokens are used
    resource_quotas            the usage in the status of ResourceQuotas
    disruption                 the status of PodDisruptionBudgets
    ttl_after_finished         deletes finished Jobs
    cluster_trust_bundles      publishes the certificates by which pods know this server
    certificate_requests       signs, approves and deletes CertificateSigningRequests
    policy_type_checking       tells in the status of policies which expressions do not fit the objects
    storage_version_migrator   writes objects again that are not stored in their storage version
    migrated_definitions       reports in the status of definitions that their objects are migrated
    storage_protection         releases claims and volumes once they are not in use
    cluster_role_aggregation   the rules of aggregated ClusterRoles
    rbac_policy                keeps the RBAC authorizer up to date
    node_graph                 keeps the Node authorizer up to date, from when a node asks
    replicas                   the servers that share a store: whether they have the same keys, and releases
    event_recorder             the Events by which controllers tell what they have found
    api_service_registration   the APIServices of what is served here
    kubernetes_service         the Service `kubernetes` and its endpoints
    service_allocations        repairs what Services have been given: cluster IPs, node ports, IPAddresses
    service_cidrs              the networks that Services get their addresses from
    flow_control_objects       the FlowSchemas and priority levels that every server has
    flow_control_configuration  tells API Priority and Fairness of all there are
    authentication_info        the ConfigMap by which extension API servers know clients' CAs
    kept_objects               what objects of the server's own have in common
    bootstrap, rbac_bootstrap  create what has to be there before the server is ready

What they guarantee: each step does no harm when it is repeated, or done by two servers at once, because it is
an update or a deletion of an object as it was seen. So no step is lost or spoilt when a server dies, and it
does not matter when a leader notices a moment too late that it is none.

Who runs them: of the servers on one etcd, workers included, each runs those that do little, and that others
must not wait for: which accounts a namespace has, what an aggregated role allows, whether a claim is still
in use. What is much work to do twice (to empty a namespace, to count what a quota limits, to collect
garbage) runs on the leader only: it says so by `ControllerSpec.leader_only`. A leader that stops hands over
at once. When it dies, its Lease has to expire first, which is 15 s in which namespaces stay Terminating,
and quotas do not shrink. The Lease is renewed every 2 s, the only write on an etcd of which nobody wants
anything. The embedded store is open in one process only, so that server is the leader, and there is no
Lease.

What they are made of is in `controller_runtime`: informers, work queues and the loop. They write through
`Registry`, past HTTP and admission; no user is behind them.

To add one: write a class with a `queue` and `run` (`controller_runtime.controller.Runnable`), add a row to
the table in `app.controllers`, and name it in `cli.flag_values.CONTROLLERS`. Whether it is `leader_only` is
said above. `run` may be cancelled at any await; when the server leads again, a new object is built.

Left out: what kube-controller-manager does with workloads, since nothing runs them here. The controllers of
CustomResourceDefinitions are in `custom_resources.serving`: they decide what is served.
"""
