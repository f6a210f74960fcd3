"""Write numbers, tables and pages as text. Knows no answer."""
