"""What the validation of many kinds shares: checks of one field."""
