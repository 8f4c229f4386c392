"""Draft trees: their shape, how they grow, who sees whom in them."""
