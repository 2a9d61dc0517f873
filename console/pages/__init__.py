"""The pages: each function loads what a page shows. Synchronous; they run in worker threads."""
