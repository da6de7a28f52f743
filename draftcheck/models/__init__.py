"""A text that names a model -> what its files say (ModelFacts). No opinion."""
