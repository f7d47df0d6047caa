"""HorizontalPodAutoscalers, which are stored as v2 and served as v1 too."""
