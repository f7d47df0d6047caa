"""What tests of several parts need: real servers to start, and a way to ask for them."""
