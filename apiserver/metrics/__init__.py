"""What the server measures of itself, under the names that Kubernetes' dashboards know."""
