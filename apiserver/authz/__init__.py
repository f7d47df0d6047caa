"""Whether the caller may: attributes of a request to a decision, with the reason.

Authorizers are asked in turn until one has an opinion; without any, the answer is no. Row O03.
"""
