"""What the service refuses: each error has a message for people, an HTTP status and a code for programs."""

from equipoise.errors import ServiceError


class Refusal(ServiceError):  # noqa: N818  (nothing went wrong)
    """Something that is not done; the message names the value and the remedy. `code` is for programs."""

    status = 400
    code = "refused"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class NotSignedIn(Refusal):
    """The request has no signature, token or session that counts."""

    status, code = 401, "not-signed-in"


class WrongClock(Refusal):
    """A request was signed at another time than now."""

    status, code = 401, "clock"


class Forbidden(Refusal):
    """Whoever is asking may not do this."""

    status, code = 403, "forbidden"


class NotFound(Refusal):
    """It does not exist, or not for whoever is asking: which of both is not said."""

    status, code = 404, "not-found"


class RequestTimeout(Refusal):
    """The body of a request did not come in time."""

    status, code = 408, "slow"


class Conflict(Refusal):
    """What is asked contradicts what is there already."""

    status, code = 409, "conflict"


class TooLarge(Refusal):
    """What was sent is larger than what is taken."""

    status, code = 413, "too-large"


class UnsupportedMediaType(Refusal):
    """The body of a request is not of the content type that is taken."""

    status, code = 415, "content-type"


class Invalid(Refusal):
    """What was sent is not what it should be."""

    status, code = 422, "invalid"


class TooMany(Refusal):
    """There are too many of these."""

    status, code = 429, "too-many"


class RateLimited(TooMany):
    """Too many requests were made; `seconds` until one will be answered."""

    code = "too-many-requests"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, int(seconds) + 1)
        super().__init__(f"too many requests; try again in {self.seconds} s")


class Damaged(Refusal):
    """What the database holds is not what was decided."""

    status, code = 500, "damaged"


class Unavailable(Refusal):
    """The database cannot be used just now."""

    status, code = 503, "unavailable"


class OutcomeUnknown(Unavailable):
    """The database was lost while it committed: what was asked may have been done or not.

    The status is not 503, which says that nothing was done and that programs may simply try again.
    """

    status, code = 500, "outcome-unknown"
