"""Policies: expressions that decide about writes, or change them, without calling another server.

    match_resources    matches requests with a policy or a binding. Pure
    policy             policies and bindings, compiled. Pure
    budget             evaluates their expressions, within what they may cost. Pure
    evaluation         evaluates a validating policy on one write with one set of parameters. Pure
    mutation           applies a mutating policy to one object with one set of parameters. Pure
    params             finds the objects that a binding refers to
    request_variables  the variables of a write for expressions
    bound_policies     the policies to evaluate for a write, with their bindings and parameters
    validating         the plugin for ValidatingAdmissionPolicies
    mutating           the plugin for MutatingAdmissionPolicies
    param_access       requires read access to the parameters of policies and bindings

Matching, and the view of a write, are shared with webhooks (`admission.reviewed_write`).

What it guarantees: a policy counts for the next write once the server has it. Expressions are bounded by cost
in Kubernetes' units; an evaluation that takes long on the event loop is repeated in a thread, with the same
result.

The result of a mutating policy is merged like an apply, by the type's definition
(`apply.apply_configuration`), or is a JSON patch; the fields that it sets have no owners. Policies are
evaluated in the order of their names, while Kubernetes has no order.

Source: k8s.io/apiserver, pkg/admission/plugin/policy.
"""
