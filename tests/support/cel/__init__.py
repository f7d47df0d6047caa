"""Parts of the Common Expression Language that Kubernetes does not offer, for the language's own tests.

blocks    what optimizers write
encoders  `base64.…`
math      `math.…`
"""
