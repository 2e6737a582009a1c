"""Anabranch: fork/join streams for PyTorch."""
