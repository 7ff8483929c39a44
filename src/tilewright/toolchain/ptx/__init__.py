"""PTX text to typed IR: `ir` the values, `instructions` the one table, `parser` the reader."""
