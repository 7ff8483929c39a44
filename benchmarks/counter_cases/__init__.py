"""What `h200_counters.py` measures: cases that are rebuilt exactly, with or without a GPU."""
