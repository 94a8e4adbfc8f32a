"""The base of all results: text, tables, pages, pictures and files."""
