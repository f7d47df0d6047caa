"""Authorization: decides, from the attributes of a request, whether the user may make it, and why.

Authorizers are called in turn until one allows or denies; otherwise the request is denied. One that cannot
decide immediately returns an `attributes.PendingDecision`, for which the caller waits if it can (row O03).

    attributes             the attributes of requests, and the verdicts
    chain                  calls the authorizers, the one for `system:masters` first
    configuration          the configured authorizers; authorizer_modes builds them
    rbac, node             the authorizers that decide by stored objects
    access_reviews         the requests to webhooks; match_conditions: their conditions
    selectors              reads the selectors of a request
    rule_resolver          lists what a user may do
    expression_authorizer  answers the checks of expressions
"""
