"""Deploy files -> the engines that they start, with every option in its place. Knows no models.

file        discover.py lists files, and finds those beside one (requirements, .env)
kind        kinds/choose.py has a row for each kind of file: names, what tells it, who reads it
words       text.py: a TextView is text that knows where each character stands in the file, a Word
            is such a text as a program gets it, with what is unknown in it.
            syntax/ cuts texts: shell_words.py makes RawWords of WordParts, variables.py expands
            them; yaml_tree.py, json_places.py and python_values.py make DocumentTrees of Words
command     kinds/shell.py takes sudo, srun, docker run … off; what is left is a Command.
            deployment.py collects the Commands and Documents of a file: its Contents
start       options/programs.py: which engine a command, image, call or document starts
options     options/given.py turns words and keys into GivenOptions, by the engine's table
            (options/tables.py) at the version that file_versions.py finds
findings    options/checks.py: options that this version does not have, values that it does not
            take, options that do not go together; and the changes for --fix
left over   leftovers.py: options of speculation that stand in no setup
deployment  find.py ties it together: target, draft, method, circumstances, findings: a Deployment
"""
