"""The benchmark: methods against each other on the same prompts, and the report of what they did."""
