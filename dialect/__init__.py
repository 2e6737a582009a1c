"""What the stream ops mean: torch ops, MLIR ops, membership, capture, import. Knows nothing of kernels."""
