"""Passes from value form to plan, one a file. Knows nothing of CUDA objects."""
