"""The demo: a year of flights out of New York through a pipeline, the SDK and Spark, checked against its source."""
