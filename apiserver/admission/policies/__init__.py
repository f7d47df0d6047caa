"""Policies: expressions that decide about writes, or change what is written, without asking another server.

    match_resources    which requests a policy or a binding is about. Pure
    policy             policies and bindings, compiled. Pure
    budget             evaluates their expressions, within what they may cost. Pure
    evaluation         what a validating policy says about one write with one set of parameters. Pure
    mutation           what a mutating policy makes of one object with one set of parameters. Pure
    params             finds the objects that a binding refers to
    request_variables  what expressions see of a write
    bound_policies     which policies have to be evaluated for a write, with their bindings and parameters
    validating         the plugin of the chain that asks ValidatingAdmissionPolicies
    mutating           the plugin that asks MutatingAdmissionPolicies
    param_access       who writes policies and bindings must be allowed to read what they refer to

Matching, and what expressions see of a write, is what webhooks have, too (`admission.reviewed_write`).

What it guarantees: a policy counts for the next write once the server has it. Expressions are bounded by cost
in Kubernetes' units; what takes long on the event loop is evaluated again beside it, with the same result.

What a mutating policy makes is merged as an apply is, by the type's definition (`apply.apply_configuration`),
or is a JSON patch; nobody owns the fields that it sets. Policies are evaluated in the order of their names,
where Kubernetes has none.


Source: k8s.io/apiserver, pkg/admission/plugin/policy.
"""
