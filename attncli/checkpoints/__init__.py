"""Tensor stores: files that hold a model's parameters, read lazily and checked before use."""
