"""What else has a say about a write, beside the rules of the resource itself.

Mutating admission comes before the registry's own checks, validating admission last, on the object
exactly as it will be stored.
"""
