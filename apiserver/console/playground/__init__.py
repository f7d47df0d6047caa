"""Evaluates CEL expressions against objects that a client sends: POST /console/cel.

    question           what a client asks, checked
    answers            the answer, and the evaluation of a compiled expression. Pure
    policy_expression  compiles and evaluates an expression of an admission policy. Pure
    rule_expression    compiles and evaluates a rule of a custom resource. Pure
    endpoint           answers requests

What it guarantees: expressions compile, cost and evaluate as in admission policies and in the schemas of
custom resources, because the same code does it; their costs are limited as there. Nothing is read but what
was sent, the schema of the named resource, and the caller's own permissions.

Left out: what happens around the expressions in an admission policy, as its matching and its messages; and
defaults, so that expressions see objects exactly as they were sent.
"""
