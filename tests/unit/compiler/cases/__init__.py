"""Programs that are run eagerly and compiled, a table for each kind of state: read harness.py."""
