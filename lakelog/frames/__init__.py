"""Arrow tables as people look at them: as data frames of other packages, and as HTML in notebooks."""

from lakelog.frames.data_frames import to_pandas, to_polars

__all__ = ["to_pandas", "to_polars"]
