"""The parts of `tools/fuzz.py`: start at `world`, what must hold, and `steps`, what is drawn."""
