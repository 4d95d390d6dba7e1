"""Analyses: each observes a run over one or more texts and returns a result. No printing here."""
