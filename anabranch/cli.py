"""The command ``anabranch``."""

import argparse
import sys
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    """Runs the command line ``argv`` (default: the process's own) and returns its exit code."""
    parser = argparse.ArgumentParser(prog="anabranch", description="Fork/join streams for PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="embed sentences with a pretrained model whose weights arrive on a copy stream")
    demo.add_argument("--device", choices=("cpu", "cuda"), help="where to run; default: cuda if there is a GPU")
    demo.add_argument(
        "--dump-dir", type=Path, metavar="DIR", help="where to write each stage; default: a new temporary folder"
    )
    demo.add_argument("--seed", type=int, default=0, help="the order of simulated streams, on a CPU")
    options = parser.parse_args(argv)
    if options.dump_dir is not None and options.dump_dir.is_file():
        parser.error(f"--dump-dir {options.dump_dir}: is a file; name a folder, or one to be made")

    import torch

    from anabranch.demo import run

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: this PyTorch finds no CUDA GPU; leave it out, or write --device cpu")
    where = torch.device("cuda", torch.cuda.current_device()) if device == "cuda" else torch.device("cpu")
    return run(where, options.dump_dir, options.seed)


if __name__ == "__main__":
    sys.exit(main())
