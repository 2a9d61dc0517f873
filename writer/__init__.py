"""The writer service: ingestion pipelines that fill tables from sources, exactly once."""
