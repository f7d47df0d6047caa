"""Everything inside a PodSpec, wherever one stands: in pods, and in the templates of what makes pods."""
