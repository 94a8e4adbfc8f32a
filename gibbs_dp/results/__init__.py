"""What every result shares: text, tables, pages, pictures and files."""
