"""The model side: what the arithmetic needs, the forward pass, families, loading."""
