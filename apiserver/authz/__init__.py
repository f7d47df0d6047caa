"""Authorization: decides, from the attributes of a request, whether the caller may do it, and says why.

Authorizers are asked in turn until one has an opinion; without any, the answer is no. Row O03.
"""
