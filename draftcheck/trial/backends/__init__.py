"""What runs the models of a trial; backend.py says what each of them offers."""
