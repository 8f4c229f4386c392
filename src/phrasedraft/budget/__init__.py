"""What a pass costs, and how many draft tokens are worth it."""
