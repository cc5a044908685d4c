"""The job table: its contract, and the SQL behind it."""
