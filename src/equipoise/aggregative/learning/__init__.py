"""Learning equilibria of games with very many agents from samples (Algorithms 3 and 4)."""
