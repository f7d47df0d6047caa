"""Authorization: decides, from the attributes of a request, whether the caller may do it, and says why.

Authorizers are asked in turn until one has an opinion; without any, the answer is no. One that cannot answer
at once says so (`attributes.PendingDecision`), and who asks waits, as far as it can. Row O03.

    attributes             what is asked, and what is answered; the chain of authorizers
    configuration          which authorizers there are; authorizer_modes builds them
    rbac, node             the authorizers that decide by what is stored
    access_reviews         what a webhook is asked; match_conditions: whether it is
    selectors              what can be read of the selectors of a request
    rule_resolver          lists what somebody may do
    expression_authorizer  answers the checks of expressions
"""
