"""Deploy files -> the engines that they start, with every option in its place. Knows no models.

file        discover.py lists files; neighbours.py finds those beside one (requirements, .env)
kind        kinds/choose.py asks each module of kinds/ whether the file is its own
words       text.py: a TextView is text that knows where each character stands in the file.
            syntax/ cuts it: shell_words.py makes RawWords of WordParts, variables.py expands them
            to CommandArguments (a Word and its TextView); yaml_tree.py, json_places.py and
            python_values.py make DocumentTrees of Words. A Word is text, place and what is unknown
command     kinds/wrappers.py takes sudo, srun, docker run … off; what is left is a Command.
            contents.py collects the Commands and Documents of a file: its Contents
start       options/programs.py: which engine a command, image, call or document starts
options     options/arguments.py and documents.py turn words and keys into GivenOptions, by the
            engine's table (options/tables.py) at the version that file_versions.py finds
findings    options/checks.py and values.py: options that this version does not have, values that
            it does not take, options that do not go together; edits.py makes the changes for --fix
deployment  find.py ties it together: target, draft, method, circumstances, findings: a Deployment
"""
