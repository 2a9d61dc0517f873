"""Statements that people write on the query page, run where they can harm nothing."""
