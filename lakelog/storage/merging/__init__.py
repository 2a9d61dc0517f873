"""Merges the files of a bucket: the merge policy of a table, aligned runs, deletion vectors."""
