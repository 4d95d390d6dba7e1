"""GGUF files as models: metadata to a configuration, tensors to a family's names, tokenizer."""
