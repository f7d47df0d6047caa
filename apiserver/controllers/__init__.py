"""What goes on without being asked: loops that bring what is stored to where it should be."""
