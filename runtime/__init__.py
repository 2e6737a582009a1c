"""Runs plans on CUDA or simulated streams and registers the torch.compile backend. Knows nothing of MLIR."""
