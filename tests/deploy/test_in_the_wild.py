"""Setups as people really write them are found with their engine; what is none is left alone."""

from __future__ import annotations

import pytest

from draftcheck.deploy import leftovers
from draftcheck.deploy.deployment import Deployment
from draftcheck.deploy.find import find
from draftcheck.deploy.kinds import choose
from draftcheck.deploy.text import SourceText, TextView, Word
from draftcheck.values.findings import FilePlace
from tests.deploy.test_find import Around

FOUND: dict[str, tuple[str, str, str, str | None, str | None]] = {
    "a python that a variable names": (
        "serve.sh",
        'CMD=("$PY" -m sglang.launch_server --model-path a/b --speculative-algorithm NEXTN)\n'
        '"${CMD[@]}" &\n',
        "sglang", "a/b", None,
    ),
    "behind a here-document in quotes": (
        "serve.sh",
        "NOTE=\"$(cat <<'EOF'\nit's not \"closed\nEOF\n)\"\n"
        "llama-server -m a.gguf -md b.gguf --spec-type draft-simple\n",
        "llama.cpp", "./a.gguf", "./b.gguf",
    ),
    "a list in a branch that is not the last": (
        "serve.sh",
        "if [ $X ]; then\n  S=(--spec-type draft-mtp)\nelse\n  S=()\nfi\n"
        'llama-server -m a.gguf "${S[@]}"\n',
        "llama.cpp", "./a.gguf", None,
    ),
    "a default inside a default": (
        "compose.yml",
        "services:\n  a:\n    image: vllm/vllm-openai:v0.15.1\n    command: >\n"
        "      --model ${A:-${B:-a/b}} --speculative-config.method ngram\n",
        "vllm", "a/b", None,
    ),
    "options of a shell behind its c": (
        "serve.sh",
        "docker run x sh -ceu 'exec sglang serve --model-path a/b --speculative-algorithm NEXTN'\n",
        "sglang", "a/b", None,
    ),
    "a model beside its command": (
        "recipe.yaml",
        "model: a/b\ncommand: |\n  vllm serve a/b --speculative-config.method ngram\n",
        "vllm", "a/b", None,
    ),
    "a text under any key": (
        "config.yaml",
        "base_image: {image: lmsysorg/sglang:v0.5.3}\ndocker_server:\n"
        "  start_command: sh -c \"python3 -m sglang.launch_server --model-path a/b"
        " --speculative-algorithm EAGLE\"\n",
        "sglang", "a/b", None,
    ),
    "a list under any key": (
        "jobs.json",
        '{"jobs": [{"server_cmd": ["vllm", "serve", "a/b", "--speculative-config",'
        ' "{\\"method\\": \\"ngram\\", \\"num_speculative_tokens\\": 3}"]}]}',
        "vllm", "a/b", None,
    ),
    "a compose file with an image of one's own": (
        "compose.yml",
        "services:\n  a:\n    build: .\n    entrypoint: [/start.sh]\n"
        "    command: [--model, /m/a.gguf, --spec-type, draft-mtp]\n",
        "llama.cpp", "/m/a.gguf", None,
    ),
    "lines of options without a shell": (
        "model.yaml",
        "small:\n  cmd: |\n    ${server} --port ${PORT}\n    --model a.gguf\n"
        "    --spec-type ngram-mod\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "a file of options of SGLang's": (
        "sglang.yaml", " host: 0.0.0.0\n model-path: a/b\n speculative-algorithm: EAGLE\n",
        "sglang", "a/b", None,
    ),
    "options inside the file of another program": (
        "job.yaml",
        "name: x\nbackend:\n  decode:\n    model-path: a/b\n    speculative-algorithm: EAGLE\n",
        "sglang", "a/b", None,
    ),
    "a recipe of vLLM's": (
        "recipe.yaml",
        "model: {model_id: a/b, base_args: [--trust-remote-code]}\nfeatures:\n  fast:\n"
        "    args:\n    - --speculative-config\n"
        "    - '{\"method\": \"mtp\", \"num_speculative_tokens\": 1}'\n",
        "vllm", "a/b", None,
    ),
    "a batch file that looks for its program": (
        "start.bat",
        'set "SERVER="\nif defined DIR (\n'
        '  if exist "%DIR%\\x" set "SERVER=%DIR%\\llama-server.exe"\n)\n'
        'if not defined SERVER for /f %%F in (`where x`) do set "SERVER=%%F"\n'
        'set "SPEC="\nif "%ON%"=="1" (\n  set "SPEC=--spec-type draft-mtp"\n)\n'
        '"%SERVER%" ^\n  -m C:\\a.gguf ^\n  %SPEC%\n',
        "llama.cpp", "C:\\a.gguf", None,
    ),
    "a batch file with quotes inside its values": (
        "start.cmd",
        'for %%I in ("%~dp0..") do set "ROOT=%%~fI"\n'
        'set "EXE=%ROOT%\\llama.cpp\\b10502-cuda\\llama-server.exe"\n'
        'set "MODEL=--model "C:\\a b.gguf"" & set "NONE="\n'
        'set "SPEC=--spec-draft-model "C:\\c d.gguf" --spec-type draft-mtp"\n'
        '"%EXE%" ^\n  %MODEL% ^\n  %NONE% %SPEC%\n',
        "llama.cpp", "C:\\a b.gguf", "C:\\c d.gguf",
    ),
    "PowerShell with a list": (
        "start.ps1",
        'param([string]$Dir = "D:\\x")\n$exe = Join-Path $Dir "llama-server.exe"\n'
        '$words = @(\n  "--model", "a.gguf",\n  "--spec-type", "draft-mtp"\n)\n'
        'if ($Think) { $words += "--jinja" }\n'
        "$process = Start-Process `\n  -FilePath $exe `\n  -ArgumentList $words -PassThru\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "a command that a function returns": (
        "serve.py",
        "import subprocess\nNAME = 'a/b'\ndef command():\n    cmd = ['sglang', 'serve', NAME]\n"
        "    if MTP:\n        cmd += ['--speculative-algorithm', 'NEXTN']\n    return cmd\n"
        "words = command()\nsubprocess.Popen(words)\n",
        "sglang", "a/b", None,
    ),
    "options made of a dict": (
        "serve.py",
        "import subprocess\nspec = {'speculative-algorithm': 'EAGLE3'}\n"
        "spec |= {'speculative-draft-model-path': 'c/d'}\n"
        "cmd = ['sglang', 'serve', 'a/b']\n"
        "cmd += [word for k, v in spec.items() for word in (f'--{k}', str(v))]\n"
        "subprocess.run(cmd)\n",
        "sglang", "a/b", "c/d",
    ),
    "a dict under an if": (
        "offline.py",
        "from vllm import LLM\nspec = None\nif args.eagle:\n"
        "    spec = {'method': 'eagle3', 'model': 'c/d', 'num_speculative_tokens': 3}\n"
        "llm = LLM(model='a/b', speculative_config=spec)\n",
        "vllm", "a/b", "c/d",
    ),
    "a variable for another script": (
        "env.sh", 'export ARGS="--spec-type draft-mtp -m x.gguf"\n', "llama.cpp", "./x.gguf", None,
    ),
    "options that a function is given": (
        "bench.sh",
        'arm() { ARGS="$2" ./launch.sh "$1"; }\narm plain ""\n'
        'arm fast "--speculative-algorithm NGRAM --model-path a/b"\n',
        "sglang", "a/b", None,
    ),
    "options behind the name of a function": (
        "ab.sh",
        'arm() { lms load big "${@:2}"; }\narm off\narm on --speculative-draft-mtp -y\n',
        "lm-studio", None, None,
    ),
    "a line of an .env file": (
        "prod.env", "PORT=8000\nARGS=--max-model-len 4096 --speculative-config.method ngram\n",
        "vllm", None, None,
    ),
    "a draft that is None unless it is given": (
        "serve.py",
        "import subprocess\ndef serve(draft=None):\n    if draft:\n        subprocess.run("
        "f'python -m sglang.launch_server --model-path a/b --speculative-algorithm EAGLE'\n"
        "            f' --speculative-draft-model-path {draft}', shell=True)\n",
        "sglang", "a/b", "{draft}",
    ),
    "JSON in a variable that is split at spaces": (
        "prod.env",
        "ARGS='--max-num-seqs 4 --speculative-config {\"method\":\"eagle3\",\"model\":\"c/d\"}'\n",
        "vllm", None, "c/d",
    ),
    "a patch that adds an argument": (
        "patch.yaml",
        "- op: add\n  path: /spec/template/spec/containers/0/args/-\n"
        '  value: "--speculative-config={\\"method\\": \\"eagle3\\", \\"model\\": \\"c/d\\"}"\n',
        "vllm", None, "c/d",
    ),
    "an ini of one's own": (
        "profiles.ini",
        "[fast]\npath = x\nspec = --spec-type draft-mtp --spec-draft-n-max 3  # n\n",
        "llama.cpp", None, None,
    ),
    "a list that grows one way or the other": (
        "ab.py",
        "import subprocess\ncmd = ['llama-server', '-m', 'a.gguf']\nif mtp:\n"
        "    cmd += ['--spec-type', 'draft-mtp']\nelse:\n    cmd += ['--spec-type', 'none']\n"
        "subprocess.run(cmd)\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "a container whose name is kept": (
        "run.sh",
        "ID=$(docker run -d vllm/vllm-openai:v0.15.1 --model a/b "
        "--speculative-config.method ngram)\n",
        "vllm", "a/b", None,
    ),
    "a function that is run for its output": (
        "ab.sh",
        'one() { "$BIN" -m a.gguf "$@"; }\nFAST="$(one --spec-type draft-mtp | tail -1)"\n',
        "llama.cpp", None, None,
    ),
    "what is off unless PowerShell is told otherwise": (
        "serve.ps1",
        "param([string]$Spec = 'none', [string]$Draft = '')\n$a = @('-m', 'a.gguf')\n"
        "if ($Spec -ne 'none') {\n  $a += @('--spec-type', $Spec)\n"
        "  if ($Draft) { $a += @('-md', $Draft) }\n}\n& llama-server.exe @a\n",
        "llama.cpp", "./a.gguf", "$Draft",
    ),
    "a list for a function of PowerShell": (
        "ab.ps1",
        "$more = @('--spec-type',$Spec,'--model','a.gguf','-md',(Resolve-Path $D).Path)\n"
        '$fast = RunOne $more "fast"\n',
        "llama.cpp", "./a.gguf", "(Resolve-Path $D).Path",
    ),
    "keywords that are sifted before": (
        "tests/benchmark.py",
        "from vllm import LLM\nkw = {'model': 'a/b', 'dtype': None}\n"
        "kw = {k: v for k, v in kw.items() if v is not None}\nif fast:\n"
        "    kw['speculative_config'] = {'method': 'draft_model', 'model': 'c/d'}\n"
        "llm = LLM(**kw)\n",
        "vllm", "a/b", "c/d",
    ),
    "keywords that somebody else began": (
        "serve.py",
        "from vllm import LLM\ndef start(kw):\n    kw['model'] = 'a/b'\n"
        "    kw['speculative_config'] = {'method': 'mtp'}\n    return LLM(**kw)\n",
        "vllm", "a/b", None,
    ),
    "keywords that are added under a condition": (
        "serve.py",
        "import sglang as sgl\nkw = dict(model_path='a/b', tp_size=2)\nif spec:\n"
        "    kw.update(speculative_algorithm='EAGLE3', speculative_draft_model_path='c/d')\n"
        "engine = sgl.Engine(**kw)\n",
        "sglang", "a/b", "c/d",
    ),
    "a text of options in a table of modes": (
        "modes.py",
        "MODES = {'fast': {'extra': ('--speculative-algorithm EAGLE3 '\n"
        "    '--speculative-draft-model-path c/d --model-path a/b')}}\n",
        "sglang", "a/b", "c/d",
    ),
    "a name that an object holds": (
        "serve.py",
        "import json, subprocess\ncmd = ['vllm', 'serve', 'a/b']\n"
        "cmd += ['--speculative-config', json.dumps({'method': 'mtp', 'model': p.draft})]\n"
        "subprocess.run(cmd)\n",
        "vllm", "a/b", "p.draft",
    ),
    "a recipe that a program formats": (
        "recipe.yaml",
        "container: mine\ndefaults:\n  port: 8000\n  draft: c/d\ncommand: |\n"
        "  vllm serve a/b --port {port} \\\n"
        "    --speculative-config '{{\"method\": \"eagle3\", \"model\": \"{draft}\"}}'\n",
        "vllm", "a/b", "c/d",
    ),
    "a benchmark of TensorRT-LLM's": (
        "bench.sh",
        "trtllm-bench --model a/b throughput --dataset x.txt --config bench.yaml "
        "--speculative_config '{\"decoding_type\": \"MTP\"}'\n",
        "tensorrt-llm", "a/b", None,
    ),
    "an engine of TensorRT-LLM's that is built": (
        "build.sh",
        "trtllm-build --checkpoint_dir x --output_dir y --speculative_decoding_mode eagle\n",
        "tensorrt-llm", None, None,
    ),
    "options in the environment of a container": (
        "compose.yml",
        "services:\n  a:\n    image: mine\n    environment:\n"
        "      EXTRA_ARGS: --spec-type draft-mtp -m /m/a.gguf\n",
        "llama.cpp", "/m/a.gguf", None,
    ),
    "JSON that printf makes": (
        "run.sh",
        "D=c/d\nS=$(printf '{\"method\": \"eagle3\", \"model\": \"%s\","
        " \"num_speculative_tokens\": %s}' \\\n  \"$D\" \"$N\")\n"
        'vllm serve a/b --speculative-config "$S"\n',
        "vllm", "a/b", "c/d",
    ),
    "a function that runs a shell": (
        "run.sh",
        'as() { sudo "$@"; }\nas -u llm bash -c "cd /x && vllm serve a/b '
        "--speculative-config '{\\\"method\\\": \\\"ngram\\\"}'\"\n",
        "vllm", "a/b", None,
    ),
    "LM Studio's command line": (
        "load.sh", "lms load a --speculative-draft-simple --speculative-draft-model b -y\n",
        "lm-studio", "a", "b",
    ),
    "a preset with comments behind values": (
        "models.ini", "[a]\nmodel = /m/a.gguf ; the big one\nspec-type = draft-mtp  # by itself\n",
        "llama.cpp", "/m/a.gguf", None,
    ),
    "a fenced command with a prompt": (
        "README.md",
        "# Use\n\n```console\n$ llama-server -m a.gguf --spec-type draft-mtp\n```\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "a preset for every model that stands elsewhere": (
        "base.ini", "[*]\nctx-size = 8192\nspec-type = draft-mtp\n", "llama.cpp", None, None,
    ),
    "options that are keys of a mapping": (
        "profile.yaml",
        "launch:\n  image: vllm/vllm-openai:latest\n  args:\n    --model: a/b\n"
        "    --enable-prefix-caching: true\n    --enforce-eager: false\n"
        "    --speculative-config: '{\"method\": \"mtp\", \"num_speculative_tokens\": 2}'\n",
        "vllm", "a/b", None,
    ),
    "a variable before the image that may be empty": (
        "serve.sh",
        'MORE=${MORE:-}\ndocker run -e A=1 $MORE -v /m:/m "$IMAGE" '
        "vllm serve /m/big --speculative-config.method ngram\n",
        "vllm", "/m/big", None,
    ),
    "a function that is run for what it prints": (
        "bench.sh",
        'launch() { "$BIN" --model "$1" "${@:2}" & echo $!; }\n'
        "SPEC=(--model a.gguf --spec-type draft-mtp)\nfor m in a b; do\n"
        '  PID=$(launch "$m" "${SPEC[@]}")\ndone\n',
        "llama.cpp", "./a.gguf", None,
    ),
    "PowerShell that adds to a list, word by word": (
        "start.ps1",
        "$a = [System.Collections.Generic.List[string]]::new()\n$a.Add('-m')\n$a.Add('a.gguf')\n"
        "if ($Fast) {\n  $a.Add('--spec-type')\n  $a.Add('draft-mtp')\n}\n"
        "& 'C:\\llama\\llama-server.exe' @a\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "TypeScript that grows a list": (
        "serve.ts",
        'const MODEL: string = "/m/a.gguf";\nconst args: string[] = ["-m", MODEL];\n'
        'if (fast) args.push("--spec-type", "draft-mtp");\nspawn("llama-server", args, {});\n',
        "llama.cpp", "/m/a.gguf", None,
    ),
    "JavaScript with a list behind its program": (
        "serve.mjs",
        "const p = spawn('vllm', ['serve', 'a/b', '--speculative-config',"
        " '{\"method\": \"ngram\", \"num_speculative_tokens\": 3}', '--port', String(port)]);\n",
        "vllm", "a/b", None,
    ),
    "a line of a shell in JavaScript": (
        "serve.js",
        "// --spec-type none\nexecSync(`sglang serve --model-path a/b \\\\\n"
        "  --speculative-algorithm NEXTN --port ${port}`);\n",
        "sglang", "a/b", None,
    ),
    "llama-swap in Nix": (
        "swap.nix",
        'let\n  dir = "/m";\n  llama-server = lib.getExe\' pkgs.llama-cpp "llama-server";\nin {\n'
        "  models.big.cmd = ''\n    ${llama-server} --port ''${PORT}\n    -m ${dir}/a.gguf\n"
        "    -md ${dir}/b.gguf --spec-type draft-simple\n  '';\n}\n",
        "llama.cpp", "/m/a.gguf", "/m/b.gguf",
    ),
    "flags of a service in Nix": (
        "llama.nix",
        '{ services.llama-cpp.extraFlags = [ "-m" "/m/a.gguf" ]\n'
        '  ++ lib.optionals cfg.fast [ "--spec-type" "ngram-mod" "--spec-draft-n-max" n ]; }\n',
        "llama.cpp", "/m/a.gguf", None,
    ),
    "lines of a command that a function makes": (
        "command.py",
        "import json\nspec = json.dumps({'method': 'mtp', 'num_speculative_tokens': 2})\n"
        "lines = ['vllm serve a/b', '  --port 1']\n"
        "lines.append(f\"  --speculative-config '{spec}'\")\n",
        "vllm", None, None,
    ),
    "an array that a function prints": (
        "launch.sh",
        "SERVE=(\n  vllm serve a/b\n  --speculative-config"
        ' \'{"method": "mtp", "num_speculative_tokens": 3}\'\n)\n'
        'quoted() { printf "%q " docker run x "${SERVE[@]}"; }\nssh node "$(quoted)"\n',
        "vllm", "a/b", None,
    ),
    "a field of a recipe at the end of an object": (
        "recipe.yaml",
        "defaults:\n  n: 2\ncommand: |\n  vllm serve a/b \\\n"
        "    --speculative-config '{{\"method\": \"mtp\", \"num_speculative_tokens\": {n}}}'\n",
        "vllm", "a/b", None,
    ),
    "a file of options": (
        "serve-args.conf",
        "# fast\n--model a/b\n--max-model-len 4096\n"
        '--speculative-config {"method":"mtp","num_speculative_tokens":1}\n',
        "vllm", "a/b", None,
    ),
    "a command that is split at spaces": (
        "bench.json",
        '{"fast_cmd": "vllm serve a/b --speculative-config'
        ' {\\"method\\":\\"ngram\\",\\"num_speculative_tokens\\":3} --port 1"}',
        "vllm", "a/b", None,
    ),
    "what a function echoes into a command": (
        "serve.sh",
        "cmd() {\n  echo \"vllm serve a/b --speculative-config.method ngram\"\n}\n"
        'bash -c "$(cmd)"\n',
        "vllm", "a/b", None,
    ),
    "options that a function echoes": (
        "serve.sh",
        "spec() {\n  case $1 in q*) echo '--speculative-algorithm NEXTN --port 1' ;; esac\n}\n"
        'python3 -m sglang.launch_server --model-path "$M" $(spec "$M")\n',
        "sglang", None, None,
    ),
    "what is echoed into a script that is written": (
        "serve.sh",
        'cat > "$ENTRY" <<EOF\n#!/bin/bash\nexec vllm serve /model \\\\\n'
        "  $( [[ -n \"$S\" ]] && echo \"--speculative-config '$S'\" ) \\\\\n  --port 1\nEOF\n",
        "vllm", None, None,
    ),
    "options that are given if a variable is": (
        "serve.sh", 'D=b.gguf\nllama-server -m a.gguf ${D:+--model-draft "$D"}\n',
        "llama.cpp", "./a.gguf", "./b.gguf",
    ),
    "a list that may be empty": (
        "serve.sh",
        "S=(--spec-type draft-mtp)\nllama-server -m a.gguf ${S[@]+\"${S[@]}\"}\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "an array with names": (
        "serve.sh",
        'declare -A M=([a]="-m a.gguf -md b.gguf --spec-type draft-simple" [c]="-m c.gguf")\n'
        'llama-server ${M[$1]}\n',
        "llama.cpp", "./a.gguf", "./b.gguf",
    ),
    "an alias": (
        ".bashrc", "alias big='llama-server -m a.gguf --spec-type draft-mtp'\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "keys that are sent to a terminal": (
        "serve.sh", "tmux send-keys -t x 'llama-server -m a.gguf --spec-type draft-mtp' C-m\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "a variable that a here-document fills": (
        "serve.sh",
        "read -r -d '' S <<'EOF'\n{\"method\": \"ngram\", \"num_speculative_tokens\": 2}\nEOF\n"
        'vllm serve a/b --speculative-config "$S"\n',
        "vllm", "a/b", None,
    ),
    "a unit behind tee": (
        "install.sh",
        "sudo tee /etc/systemd/system/a.service > /dev/null <<EOF\n[Service]\n"
        "ExecStart=/usr/bin/llama-server -m /a.gguf --spec-type draft-mtp\nEOF\n",
        "llama.cpp", "/a.gguf", None,
    ),
    "a long program in a script": (
        "job.sh",
        "python3 - <<'PY' >> \"$OUT\"\n" + "# more\n" * 4000
        + "M = [{'args': '--speculative-algorithm NEXTN --port 1'}]\nPY\n",
        "sglang", None, None,
    ),
    "a makefile that adds to a variable": (
        "Makefile",
        "A := --port 1\nA += --speculative-config.method ngram\nx:\n\tvllm serve a/b $(A)\n",
        "vllm", "a/b", None,
    ),
    "options by name": (
        "serve.py",
        "F = {'--model-path': 'a/b', '--speculative-algorithm': 'NEXTN'}\n"
        "cmd = ['python', '-m', 'sglang.launch_server']\n"
        "for k, v in F.items():\n    cmd += [k, v]\n",
        "sglang", "a/b", None,
    ),
    "a container that a program runs elsewhere": (
        "tasks.py",
        "def up(c):\n    c.run('docker run vllm/vllm-openai:v0.15.1 --model a/b"
        " --speculative-config.method ngram')\n",
        "vllm", "a/b", None,
    ),
    "a hashtable of PowerShell": (
        "serve.ps1",
        "$p = @{ FilePath = 'llama-server.exe'; ArgumentList = "
        "'-m C:\\m\\a.gguf --spec-type draft-mtp' }\nStart-Process @p\n",
        "llama.cpp", "C:\\m\\a.gguf", None,
    ),
    "terraform": (
        "main.tf",
        'resource "docker_container" "v" {\n  image = "vllm/vllm-openai:v0.15.1"\n'
        '  command = ["--model", "a/b", "--speculative-config", jsonencode({ a = "b" })]\n}\n',
        "vllm", "a/b", None,
    ),
    "a script inside terraform": (
        "main.tf",
        "cmd = <<-EOF\n  $${srv} \\\n    --model $${q-3-8} --spec-type draft-mtp\nEOF\n",
        "llama.cpp", "$${q-3-8}", None,
    ),
    "a table of TOML": (
        "cases.toml",
        "[case]\nmodel = 'a/b'\n[case.speculative_config]\nmethod = 'eagle3'\nmodel = 'c/d'\n"
        "num_speculative_tokens = 2\n",
        "vllm", "a/b", "c/d",
    ),
    "a list of words in TOML": (
        "serve.toml", "[server]\nargs = ['-m', '/a.gguf', '--spec-type', 'draft-mtp']\n",
        "llama.cpp", "/a.gguf", None,
    ),
    "a property list": (
        "a.plist",
        "<key>ProgramArguments</key>\n<array><string>/bin/llama-server</string><string>-m</string>"
        "<string>/a.gguf</string><string>--spec-type</string><string>draft-mtp</string></array>\n",
        "llama.cpp", "/a.gguf", None,
    ),
    "a model of LocalAI": (
        "qwen.yaml",
        "name: q\nbackend: llama-cpp\nparameters:\n  model: a.gguf\ndraft_model: b.gguf\n",
        "llama.cpp", "./a.gguf", "./b.gguf",
    ),
    "an older name of a key": (
        "recipe.yaml", "decode:\n  model-path: a/b\n  speculative-algo: EAGLE\n",
        "sglang", "a/b", None,
    ),
    "rows of options that are joined": (
        "models.json",
        '{"models": [{"extra_args": ["base", "--speculative-algorithm NEXTN --port 1"]}]}',
        "sglang", None, None,
    ),
    "a catalogue that begins with other keys": (
        "catalog.yaml",
        "draft_models:\n- name: x\nmodels:\n- backend: vLLM\n  backend_parameters:\n"
        "  - --speculative-config.method=mtp\n",
        "vllm", None, None,
    ),
    "a variable of the job": (
        "serve.yaml",
        "envs:\n  M: a/b\njob:\n  run: vllm serve $M --speculative-config.method ngram\n",
        "vllm", "a/b", None,
    ),
    "vLLM's command as a module": (
        "serve.py",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'vllm.entrypoints.cli.main',"
        " 'serve', 'a/b', '--speculative-config', '{\"method\": \"ngram\"}'])\n",
        "vllm", "a/b", None,
    ),
    "a long sum of lists": (
        "serve.py",
        "import subprocess\nsubprocess.run(['vllm', 'serve', 'a/b'] + " + "['--x', 'y'] + " * 40
        + "['--speculative-config', '{\"method\": \"ngram\"}'])\n",
        "vllm", "a/b", None,
    ),
    "a name to be filled in, and options behind it": (
        "recipe.yaml",
        "template: |\n  docker run x llama-server -m /models/<gguf-name> -ngl 99 \\\n"
        "    -md <draft> --spec-type draft-simple\n",
        "llama.cpp", "/models/<gguf-name>", "<draft>",
    ),
    "rows of options that another program joins": (
        "engine.yaml", "common_flags:\n- -ngl 9\n- --spec-type draft-mtp\n- --spec-draft-n-max 3\n",
        "llama.cpp", None, None,
    ),
    "settings that koboldcpp saved": (
        "big.kcpps", '{"model": null, "model_param": "/m/a.gguf", "draftmodel": "/m/b.gguf"}\n',
        "llama.cpp", "/m/a.gguf", "/m/b.gguf",
    ),
    "a model of LocalAI's that drafts for itself": (
        "model.yaml",
        "name: x\nparameters:\n  model: a.gguf\noptions:\n- use_jinja:true\n"
        "- spec_type:draft-mtp\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "values of Terraform's": (
        "prod.tfvars", 'args = ["--model", "a/b", "--speculative-config", "{}"]\n',
        "vllm", "a/b", None,
    ),
    "JSON with comments": (
        "tasks.jsonc", '{ // one\n "args": ["--model", "a.gguf", "--spec-type", "draft-mtp"] }\n',
        "llama.cpp", "./a.gguf", None,
    ),
    "a list of words for a desktop": (
        "chat.desktop", "[Desktop Entry]\nExec=llama-server -m a.gguf --spec-type draft-mtp\n",
        "llama.cpp", "./a.gguf", None,
    ),
    "a text that is nothing but options": (
        "args.txt", "# for all\n--model a.gguf\n--spec-type draft-mtp\n",
        "llama.cpp", "./a.gguf", None,
    ),
}  # fmt: skip


def looked(name: str, text: str) -> tuple[list[Deployment], list[str]]:
    """The speculating setups of a file, and the options of those that are only seen."""
    contents = choose.read(text.encode(), name)
    assert contents is not None
    found = [each for each in find(contents, Around({})) if each.speculates]
    seen = [each.seen for each in found if each.seen]
    return [each for each in found if not each.seen], seen


@pytest.mark.parametrize("case", list(FOUND))
def test_it_is_found_with_its_engine_and_models(case: str) -> None:
    name, text, engine, target, draft = FOUND[case]
    (setup,), seen = looked(name, text)
    models = [word.text if word is not None else None for word in (setup.target, setup.draft)]
    assert (setup.engine, *models, seen) == (engine, target, draft, [])


LEFT_ALONE = {
    "a text for people over several lines": (
        "build.yaml",
        "result:\n  how: Measured with the server of the fork, which was given -md x\n"
        "    --spec-type draft-mtp --spec-draft-n-max 15 -ngl 99\n    and nothing else.\n",
    ),
    "a note in YAML": (
        "build.yaml", "notes: |\n  Stock.\n  --spec-type draft-mtp --spec-draft-n-max 3\n",
    ),
    "what a tool is called with, in brackets": (
        "bench.yaml", "tool: llama-cli (with --spec-type draft-mtp)\n",
    ),
    "gotchas that name a program": (
        "engine.yaml",
        "known_gotchas:\n- \"it isn't there (llama-cli loads): --spec-type is not known\"\n",
    ),
    "a variable that is switched off, or only asked for": (
        "a.env", "LLAMA_ARG_SPEC_TYPE=none\nX=${LLAMA_ARG_SPEC_TYPE:-y}\nLLAMA_ARG_MODEL=a.gguf\n",
    ),
    "variables of a setup that is understood": (
        "compose.yml",
        "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-b10586\n    environment:\n"
        "      LLAMA_ARG_MODEL: a.gguf\n      LLAMA_ARG_SPEC_TYPE: none\n",
    ),
    "what a class keeps of its own": (
        "engine.py", "class A:\n    def __init__(self, c):\n        self.speculative_config = c\n",
    ),
    "an example in a table of options": (
        "args.py", 'ARGS = [{"name": "x", "example": "--speculative-algorithm eagle"}]\n',
    ),
    "a table from options to names": (
        "report.py", 'NAMES = {"--speculative-config": "speculative_config"}\n',
    ),
    "a line that PowerShell prints": (
        "build.ps1", 'Write-Host "    --spec-type draft-dflash --spec-draft-n-max 15 ``"\n',
    ),
    "settings that are switched off": (
        "train.yaml", "mtp:\n  enable: False\n  speculative_algorithm: EAGLE\n",
    ),
    "the patterns of a case": (
        "run.sh",
        'case "$1" in\n  --spec-type|--model-draft) T=$2; shift ;;\n'
        "  llama-server|--speculative-config=*) ;;\nesac\n",
    ),
    "a usage text": (
        "run.sh",
        "usage() {\n  echo 'run [--spec-type TYPE]'\n  cat <<EOF\n"
        "  --model-draft FILE    the draft\nEOF\n}\n",
    ),
    "a help text of several lines": (
        "run.sh",
        "usage() {\n  cat <<EOF\n  --parallel N  must be 1\n"
        "                when --spec-type is draft-mtp\nEOF\n}\n",
    ),
    "what a notebook prints and explains": (
        "lab.ipynb",
        '{"cells": [{"cell_type": "markdown", "source": ["--spec-type draft-mtp\\n"]},\n'
        '{"cell_type": "code", "source": ["if x:\\n", "  print(\\"--spec-type x\\")\\n"]}]}',
    ),
    "comments of PowerShell": (
        "run.ps1",
        "<#\n  compares --spec-type draft-mtp\n#>\n$m = @{ note = 'use --spec-type x' }\n",
    ),
    "comments": ("run.sh", "# vllm serve x --speculative-config y\nls  # --spec-type x\n"),
    "somebody else's configuration": (
        "train.yaml",
        "model:\n  model_name: a/b\n  max_seq_len: 4096\nmodel_path: a/b\ntp_size: 4\n"
        "num_speculative_tokens: 3\ndraft_model:\n  layers: 1\n",
    ),
    "the definition of a resource": (
        "crd.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n"
        "  image: vllm/vllm-openai:v0.15.1\n  args: [--speculative-model, a/b]\n"
        "  about: see --speculative-model of the engine\n",
    ),
    "the options of a parser": (
        "cli.py",
        "parser.add_argument('--speculative-config', default=None)\n"
        "if '--spec-type' in words:\n    print('--spec-type is set')\n",
    ),
    "what a test expects": (
        "test_launch.py",
        "EXPECTED = ['vllm', 'serve', 'a/b', '--speculative-config', '{}']\n"
        "def argv():\n    return ['llama-server', '--model-draft', 'x.gguf']\n",
    ),
    "a function that tests": (
        "launch.py",
        "def test_argv(mock):\n    mock(return_value=['llama-server', '--spec-type', 'x'])\n"
        "    assert build() == ['llama-server', '--model-draft', 'x.gguf']\n",
    ),
    "what a program reads from others": (
        "observe.py",
        "NAMES = {'draft': '--model-draft', 'config': '--speculative-config'}\n"
        "KNOWN = ['--spec-type', '--model-draft']\n"
        "value = option_value(argv, '--speculative-config')\n"
        "typer.echo('launch it without --speculative-config for that')\n"
        "text = f'--speculative-config {value!r}'\n",
    ),
    "the record of a measurement": (
        "results.json",
        '{"runs": [{"args": "--speculative-algorithm EAGLE3 --model-path a/b", '
        '"tok_per_s": 61.5}]}',
    ),
    "a changelog": (
        "changes.yaml", "- notes:\n  - we now pass the option --speculative-config everywhere\n",
    ),
    "a sentence about a command": (
        "plan.json", '{"seen": "Wrapper invokes llama-server -m T --spec-type draft-mtp as is"}',
    ),
    "what is switched off": ("run.py", "build(speculative_config=None)\n"),
    "an assertion of a script": (
        "verify.sh", 'assert_eq() { [ "$1" = "$2" ]; }\nassert_eq --speculative-config "${A[0]}"\n',
    ),
    "what a test starts": (
        "tests/test_start.py",
        "import subprocess\nsubprocess.Popen(['llama-server', '-m', 'a', '--spec-type', 'x'])\n",
    ),
    "options with what they are for": (
        "menu.py", "ROWS = [('n', '--spec-draft-n-max', 'Tokens to draft at most.', '')]\n",
    ),
    "lines that a report is made of": (
        "report.py",
        "lines.append(f'| `--speculative-config` | {x} |')\nhead += f'# --spec-type: {y}'\n",
    ),
    "what a program inside a script looks for": (
        "report.sh", "python3 - <<'PY'\nspec = flag(cmd, '--speculative-config')\nPY\n",
    ),
    "options that are looked for": (
        "preflight.sh", "paths=$(flags '--spec-draft-model|--model-draft' compose.yml)\n",
    ),
    "a note of another name": (
        "registry.yaml", 'a:\n  status_note: "built-in MTP (--spec-type draft-mtp) is on"\n',
    ),
    "names of options": (
        "backends.yaml", "x:\n  known:\n  - --jinja\n  - --spec-draft-model\n  - --spec-type\n",
    ),
    "a profile with a key of one engine": (
        "drafter.yml", "id: x\nspec_method: dspark\nn_max: 8\nstatus: new\n",
    ),
    "a branch that the file switches off": (
        "run.py",
        "import subprocess\nUSE_IT = False\ncmd = ['vllm', 'serve', 'a/b']\nif USE_IT:\n"
        "    cmd.append('--speculative-config={\"method\": \"ngram\"}')\nsubprocess.run(cmd)\n",
    ),
    "patterns that find options": (
        "mode.py", "drop(r'--spec-type\\s+\\S+', [r'--model-draft\\s+\\S+', '-x'])\n",
    ),
    "a setting that is told": (
        "run.py", "told({'speculative_algorithm': c.speculative_algorithm})\n",
    ),
    "a setting that a function makes": (
        "run.py", "plan(speculative_config=c.build_speculative_config())\n",
    ),
    "the name of an option": ("stack.json", '{"a": {\n"flag": "--spec-draft-n-max",\n"n": 3}}\n'),
    "what proves a setting": (
        "stack.json", '{"n": {\n"evidence": "arg.cpp:4077 (--spec-draft-n-max, env X)"}}\n',
    ),
    "a remark about an option": (
        "profile.yaml", 'seen:\n- "Added MTP: --speculative-config with two tokens"\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [case for case in LEFT_ALONE if "resource" not in case])
def test_what_sets_nothing_up_is_left_alone(case: str) -> None:
    assert looked(*LEFT_ALONE[case]) == ([], [])


def test_the_definition_of_a_resource_starts_nothing() -> None:
    assert looked(*LEFT_ALONE["the definition of a resource"])[0] == []


ONLY_SEEN = {
    "a program that nobody knows": (
        "run.sh", "set -e\n./mine --speculative-config '{}'\n", "vllm", [2],
    ),
    "settings that a program writes": (
        "serve.py", 'TEXT = """\nspeculative-algorithm: EAGLE\n"""\nwritten("x", TEXT)\n',
        "sglang", [2],
    ),
    "an option that a function of PowerShell is given": (
        "start.ps1", "Add-LlamaOption -To $list -Flag '--spec-type' -Value $kind\n",
        "llama.cpp", [1],
    ),
    "the parts of a gallery's entry that switch nothing on": (
        "catalog.yaml", "models:\n- extra:\n  - --speculative-num-steps=3\n", "sglang", [3],
    ),
    "a table of PowerShell with a label before it": (
        "bench.ps1", "$m = @(\n @{ label='Draft'; args=@('--spec-type','draft-simple') }\n)\n",
        "llama.cpp", [2],
    ),
    "an option that a trainer hands on under a name of its own": (
        "train.py", 'args += "--sglang-speculative-algorithm EAGLE "\n', "sglang", [1],
    ),
    "append in Go": (
        "run.go", 'args = append(args, "--model-draft", path)\n\n'
        'args = append(args, "--spec-draft-n-max", n)\n', "llama.cpp", [1],
    ),
    "two ways in C++": (
        "serve.cpp", 'if (a) args.push_back("--speculative-config");\n'
        'else args.push_back("--speculative-config");\n', "vllm", [1, 2],
    ),
    "a chain in Rust": (
        "main.rs", 'let c = Command::new(bin).arg("--speculative-algorithm").arg(kind);\n',
        "sglang", [1],
    ),
    "push in TypeScript": ("run.ts", "if (x) args.push('--spec-type', kind);\n", "llama.cpp", [1]),
    "a list in Java": (
        "Run.java", 'List<String> c = List.of(bin, "--spec-draft-model", draft);\n',
        "llama.cpp", [1],
    ),
    "a text that Go formats": (
        "run.go", 'flags += fmt.Sprintf("--speculative-config=%s", config)\n', "vllm", [1],
    ),
    "what a template steers": (
        "deploy.yaml.j2",
        "a:\n{% if x %}\n  b: [1,\n{% endif %}\n  run: go --speculative-algorithm {{ y }}\n",
        "sglang", [5],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(ONLY_SEEN))
def test_an_option_of_one_engine_alone_tells_a_setup_whose_values_are_elsewhere(case: str) -> None:
    name, text, engine, lines = ONLY_SEEN[case]
    contents = choose.read(text.encode(), name)
    assert contents is not None
    found = find(contents, Around({}))
    assert [(each.engine, each.place.line) for each in found] == [(engine, at) for at in lines]
    for each in found:
        assert each.speculates and each.seen and not each.findings and not each.unknown
        assert each.target is each.draft is each.method is None


@pytest.mark.parametrize(
    ("name", "text", "engine", "seen"),
    [
        (
            "ppo.sh",
            "python3 -m verl.trainer.main_ppo model.path=a/b \\\n"
            " +rollout.engine_kwargs.vllm.speculative_config.method=ngram \\\n"
            " +rollout.engine_kwargs.vllm.speculative_config.num_speculative_tokens=3\n",
            "vllm",
            "speculative_config.method, speculative_config.num_speculative_tokens",
        ),
        ("grpo.yaml", "flags:\n- ++gen.speculative_algorithm=EAGLE\n", "sglang",
         "speculative_algorithm"),
        ("make.py", "def f(args, x):\n    args.speculative_config = x\n", "vllm",
         "speculative_config"),
        ("make.py", "def f(kw, x):\n    kw['speculative_algorithm'] = x\n", "sglang",
         "speculative_algorithm"),
        ("a.env", "LLAMA_ARG_MODEL=a.gguf\nLLAMA_ARG_SPEC_TYPE=ngram-mod\n", "llama.cpp",
         "LLAMA_ARG_SPEC_TYPE"),
        ("pod.yaml", "env:\n- name: LLAMA_ARG_MODEL_DRAFT\n  value: b.gguf\n", "llama.cpp",
         "LLAMA_ARG_MODEL_DRAFT"),
        ("a.env", 'CONFIG={"method":"mtp","num_speculative_tokens":3}\n', "vllm",
         "num_speculative_tokens"),
        ("a.env", 'CONFIG="{\\"num_speculative_tokens\\":3}"\n', "vllm", "num_speculative_tokens"),
        ("run.nu", "^llama-server -m a.gguf --spec-type draft-mtp\n", "llama.cpp", "--spec-type"),
        ("start", "exec llama-server -m a.gguf --spec-type x\n", "llama.cpp", "--spec-type"),
    ],
)  # fmt: skip
def test_values_by_path_and_texts_of_no_kind_are_only_seen(
    name: str, text: str, engine: str, seen: str
) -> None:
    contents = choose.read(text.encode(), name)
    assert contents is not None
    (setup,) = find(contents, Around({}))
    assert (setup.engine, setup.seen, setup.speculates) == (engine, seen, True)


def test_what_a_run_left_behind_is_mentioned() -> None:
    line = b"vllm serve a/b --speculative-config {}\n"
    assert choose.read(line, "start.run") is not None
    for name in ("results/start.run", "notes.txt", "night.stdout", "page.html"):
        assert choose.read(line, name) is None


@pytest.mark.parametrize(
    ("environment", "lines"),
    [("LLAMA_ARG_SPEC_TYPE: draft-mtp", [3]), ("LLAMA_ARG_PORT: 1", [])],
)
def test_variables_of_a_command_are_told_once(environment: str, lines: list[int]) -> None:
    text = (
        "services:\n  a:\n    image: ghcr.io/ggml-org/llama.cpp:server-b10586\n    environment:\n"
        f"      LLAMA_ARG_MODEL: a.gguf\n      {environment}\n"
    )
    found, seen = looked("compose.yml", text)
    assert ([each.place.line for each in found], seen) == (lines, [])


def test_models_that_a_program_is_given_when_it_runs_are_in_no_file() -> None:
    text = "from vllm import LLM\nLLM(model={}, speculative_config={{'method': 'ngram'}})\n"
    (later,), _ = looked("serve.py", text.format("args.model"))
    (known,), _ = looked("serve.py", text.format("'a/b'"))
    assert (later.part, known.part) == (True, False) and later.unknown
    (script,), _ = looked("a.sh", "vllm serve $M --speculative-config.method ngram\n")
    assert not script.part and script.unknown


def test_of_a_catalogue_that_is_too_long_the_entries_about_speculation_are_read() -> None:
    other = "- name: y\n  description: a model\n"
    entry = (
        "- &base\n  name: x\n  overrides: &more\n    backend: llama-cpp\n"
        "    draft_model: b.gguf\n    parameters: {model: a.gguf}\n"
    )
    text = other * 45_000 + entry + other * 20_000
    assert len(text) > choose.MAX_BYTES
    (setup,), _ = looked("index.yaml", text)
    assert setup.draft is not None and (setup.fork, setup.draft.text) == ("LocalAI", "./b.gguf")
    assert setup.draft.place.line == 90_005


ONLY_SPOKEN_OF = {
    "a table of names": ("flags.go", 'var known = map[string]bool{"--model-draft": true}\n'),
    "a list of names": ("flags.go", 'var known = []string{"--model-draft", "--spec-type"}\n'),
    "a pattern": ("args.go", 'switch arg {\ncase "--spec-type":\n}\n'),
    "a comparison": ("args.cpp", 'if (arg == "--spec-type") { next(); }\n'),
    "a declaration": ("args.cpp", 'add_opt({"-md", "--model-draft"}, "FNAME", "draft model");\n'),
    "a message": ("main.rs", 'warn!("--model-draft is not there");\n'),
    "a sentence": ("main.go", 'fail(x, "Set the option --spec-type to use a draft")\n'),
    "a question": ("main.go", 'if slices.Contains(args, "--spec-type") {\n}\n'),
    "a test": ("run_test.go", 'args = append(args, "--model-draft", path)\n'),
}


@pytest.mark.parametrize("case", list(ONLY_SPOKEN_OF))
def test_a_program_that_speaks_of_an_option_sets_nothing_up(case: str) -> None:
    name, text = ONLY_SPOKEN_OF[case]
    contents = choose.read(text.encode(), name)
    assert contents is not None
    assert (find(contents, Around({})), contents.mentions) == ([], True)


def test_options_by_name_without_a_target_are_a_setup_that_is_only_seen() -> None:
    text = "vllm_kwargs:\n  speculative_config:\n    method: mtp\n    num_speculative_tokens: 1\n"
    contents = choose.read(text.encode(), "recipe.yaml")
    assert contents is not None
    (setup,) = find(contents, Around({}))
    assert (setup.engine, setup.method, setup.unknown) == ("vllm", "mtp", ())
    assert setup.seen


def test_a_list_of_each_block_of_hcl_is_a_command_of_its_own() -> None:
    block = 'task "{0}" {{\n  args = ["vllm", "serve", "{0}/x", "--spec-method", "ngram"]\n}}\n'
    found, _ = looked("job.hcl", block.format("a") + block.format("b"))
    assert [each.target.text for each in found if each.target] == ["a/x", "b/x"]


def test_a_file_inside_a_text_of_yaml_is_read() -> None:
    text = "file: |\n  model: a/b\n  engine_args:\n    speculative_algorithm: EAGLE\n"
    contents = choose.read(text.encode(), "gallery.yaml")
    assert contents is not None
    (setup,) = find(contents, Around({}))
    assert (setup.engine, setup.place.line, setup.method) == ("sglang", 4, "EAGLE")


@pytest.mark.parametrize("text", ["a: {{ b }}\nc: [{{ d }\n", "{% if x %}\na: [1\n{% endif %}\n"])
def test_a_template_is_not_broken_yaml(text: str) -> None:
    contents = choose.read(f"vllm: --spec-type\n{text}".encode(), "values.yaml")
    assert contents is not None and (contents.troubles == []) == ("{%" in text)


def test_a_name_that_does_not_stand_in_the_file_is_never_shown() -> None:
    text = (
        'vllm serve $MODEL --speculative-config "{\\"model\\": \\"$DRAFT\\",'
        ' \\"method\\": \\"eagle3\\", \\"num_speculative_tokens\\": $N}"\n'
    )
    (setup,), _ = looked("run.sh", text)
    assert setup.draft is not None and setup.target is not None
    assert (setup.draft.text, setup.draft.unknown) == ("$DRAFT", "$DRAFT")
    assert (setup.target.text, setup.target.unknown) == ("$MODEL", "$MODEL")
    assert "draft_tokens" not in setup.circumstances


def test_a_path_is_no_file_of_a_repo() -> None:
    text = "llama-server -m /a.gguf --spec-type draft-mtp -md /b.gguf -hfd org/heads:Q8_0\n"
    (setup,), _ = looked("serve.sh", text)
    assert setup.draft is not None and setup.draft.text in text


def test_none_is_no_name() -> None:
    text = (
        "import subprocess\nDRAFT = None\ncmd = ['llama-server', '-m', 'a.gguf']\n"
        "cmd += ['--spec-type', 'draft-simple', '-md', DRAFT]\nsubprocess.run(cmd)\n"
    )
    (setup,), _ = looked("run.py", text)
    assert setup.draft is not None and (setup.draft.text, setup.draft.unknown) == ("DRAFT", "DRAFT")


def test_the_import_above_a_call_tells_whose_class_it_is() -> None:
    text = (
        "def one(m):\n    from vllm import LLM\n    return LLM(m)\n"
        "def two():\n    from tensorrt_llm import LLM\n"
        "    return LLM(model='a/b', speculative_config=draft())\n"
        "def three(m):\n    from vllm import LLM\n    return LLM(m)\n"
    )
    setups, _ = looked("run.py", text)
    assert [setup.engine for setup in setups if setup.speculates] == ["tensorrt-llm"]


@pytest.mark.parametrize(
    ("imports", "engine"),
    [
        ("from tensorrt_llm import LLM\n", "tensorrt-llm"),
        ("from transformers import pipeline\nimport tensorrt_llm.llmapi\n", "tensorrt-llm"),
        ("import vllm\n", "vllm"),
        ("import vllm\nimport tensorrt_llm\n", "vllm"),  # either
    ],
)
def test_what_a_program_imports_tells_whose_settings_a_dict_holds(
    imports: str, engine: str
) -> None:
    for value in ("MTPDecodingConfig(n=3)", "made()"):
        text = f"settings = {{'max_batch_size': 8, 'speculative_config': {value}}}\n"
        contents = choose.read((imports + text).encode(), "run.py")
        assert contents is not None
        (setup,) = find(contents, Around({}))
        seen = setup.seen.lstrip("-").replace("-", "_")
        assert (setup.engine, seen) == (engine, "speculative_config")


CUT_OFF = {
    "a comment": ("serve.sh", "vllm serve a/b \\\n  # faster \\\n  {options}\n", 3),
    "a comment that YAML folds": (
        "compose.yaml",
        "services:\n  llm:\n    image: x\n    entrypoint: [bash, -c]\n    command:\n    - >\n"
        "      exec vllm serve a/b\n      # faster\n      {options}\n",
        8,
    ),
    "the end of a line": ("serve.sh", "docker run x vllm serve a/b\n  --tp 2 \\\n  {options}\n", 2),
}


@pytest.mark.parametrize("case", list(CUT_OFF))
def test_options_that_the_shell_takes_for_a_program_never_reach_the_engine(case: str) -> None:
    name, text, line = CUT_OFF[case]
    contents = choose.read(text.format(options="--speculative-config.method ngram").encode(), name)
    assert contents is not None
    (setup,) = find(contents, Around({}))
    (finding,) = setup.findings
    assert (setup.engine, setup.speculates) == ("vllm", False)
    assert (finding.rule, finding.severity, finding.place.line) == ("FIL016", "error", line)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("serve.sh", "vllm serve a/b \\\n  --speculative-config.method ngram \\\n  # fast\n"),
        ("serve.sh", "# vllm serve a/b\ncd /x\n--speculative-config.method ngram\n"),
        (
            "job.yaml",
            "x: |\n  vllm serve a/b --tp 2\n  # fast\n  --speculative-config.method ngram\n",
        ),
        (  # not a shell: the words alone
            "compose.yaml",
            "services:\n  llm:\n    image: vllm/vllm-openai:v0.15.1\n    command: >\n"
            "      --model a/b\n      # faster\n      --speculative-config.method ngram\n",
        ),
    ],
)
def test_options_are_cut_off_from_a_command_of_the_shell_alone(name: str, text: str) -> None:
    (setup,), _ = looked(name, text)
    assert "FIL016" not in [finding.rule for finding in setup.findings]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("serve.py", "start({'speculative_config': {'method': 'mtp'}})\n"),
        ("catalog.yaml", "models:\n- backend: vLLM\n  speculative_config:\n    enabled: true\n"
                         "    algorithm: mtp\n"),
    ],
)  # fmt: skip
def test_options_by_name_without_a_model_are_only_seen(name: str, text: str) -> None:
    setups, seen = looked(name, text)
    assert not setups and len(seen) == 1 and "--speculative-config" in seen[0]


def test_keys_beside_an_engines_own_are_those_of_the_program_that_reads_the_file() -> None:
    text = (
        '{"model": "a/b", "speculative_tokens": 5, "performance_mode": "x",'
        ' "speculative_config": {"method": "ngram", "num_speculativ_tokens": 4}}'
    )
    (setup,), _ = looked("settings.json", text)
    assert [f.saw.split()[0] for f in setup.findings] == ["no", "num_speculativ_tokens"]


def test_two_unknown_names_in_json_that_python_makes_are_both_unknown() -> None:
    text = (
        "import json, subprocess\nspec = json.dumps({'model': args.draft, 'method': args.method})\n"
        "subprocess.run(['vllm', 'serve', 'a/b', '--speculative-config', spec])\n"
    )
    (setup,), _ = looked("run.py", text)
    assert setup.draft is not None and setup.draft.unknown is not None
    assert setup.method is None


@pytest.mark.parametrize("revision", ["$REV", "__REV__"])
def test_a_revision_from_a_variable_is_said_to_be_one(revision: str) -> None:
    text = f"vllm serve a/b --revision {revision} --speculative-config.method ngram\n"
    (setup,), _ = looked("run.sh", text)
    assert setup.target is not None and setup.target.unknown == revision


@pytest.mark.parametrize(
    "script",
    [
        "TP=${TP:-}\nvllm serve a/b --tensor-parallel-size $TP {spec}\n",
        "if [ $N ]; then _n=0; fi\nvllm serve a/b --tensor-parallel-size $_n {spec}\n",
        "N=0\nif [ $N -gt 0 ]; then\n  vllm serve a/b --tensor-parallel-size $N {spec}\nfi\n",
    ],
)
def test_what_comes_from_outside_or_is_off_elsewhere_is_unknown(script: str) -> None:
    config = """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'"""
    (setup,), _ = looked("run.sh", script.replace("{spec}", config))
    assert "tensor_parallel" not in setup.circumstances
    assert not setup.findings


def test_what_a_run_left_behind_is_not_looked_at() -> None:
    data = b'{"args": ["vllm", "serve", "a/b", "--speculative-config", "{}"]}'
    assert not choose.might(data, "results/night/meta.json")
    assert choose.might(data, "deploy/meta.json")


def test_an_option_of_two_branches_is_not_given_twice() -> None:
    text = (
        "ARGS=(--ctx-size 4096)\nif [ $LONG ]; then ARGS+=(--ctx-size 9999); fi\n"
        'llama-server -m a.gguf --spec-type draft-mtp "${ARGS[@]}"\n'
    )
    (setup,), _ = looked("run.sh", text)
    assert "FIL012" not in [finding.rule for finding in setup.findings]


def test_lines_of_many_words_that_all_reach_to_the_end_of_a_block() -> None:
    """Counted one by one they would be four thousand million."""
    last = 200_000
    view = TextView(SourceText("a.yaml", "x"), "x", [0], [0])
    words = [Word(str(n), FilePlace("a.yaml", n, 1, last, 1), view) for n in range(1, 20_000)]
    assert len(leftovers.lines_of_words(words)) == last


def test_what_a_function_makes_of_a_value_is_a_value() -> None:
    program = (
        "def command(profile):\n"
        '    args = ["vllm", "serve", "a/b", "--cpu-offload-gb", as_text(profile.offload)]\n'
        '    args.extend(["--speculative-config", \'{"method": "ngram"}\'])\n'
        "    return args\n"
    )
    (setup,), seen = looked("launch.py", program)
    assert not [f for f in setup.findings if f.rule == "FIL006"] and seen == []


def test_each_branch_that_speculates_is_a_setup_of_its_own() -> None:
    text = (
        'case "$1" in\n'
        "  big) M=a/big; EXTRA='--speculative-algorithm EAGLE3'\n"
        "    EXTRA+=' --speculative-draft-model-path c/d' ;;\n"
        "  own) M=a/own; EXTRA='--speculative-algorithm NEXTN' ;;\n"
        "  old) M=a/old; EXTRA= ;;\n  *) echo 'big, own or old'; exit 1 ;;\nesac\n"
        "sglang serve $M $EXTRA\n"
    )
    found, seen = looked("run.sh", text)
    models = [[word.text if word else None for word in (s.target, s.draft)] for s in found]
    assert models == [["a/big", "c/d"], ["a/own", None]]
    assert [setup.method for setup in found] == ["EAGLE3", "NEXTN"] and seen == []


def test_the_method_of_an_if_is_one_of_two() -> None:
    text = (
        'if [ "$MODE" = ngram ]; then\n  SPEC=\'{"method": "ngram"}\'\nelse\n'
        '  SPEC=\'{"method": "eagle3", "model": "c/d"}\'\nfi\n'
        'vllm serve a/b --speculative-config "$SPEC"\n'
    )
    found, _ = looked("run.sh", text)
    assert [setup.method for setup in found] == ["ngram", "eagle3"]


@pytest.mark.parametrize(
    "given",
    ['[ -n "$S" ] && ARGS+=(--spec-type "$S")', 'if [[ $S ]]; then ARGS+=(--spec-type "$S"); fi'],
)
def test_a_branch_that_switches_it_off_sets_nothing_up(given: str) -> None:
    text = (
        "ARGS=(-m a.gguf)\ncase $1 in\n  mtp) S=draft-mtp ;;\n  off) S= ;;\nesac\n"
        f'{given}\nllama-server "${{ARGS[@]}}"\n'
    )
    (setup,), seen = looked("run.sh", text)
    assert (setup.method, seen) == ("draft-mtp", [])


def test_words_that_may_be_another_programs_are_not_judged() -> None:
    text = "./mine  # a comment ends the command \\\n  -v x:y --spec-type draft-mtp\n"
    (setup,), _ = looked("run.sh", text)
    assert not setup.findings


def test_a_preset_that_switches_off_what_all_have_does_not_speculate() -> None:
    text = "[*]\nspec-type = draft-simple\nmodel-draft = d.gguf\n[a]\nmodel = a.gguf\n"
    (setup,), _ = looked("models.ini", text + "[b]\nmodel = b.gguf\nspec-type = none\n")
    assert setup.target is not None and setup.target.text == "./a.gguf"


def test_a_macro_that_no_model_uses_starts_nothing() -> None:
    text = (
        "macros:\n  old: --spec-type ngram-mod\n  new: --spec-type draft-mtp\nmodels:\n"
        "  a:\n    cmd: llama-server -m a.gguf ${new}\n"
    )
    (setup,), seen = looked("config.yaml", text)
    assert (setup.method, seen) == ("draft-mtp", [])


def test_a_script_that_writes_a_configuration_names_its_methods() -> None:
    text = (
        'for m in $MODELS; do\n  LINE=""\n  if [ "$MTP" ]; then\n'
        '    LINE="      --spec-type draft-mtp --spec-draft-n-max ${N}"\n'
        '  elif [ "$DRAFT" ]; then\n    LINE="      --spec-type draft-dflash -md ${DRAFT}"\n  fi\n'
        "  cat >> config.yaml <<EOF\n  $m:\n    cmd: |\n      llama-server -m $m\n$LINE\nEOF\n"
        "done\n"
    )
    found, seen = looked("init.sh", text)
    assert {setup.method for setup in found} == {"draft-mtp", "draft-dflash"} and seen == []


def test_options_of_the_script_itself_part_nothing() -> None:
    text = (
        'M=a.gguf\nwhile [ $# -gt 0 ]; do\n  case "$1" in\n'
        "    --draft) D=$2; shift 2 ;;\n    --model) M=$2; shift 2 ;;\n  esac\ndone\n"
        'llama-server -m "$M" --spec-type draft-mtp\n'
    )
    (setup,), _ = looked("run.sh", text)
    assert setup.target is not None and setup.target.text == "./a.gguf"


@pytest.mark.parametrize("test", ['[[ -n "$CTX" ]] && ', '[ "$CTX" ] && ', 'test -n "$CTX" && '])
def test_what_is_given_if_it_is_not_empty_is_no_empty_value(test: str) -> None:
    text = (
        "CTX=\nARGS=(--spec-type draft-mtp)\n"
        f'{test}ARGS+=(--ctx-size "$CTX")\nllama-server -m a.gguf "${{ARGS[@]}}"\n'
    )
    (setup,), _ = looked("run.sh", text)
    assert not setup.findings and "context" not in setup.circumstances


def test_a_thousand_branches_are_read_in_time_that_grows_with_them() -> None:
    """Each case of a row parts the ways again: the number of ways is bounded."""
    case = "case $X in\n a) A='--spec-type draft-mtp' ;;\n b) A='--spec-type ngram-mod' ;;\nesac\n"
    found, seen = looked("run.sh", case * 500 + "llama-server -m a.gguf $A\n")
    assert found or seen


def test_a_name_that_is_made_of_itself_is_unknown() -> None:
    program = (
        "import subprocess\nfrom pathlib import Path\ndef run(model):\n    model = Path(model)\n"
        "    subprocess.run(['llama-server', '-m', str(model), '--spec-type', 'draft-mtp'])\n"
    )
    contents = choose.read(program.encode(), "run.py")
    assert contents is not None and contents.troubles == []
    (setup,), _ = looked("run.py", program)
    assert setup.target is not None and setup.target.unknown is not None


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("$(printf 'a%s' ", ")"), ("$(echo --spec-type ", ")"), ("if [ a ]; then\n", "fi\n")],
)
def test_what_stands_inside_itself_a_thousand_times_is_read_to_its_end(
    opening: str, closing: str
) -> None:
    inner = "X='--spec-type draft-mtp'\n" if opening.startswith("if") else ""
    text = "X=" * (not inner) + opening * 1000 + inner + closing * 1000
    contents = choose.read(f"{text}\nllama-server -m a.gguf $X\n".encode(), "run.sh")
    assert contents is not None and contents.commands
