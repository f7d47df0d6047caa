"""ValidatingAdmissionPolicies: expressions that decide about writes, without asking another server.

    match_resources  which requests a policy or a binding is about. Pure
    policy           policies and bindings, compiled. Pure
    evaluation       what a policy says about one write with one set of parameters. Pure
    params           finds the objects that a binding refers to
    plugin           the plugin of the chain
    param_access     who writes policies and bindings must be allowed to read what they refer to

Matching, and what expressions see of a write, is that of webhooks (`admission.webhooks`): `ReviewedWrite`.

What it guarantees: a policy counts for the next write once the server has it. Expressions are bounded by cost
in Kubernetes' units; what takes long on the event loop is evaluated again beside it, with the same result.

Left out: MutatingAdmissionPolicies; audit annotations are evaluated, since they may fail, and not kept, as
there is no audit log yet.

Source: k8s.io/apiserver, pkg/admission/plugin/policy.
"""
