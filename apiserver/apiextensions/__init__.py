"""CustomResourceDefinitions as objects: what they say, their validation, and the rules in their schemas."""
