"""Pods. What is inside their specs, and those of pod templates, is in `catalogue.pod_specs`."""
