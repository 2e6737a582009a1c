"""Tests that need an NVIDIA GPU: skipped elsewhere."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            if "tests/cuda/" in str(item.path):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA GPU"))
