"""What rows become in the log, and back: whole columns of records at once (SEMANTICS.md 4.4)."""

from lakelog.log.codecs.codec import EncodedPiece, LogCodec, LogForm

__all__ = ["EncodedPiece", "LogCodec", "LogForm"]
