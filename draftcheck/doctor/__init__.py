"""draftcheck doctor: does the Hub still answer as draftcheck takes for granted?"""
