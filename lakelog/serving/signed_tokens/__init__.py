"""Tokens that an issuer has signed: its keys, and how tokens are verified."""
