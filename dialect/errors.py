"""User errors, one class each: what was written, which rule it breaks, what to write instead, and where.

Each class carries its message template; the source location, when known, is appended.
"""


class AnabranchError(Exception):
    """Base of every error a user can cause. ``message`` is a template filled from the keyword arguments."""

    message = "{text}"

    def __init__(self, *, where: str | None = None, **fields):
        self.where = where
        self.fields = fields
        text = self.message.format(**fields)
        super().__init__(f"{text}\n  at {where}" if where else text)


class NotATensor(AnabranchError):
    """A fork or join of something else than tensors."""

    message = (
        "{call} takes tensors only, but argument {position} is {kind}: streams order the work that makes tensors, so "
        "pass other values around {call} as they are"
    )


class UnknownStream(AnabranchError):
    """A stream id that no stream can have."""

    message = (
        "{call}: {name} = {value!r} is no stream id: write an int, 0 for the caller's current stream or 1, 2, ... for "
        "side streams"
    )


class SameStream(AnabranchError):
    """A fork or join with only one side."""

    message = (
        "{call} crosses from one stream to another, but source and target are both {stream}: leave it out, or name two "
        "streams"
    )


class StreamMix(AnabranchError):
    """An op with operands on two streams."""

    message = (
        "{op} uses {first} on stream {stream} and {second} on stream {other}, but an op runs on one stream: write "
        "{edge} and use its result"
    )


class SourceContradiction(AnabranchError):
    """A fork or join from a stream on which its operand is not."""

    message = (
        "{call} takes {value} from stream {source}, but {value} is on stream {stream}: write source={stream}, or bring it "
        "to stream {source} first"
    )


class WrongDevice(AnabranchError):
    """A stream of a device on which the program has no tensor."""

    message = (
        "a stream of {stream_device} is used, but the program's tensors are on {devices}: use a stream of the tensors' "
        "device, or anabranch.stream(1), which is on whatever device its tensors are"
    )


class UnsupportedSync(AnabranchError):
    """A wait of the host inside a compiled program."""

    message = (
        "{call} makes the host wait inside the compiled function, which would stop all streams: move it out of the "
        "function; results are ready on the current stream when the call returns, so no wait is needed between ops"
    )


class TrainingNotSupported(AnabranchError):
    """A call that would need gradients."""

    message = (
        "backend 'anabranch' compiles for inference only, but {count} of the inputs and parameters require gradients and "
        "grad mode is on: call the compiled function under torch.no_grad() or torch.inference_mode()"
    )


class UnsupportedOp(AnabranchError):
    """Something in a graph that the importer cannot take."""

    message = "{op} cannot be compiled: {reason}"
