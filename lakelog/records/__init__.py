"""Records of text files and of topics: CSV, lines of JSON, values in text; for pipelines and `lakelog insert`.

The record formats of tables' own logs are in `lakelog/log/codecs/`.
"""
