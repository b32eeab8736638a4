"""What gives the numbers of a table's rows beyond those of their own tests; a table names them by class path."""
