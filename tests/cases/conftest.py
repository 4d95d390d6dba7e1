"""Run commands here as in the tests of the command line."""

from tests.cli.conftest import attn as attn
