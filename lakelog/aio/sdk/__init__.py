"""The classes of the SDK for asyncio; `dev/aio_classes.py` writes them."""
