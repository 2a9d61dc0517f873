"""The wire: generated stubs, and their translation from and to the values of lakelog.format."""
