"""Learning equilibria of very many agents from samples: Algorithms 3 and 4 of the paper."""
