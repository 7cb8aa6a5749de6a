"""Players that learn an unseen game in context: pre-trained transformers, and hand-built ones."""
