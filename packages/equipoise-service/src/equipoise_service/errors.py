"""Refusals of the service: each error has a message for people, an HTTP status and a code for programs."""

from equipoise.errors import ServiceError


class Refusal(ServiceError):  # noqa: N818  (nothing went wrong)
    """A request that is refused; the message names the offending value and the remedy. `code` is for programs."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class NotSignedIn(Refusal):
    """A request without a valid signature, token or session."""

    status, code = 401, "not-signed-in"


class WrongClock(Refusal):
    """A request whose signed time differs too much from the service's clock."""

    status, code = 401, "clock"


class Forbidden(Refusal):
    """An action that the person who asks is not allowed to take."""

    status, code = 403, "forbidden"


class NotFound(Refusal):
    """Something that does not exist, or that the person who asks may not see; the message does not say which."""

    status, code = 404, "not-found"


class RequestTimeout(Refusal):
    """A request whose body did not arrive in time."""

    status, code = 408, "slow"


class Conflict(Refusal):
    """A request that contradicts the present state."""

    status, code = 409, "conflict"


class TooLarge(Refusal):
    """A request whose body is larger than the limit."""

    status, code = 413, "too-large"


class UnsupportedMediaType(Refusal):
    """A request whose body has a content type that is not accepted."""

    status, code = 415, "content-type"


class Invalid(Refusal):
    """Content that is malformed or violates a rule."""

    status, code = 422, "invalid"


class TooMany(Refusal):
    """A request that would exceed a limit on a number of things."""

    status, code = 429, "too-many"


class RateLimited(TooMany):
    """A request over the rate limit; one will be answered again after `seconds`."""

    code = "too-many-requests"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, int(seconds) + 1)
        super().__init__(f"too many requests; try again in {self.seconds} s")


class Damaged(Refusal):
    """Stored data that differs from what the settlement decided."""

    status, code = 500, "damaged"


class Unavailable(Refusal):
    """A database that cannot be used at the moment."""

    status, code = 503, "unavailable"


class OutcomeUnknown(Unavailable):
    """A connection that was lost during a commit, so that the change may or may not have been made.

    The status is not 503, which tells programs that nothing was changed and that they may simply try again.
    """

    status, code = 500, "outcome-unknown"
