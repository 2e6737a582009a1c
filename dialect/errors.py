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


class InternalError(AnabranchError):
    """A stage broke its own promise: a defect of the compiler, never of the program."""

    message = "internal error in {stage}: {text}. This is a defect of anabranch; please report it with the dumped stages."
