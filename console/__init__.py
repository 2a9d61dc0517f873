"""The console: what lakelog knows, as pages for people."""
