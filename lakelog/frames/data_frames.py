"""Arrow tables as data frames of packages that lakelog itself does not need."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.errors import InvalidArgument

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


def to_pandas(read: Callable[[], pa.Table]) -> pd.DataFrame:
    """Makes a pandas data frame from the result of `read`, which is not called without pandas.

    Raises:
        InvalidArgument: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise InvalidArgument("to_pandas() needs pandas, which is not installed: pip install pandas.") from error
    frame = read().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    return frame


def to_polars(read: Callable[[], pa.Table]) -> pl.DataFrame:
    """Makes a polars data frame from the result of `read`, which is not called without polars.

    Raises:
        InvalidArgument: polars is not installed.
    """
    try:
        import polars
    except ImportError as error:
        raise InvalidArgument("to_polars() needs polars, which is not installed: pip install polars.") from error
    frame = polars.from_arrow(read())
    assert isinstance(frame, polars.DataFrame)
    return frame
