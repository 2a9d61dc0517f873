"""What commands read: arguments, confirmations, files of rows."""
