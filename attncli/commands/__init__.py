"""Commands: options in, one call of the analyses, results handed to an output format."""
