"""Requests of valid form and extreme content to every method of every service, and the checks after them."""
