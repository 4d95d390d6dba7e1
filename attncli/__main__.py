"""`python -m attncli` is `attn`."""

from attncli.cli import main

main()
