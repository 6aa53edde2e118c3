"""What is known of an operator's result before it is computed. No numpy, and no guess."""
