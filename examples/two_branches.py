"""Two branches on two streams, in the two ways to write them. Runs on a CPU as on a GPU."""

import torch

import anabranch


@anabranch.compile
def with_ops(x, w):
    x1, w1 = anabranch.fork_stream(x, w, target=1)  # on stream 1 from here
    side = torch.softmax(x1 @ w1, dim=-1)
    main = torch.relu(x) + 1  # stream 0: the caller's
    return anabranch.join_stream(side, source=1) + main


@anabranch.compile
def with_context(x, w):
    with anabranch.stream(1):
        side = torch.softmax(x @ w, dim=-1)
    return side + torch.relu(x) + 1


device = "cuda" if torch.cuda.is_available() else "cpu"
x, w = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)
expected = torch.softmax(x @ w, dim=-1) + torch.relu(x) + 1
for function in (with_ops, with_context):
    torch.testing.assert_close(function(x, w), expected)
    print(anabranch.last_report(), end="\n\n")
