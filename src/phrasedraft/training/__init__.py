"""From answers of the target to a trained head."""
