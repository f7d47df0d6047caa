"""What is checked when a CustomResourceDefinition is written."""
